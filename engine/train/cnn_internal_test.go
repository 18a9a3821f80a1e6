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

// tinyTrainer makes a training of one text of n tokens with random weights. Its words are of every sort: with and
// without an embedding of their own, with and without a group, one without sub-words, and some that recur.
func tinyTrainer(n int) *cnnTrainer {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	fill := func(w []float32, size float64) {
		for i := range w {
			w[i] = float32(r.NormFloat64() * size)
		}
	}
	tr := &cnnTrainer{
		vocab: []vocabWord{
			{row: 0, group: -1, subwords: cnn.AppendSubwords(nil, []byte("first"))},
			{row: 1, group: 2, subwords: cnn.AppendSubwords(nil, []byte("second"))},
			{row: -1, group: -1, subwords: cnn.AppendSubwords(nil, []byte("third"))},
			{row: -1, group: 1, subwords: cnn.AppendSubwords(nil, []byte("thirst"))},
			{row: 2, group: 2},
		},
		words: newEmbeddingTable(3), wordGradients: newRowGradients(3),
		groups: newEmbeddingTable(4), groupGradients: newRowGradients(4),
		subwords: newEmbeddingTable(cnn.SubwordRows), subwordGradients: newRowGradients(cnn.SubwordRows),
		dense:    cnn.NewDense(make([]float32, cnn.DenseSize)),
		adam:     newMoments(cnn.DenseSize),
		texts:    make([]vocabText, 1),
		examples: make([]Example, 1),
	}
	tr.allocateTransposed()
	fill(tr.dense.All, 0.15)
	fill(tr.words.values, 0.5)
	fill(tr.groups.values, 0.5)
	fill(tr.subwords.values, 1)
	text := &tr.texts[0]
	for t := range n {
		text.words = append(text.words, int32(r.IntN(len(tr.vocab))))
		shapes := []uint8{uint8(t % cnn.ShapeFeatures), uint8((t + 5) % cnn.ShapeFeatures)}
		text.shapes = append(text.shapes, shapes)
	}
	for h := range tr.examples[0].Labels {
		tr.positiveWeight[h] = 1 + float32(h)/10
		tr.examples[0].Labels[h] = Label{Value: float32(h%3) / 2, Weight: float32(h%4) / 2}
	}
	return tr
}

// loss computes what training minimises, from the definition: the weighted cross entropy of each head's window with the
// largest logit.
func loss(tr *cnnTrainer, w *cnnWorker) (sum float64) {
	w.forward(&tr.texts[0], false)
	best, _ := w.maxLogits(model.AppendLargeWindows(nil, len(tr.texts[0].words)))
	for h, l := range tr.examples[0].Labels {
		y := float64(l.Value)*0.96 + 0.02
		z := float64(best[h])
		weight := float64(l.Weight * (1 + (tr.positiveWeight[h]-1)*l.Value))
		sum += weight * (math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) - y*z)
	}
	return sum
}

// A wrong backward pass still learns something, and nobody notices what it does not learn.
func TestGradientsAreTheSlopesOfTheLoss(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 6, 70} { // the last has windows that overlap
		tr := tinyTrainer(n)
		w := newCNNWorker(tr, 0)
		tr.transposeWeights()
		w.accumulate(0)
		tr.updateEmbeddings([]*cnnWorker{w}, 0, 1)
		// After one step at the rate zero, Adam's first moments are a tenth of the gradients.
		gradient := func(t embeddingTable) []float32 {
			for i := range t.moments.first {
				t.moments.first[i] /= 1 - beta1
			}
			return t.moments.first
		}
		type group struct {
			name           string
			weights, grads []float32
		}
		groups := []group{
			{"attention queries", tr.dense.Attention, w.dense.Attention},
			{"shape features", tr.dense.Shape, w.dense.Shape},
			{"hidden weights", tr.dense.HiddenWeights, w.dense.HiddenWeights},
			{"hidden bias", tr.dense.HiddenBias, w.dense.HiddenBias},
			{"output weights", tr.dense.OutputWeights, w.dense.OutputWeights},
			{"output bias", tr.dense.OutputBias, w.dense.OutputBias},
			{"words", tr.words.values, gradient(tr.words)},
			{"groups", tr.groups.values, gradient(tr.groups)},
			{"sub-words", tr.subwords.values, gradient(tr.subwords)},
		}
		for l := range cnn.Layers {
			groups = append(groups,
				group{fmt.Sprintf("kernel %d", l), tr.dense.Kernel[l], w.dense.Kernel[l]},
				group{fmt.Sprintf("bias %d", l), tr.dense.Bias[l], w.dense.Bias[l]})
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
					continue // most sub-words are in none of the words
				}
				checked++
				const step = 2e-3
				old := g.weights[i]
				g.weights[i] = old + step
				above := loss(tr, w)
				g.weights[i] = old - step
				below := loss(tr, w)
				g.weights[i] = old
				slope := (above - below) / (2 * step)
				wrong += (slope - float64(g.grads[i])) * (slope - float64(g.grads[i]))
				all += slope * slope
			}
			if n == 1 && g.name == "attention queries" {
				if wrong > 1e-6 {
					t.Errorf("1 token: attention queries: slope %v, want 0, as the attention of a lone token is 1",
						math.Sqrt(wrong))
				}
				continue
			}
			if all == 0 || math.Sqrt(wrong/all) > 0.03 {
				t.Errorf("%d tokens: %s: the gradients differ from the slopes by %v of %v, want at most 0.03 of it",
					n, g.name, math.Sqrt(wrong), math.Sqrt(all))
			}
		}
	}
}

// The same for pretraining, whose loss is the cross entropy of each word's answer.
func TestPretrainingGradientsAreTheSlopesOfTheLoss(t *testing.T) {
	t.Parallel()
	tr := tinyTrainer(12)
	p := &pretraining{trainer: tr, head: make([]float32, channels+1)}
	for c := range p.head {
		p.head[c] = float32(c%5) / 10
	}
	w := &pretrainWorker{cnnWorker: newCNNWorker(tr, 0), pretraining: p, head: make([]float32, channels+1)}
	text := &tr.texts[0]
	for k := range text.words {
		w.replaced = append(w.replaced, k%3 == 0)
	}
	tr.transposeWeights()
	w.learn(text)
	loss := func() (sum float64) {
		w.forward(text, false)
		for k, replaced := range w.replaced {
			z := float64(p.head[channels])
			for c, v := range w.layers[cnn.Layers][k*channels : (k+1)*channels] {
				z += float64(v * p.head[c])
			}
			sum += (math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) - indicator(replaced)*z) * answerWeight
		}
		return sum / float64(len(w.replaced))
	}
	for _, g := range []struct {
		name           string
		weights, grads []float32
	}{
		{"answer", p.head, w.head},
		{"shape features", tr.dense.Shape, w.dense.Shape},
		{"kernel 0", tr.dense.Kernel[0], w.dense.Kernel[0]},
		{"kernel 2", tr.dense.Kernel[2], w.dense.Kernel[2]},
	} {
		var wrong, all float64
		for i := 0; i < len(g.weights); i += 1 + len(g.weights)/100 {
			const step = 2e-3
			old := g.weights[i]
			g.weights[i] = old + step
			above := loss()
			g.weights[i] = old - step
			slope := (above - loss()) / (2 * step)
			g.weights[i] = old
			wrong += (slope - float64(g.grads[i])) * (slope - float64(g.grads[i]))
			all += slope * slope
		}
		if all == 0 || wrong > 1e-3*all {
			t.Errorf("%s: the gradients differ from the slopes by %.2g of %.2g, want at most a thousandth", g.name, wrong, all)
		}
	}
}
