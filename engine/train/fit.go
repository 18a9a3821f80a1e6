// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Options say how to learn. The zero value of a field stands for the default.
type Options struct {
	// Epochs is the number of passes over the examples. Default 5.
	Epochs int
	// Rate is the learning rate of AdaGrad. Default 0.5.
	Rate float64
	// Decay pulls weights to zero at each step, relative to the rate. Default 1e-5.
	Decay float64
	// MinCount is how often a feature must be met to be learned; a row of this project's own text counts twice.
	// Default 3.
	MinCount int
	// Rows bounds the rows that are kept. Default 460,000.
	Rows int
	// Buckets is the size of the table, a power of two. Default 131,072.
	Buckets int
	// Seed seeds the order of the examples.
	Seed uint64
}

func (o Options) withDefaults() Options {
	if o.Epochs == 0 {
		o.Epochs = 5
	}
	if o.Rate == 0 {
		o.Rate = 0.5
	}
	if o.Decay == 0 {
		o.Decay = 1e-5
	}
	if o.MinCount == 0 {
		o.MinCount = 3
	}
	if o.Rows == 0 {
		o.Rows = 460_000
	}
	if o.Buckets == 0 {
		o.Buckets = 1 << 17
	}
	return o
}

// Fitted is what was learned, before calibration.
type Fitted struct {
	Header model.Header
	Rows   []model.Row
}

// maxWindows bounds the windows of one training text.
const maxWindows = 12

// window is a window of an example as indexes of features, with the norm that its sum is divided by.
type window struct {
	from, to int32 // in fitter.ids
	norm     float32
}

// fitter holds the state of a training.
type fitter struct {
	opt      Options
	ids      []uint32
	windows  [][]window
	examples []Example
	index    map[uint64]uint32
	hashes   []uint64 // by index
	counts   []float32
	weights  [][model.Heads]float32
	grads    []float32 // sum of squared gradients, one per row
	bias     [model.Heads]float64
	boost    [model.Heads]float32
}

// Fit learns weights. It runs on one goroutine with a fixed order, so that the same examples give the same weights.
func Fit(examples []Example, opt Options) *Fitted {
	f := &fitter{opt: opt.withDefaults(), examples: examples, index: map[uint64]uint32{}}
	f.collect()
	f.balance()
	order := make([]int, len(examples))
	for i := range order {
		order[i] = i
	}
	r := rand.New(rand.NewPCG(f.opt.Seed, 2))
	for epoch := range f.opt.Epochs {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		rate := f.opt.Rate * (1 - 0.8*float64(epoch)/float64(f.opt.Epochs))
		for _, i := range order {
			f.step(&f.examples[i], f.windows[i], rate)
		}
	}
	return f.export()
}

// collect finds the features that are met often enough and turns every example into windows of their indexes.
func (f *fitter) collect() {
	const counters = 1 << 26
	seen := make([]uint8, counters)
	var features model.Features
	scratch := text.Get()
	defer text.Put(scratch)
	for i := range f.examples {
		e := &f.examples[i]
		weight := uint8(1)
		if e.Written {
			weight = 2
		}
		hashes, _ := features.Compute(limit(scratch.Tokenize(e.Text)))
		for _, h := range hashes {
			if c := &seen[h>>38]; *c < 200 {
				*c += weight
			}
		}
	}
	f.windows = make([][]window, len(f.examples))
	for i := range f.examples {
		tokens := limit(scratch.Tokenize(f.examples[i].Text))
		hashes, ends := features.Compute(tokens)
		start := func(token int) int32 {
			if token == 0 {
				return 0
			}
			return ends[token-1]
		}
		for w := range func(yield func(model.Window) bool) { model.Windows(len(tokens), yield) } {
			if len(f.windows[i]) == maxWindows {
				break
			}
			from, to := start(w.FirstToken), start(w.EndToken)
			at := int32(len(f.ids))
			for _, h := range hashes[from:to] {
				if int(seen[h>>38]) < f.opt.MinCount {
					continue
				}
				id, ok := f.index[h]
				if !ok {
					id = uint32(len(f.hashes))
					f.index[h] = id
					f.hashes = append(f.hashes, h)
					f.counts = append(f.counts, 0)
				}
				f.counts[id]++
				f.ids = append(f.ids, id)
			}
			f.windows[i] = append(f.windows[i], window{at, int32(len(f.ids)), float32(1 / model.Norm(int(to-from)))})
		}
	}
	f.weights = make([][model.Heads]float32, len(f.hashes))
	f.grads = make([]float32, len(f.hashes))
}

// limit cuts a text to the tokens that training looks at.
func limit(tokens []text.Token) []text.Token {
	const most = 48 + 16*maxWindows
	return tokens[:min(len(tokens), most)]
}

// balance raises the weight of the positives of rare heads, by the root of what they lack, and starts each bias at
// the log odds.
func (f *fitter) balance() {
	for h := range model.Heads {
		var yes, no float64
		for i := range f.examples {
			l := f.examples[i].Labels[h]
			yes += float64(l.Weight * l.Value)
			no += float64(l.Weight * (1 - l.Value))
		}
		f.boost[h] = float32(min(max(math.Sqrt(no/max(yes, 1)), 1), 4))
		f.bias[h] = math.Log(max(yes, 1) * float64(f.boost[h]) / max(no, 1))
	}
}

// step learns from one example. For each head the window that looks worst carries the label: in a long text one bad
// window is enough for a yes, and all must be fine for a no.
func (f *fitter) step(e *Example, windows []window, rate float64) {
	var best [model.Heads]float64
	var which [model.Heads]int
	for i, w := range windows {
		var z [model.Heads]float32
		for _, id := range f.ids[w.from:w.to] {
			row := &f.weights[id]
			for h := range z {
				z[h] += row[h]
			}
		}
		for h := range z {
			if v := float64(z[h]*w.norm) + f.bias[h]; i == 0 || v > best[h] {
				best[h], which[h] = v, i
			}
		}
	}
	var grad [model.Heads]float32
	for h, l := range e.Labels {
		if l.Weight == 0 {
			continue
		}
		const smoothing = 0.01
		y := float64(l.Value)*(1-2*smoothing) + smoothing
		weight := l.Weight * (1 + (f.boost[h]-1)*l.Value)
		grad[h] = float32(1/(1+math.Exp(-best[h]))-y) * weight
		f.bias[h] -= rate * 0.002 * float64(grad[h])
	}
	for i, w := range windows {
		var g [model.Heads]float32
		var squares float32
		for h := range g {
			if which[h] == i {
				g[h] = grad[h] * w.norm
				squares += g[h] * g[h]
			}
		}
		if squares == 0 {
			continue
		}
		for _, id := range f.ids[w.from:w.to] {
			f.grads[id] += squares
			rate := float32(rate / math.Sqrt(float64(f.grads[id])+1e-4))
			row := &f.weights[id]
			keep := 1 - rate*float32(f.opt.Decay)
			for h := range row {
				row[h] = row[h]*keep - rate*g[h]
			}
		}
	}
}

// export rounds the weights to int8, with a scale per head, and keeps the rows that matter most.
func (f *fitter) export() *Fitted {
	out := &Fitted{Header: model.Header{Buckets: f.opt.Buckets, Examples: len(f.examples)}}
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
			// The few largest weights are clipped: finer steps for all others are worth more.
			scale[h] = max(sizes[len(sizes)-1-len(sizes)/5000]/127, 1e-6)
		}
		out.Header.Calibration[h] = model.Calibration{Scale: float64(scale[h]), Bias: f.bias[h], Slope: 1}
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
			out.Rows = append(out.Rows, row)
		}
	}
	model.SortRows(out.Rows, func(r model.Row) float64 { return importance[r.Hash] })
	out.Rows = out.Rows[:min(len(out.Rows), f.opt.Rows)]
	return out
}
