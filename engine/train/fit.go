// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"

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
	// Seed seeds the order of the examples.
	Seed uint64
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

// vector holds one number per head.
type vector [model.Heads]float32

// fitter is the state of a training.
type fitter struct {
	opt            Options
	ids            []uint32
	tokens         []token
	documents      []document
	examples       []Example
	index          map[uint64]uint32
	hashes         []uint64 // by index
	counts         []float32
	rateFactors    []float32 // by index: the learning rate, relative to Options.Rate
	weights        []vector
	squares        [][2]float32 // by index: AdaGrad's accumulators, of the categories and of the attributes
	bias           [model.Heads]float64
	positiveWeight [model.Heads]float32
	prefix         []vector       // scratch of maxLogits
	windows        []model.Window // scratch of maxLogits
	clusters       map[uint64]uint16
	words          []text.Word
	dictionary     *text.Dictionary // of words
}

// Fit fits the linear model with AdaGrad. It runs on one goroutine in a fixed order, so that the same examples and
// options give the same weights.
func Fit(examples []Example, opt Options) *Fitted {
	f := &fitter{opt: opt.withDefaults(), examples: examples, index: map[uint64]uint32{}}
	f.words = Dictionary(examples, f.opt.English)
	f.dictionary = text.NewDictionary(f.words)
	f.clusters = Cluster(examples, f.dictionary, f.opt.Seed)
	f.collect()
	f.positiveWeight, f.bias = balance(examples)
	order := make([]int, len(examples))
	for i := range order {
		order[i] = i
	}
	r := rand.New(rand.NewPCG(f.opt.Seed, 2))
	for epoch := range f.opt.Epochs {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		rate := f.opt.Rate * (1 - 0.8*float64(epoch)/float64(f.opt.Epochs))
		for _, i := range order {
			f.step(&f.examples[i], f.documents[i], rate)
		}
	}
	return f.export()
}

// collect finds the features that occur often enough, and turns every example into indexes of them.
func (f *fitter) collect() {
	const counters = 1 << 26
	seen := make([]uint8, counters)
	features := model.Features{Clusters: f.clusters}
	scratch := text.Get()
	defer text.Put(scratch)
	for i := range f.examples {
		e := &f.examples[i]
		weight := uint8(1)
		if e.InCorpus {
			weight = 2
		}
		tokens := limit(scratch.TokenizeWith(e.Text, f.dictionary))
		features.Extract(tokens)
		for i := range tokens {
			if features.Repeats(i) {
				continue
			}
			countFeatures(seen, features.Word(i), weight)
			countFeatures(seen, features.Context(i), weight)
		}
	}
	for i := range f.examples {
		tokens := limit(scratch.TokenizeWith(f.examples[i].Text, f.dictionary))
		features.Extract(tokens)
		first, count := int32(len(f.tokens)), int32(0)
		for i := range tokens {
			if !features.Repeats(i) {
				word, whole := features.Word(i), features.WholeWord(i)
				count += f.add(seen, word[:whole], 1) + f.add(seen, word[whole:], float32(f.opt.SubwordRate))
				count += f.add(seen, features.Context(i), 1)
			}
			f.tokens = append(f.tokens, token{int32(len(f.ids)), count})
		}
		f.documents = append(f.documents, document{first, int32(len(f.tokens))})
	}
	f.weights = make([]vector, len(f.hashes))
	f.squares = make([][2]float32, len(f.hashes))
}

// countFeatures adds to the counters of features. A few features share each counter.
func countFeatures(seen []uint8, hashes []uint64, weight uint8) {
	for _, h := range hashes {
		if c := &seen[h>>38]; *c < 200 {
			*c += weight
		}
	}
}

// add appends the features that occur often enough to the current document, and returns the number of all hashes.
func (f *fitter) add(seen []uint8, hashes []uint64, rateFactor float32) int32 {
	for _, h := range hashes {
		if int(seen[h>>38]) < f.opt.MinCount {
			continue
		}
		id, ok := f.index[h]
		if !ok {
			id = uint32(len(f.hashes))
			f.index[h] = id
			f.hashes = append(f.hashes, h)
			f.counts = append(f.counts, 0)
			f.rateFactors = append(f.rateFactors, rateFactor)
		}
		f.counts[id]++
		f.ids = append(f.ids, id)
	}
	return int32(len(hashes))
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

// step learns from one example. For each head the label applies to the window with the largest logit: in a long text
// one harmful window is enough for a yes, and all must be harmless for a no.
func (f *fitter) step(e *Example, d document, rate float64) {
	tokens := f.tokens[d.from:d.to]
	first := int32(0)
	if d.from > 0 {
		first = f.tokens[d.from-1].end
	}
	best, which := f.maxLogits(tokens, first)

	var grad vector // of each head's sum over the features of its window
	for h, l := range e.Labels {
		if l.Weight == 0 {
			continue
		}
		const smoothing = 0.01
		y := float64(l.Value)*(1-2*smoothing) + smoothing
		weight := l.Weight * (1 + (f.positiveWeight[h]-1)*l.Value)
		g := float32(1/(1+math.Exp(-best[h]))-y) * weight
		f.bias[h] -= rate * 0.002 * float64(g)
		grad[h] = g * norm(tokens, which[h])
	}
	for i, t := range tokens {
		var g vector
		var squares [2]float32
		for h, w := range which {
			if i >= w.First && i < w.End {
				g[h] = grad[h]
				squares[min(h/categories, 1)] += g[h] * g[h]
			}
		}
		if squares[0]+squares[1] > 0 {
			for _, id := range f.ids[first:t.end] {
				row, sums := &f.weights[id], &f.squares[id]
				sums[0] += squares[0]
				sums[1] += squares[1]
				// Categories and attributes learn from different examples, so each has an accumulator of its own.
				if squares[0] > 0 {
					f.move(row[:categories], g[:categories], rate*float64(f.rateFactors[id]), sums[0])
				}
				if squares[1] > 0 {
					f.move(row[categories:], g[categories:], rate*float64(f.rateFactors[id]), sums[1])
				}
			}
		}
		first = t.end
	}
}

// move takes a step of AdaGrad on a part of a row.
func (f *fitter) move(row, grad []float32, rate float64, squares float32) {
	step := float32(rate / math.Sqrt(float64(squares)+f.opt.InitialAccumulator))
	keep := 1 - step*float32(f.opt.Decay)
	for h := range row {
		row[h] = row[h]*keep - step*grad[h]
	}
}

// maxLogits returns, for each head, the largest logit of a window, and the window.
func (f *fitter) maxLogits(tokens []token, first int32) (best [model.Heads]float64, which [model.Heads]model.Window) {
	prefix := append(f.prefix[:0], vector{})
	for i, t := range tokens {
		sum := prefix[i]
		for _, id := range f.ids[first:t.end] {
			row := &f.weights[id]
			for h := range sum {
				sum[h] += row[h]
			}
		}
		prefix = append(prefix, sum)
		first = t.end
	}
	f.prefix = prefix
	for h := range best {
		best[h] = math.Inf(-1)
	}
	f.windows = model.AppendLargeWindows(f.windows[:0], len(tokens))
	for _, w := range f.windows {
		n := norm(tokens, w)
		for h := range best {
			if z := float64((prefix[w.End][h]-prefix[w.First][h])*n) + f.bias[h]; z > best[h] {
				best[h], which[h] = z, w
			}
		}
	}
	return best, which
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
		Weights: model.Weights{Clusters: f.clusters, Words: f.words},
		Header:  model.Header{Buckets: f.opt.Buckets, Examples: len(f.examples)},
	}
	var scale [model.Heads]float32
	for h := range scale {
		sizes := make([]float32, 0, len(f.weights))
		for i := range f.weights {
			if w := f.weights[i][h]; w != 0 {
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
	importance := make(map[uint64]float64, len(f.weights))
	for i := range f.weights {
		row := model.Row{Hash: f.hashes[i]}
		largest := 0.0
		for h, w := range f.weights[i] {
			q := math.Round(float64(w / scale[h]))
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
