// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// tinyFit makes a training of one text of n tokens with random weights and nothing left out. Its words are of every sort:
// with and without a vector of their own, with and without a group, one without parts, and some that come again.
func tinyFit(n int) *readerFit {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	fill := func(w []float32, size float64) {
		for i := range w {
			w[i] = float32(r.NormFloat64() * size)
		}
	}
	f := &readerFit{
		spellings: []spelling{
			{word: 0, group: -1, parts: cnn.AppendSubwords(nil, []byte("first"))},
			{word: 1, group: 2, parts: cnn.AppendSubwords(nil, []byte("second"))},
			{word: -1, group: -1, parts: cnn.AppendSubwords(nil, []byte("third"))},
			{word: -1, group: 1, parts: cnn.AppendSubwords(nil, []byte("thirst"))},
			{word: 2, group: 2},
		},
		words: newSparse(3), groups: newSparse(4), parts: newSparse(cnn.SubwordRows),
		wordGrads: newRowGrads(3), groupGrads: newRowGrads(4), partGrads: newRowGrads(cnn.SubwordRows),
		dense:    cnn.NewDense(make([]float32, cnn.DenseSize)),
		hideBack: make([]float32, cnn.Pooled*cnn.Hidden), outBack: make([]float32, cnn.Hidden*cnn.Outputs),
		adam:  moments{make([]float32, cnn.DenseSize), make([]float32, cnn.DenseSize)},
		texts: make([]reading, 1), examples: make([]Example, 1),
	}
	for l := range f.flipped {
		f.flipped[l] = make([]float32, len(f.dense.Kernel[l]))
	}
	fill(f.dense.All, 0.15)
	fill(f.words.values, 0.5)
	fill(f.groups.values, 0.5)
	fill(f.parts.values, 1)
	for t := range n {
		f.texts[0].words = append(f.texts[0].words, int32(r.IntN(len(f.spellings))))
		f.texts[0].marks = append(f.texts[0].marks, []uint8{uint8(t % cnn.ShapeFeatures), uint8((t + 5) % cnn.ShapeFeatures)})
	}
	for h := range f.examples[0].Labels {
		f.boost[h] = 1 + float32(h)/10
		f.examples[0].Labels[h] = Label{Value: float32(h%3) / 2, Weight: float32(h%4) / 2}
	}
	return f
}

// loss is what the training makes small, from the definition: the weighted cross entropy of the worst windows.
func loss(f *readerFit, p *pupil) (sum float64) {
	p.forward(&f.texts[0], false)
	best, _ := p.logits(model.AppendLargeWindows(nil, len(f.texts[0].words)))
	for h, l := range f.examples[0].Labels {
		y := float64(l.Value)*0.96 + 0.02
		z := float64(best[h])
		sum += float64(l.Weight*(1+(f.boost[h]-1)*l.Value)) * (math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) - y*z)
	}
	return sum
}

// Hazard: a wrong way back still learns something, and nobody notices what it does not.
func TestGradientsAreTheSlopesOfTheLoss(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 6, 70} { // the last has windows that overlap
		f := tinyFit(n)
		p := newPupil(f, 0)
		for l := range f.flipped {
			flip(f.flipped[l], f.dense.Kernel[l], cnn.KernelSize*width, 2*width)
		}
		flip(f.hideBack, f.dense.HiddenWeights, cnn.Pooled, cnn.Hidden)
		flip(f.outBack, f.dense.OutputWeights, cnn.Hidden, cnn.Outputs)
		p.learn(0)
		f.learnWords([]*pupil{p}, 0, 1)
		// After one step with a rate of zero, Adam's first means are a tenth of the gradients.
		gradient := func(s sparse) []float32 {
			for i := range s.moments.first {
				s.moments.first[i] /= 1 - beta1
			}
			return s.moments.first
		}
		type group struct {
			name           string
			weights, grads []float32
		}
		groups := []group{
			{"query", f.dense.Attention, p.grad.Attention},
			{"mark", f.dense.Shape, p.grad.Shape},
			{"hide", f.dense.HiddenWeights, p.grad.HiddenWeights},
			{"hide bias", f.dense.HiddenBias, p.grad.HiddenBias},
			{"out", f.dense.OutputWeights, p.grad.OutputWeights},
			{"out bias", f.dense.OutputBias, p.grad.OutputBias},
			{"words", f.words.values, gradient(f.words)},
			{"groups", f.groups.values, gradient(f.groups)},
			{"parts", f.parts.values, gradient(f.parts)},
		}
		for l := range cnn.Layers {
			groups = append(groups, group{fmt.Sprintf("kernel %d", l), f.dense.Kernel[l], p.grad.Kernel[l]},
				group{fmt.Sprintf("bias %d", l), f.dense.Bias[l], p.grad.Bias[l]})
		}
		for _, g := range groups {
			var wrong, all float64
			r := rand.New(rand.NewPCG(7, 8))
			checked := 0
			for _, i := range r.Perm(len(g.weights)) {
				if checked == 150 {
					break
				}
				if len(g.weights) > 1<<15 && g.grads[i] == 0 && i%512 != 0 {
					continue // most parts are in none of the words
				}
				checked++
				const step = 2e-3
				old := g.weights[i]
				g.weights[i] = old + step
				above := loss(f, p)
				g.weights[i] = old - step
				below := loss(f, p)
				g.weights[i] = old
				slope := (above - below) / (2 * step)
				wrong += (slope - float64(g.grads[i])) * (slope - float64(g.grads[i]))
				all += slope * slope
			}
			if n == 1 && g.name == "query" {
				if wrong > 1e-6 {
					t.Error("the weight of a lone token, which is 1, has a slope")
				}
				continue
			}
			if all == 0 || math.Sqrt(wrong/all) > 0.03 {
				t.Errorf("%d tokens: %s: the gradients miss the slopes by %v of %v", n, g.name, math.Sqrt(wrong), math.Sqrt(all))
			}
		}
	}
}
