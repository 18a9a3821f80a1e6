// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Options configure [Fit]. The zero value of a field stands for its default.
type Options struct {
	// Epochs is the number of passes over the examples. Default: 5.
	Epochs int
	// Rate is the learning rate of AdaGrad. Default: 0.5.
	Rate float64
	// SubwordRate is the learning rate of sub-words, relative to that of words. A word has a dozen sub-words that
	// always occur together; a lower rate gives more weight to the word itself and its neighbours. Default: 1.
	SubwordRate float64
	// InitialAccumulator is the initial sum of squared gradients of a row. The larger it is, the less weight features
	// get that occur only a few times. Default: 0.1.
	InitialAccumulator float64
	// Decay is the weight decay at each step, relative to the rate. Default: 1e-5.
	Decay float64
	// MinCount is how often a feature must occur to be learned. A text of the corpus counts twice. Default: 3.
	MinCount int
	// Rows is the maximum number of rows to keep. Default: 240,000.
	Rows int
	// Buckets is the size of the hash table, a power of two. Default: 65,536.
	Buckets int
	// HarmShare is the share of harmful texts in the traffic that [Calibrate] assumes. Default: 0.12 for English, 0.08
	// for other languages.
	HarmShare float64
	// Seed seeds the order of the examples.
	Seed uint64
	// Like is an earlier fit, of which the dictionary, the clusters and the vectors of words are taken. Nil makes them
	// anew.
	Like *Fitted
	// Language is the BCP 47 tag of the language of the texts, "" for English.
	Language string
	// Glossary holds English words for words of the language. Nil stands for none.
	Glossary *Glossary
	// Foreign reports whether a folded word is one of English that texts of the language have only borrowed. It is not
	// in the dictionary. Nil stands for no words.
	Foreign func(folded []byte) bool
	// English reports whether a folded word is in a list of English words: see [Dictionary]. Nil stands for an empty
	// list.
	English func(folded []byte) bool
}

func (o Options) withDefaults() Options {
	if o.Epochs == 0 {
		o.Epochs = 5
	}
	if o.Rate == 0 {
		o.Rate = 0.5
	}
	if o.SubwordRate == 0 {
		o.SubwordRate = 1
	}
	if o.InitialAccumulator == 0 {
		o.InitialAccumulator = 0.1
	}
	if o.Decay == 0 {
		o.Decay = 1e-5
	}
	if o.MinCount == 0 {
		o.MinCount = 3
	}
	if o.HarmShare == 0 {
		o.HarmShare = usualHarmShare
		if o.Language != "" {
			o.HarmShare = otherHarmShare
		}
	}
	if o.Rows == 0 {
		o.Rows = 240_000
	}
	if o.Buckets == 0 {
		o.Buckets = 1 << 16
	}
	return o
}

// Fitted is a fitted model before calibration.
type Fitted struct {
	Header  model.Header
	Weights model.Weights
	vectors map[uint64]embedding // skip-gram embeddings of words, by hash
}

// File returns the weights as a file without calibration.
func (f *Fitted) File() ([]byte, error) {
	var b bytes.Buffer
	err := model.Write(&b, f.Header, f.Weights)
	return b.Bytes(), err
}

// document is an example as a range of fitter.tokens.
type document struct {
	from, to int32
}

// token is a token of a document.
type token struct {
	end      int32 // of its features in fitter.ids
	features int32 // the number of features of the document up to its end, known or not
}

// fitter is the state of a training.
type fitter struct {
	opt            Options
	ids            []uint32
	tokens         []token
	documents      []document
	examples       []Example
	index          hashIndex
	hashes         []uint64 // by index
	counts         []float32
	rateFactors    []float32 // by index: the learning rate, relative to Options.Rate
	bias           [model.Heads]float64
	positiveWeight [model.Heads]float32
	parts          [2]*part // the categories and the attributes
	clusters       map[uint64]uint16
	vectors        map[uint64]embedding
	words          []text.Word
	dictionary     *text.Dictionary // of words
}

// Fit fits the linear model with AdaGrad. Categories and attributes share no weight, so each are fitted on a goroutine
// of their own, in a fixed order: the same examples and options give the same weights.
func Fit(examples []Example, opt Options) *Fitted {
	f := &fitter{opt: opt.withDefaults(), examples: examples}
	if like := opt.Like; like != nil {
		f.words, f.clusters, f.vectors = like.Weights.Words, like.Weights.Clusters, like.vectors
		f.dictionary = text.NewDictionary(f.words, f.opt.Glossary.negators()...)
	} else {
		f.words = Dictionary(examples, f.opt.Glossary, f.opt.English, f.opt.Foreign)
		f.dictionary = text.NewDictionary(f.words, f.opt.Glossary.negators()...)
		f.clusters, f.vectors = cluster(examples, f.dictionary, f.opt.Seed)
		f.clusters = f.opt.Glossary.clusters(f.clusters)
	}
	f.collect()
	f.positiveWeight, f.bias = balance(examples)
	f.parts = [2]*part{f.newPart(0, categories), f.newPart(categories, model.Heads)}
	var wait sync.WaitGroup
	for _, p := range f.parts {
		wait.Go(p.run)
	}
	wait.Wait()
	return f.export()
}

// collect finds the features that occur often enough, and turns every example into indexes of them.
func (f *fitter) collect() {
	const counters = 1 << 26
	seen := make([]uint8, counters)
	f.extract(func(i int, x *extracted) {
		weight := uint8(1)
		if f.examples[i].InCorpus {
			weight = 2
		}
		for _, h := range x.hashes {
			// A few features share each counter.
			if c := &seen[h>>38]; *c < 200 {
				*c += weight
			}
		}
	})
	f.extract(func(_ int, x *extracted) {
		first, from, count := int32(len(f.tokens)), 0, int32(0)
		for _, t := range x.tokens {
			f.add(seen, x.hashes[from:t.whole], 1)
			f.add(seen, x.hashes[t.whole:t.letters], float32(f.opt.SubwordRate))
			f.add(seen, x.hashes[t.letters:t.end], 1)
			count += int32(t.end - from)
			from = t.end
			f.tokens = append(f.tokens, token{int32(len(f.ids)), count})
		}
		f.documents = append(f.documents, document{first, int32(len(f.tokens))})
	})
}

// extracted holds the hashes of the features of a text.
type extracted struct {
	hashes []uint64
	tokens []extractedToken
}

// extractedToken says where the hashes of a token end: of the whole word, of its letters, and of its context.
type extractedToken struct{ whole, letters, end int }

// extract calls use for every example in order, with its features. They are computed on all processors.
func (f *fitter) extract(use func(i int, x *extracted)) {
	const batch = 4096
	texts := make([]extracted, batch)
	clusters := model.NewClusters(f.clusters)
	for first := 0; first < len(f.examples); first += batch {
		n := min(batch, len(f.examples)-first)
		jobs := runtime.GOMAXPROCS(0)
		var wait sync.WaitGroup
		for job := range jobs {
			wait.Go(func() {
				features := model.Features{Clusters: clusters, Foreign: f.opt.Language != ""}
				scratch := text.Get()
				defer text.Put(scratch)
				for i := job; i < n; i += jobs {
					x := &texts[i]
					x.hashes, x.tokens = x.hashes[:0], x.tokens[:0]
					tokens := limit(scratch.TokenizeWith(f.examples[first+i].Text, f.dictionary))
					features.Extract(tokens)
					for k := range tokens {
						var t extractedToken
						t.whole, t.letters = len(x.hashes), len(x.hashes)
						if !features.Repeats(k) {
							word := features.Word(k)
							t.whole = len(x.hashes) + features.WholeWord(k)
							x.hashes = append(x.hashes, word...)
							t.letters = len(x.hashes)
							x.hashes = append(x.hashes, features.Context(k)...)
						}
						t.end = len(x.hashes)
						x.tokens = append(x.tokens, t)
					}
				}
			})
		}
		wait.Wait()
		for i := range n {
			use(first+i, &texts[i])
		}
	}
}

// add appends the features that occur often enough to the current document.
func (f *fitter) add(seen []uint8, hashes []uint64, rateFactor float32) {
	for _, h := range hashes {
		if int(seen[h>>38]) < f.opt.MinCount {
			continue
		}
		id, known := f.index.add(h)
		if !known {
			f.hashes = append(f.hashes, h)
			f.counts = append(f.counts, 0)
			f.rateFactors = append(f.rateFactors, rateFactor)
		}
		f.counts[id]++
		f.ids = append(f.ids, id)
	}
}

// hashIndex numbers hashes in the order in which they are added: a table with open addressing, because the hashes are
// uniform already.
type hashIndex struct {
	keys  []uint64 // 0 for a free place
	ids   []uint32
	count uint32
}

// add returns the number of a hash, and whether it was known.
func (x *hashIndex) add(hash uint64) (id uint32, known bool) {
	if hash == 0 {
		hash = 1
	}
	if 2*int(x.count) >= len(x.keys) {
		x.grow()
	}
	at := x.find(hash)
	if x.keys[at] == hash {
		return x.ids[at], true
	}
	x.keys[at], x.ids[at] = hash, x.count
	x.count++
	return x.count - 1, false
}

// find returns the place of a hash, or the free one where it belongs.
func (x *hashIndex) find(hash uint64) int {
	mask := len(x.keys) - 1
	at := int(hash*0x9e3779b97f4a7c15>>20) & mask
	for x.keys[at] != 0 && x.keys[at] != hash {
		at = (at + 1) & mask
	}
	return at
}

func (x *hashIndex) grow() {
	old := *x
	n := max(1<<16, 2*len(old.keys))
	x.keys, x.ids = make([]uint64, n), make([]uint32, n)
	for i, hash := range old.keys {
		if hash != 0 {
			at := x.find(hash)
			x.keys[at], x.ids[at] = hash, old.ids[i]
		}
	}
}

// limit cuts a text to the tokens that training uses.
func limit(tokens []text.Token) []text.Token {
	const maxTokens = 250
	return tokens[:min(len(tokens), maxTokens)]
}

// balance returns, for each head, how much more its positives weigh: the square root of how many more negatives there
// are, from 1 to 4. It also returns the logarithm of the odds with these weights, which is a good initial bias.
func balance(examples []Example) (positiveWeight [model.Heads]float32, logOdds [model.Heads]float64) {
	for h := range model.Heads {
		var yes, no float64
		for i := range examples {
			l := examples[i].Labels[h]
			yes += float64(l.Weight * l.Value)
			no += float64(l.Weight * (1 - l.Value))
		}
		positiveWeight[h] = float32(min(max(math.Sqrt(no/max(yes, 1)), 1), 4))
		logOdds[h] = math.Log(max(yes, 1) * float64(positiveWeight[h]) / max(no, 1))
	}
	return positiveWeight, logOdds
}

// part fits the weights of some of the heads.
type part struct {
	*fitter
	from, to int       // the heads, to is exclusive
	weights  []partRow // by index of the feature
	squares  []float32 // by index: AdaGrad's accumulators
	sums     []partRow // of the weights before each token: scratch of maxLogits
	windows  []model.Window
	best     []float64 // by head: the largest logit of a window,
	which    []model.Window
	gradient []float32
}

// partRow holds a number for each head of a part; the rest is 0. Its length is fixed because that is faster.
type partRow [max(categories, model.Heads-categories)]float32

func (f *fitter) newPart(from, to int) *part {
	n := to - from
	return &part{
		fitter: f, from: from, to: to,
		weights: make([]partRow, len(f.hashes)), squares: make([]float32, len(f.hashes)),
		best: make([]float64, n), which: make([]model.Window, n), gradient: make([]float32, n),
	}
}

// run makes all passes.
func (p *part) run() {
	order := make([]int, len(p.examples))
	for i := range order {
		order[i] = i
	}
	r := rand.New(rand.NewPCG(p.opt.Seed, 2))
	for epoch := range p.opt.Epochs {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		rate := p.opt.Rate * (1 - 0.8*float64(epoch)/float64(p.opt.Epochs))
		for _, i := range order {
			p.step(&p.examples[i], p.documents[i], rate)
		}
	}
}

// minGradient is the absolute gradient of a logit below which a head learns nothing from an example.
const minGradient = 0.002

// step learns from one example. For each head the label applies to the window with the largest logit: in a long text
// one harmful window is enough for a yes, and all must be harmless for a no.
func (p *part) step(e *Example, d document, rate float64) {
	labelled := false
	for _, l := range e.Labels[p.from:p.to] {
		labelled = labelled || l.Weight > 0
	}
	if !labelled {
		return
	}
	tokens := p.tokens[d.from:d.to]
	first := int32(0)
	if d.from > 0 {
		first = p.tokens[d.from-1].end
	}
	p.maxLogits(tokens, first)

	// The gradients of each head's sum over the features of its window.
	begin, end := len(tokens), 0
	for k := range p.gradient {
		h := p.from + k
		p.gradient[k] = 0
		l := e.Labels[h]
		if l.Weight == 0 {
			continue
		}
		const smoothing = 0.01
		y := float64(l.Value)*(1-2*smoothing) + smoothing
		weight := l.Weight * (1 + (p.positiveWeight[h]-1)*l.Value)
		g := float32(1/(1+math.Exp(-p.best[k]))-y) * weight
		p.bias[h] -= rate * 0.002 * float64(g)
		if g > minGradient || g < -minGradient {
			p.gradient[k] = g * norm(tokens, p.which[k])
			begin, end = min(begin, p.which[k].First), max(end, p.which[k].End)
		}
	}
	var g partRow
	for i, t := range tokens {
		if i >= begin && i < end {
			squares := float32(0)
			for k, w := range p.which {
				g[k] = 0
				if i >= w.First && i < w.End {
					g[k] = p.gradient[k]
					squares += g[k] * g[k]
				}
			}
			if squares > 0 {
				for _, id := range p.ids[first:t.end] {
					p.squares[id] += squares
					p.move(&p.weights[id], &g, rate*float64(p.rateFactors[id]), p.squares[id])
				}
			}
		}
		first = t.end
	}
}

// move takes a step of AdaGrad on a row.
func (p *part) move(row, grad *partRow, rate float64, squares float32) {
	step := float32(rate / math.Sqrt(float64(squares)+p.opt.InitialAccumulator))
	keep := 1 - step*float32(p.opt.Decay)
	for h := range row {
		row[h] = row[h]*keep - step*grad[h]
	}
}

// maxLogits finds, for each head, the window with the largest logit.
func (p *part) maxLogits(tokens []token, first int32) {
	sums := append(p.sums[:0], partRow{})
	for i, t := range tokens {
		sum := sums[i]
		for _, id := range p.ids[first:t.end] {
			row := &p.weights[id]
			for h := range sum {
				sum[h] += row[h]
			}
		}
		sums = append(sums, sum)
		first = t.end
	}
	p.sums = sums
	for h := range p.best {
		p.best[h] = math.Inf(-1)
	}
	p.windows = model.AppendLargeWindows(p.windows[:0], len(tokens))
	for _, w := range p.windows {
		scale := norm(tokens, w)
		for h := range p.best {
			if z := float64((sums[w.End][h]-sums[w.First][h])*scale) + p.bias[p.from+h]; z > p.best[h] {
				p.best[h], p.which[h] = z, w
			}
		}
	}
}

// weight returns the weight of a feature for a head.
func (f *fitter) weight(feature, head int) float32 {
	p := f.parts[0]
	if head >= p.to {
		p = f.parts[1]
	}
	return p.weights[feature][head-p.from]
}

// norm returns the factor of the sum over a window.
func norm(tokens []token, w model.Window) float32 {
	features := int32(0)
	if w.End > 0 {
		features = tokens[w.End-1].features
	}
	if w.First > 0 {
		features -= tokens[w.First-1].features
	}
	return float32(1 / model.Norm(int(features)))
}

// export rounds the weights to int8 with a scale per head, and keeps the most important rows.
func (f *fitter) export() *Fitted {
	out := &Fitted{
		vectors: f.vectors,
		Weights: model.Weights{Clusters: f.clusters, Words: f.words},
		Header: model.Header{
			Buckets: f.opt.Buckets, Examples: len(f.examples), HarmShare: f.opt.HarmShare, Language: f.opt.Language,
			Negators: f.opt.Glossary.negators(),
		},
	}
	var scale [model.Heads]float32
	for h := range scale {
		sizes := make([]float32, 0, len(f.hashes))
		for i := range f.hashes {
			if w := f.weight(i, h); w != 0 {
				sizes = append(sizes, max(w, -w))
			}
		}
		scale[h] = 1e-6
		if len(sizes) > 0 {
			slices.Sort(sizes)
			// The few largest weights are clipped, because finer steps for all others are worth more.
			scale[h] = max(sizes[len(sizes)-1-len(sizes)/5000]/127, 1e-6)
		}
		out.Header.Calibration[h] = model.Calibration{
			Scale: float64(scale[h]), Bias: f.bias[h], Alone: model.Curve{Large: 1},
		}
	}
	importance := make(map[uint64]float64, len(f.hashes))
	for i := range f.hashes {
		row := model.Row{Hash: f.hashes[i]}
		largest := 0.0
		for h := range model.Heads {
			q := math.Round(float64(f.weight(i, h) / scale[h]))
			row.Weights[h] = int8(min(max(q, -127), 127))
			largest = max(largest, math.Abs(q))
		}
		if largest >= 2 {
			importance[row.Hash] = largest * math.Log(2+float64(f.counts[i]))
			out.Weights.Rows = append(out.Weights.Rows, row)
		}
	}
	model.SortRows(out.Weights.Rows, func(r model.Row) float64 { return importance[r.Hash] })
	out.Weights.Rows = out.Weights.Rows[:min(len(out.Weights.Rows), f.opt.Rows)]
	return out
}
