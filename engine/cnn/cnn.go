// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package cnn is the second stage of the embedded classifier: a small gated convolutional network over the words of a
// text, in their order. The linear model of package model looks at every text; the network classifies the windows that
// the linear model is not sure of.
//
// A token becomes a vector in two steps: the embedding of its word, or the mean of the embeddings of its sub-words
// where the word is not known; then the vectors of its shape features are added. Three residual layers of gated
// convolutions follow (Dauphin et al. 2017, with a softsign in place of the sigmoid), with kernel size 3 and dilations
// 1, 2 and 4, so that a token mixes with the seven tokens on each side of it. A window of tokens is summed up by max
// pooling and by attention pooling with [AttentionQueries] learned queries. A hidden layer and an output layer turn
// that into logits.
package cnn

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// The shape of the network. A weights file holds none of these numbers: a change of one needs new weights and another
// schema in package model.
const (
	// Channels is the number of channels of an embedding and of each layer's output.
	Channels = 32
	// KernelSize is the number of tokens that a convolution looks at.
	KernelSize = 3
	// Layers is the number of convolutions.
	Layers = 3
	// AttentionQueries is the number of learned queries, each of which makes one weighted mean of a window.
	AttentionQueries = 2
	// Pooled is the number of values that sum up a window: one maximum and [AttentionQueries] means for each channel.
	Pooled = (1 + AttentionQueries) * Channels
	// Hidden is the number of units of the hidden layer.
	Hidden = 64
	// Outputs is the number of logits: the heads of package model, padded to a multiple of the kernel's block.
	Outputs = 32
	// ShapeFeatures is the number of properties of how a token is written that have a vector.
	ShapeFeatures = 12
	// SubwordRows is the maximum number of rows that sub-words are hashed to; a power of two, as that of each network.
	SubwordRows = 1 << 15
	// MaxTokens is the maximum number of tokens in a window.
	MaxTokens = 64
)

// Dilations are the distances in tokens between neighbouring positions of each layer's kernel.
var Dilations = [Layers]int{1, 2, 4}

// ReceptiveRadius is the number of tokens on each side of a token that influence its last layer: the sum of
// [Dilations].
const ReceptiveRadius = 7

// Dense are the weights that take part in every window, as slices of one array. A comment gives the rows and columns of
// each matrix.
type Dense struct {
	All           []float32
	Kernel        [Layers][]float32 // KernelSize*Channels x 2*Channels: values, then gates
	Bias          [Layers][]float32 // 2*Channels: of values, then of gates
	Attention     []float32         // AttentionQueries x Channels
	Shape         []float32         // ShapeFeatures x Channels
	HiddenWeights []float32         // Pooled x Hidden
	HiddenBias    []float32         // Hidden
	OutputWeights []float32         // Hidden x Outputs
	OutputBias    []float32         // Outputs
}

// DenseSize is the number of dense weights.
const DenseSize = Layers*(KernelSize*Channels*2*Channels+2*Channels) + AttentionQueries*Channels +
	ShapeFeatures*Channels + Pooled*Hidden + Hidden + Hidden*Outputs + Outputs

// NewDense lays the weights out in all, which must have [DenseSize] elements. The order is that of the weights file.
func NewDense(all []float32) *Dense {
	d := &Dense{All: all}
	take := func(n int) []float32 {
		taken := all[:n:n]
		all = all[n:]
		return taken
	}
	for l := range Layers {
		d.Kernel[l], d.Bias[l] = take(KernelSize*Channels*2*Channels), take(2*Channels)
	}
	d.Attention, d.Shape = take(AttentionQueries*Channels), take(ShapeFeatures*Channels)
	d.HiddenWeights, d.HiddenBias = take(Pooled*Hidden), take(Hidden)
	d.OutputWeights, d.OutputBias = take(Hidden*Outputs), take(Outputs)
	return d
}

// Convolve runs a layer over n tokens: out becomes in plus the gated convolution of in. sums receives the values and
// gates of each token and must hold n*2*Channels elements.
func (d *Dense) Convolve(layer int, out, sums, in []float32, n int) {
	d.convolve(layer, out, sums, in, 0, n, n)
}

// convolve runs a layer over the tokens from first to end of n. Positions before the first token and after the last
// count as zero.
func (d *Dense) convolve(layer int, out, sums, in []float32, first, end, n int) {
	for t := first; t < end; t++ {
		copy(sums[t*2*Channels:(t+1)*2*Channels], d.Bias[layer])
	}
	for position := range KernelSize {
		offset := (position - KernelSize/2) * Dilations[layer]
		from, to := max(first, -offset), min(end, n-offset)
		if from >= to {
			continue
		}
		weights := d.Kernel[layer][position*Channels*2*Channels : (position+1)*Channels*2*Channels]
		rows := in[(from+offset)*Channels : (to+offset)*Channels]
		kernel.MulAddRows(sums[from*2*Channels:to*2*Channels], rows, weights, to-from)
	}
	for t := first; t < end; t++ {
		sum := sums[t*2*Channels : (t+1)*2*Channels]
		kernel.Gate(out[t*Channels:(t+1)*Channels], in[t*Channels:(t+1)*Channels], sum[:Channels], sum[Channels:])
	}
}

// Gather copies the vectors at the positions of the kernel around token t of n into row, side by side, as
// [Dense.Convolve] multiplies them. Positions outside the text are zero.
func Gather(row *[KernelSize * Channels]float32, in []float32, t, n, dilation int) {
	for position := range KernelSize {
		vector := row[position*Channels : (position+1)*Channels]
		if at := t + (position-KernelSize/2)*dilation; at >= 0 && at < n {
			copy(vector, in[at*Channels:(at+1)*Channels])
		} else {
			clear(vector)
		}
	}
}

// Pool sums up the n tokens of a window: the maxima of the channels, then the weighted mean of each attention query.
// argmax receives the token that each channel's maximum comes from, attention the weight of each token in each mean.
func (d *Dense) Pool(
	pooled *[Pooled]float32, in []float32, n int,
	argmax *[Channels]int32, attention *[AttentionQueries][MaxTokens]float32,
) {
	maxima := pooled[:Channels]
	copy(maxima, in[:Channels])
	clear(argmax[:])
	for t := 1; t < n; t++ {
		for c, v := range in[t*Channels : (t+1)*Channels] {
			if v > maxima[c] {
				maxima[c], argmax[c] = v, int32(t)
			}
		}
	}
	for q := range AttentionQueries {
		d.score(q, attention[q][:n], in)
	}
	attend(pooled, in, n, attention)
}

// score sets out to the dot products of an attention query and each token's vector.
func (d *Dense) score(q int, out, in []float32) {
	dotProducts(out, in, d.Attention[q*Channels:(q+1)*Channels])
}

// attend fills in the weighted means of the attention queries. attention holds the scores of the n tokens, and then
// their weights.
func attend(pooled *[Pooled]float32, in []float32, n int, attention *[AttentionQueries][MaxTokens]float32) {
	for q := range AttentionQueries {
		weights := attention[q][:n]
		largest := slices.Max(weights)
		var total float32
		for t, w := range weights {
			weights[t] = float32(math.Exp(float64(w - largest)))
			total += weights[t]
		}
		mean := pooled[(1+q)*Channels : (2+q)*Channels]
		clear(mean)
		for t := range weights {
			weights[t] /= total
		}
		kernel.MulAdd(mean, weights, in[:n*Channels])
	}
}

// dotProducts sets out to the dot product of the query and each token's vector. It does four tokens at a time, so that
// the additions of one sum do not wait for those of another.
func dotProducts(out, in, query []float32) {
	query = query[:Channels]
	for ; len(out) >= 4; out, in = out[4:], in[4*Channels:] {
		a, b, c, d := in[:Channels], in[Channels:2*Channels], in[2*Channels:3*Channels], in[3*Channels:4*Channels]
		var sumA, sumB, sumC, sumD float32
		for i, q := range query {
			sumA += float32(a[i] * q)
			sumB += float32(b[i] * q)
			sumC += float32(c[i] * q)
			sumD += float32(d[i] * q)
		}
		out[0], out[1], out[2], out[3] = sumA, sumB, sumC, sumD
	}
	for t := range out {
		out[t] = 0
		for i, q := range query {
			out[t] += float32(in[t*Channels+i] * q)
		}
	}
}

// Logits turns the summary of a window into logits. hidden receives the hidden layer.
func (d *Dense) Logits(out *[Outputs]float32, hidden *[Hidden]float32, pooled *[Pooled]float32) {
	copy(hidden[:], d.HiddenBias)
	kernel.MulAdd(hidden[:], pooled[:], d.HiddenWeights)
	for i, v := range hidden {
		hidden[i] = max(v, 0)
	}
	copy(out[:], d.OutputBias)
	kernel.MulAdd(out[:], hidden[:], d.OutputWeights)
}

// shapeFlags are the flags that are shape features, in the order of their vectors.
var shapeFlags = [ShapeFeatures]text.Flags{
	text.Obfuscated, text.Caps, text.SentenceEnd, text.Quoted, text.Negated, text.Emoji, text.Number, text.Mention,
	text.Stretched, text.Exclaimed, text.Asked, text.Hashtag,
}

// AppendShapeFeatures appends the numbers of the shape features of a token with these flags.
func AppendShapeFeatures(out []uint8, flags text.Flags) []uint8 {
	for i, flag := range shapeFlags {
		if flags&flag != 0 {
			out = append(out, uint8(i))
		}
	}
	return out
}

// AppendSubwords appends the rows of a word's sub-words: its runs of three to five letters, with < before the word and
// > after it. Only the first 32 letters count.
func AppendSubwords(out []uint16, folded []byte) []uint16 {
	var letters [34]rune
	letters[0] = '<'
	n := 1
	for i := 0; i < len(folded) && n < len(letters)-1; n++ {
		r, size := utf8.DecodeRune(folded[i:])
		letters[n] = r
		i += size
	}
	letters[n] = '>'
	n++
	for i := range n {
		h := uint64(letters[i])
		for j := i + 1; j < min(i+5, n); j++ {
			h = text.Mix(h, uint64(letters[j]))
			if j-i >= 2 {
				out = append(out, uint16(h>>40%SubwordRows))
			}
		}
	}
	return out
}

// FoldSubwords maps the rows of sub-words to those of a network with fewer rows, a power of two.
func FoldSubwords(rows []uint16, count int) {
	for i := range rows {
		rows[i] &= uint16(count - 1)
	}
}
