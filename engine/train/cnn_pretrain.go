// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
)

// replacedShare is the share of the words of a text that pretraining replaces.
const replacedShare = 0.15

// answerWeight is the weight of all answers about a text together. With it the gradients are as large as those of the
// labels later.
const answerWeight = 20

// pretraining teaches the network ordinary English before it sees a label: some words of a text are replaced by others
// that are used in similar contexts, and the network says of each word whether it was replaced (replaced token
// detection, Clark et al. 2020, with clusters of words in place of a generator).
type pretraining struct {
	trainer  *cnnTrainer
	texts    []vocabText
	clusters [][]int32 // the words of each group, as often as they are drawn
	all      []int32   // likewise of all words
	head     []float32 // the weights of the answer, then its bias
	adam     moments
	steps    int
}

// pretrain makes passes over the texts.
func (tr *cnnTrainer) pretrain(texts []vocabText) {
	p := &pretraining{
		trainer: tr, texts: texts, clusters: make([][]int32, tr.groups.rows()), head: make([]float32, channels+1),
		adam: newMoments(channels + 1),
	}
	for i := range tr.vocab {
		v := &tr.vocab[i]
		if v.row < 0 {
			continue
		}
		draws := max(1, int(math.Pow(float64(v.count), 0.75)/4))
		if v.group >= 0 {
			p.clusters[v.group] = append(p.clusters[v.group], slices.Repeat([]int32{int32(i)}, draws)...)
		}
		p.all = append(p.all, slices.Repeat([]int32{int32(i)}, draws)...)
	}
	workers := make([]*pretrainWorker, numWorkers)
	for i := range workers {
		workers[i] = &pretrainWorker{
			cnnWorker: newCNNWorker(tr, 200+uint64(i)), pretraining: p, head: make([]float32, channels+1),
		}
	}
	r := rand.New(rand.NewPCG(tr.opt.Seed, 13))
	total := tr.opt.PretrainEpochs * (len(texts) / batchSize)
	for range tr.opt.PretrainEpochs {
		order := r.Perm(len(texts))
		for ; len(order) >= batchSize; order = order[batchSize:] {
			p.step(workers, order[:batchSize], tr.opt.Rate*(1-0.9*float64(p.steps)/float64(total)))
		}
	}
}

// step takes a step on a mini-batch.
func (p *pretraining) step(workers []*pretrainWorker, batch []int, rate float64) {
	tr := p.trainer
	p.steps++
	tr.transposeWeights()
	accumulateAll(workers, batch)
	scale := float32(1) / float32(len(batch))
	first := workers[0]
	for _, w := range workers[1:] {
		addTo(first.dense.All, w.dense.All)
		clear(w.dense.All)
		addTo(first.head, w.head)
		clear(w.head)
	}
	rate *= min(1, float64(p.steps)/warmup)
	tr.adam.step(tr.dense.All, first.dense.All, rate, scale, p.steps, float32(tr.opt.Decay))
	p.adam.step(p.head, first.head, rate, scale, p.steps, 0)
	clear(first.dense.All)
	clear(first.head)
	embeddings := make([]*cnnWorker, len(workers))
	for i, w := range workers {
		embeddings[i] = w.cnnWorker
	}
	tr.updateEmbeddings(embeddings, rate, scale)
}

// pretrainWorker computes the gradients of texts on one goroutine.
type pretrainWorker struct {
	*cnnWorker
	pretraining *pretraining
	head        []float32 // gradients
	words       []int32
	replaced    []bool
}

// accumulate adds the gradients of a text.
func (w *pretrainWorker) accumulate(i int) {
	p := w.pretraining
	t := p.texts[i]
	n := len(t.words)
	if n < 4 {
		return
	}
	w.words, w.replaced = append(w.words[:0], t.words...), w.replaced[:0]
	for k, at := range t.words {
		other := at
		if w.random.Float64() < replacedShare {
			other = p.draw(at, w.random)
		}
		w.words[k] = other
		w.replaced = append(w.replaced, other != at)
	}
	t.words = w.words
	w.learn(&t)
}

// learn adds the gradients of a text of which some words are replaced.
func (w *pretrainWorker) learn(t *vocabText) {
	p, n := w.pretraining, len(t.words)
	w.forward(t, true)
	last := resize(w.gradients[0], n*channels)
	clear(last)
	w.gradients[0] = last
	out := w.layers[cnn.Layers]
	weight := answerWeight / float32(n)
	for k, replaced := range w.replaced {
		if w.states[k] == tokenDropped {
			continue
		}
		x := out[k*channels : (k+1)*channels]
		z := p.head[channels]
		for c, v := range x {
			z += v * p.head[c]
		}
		g := (float32(sigmoid(float64(z))) - float32(indicator(replaced))) * weight
		w.head[channels] += g
		for c, v := range x {
			w.head[c] += g * v
			last[k*channels+c] = g * p.head[c]
		}
	}
	w.backwardLayers(n)
	w.backwardEmbeddings(t)
}

// draw returns a word to put in the place of another: mostly one of its group.
func (p *pretraining) draw(word int32, r *rand.Rand) int32 {
	from := p.all
	if g := p.trainer.vocab[word].group; g >= 0 && len(p.clusters[g]) > 0 && r.IntN(3) > 0 {
		from = p.clusters[g]
	}
	if len(from) == 0 {
		return word
	}
	return from[r.IntN(len(from))]
}
