// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math"
	"math/rand/v2"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// tokenState says what a pass uses of a token.
type tokenState uint8

const (
	// embedded: the embedding of the word and its sub-words.
	embedded tokenState = iota
	// wordDropped: the sub-words only.
	wordDropped
	// tokenDropped: nothing.
	tokenDropped
)

// cnnWorker computes the gradients of texts on one goroutine.
type cnnWorker struct {
	trainer    *cnnTrainer
	random     *rand.Rand
	dense      *cnn.Dense   // gradients of the dense weights
	embeddings rowGradients // by vocabulary word: row 2i for embedded and row 2i+1 for wordDropped

	// The forward pass: the embeddings and the output of each layer, and the sums before each gate.
	layers [cnn.Layers + 1][]float32
	sums   [cnn.Layers][]float32
	states []tokenState // by token
	window windowState

	// The backward pass: the gradients of a layer's output, and of its input.
	gradients [2][]float32
	row       [cnn.KernelSize * channels]float32
}

// windowState is what the forward pass of a window leaves for the backward pass.
type windowState struct {
	argmax    [channels]int32 // the token that max pooling took, by channel
	attention [cnn.AttentionQueries][cnn.MaxTokens]float32
	pooled    [cnn.Pooled]float32
	mask      [cnn.Pooled]float32 // of the dropout
	hidden    [cnn.Hidden]float32
	logits    [cnn.Outputs]float32
}

func newCNNWorker(tr *cnnTrainer, n uint64) *cnnWorker {
	return &cnnWorker{
		trainer:    tr,
		random:     rand.New(rand.NewPCG(tr.opt.Seed, 100+n)),
		dense:      cnn.NewDense(make([]float32, cnn.DenseSize)),
		embeddings: newRowGradients(2 * len(tr.vocab)),
	}
}

// resize returns a slice of n values, which it does not clear.
func resize(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n, 2*n)
	}
	return s[:n]
}

// accumulate adds the gradients of one example. For each head only the window with the largest logit counts.
func (w *cnnWorker) accumulate(i int) {
	tr := w.trainer
	t, e := &tr.texts[i], &tr.examples[i]
	n := len(t.words)
	if n == 0 {
		return
	}
	w.forward(t, true)
	windows := model.AppendLargeWindows(nil, n)
	which := [model.Heads]int{}
	if len(windows) > 1 {
		_, which = w.maxLogits(windows)
	}
	last := resize(w.gradients[0], n*channels)
	clear(last)
	w.gradients[0] = last
	for k, win := range windows {
		used := false
		for _, at := range which {
			used = used || at == k
		}
		if !used {
			continue
		}
		w.pool(win)
		w.dropout()
		s := &w.window
		tr.dense.Logits(&s.logits, &s.hidden, &s.pooled)
		var gradient [cnn.Outputs]float32 // of the logits
		for h, l := range e.Labels {
			if l.Weight == 0 || which[h] != k {
				continue
			}
			const smoothing = 0.02
			y := l.Value*(1-2*smoothing) + smoothing
			weight := l.Weight * (1 + (tr.positiveWeight[h]-1)*l.Value)
			gradient[h] = (float32(sigmoid(float64(s.logits[h]))) - y) * weight
		}
		w.backwardWindow(&gradient, last[win.First*channels:win.End*channels], win)
	}
	w.backwardLayers(n)
	w.backwardEmbeddings(t)
}

// forward computes the output of all layers.
func (w *cnnWorker) forward(t *vocabText, training bool) {
	w.embed(t, training)
	n := len(t.words)
	for l := range cnn.Layers {
		w.layers[l+1], w.sums[l] = resize(w.layers[l+1], n*channels), resize(w.sums[l], n*2*channels)
		w.trainer.dense.Convolve(l, w.layers[l+1], w.sums[l], w.layers[l], n)
	}
}

// embed fills in the embeddings of the tokens, with dropout if training.
func (w *cnnWorker) embed(t *vocabText, training bool) {
	tr := w.trainer
	n := len(t.words)
	w.layers[0] = resize(w.layers[0], n*channels)
	w.states = w.states[:0]
	for i, at := range t.words {
		out := w.layers[0][i*channels : (i+1)*channels]
		v := &tr.vocab[at]
		if training && w.random.Float64() < tr.opt.TokenDropout {
			w.states = append(w.states, tokenDropped)
			clear(out)
			continue
		}
		if v.row < 0 || training && w.random.Float64() < tr.opt.WordDropout {
			w.states = append(w.states, wordDropped)
			clear(out)
		} else {
			w.states = append(w.states, embedded)
			tr.embedWord(out, v)
		}
		tr.embedSubwords(out, v)
		for _, s := range t.shapes[i] {
			addTo(out, tr.dense.Shape[int(s)*channels:(int(s)+1)*channels])
		}
	}
}

// pool pools a window of the last layer.
func (w *cnnWorker) pool(win model.Window) {
	last := w.layers[cnn.Layers][win.First*channels : win.End*channels]
	s := &w.window
	w.trainer.dense.Pool(&s.pooled, last, win.End-win.First, &s.argmax, &s.attention)
}

// dropout clears some of the pooled values, and scales the others to keep their expected sum.
func (w *cnnWorker) dropout() {
	s := &w.window
	drop := float32(w.trainer.opt.HiddenDropout)
	for c := range s.pooled {
		s.mask[c] = 1 / (1 - drop)
		if w.random.Float32() < drop {
			s.mask[c] = 0
		}
		s.pooled[c] *= s.mask[c]
	}
}

// maxLogits returns the largest logit of any window for each head, and the index of that window.
func (w *cnnWorker) maxLogits(windows []model.Window) (best [model.Heads]float32, which [model.Heads]int) {
	for i, win := range windows {
		w.pool(win)
		w.trainer.dense.Logits(&w.window.logits, &w.window.hidden, &w.window.pooled)
		for h := range best {
			if v := w.window.logits[h]; i == 0 || v > best[h] {
				best[h], which[h] = v, i
			}
		}
	}
	return best, which
}

// backwardWindow goes from the gradient of a window's logits back to those of the last layer, which it adds to last.
func (w *cnnWorker) backwardWindow(gradient *[cnn.Outputs]float32, last []float32, win model.Window) {
	tr, s, g := w.trainer, &w.window, w.dense
	kernel.Outer(g.OutputWeights, s.hidden[:], gradient[:])
	addTo(g.OutputBias, gradient[:])
	var hidden [cnn.Hidden]float32
	kernel.MulAdd(hidden[:], gradient[:], tr.outputT)
	for i, v := range s.hidden {
		if v == 0 {
			hidden[i] = 0
		}
		g.HiddenBias[i] += hidden[i]
	}
	kernel.Outer(g.HiddenWeights, s.pooled[:], hidden[:])
	var pooled [cnn.Pooled]float32
	kernel.MulAdd(pooled[:], hidden[:], tr.hiddenT)
	for i := range pooled {
		pooled[i] *= s.mask[i]
	}
	for c := range channels {
		last[int(s.argmax[c])*channels+c] += pooled[c]
	}
	in := w.layers[cnn.Layers][win.First*channels : win.End*channels]
	for q := range cnn.AttentionQueries {
		back := pooled[(1+q)*channels : (2+q)*channels]
		w.backwardAttention(q, back, in, last, win.End-win.First)
	}
}

// backwardAttention goes from the gradient of one attention pooling of n tokens back to those of its query and of its
// input, which it adds to out.
func (w *cnnWorker) backwardAttention(q int, gradient, in, out []float32, n int) {
	query := w.trainer.dense.Attention[q*channels : (q+1)*channels]
	queryGradient := w.dense.Attention[q*channels : (q+1)*channels]
	attention := &w.window.attention[q]
	var dots [cnn.MaxTokens]float32
	var mean float32
	for t := range n {
		row := in[t*channels : (t+1)*channels]
		var dot float32
		for c, v := range row {
			dot += v * gradient[c]
		}
		dots[t] = dot
		mean += attention[t] * dot
	}
	for t := range n {
		share := attention[t]
		pull := share * (dots[t] - mean) // the gradient of the score before the softmax
		row, sum := in[t*channels:(t+1)*channels], out[t*channels:(t+1)*channels]
		for c := range row {
			sum[c] += share*gradient[c] + pull*query[c]
			queryGradient[c] += pull * row[c]
		}
	}
}

// backwardLayers goes from the gradients of the last layer back to those of the embeddings, in w.gradients[0].
func (w *cnnWorker) backwardLayers(n int) {
	tr, g := w.trainer, w.dense
	w.gradients[1] = resize(w.gradients[1], n*channels)
	for l := cnn.Layers - 1; l >= 0; l-- {
		above, below := w.gradients[0], w.gradients[1]
		copy(below, above)
		in := w.layers[l]
		dilation := cnn.Dilations[l]
		for t := range n {
			sum := w.sums[l][t*2*channels : (t+1)*2*channels]
			up := above[t*channels : (t+1)*channels]
			var gradient [2 * channels]float32 // of the sums before the gate
			for c, v := range up {
				d := 1 + float32(math.Abs(float64(sum[channels+c])))
				gradient[c] = v * (0.5 + 0.5*sum[channels+c]/d)
				gradient[channels+c] = v * sum[c] * 0.5 / (d * d)
			}
			cnn.Gather(&w.row, in, t, n, dilation)
			kernel.Outer(g.Kernel[l], w.row[:], gradient[:])
			addTo(g.Bias[l], gradient[:])
			var row [cnn.KernelSize * channels]float32
			kernel.MulAdd(row[:], gradient[:], tr.kernelsT[l])
			for position := range cnn.KernelSize {
				if at := t + (position-cnn.KernelSize/2)*dilation; at >= 0 && at < n {
					addTo(below[at*channels:(at+1)*channels], row[position*channels:(position+1)*channels])
				}
			}
		}
		w.gradients[0], w.gradients[1] = below, above
	}
}

// backwardEmbeddings adds the gradients of the embeddings to those of vocabulary words and shape features.
func (w *cnnWorker) backwardEmbeddings(t *vocabText) {
	for i, at := range t.words {
		if w.states[i] == tokenDropped {
			continue
		}
		gradient := w.gradients[0][i*channels : (i+1)*channels]
		addTo(w.embeddings.row(2*at+int32(w.states[i])), gradient)
		for _, s := range t.shapes[i] {
			addTo(w.dense.Shape[int(s)*channels:(int(s)+1)*channels], gradient)
		}
	}
}
