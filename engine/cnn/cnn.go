// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package cnn is the second stage of the judge: a small gated convolutional network that reads words in their order.
// The linear model of package model reads every text; the reader reads again what the first is not sure of.
//
// Each token becomes a vector: what is known of its word, or of the parts of a word that is not known, and how it is
// written. Three layers of gated convolutions (Dauphin et al. 2017, with the gate sigmoid replaced by a softsign), each of
// three taps and wider than the one before, mix a token with those around it, seven to each side in all. A window of
// tokens is summed up by the largest value of each channel and by [AttentionQueries] weighted means; a hidden layer makes logits of it.
package cnn

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// The shape of the network.
const (
	// Channels is the number of channels: of a word's vector and of each layer.
	Channels = 32
	// KernelSize is how many tokens a convolution looks at.
	KernelSize = 3
	// Layers is the number of convolutions.
	Layers = 3
	// AttentionQueries is the number of weighted means that sum up a window.
	AttentionQueries = 2
	// Pooled is the number of values that sum up a window.
	Pooled = (1 + AttentionQueries) * Channels
	// Hidden is the width of the hidden layer.
	Hidden = 64
	// Outputs is the number of logits, padded to what package kernel takes; the first Heads are used.
	Outputs = 32
	// ShapeFeatures is the number of things that are said of how a token is written.
	ShapeFeatures = 12
	// SubwordRows is the number of rows for parts of words, a power of two.
	SubwordRows = 1 << 15
	// MaxTokens is how many tokens a window may have.
	MaxTokens = 64
)

// Dilations are the distances between the taps of each layer.
var Dilations = [Layers]int{1, 2, 4}

// Dense are the weights that every text meets, as slices of one array.
type Dense struct {
	All           []float32
	Kernel        [Layers][]float32 // Taps*Width rows of 2*Width: values, then gates
	Bias          [Layers][]float32
	Attention     []float32 // Queries rows of Width
	Shape         []float32 // Marks rows of Width
	HiddenWeights []float32 // Pooled rows of Hidden
	HiddenBias    []float32
	OutputWeights []float32 // Hidden rows of Outputs
	OutputBias    []float32
}

// DenseSize is the number of dense weights.
const DenseSize = Layers*(KernelSize*Channels*2*Channels+2*Channels) + AttentionQueries*Channels + ShapeFeatures*Channels + Pooled*Hidden + Hidden + Hidden*Outputs + Outputs

// NewDense lays the weights out in all, which must have DenseSize elements.
func NewDense(all []float32) *Dense {
	d := &Dense{All: all}
	take := func(n int) []float32 {
		part := all[:n:n]
		all = all[n:]
		return part
	}
	for l := range Layers {
		d.Kernel[l], d.Bias[l] = take(KernelSize*Channels*2*Channels), take(2*Channels)
	}
	d.Attention, d.Shape = take(AttentionQueries*Channels), take(ShapeFeatures*Channels)
	d.HiddenWeights, d.HiddenBias = take(Pooled*Hidden), take(Hidden)
	d.OutputWeights, d.OutputBias = take(Hidden*Outputs), take(Outputs)
	return d
}

// Convolve runs a layer over n tokens: out is what in is, plus the gated convolution. sums is scratch and keeps the values
// and gates of each token.
func (d *Dense) Convolve(layer int, out, sums, in []float32, n int) {
	d.convolve(layer, out, sums, in, 0, n, n)
}

// convolve runs a layer over the tokens from first to end of n.
func (d *Dense) convolve(layer int, out, sums, in []float32, first, end, n int) {
	for t := first; t < end; t++ {
		copy(sums[t*2*Channels:(t+1)*2*Channels], d.Bias[layer])
	}
	for tap := range KernelSize {
		away := (tap - KernelSize/2) * Dilations[layer]
		from, to := max(first, -away), min(end, n-away) // there is nothing before the first token and after the last
		if from >= to {
			continue
		}
		weights := d.Kernel[layer][tap*Channels*2*Channels : (tap+1)*Channels*2*Channels]
		kernel.MulAddRows(sums[from*2*Channels:to*2*Channels], in[(from+away)*Channels:(to+away)*Channels], weights, to-from)
	}
	for t := first; t < end; t++ {
		sum := sums[t*2*Channels : (t+1)*2*Channels]
		kernel.Gate(out[t*Channels:(t+1)*Channels], in[t*Channels:(t+1)*Channels], sum[:Channels], sum[Channels:])
	}
}

// Gather puts the taps around token t side by side; there is nothing before the first token and after the last.
func Gather(row *[KernelSize * Channels]float32, in []float32, t, n, step int) {
	for tap := range KernelSize {
		part := row[tap*Channels : (tap+1)*Channels]
		if at := t + (tap-KernelSize/2)*step; at >= 0 && at < n {
			copy(part, in[at*Channels:(at+1)*Channels])
		} else {
			clear(part)
		}
	}
}

// Pool sums up the n tokens of a window. best takes the token that each channel's largest value comes from, share the
// weight of each token in each mean.
func (d *Dense) Pool(pooled *[Pooled]float32, in []float32, n int, best *[Channels]int32, share *[AttentionQueries][MaxTokens]float32) {
	top := pooled[:Channels]
	copy(top, in[:Channels])
	clear(best[:])
	for t := 1; t < n; t++ {
		for c, v := range in[t*Channels : (t+1)*Channels] {
			if v > top[c] {
				top[c], best[c] = v, int32(t)
			}
		}
	}
	for q := range AttentionQueries {
		query := d.Attention[q*Channels : (q+1)*Channels]
		weights := share[q][:n]
		dots(weights, in, query)
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

// dots takes the products of the query and the vector of each token. Four sums at a time do not wait for each other.
func dots(out, in, query []float32) {
	query = query[:Channels]
	for ; len(out) >= 4; out, in = out[4:], in[4*Channels:] {
		a, b, c, d := in[:Channels], in[Channels:2*Channels], in[2*Channels:3*Channels], in[3*Channels:4*Channels]
		var ofA, ofB, ofC, ofD float32
		for i, q := range query {
			ofA += float32(a[i] * q)
			ofB += float32(b[i] * q)
			ofC += float32(c[i] * q)
			ofD += float32(d[i] * q)
		}
		out[0], out[1], out[2], out[3] = ofA, ofB, ofC, ofD
	}
	for t := range out {
		out[t] = 0
		for i, q := range query {
			out[t] += float32(in[t*Channels+i] * q)
		}
	}
}

// Logits turns what sums up a window into logits. hidden keeps the hidden layer.
func (d *Dense) Logits(out *[Outputs]float32, hidden *[Hidden]float32, pooled *[Pooled]float32) {
	copy(hidden[:], d.HiddenBias)
	kernel.MulAdd(hidden[:], pooled[:], d.HiddenWeights)
	for i, v := range hidden {
		hidden[i] = max(v, 0)
	}
	copy(out[:], d.OutputBias)
	kernel.MulAdd(out[:], hidden[:], d.OutputWeights)
}

// marks are the flags of a token that have a vector, in order.
var marks = [ShapeFeatures]text.Flags{
	text.Obfuscated, text.Caps, text.SentenceEnd, text.Quoted, text.Negated, text.Emoji, text.Number, text.Mention,
	text.Stretched, text.Exclaimed, text.Asked, text.Hashtag,
}

// AppendShapeFeatures appends the numbers of the marks that a token has.
func AppendShapeFeatures(out []uint8, flags text.Flags) []uint8 {
	for i, m := range marks {
		if flags&m != 0 {
			out = append(out, uint8(i))
		}
	}
	return out
}

// AppendSubwords appends the rows of the parts of a word: its runs of three to five letters, with marks at its ends.
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
			h = mix(h, uint64(letters[j]))
			if j-i >= 2 {
				out = append(out, uint16(h>>40%SubwordRows))
			}
		}
	}
	return out
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}
