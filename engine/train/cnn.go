// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// CNNOptions say how the reader learns. The zero value of a field stands for the default.
type CNNOptions struct {
	// Epochs is the number of passes over the written texts. Default 4.
	Epochs int
	// Rate is the learning rate of Adam at the start; it falls to zero in a straight line. Default 0.002.
	Rate float64
	// Scraped is the part of the scraped texts that each pass reads. Default 0.15.
	Scraped float64
	// WordDropout is the share of words that a pass reads by their parts alone, so that these learn to stand in. Default 0.1.
	WordDropout float64
	// HiddenDropout is the share of the values behind a window's summary that a pass leaves out. Default 0.2.
	HiddenDropout float64
	// Decay pulls dense weights to zero, relative to the rate. Default 0.01.
	Decay float64
	// WordRate is the learning rate of the vectors of words and their parts, relative to Rate. Default 1.
	WordRate float64
	// TokenDropout is the share of tokens that a pass does not see at all. Default 0.05.
	TokenDropout float64
	// InitialNorm is the length of the first vectors of words. Default 1.
	InitialNorm float64
	// Seed seeds the order, the first weights and what is left out.
	Seed uint64
}

func (o CNNOptions) withDefaults() CNNOptions {
	set := func(f *float64, v float64) {
		if *f == 0 {
			*f = v
		}
	}
	if o.Epochs == 0 {
		o.Epochs = 4
	}
	set(&o.Rate, 0.002)
	set(&o.Scraped, 0.15)
	set(&o.WordDropout, 0.1)
	set(&o.HiddenDropout, 0.2)
	set(&o.Decay, 0.01)
	set(&o.InitialNorm, 1)
	set(&o.WordRate, 1)
	set(&o.TokenDropout, 0.05)
	return o
}

// workers is the number of goroutines that share a batch. It is part of the result: each sums up the gradients of its
// own texts, so the same number gives the same bits whatever the number of processors.
const workers = 2

// batchTexts is the number of texts between two steps.
const batchTexts = 32

const width = cnn.Channels

// spelling is a distinct folded word of the texts.
type spelling struct {
	hash  uint64
	word  int32 // its row, or -1
	group int32 // row of its class or cluster, or -1
	parts []uint16
	count int
}

// reading is an example as the reader sees it.
type reading struct {
	words []int32 // indexes of spellings
	marks [][]uint8
}

// readerFit holds the state of a training.
type readerFit struct {
	opt        CNNOptions
	examples   []Example
	texts      []reading
	spellings  []spelling
	dense      *cnn.Dense
	flipped    [cnn.Layers][]float32 // kernels with rows and columns exchanged
	hideBack   []float32
	outBack    []float32
	words      sparse
	parts      sparse
	groups     sparse
	wordGrads  rowGrads
	groupGrads rowGrads
	clusters   map[uint64]uint16
	dictionary *text.Dictionary
	partGrads  rowGrads
	adam       moments
	boost      [model.Heads]float32
	steps      int
}

// moments are the running means of Adam (Kingma and Ba 2015).
type moments struct{ first, second []float32 }

// sparse is a table of vectors of which a step touches few.
type sparse struct {
	values  []float32
	moments moments
}

func newSparse(rows int) sparse {
	return sparse{values: make([]float32, rows*width), moments: moments{make([]float32, rows*width), make([]float32, rows*width)}}
}

// FitCNN learns a reader. The same examples and options give the same weights.
//
// first is the linear model, for its clusters and its dictionary.
func FitCNN(examples []Example, first *Fitted, opt CNNOptions) *cnn.Model {
	f := &readerFit{opt: opt.withDefaults(), examples: examples, clusters: first.Weights.Clusters, dictionary: text.NewDictionary(first.Weights.Words)}
	f.collect()
	f.start()
	var odds [model.Heads]float64
	f.boost, odds = balance(examples)
	for h, o := range odds {
		f.dense.OutputBias[h] = float32(o)
	}
	f.run()
	return f.export()
}

// collect turns the texts into indexes of their words.
func (f *readerFit) collect() {
	const fewest = 3
	s := text.Get()
	defer text.Put(s)
	index := map[string]int32{}
	var features model.Features
	for i := range f.examples {
		tokens := limit(s.TokenizeWith(f.examples[i].Text, f.dictionary))
		features.Extract(tokens)
		var r reading
		count := 1
		if f.examples[i].Written {
			count = 2
		}
		for j, t := range tokens {
			if features.Repeats(j) {
				continue
			}
			at, ok := index[string(t.Folded)]
			if !ok {
				at = int32(len(f.spellings))
				index[string(t.Folded)] = at
				f.spellings = append(f.spellings, spelling{hash: model.WordHash(t.Folded), word: -1, group: f.group(t.Folded), parts: cnn.AppendSubwords(nil, t.Folded)})
			}
			f.spellings[at].count += count
			r.words = append(r.words, at)
			r.marks = append(r.marks, cnn.AppendShapeFeatures(nil, t.Flags))
		}
		f.texts = append(f.texts, r)
	}
	rows := 0
	for i := range f.spellings {
		if f.spellings[i].count >= fewest {
			f.spellings[i].word = int32(rows)
			rows++
		}
	}
	f.words, f.parts = newSparse(rows), newSparse(cnn.SubwordRows)
	f.groups, f.groupGrads = newSparse(model.NumWordClasses+clusterCount), newRowGrads(model.NumWordClasses+clusterCount)
	f.wordGrads, f.partGrads = newRowGrads(rows), newRowGrads(cnn.SubwordRows)
}

// group returns the row that a word shares with those of its class or else of its cluster, or -1.
func (f *readerFit) group(folded []byte) int32 {
	if c := model.WordClassOf(folded); c != 0 {
		return int32(c)
	}
	if c, ok := f.clusters[model.WordHash(folded)]; ok {
		return int32(model.NumWordClasses + int(c))
	}
	return -1
}

// start draws the first weights.
func (f *readerFit) start() {
	r := rand.New(rand.NewPCG(f.opt.Seed, 11))
	fill := func(w []float32, size float64) {
		for i := range w {
			w[i] = float32(r.NormFloat64() * size)
		}
	}
	f.dense = cnn.NewDense(make([]float32, cnn.DenseSize))
	for l := range cnn.Layers {
		fill(f.dense.Kernel[l], 1/math.Sqrt(cnn.KernelSize*width))
	}
	fill(f.dense.Attention, 1/math.Sqrt(width))
	fill(f.dense.Shape, 0.05)
	fill(f.dense.HiddenWeights, 1/math.Sqrt(cnn.Pooled))
	fill(f.dense.OutputWeights, 0.5/math.Sqrt(cnn.Hidden))
	fill(f.words.values, 0.1)
	f.company(r)
	fill(f.parts.values, 0.05)
	f.adam = moments{make([]float32, cnn.DenseSize), make([]float32, cnn.DenseSize)}
	for l := range f.flipped {
		f.flipped[l] = make([]float32, len(f.dense.Kernel[l]))
	}
	f.hideBack, f.outBack = make([]float32, len(f.dense.HiddenWeights)), make([]float32, len(f.dense.OutputWeights))
}

// company starts the vectors of words where skip-grams put them: by the company that they keep.
func (f *readerFit) company(r *rand.Rand) {
	v := newVocabulary(f.examples, f.dictionary)
	vectors := v.embed(r)
	index := make(map[uint64]int, len(v.words))
	for i, w := range v.words {
		index[w] = i
	}
	for _, s := range f.spellings {
		if i, ok := index[s.hash]; ok && s.word >= 0 {
			e := vectors[i]
			normalise(&e)
			for d, x := range e {
				f.words.values[int(s.word)*width+d] = x * float32(f.opt.InitialNorm)
			}
		}
	}
}

func (f *readerFit) run() {
	r := rand.New(rand.NewPCG(f.opt.Seed, 12))
	var own, scraped []int
	for i := range f.examples {
		if f.examples[i].Written {
			own = append(own, i)
		} else {
			scraped = append(scraped, i)
		}
	}
	part := int(float64(len(scraped)) * f.opt.Scraped)
	total := f.opt.Epochs * ((len(own) + part + batchTexts - 1) / batchTexts)
	crew := make([]*pupil, workers)
	for i := range crew {
		crew[i] = newPupil(f, uint64(i))
	}
	at := len(scraped)
	for range f.opt.Epochs {
		order := append([]int{}, own...)
		for range part {
			if at >= len(scraped) {
				r.Shuffle(len(scraped), func(i, j int) { scraped[i], scraped[j] = scraped[j], scraped[i] })
				at = 0
			}
			order = append(order, scraped[at])
			at++
		}
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for len(order) > 0 {
			batch := order[:min(batchTexts, len(order))]
			order = order[len(batch):]
			f.batch(crew, batch, f.opt.Rate*(1-float64(f.steps)/float64(total)))
		}
	}
}

// batch learns from some texts.
func (f *readerFit) batch(crew []*pupil, batch []int, rate float64) {
	f.steps++
	for l := range f.flipped {
		flip(f.flipped[l], f.dense.Kernel[l], cnn.KernelSize*width, 2*width)
	}
	flip(f.hideBack, f.dense.HiddenWeights, cnn.Pooled, cnn.Hidden)
	flip(f.outBack, f.dense.OutputWeights, cnn.Hidden, cnn.Outputs)
	var wait sync.WaitGroup
	for i, p := range crew {
		wait.Go(func() {
			for k := i; k < len(batch); k += len(crew) {
				p.learn(batch[k])
			}
		})
	}
	wait.Wait()
	scale := float32(1) / float32(len(batch))
	first := crew[0]
	for _, p := range crew[1:] {
		for i, g := range p.grad.All {
			first.grad.All[i] += g
		}
		clear(p.grad.All)
	}
	warm := min(1, float64(f.steps)/200)
	f.adam.step(f.dense.All, first.grad.All, rate*warm, scale, f.steps, float32(f.opt.Decay))
	clear(first.grad.All)
	f.learnWords(crew, rate*warm, scale)
}

func flip(out, in []float32, rows, columns int) {
	for r := range rows {
		for c := range columns {
			out[c*rows+r] = in[r*columns+c]
		}
	}
}

const (
	beta1, beta2 = 0.9, 0.999
	epsilon      = 1e-8
)

func (m *moments) step(values, grads []float32, rate float64, scale float32, steps int, decay float32) {
	c1 := 1 / (1 - math.Pow(beta1, float64(steps)))
	c2 := 1 / (1 - math.Pow(beta2, float64(steps)))
	for i, g := range grads {
		g *= scale
		m.first[i] = beta1*m.first[i] + (1-beta1)*g
		m.second[i] = beta2*m.second[i] + (1-beta2)*g*g
		move := float64(m.first[i]) * c1 / (math.Sqrt(float64(m.second[i])*c2) + epsilon)
		values[i] -= float32(rate * (move + float64(decay*values[i])))
	}
}

// rowGrads collects gradients of rows.
type rowGrads struct {
	place []int32 // of a row in rows, plus one; 0 while it has none
	rows  []int32
	grads []float32
}

func newRowGrads(rows int) rowGrads { return rowGrads{place: make([]int32, rows)} }

func (g *rowGrads) row(r int32) []float32 {
	at := g.place[r]
	if at == 0 {
		g.rows = append(g.rows, r)
		at = int32(len(g.rows))
		g.place[r] = at
		g.grads = append(g.grads, make([]float32, width)...)
	}
	return g.grads[(at-1)*width : at*width]
}

// of returns the gradient of the row that was met as number i.
func (g *rowGrads) of(i int) []float32 { return g.grads[i*width : (i+1)*width] }

func (g *rowGrads) add(other *rowGrads) {
	for i, r := range other.rows {
		into := g.row(r)
		for c, v := range other.of(i) {
			into[c] += v
		}
	}
	other.clear()
}

func (g *rowGrads) clear() {
	for _, r := range g.rows {
		g.place[r] = 0
	}
	g.rows, g.grads = g.rows[:0], g.grads[:0]
}

// learnWords hands the gradients of the spellings of a batch on to the vectors of words and of parts.
func (f *readerFit) learnWords(crew []*pupil, rate float64, scale float32) {
	first := &crew[0].words
	for _, p := range crew[1:] {
		first.add(&p.words)
	}
	for i, row := range first.rows {
		grad := first.of(i)
		s := &f.spellings[row/2]
		if row%2 == 0 {
			into := f.wordGrads.row(s.word)
			for c, v := range grad {
				into[c] += v
			}
			if s.group >= 0 {
				into := f.groupGrads.row(s.group)
				for c, v := range grad {
					into[c] += v
				}
			}
		}
		share := 1 / float32(max(len(s.parts), 1))
		for _, part := range s.parts {
			into := f.partGrads.row(int32(part))
			for c, v := range grad {
				into[c] += v * share
			}
		}
	}
	first.clear()
	f.words.step(&f.wordGrads, rate*f.opt.WordRate, scale)
	f.groups.step(&f.groupGrads, rate*f.opt.WordRate, scale)
	f.parts.step(&f.partGrads, rate*f.opt.WordRate, scale)
}

// step is a step of Adam for the rows that were touched; the means of the others stand still.
func (s *sparse) step(g *rowGrads, rate float64, scale float32) {
	for i, r := range g.rows {
		at := int(r) * width
		m1, m2, values := s.moments.first[at:at+width], s.moments.second[at:at+width], s.values[at:at+width]
		for c, g := range g.of(i) {
			g *= scale
			m1[c] = beta1*m1[c] + (1-beta1)*g
			m2[c] = beta2*m2[c] + (1-beta2)*g*g
			values[c] -= float32(rate) * m1[c] / (float32(math.Sqrt(float64(m2[c]))) + 1e-6)
		}
	}
	g.clear()
}

// What is seen of a token.
const (
	known uint8 = iota
	forgotten
	skipped
)

// pupil learns from texts on one goroutine.
type pupil struct {
	fit    *readerFit
	random *rand.Rand
	grad   *cnn.Dense
	words  rowGrads // by spelling: twice its index, plus one where the word was forgotten
	layers [cnn.Layers + 1][]float32
	sums   [cnn.Layers][]float32
	back   [2][]float32
	forgot []uint8 // what was seen of each token
	row    [cnn.KernelSize * width]float32
	window windowState
}

// windowState is what the summary of a window leaves for the way back.
type windowState struct {
	best   [width]int32
	share  [cnn.AttentionQueries][cnn.MaxTokens]float32
	pooled [cnn.Pooled]float32
	keep   [cnn.Pooled]float32
	hidden [cnn.Hidden]float32
	out    [cnn.Outputs]float32
}

func newPupil(f *readerFit, n uint64) *pupil {
	p := &pupil{fit: f, random: rand.New(rand.NewPCG(f.opt.Seed, 100+n)), grad: cnn.NewDense(make([]float32, cnn.DenseSize))}
	p.words = newRowGrads(2 * len(f.spellings))
	return p
}

func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n, 2*n)
	}
	return s[:n]
}

// embed fills in the vectors of the tokens.
func (p *pupil) embed(r *reading, learning bool) {
	f := p.fit
	n := len(r.words)
	p.layers[0] = grow(p.layers[0], n*width)
	p.forgot = p.forgot[:0]
	for t, at := range r.words {
		out := p.layers[0][t*width : (t+1)*width]
		s := &f.spellings[at]
		if learning && p.random.Float64() < f.opt.TokenDropout {
			p.forgot = append(p.forgot, skipped)
			clear(out)
			continue
		}
		forgot := known
		if s.word < 0 || learning && p.random.Float64() < f.opt.WordDropout {
			forgot = forgotten
		}
		p.forgot = append(p.forgot, forgot)
		if forgot == forgotten {
			clear(out)
		} else {
			copy(out, f.words.values[int(s.word)*width:])
			if s.group >= 0 {
				for c, v := range f.groups.values[int(s.group)*width : (int(s.group)+1)*width] {
					out[c] += v
				}
			}
		}
		share := 1 / float32(max(len(s.parts), 1))
		for _, part := range s.parts {
			for c, v := range f.parts.values[int(part)*width : (int(part)+1)*width] {
				out[c] += v * share
			}
		}
		for _, m := range r.marks[t] {
			for c, v := range f.dense.Shape[int(m)*width : (int(m)+1)*width] {
				out[c] += v
			}
		}
	}
}

func (p *pupil) forward(r *reading, learning bool) {
	p.embed(r, learning)
	n := len(r.words)
	for l := range cnn.Layers {
		p.layers[l+1], p.sums[l] = grow(p.layers[l+1], n*width), grow(p.sums[l], n*2*width)
		p.fit.dense.Convolve(l, p.layers[l+1], p.sums[l], p.layers[l], n)
	}
}

// summarise reads a window of the last layer.
func (p *pupil) summarise(w model.Window) {
	last := p.layers[cnn.Layers][w.First*width : w.End*width]
	s := &p.window
	p.fit.dense.Pool(&s.pooled, last, w.End-w.First, &s.best, &s.share)
}

// logits returns the largest logit of a window for each head, and the window.
func (p *pupil) logits(windows []model.Window) (best [model.Heads]float32, which [model.Heads]int) {
	for i, w := range windows {
		p.summarise(w)
		p.fit.dense.Logits(&p.window.out, &p.window.hidden, &p.window.pooled)
		for h := range best {
			if v := p.window.out[h]; i == 0 || v > best[h] {
				best[h], which[h] = v, i
			}
		}
	}
	return best, which
}

// learn adds the gradients of one example.
func (p *pupil) learn(i int) {
	f := p.fit
	r, e := &f.texts[i], &f.examples[i]
	n := len(r.words)
	if n == 0 {
		return
	}
	p.forward(r, true)
	windows := model.AppendLargeWindows(nil, n)
	which := [model.Heads]int{}
	if len(windows) > 1 {
		_, which = p.logits(windows)
	}
	last := grow(p.back[0], n*width)
	clear(last)
	p.back[0] = last
	for k, w := range windows {
		used := false
		for _, at := range which {
			used = used || at == k
		}
		if !used {
			continue
		}
		p.summarise(w)
		s := &p.window
		drop := float32(f.opt.HiddenDropout)
		for c := range s.pooled {
			s.keep[c] = 1 / (1 - drop)
			if p.random.Float32() < drop {
				s.keep[c] = 0
			}
			s.pooled[c] *= s.keep[c]
		}
		f.dense.Logits(&s.out, &s.hidden, &s.pooled)
		var grad [cnn.Outputs]float32
		for h, l := range e.Labels {
			if l.Weight == 0 || which[h] != k {
				continue
			}
			const smoothing = 0.02
			y := l.Value*(1-2*smoothing) + smoothing
			weight := l.Weight * (1 + (f.boost[h]-1)*l.Value)
			grad[h] = (float32(sigmoid(float64(s.out[h]))) - y) * weight
		}
		p.backHead(&grad, last[w.First*width:w.End*width], w)
	}
	p.backLayers(n)
	p.backWords(r)
}

// backHead goes from the logits of a window back to its tokens.
func (p *pupil) backHead(grad *[cnn.Outputs]float32, last []float32, w model.Window) {
	f, s, g := p.fit, &p.window, p.grad
	kernel.Outer(g.OutputWeights, s.hidden[:], grad[:])
	for i, v := range grad {
		g.OutputBias[i] += v
	}
	var hidden [cnn.Hidden]float32
	kernel.MulAdd(hidden[:], grad[:], f.outBack)
	for i, v := range s.hidden {
		if v == 0 {
			hidden[i] = 0
		}
		g.HiddenBias[i] += hidden[i]
	}
	kernel.Outer(g.HiddenWeights, s.pooled[:], hidden[:])
	var pooled [cnn.Pooled]float32
	kernel.MulAdd(pooled[:], hidden[:], f.hideBack)
	for i := range pooled {
		pooled[i] *= s.keep[i]
	}
	for c := range width {
		last[int(s.best[c])*width+c] += pooled[c]
	}
	in := p.layers[cnn.Layers][w.First*width : w.End*width]
	n := w.End - w.First
	for q := range cnn.AttentionQueries {
		back := pooled[(1+q)*width : (2+q)*width]
		query, queryGrad := f.dense.Attention[q*width:(q+1)*width], g.Attention[q*width:(q+1)*width]
		var dots [cnn.MaxTokens]float32
		var mean float32
		for t := range n {
			row := in[t*width : (t+1)*width]
			var dot float32
			for c, v := range row {
				dot += v * back[c]
			}
			dots[t] = dot
			mean += s.share[q][t] * dot
		}
		for t := range n {
			share := s.share[q][t]
			pull := share * (dots[t] - mean)
			row, out := in[t*width:(t+1)*width], last[t*width:(t+1)*width]
			for c := range row {
				out[c] += share*back[c] + pull*query[c]
				queryGrad[c] += pull * row[c]
			}
		}
	}
}

// backLayers goes from the last layer back to the vectors of the tokens, in p.back[0].
func (p *pupil) backLayers(n int) {
	f, g := p.fit, p.grad
	p.back[1] = grow(p.back[1], n*width)
	for l := cnn.Layers - 1; l >= 0; l-- {
		above, below := p.back[0], p.back[1]
		copy(below, above)
		in := p.layers[l]
		step := cnn.Dilations[l]
		for t := range n {
			sum := p.sums[l][t*2*width : (t+1)*2*width]
			up := above[t*width : (t+1)*width]
			var grad [2 * width]float32
			for c, v := range up {
				d := 1 + float32(math.Abs(float64(sum[width+c])))
				grad[c] = v * (0.5 + 0.5*sum[width+c]/d)
				grad[width+c] = v * sum[c] * 0.5 / (d * d)
			}
			cnn.Gather(&p.row, in, t, n, step)
			kernel.Outer(g.Kernel[l], p.row[:], grad[:])
			for c, v := range grad {
				g.Bias[l][c] += v
			}
			var row [cnn.KernelSize * width]float32
			kernel.MulAdd(row[:], grad[:], f.flipped[l])
			for tap := range cnn.KernelSize {
				if at := t + (tap-cnn.KernelSize/2)*step; at >= 0 && at < n {
					for c, v := range row[tap*width : (tap+1)*width] {
						below[at*width+c] += v
					}
				}
			}
		}
		p.back[0], p.back[1] = below, above
	}
}

// backWords hands the gradients to the vectors that the tokens came from.
func (p *pupil) backWords(r *reading) {
	for t, at := range r.words {
		grad := p.back[0][t*width : (t+1)*width]
		if p.forgot[t] == skipped {
			continue
		}
		row := 2*at + int32(p.forgot[t])
		into := p.words.row(row)
		for c, v := range grad {
			into[c] += v
		}
		for _, m := range r.marks[t] {
			into := p.grad.Shape[int(m)*width : (int(m)+1)*width]
			for c, v := range grad {
				into[c] += v
			}
		}
	}
}

// export folds the groups and parts of known words into their vectors and rounds.
func (f *readerFit) export() *cnn.Model {
	var words []cnn.Word
	for i := range f.spellings {
		s := &f.spellings[i]
		if s.word < 0 {
			continue
		}
		w := cnn.Word{Hash: s.hash}
		copy(w.Vector[:], f.words.values[int(s.word)*width:])
		if s.group >= 0 {
			for c, v := range f.groups.values[int(s.group)*width : (int(s.group)+1)*width] {
				w.Vector[c] += v
			}
		}
		share := 1 / float32(max(len(s.parts), 1))
		for _, part := range s.parts {
			for c, v := range f.parts.values[int(part)*width : (int(part)+1)*width] {
				w.Vector[c] += v * share
			}
		}
		words = append(words, w)
	}
	return cnn.New(f.dense, words, f.parts.values)
}
