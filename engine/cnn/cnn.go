// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package cnn is the second stage of the judge: a small gated convolutional network that reads words in their order.
// The linear model of package model reads every text; the reader reads again what the first is not sure of.
//
// Each token becomes a vector: what is known of its word, or of the parts of a word that is not known, and how it is
// written. Three layers of gated convolutions (Dauphin et al. 2017, with the gate sigmoid replaced by a softsign), each of
// three taps and wider than the one before, mix a token with those around it, seven to each side in all. A window of
// tokens is summed up by the largest value of each channel and by [Queries] weighted means; a hidden layer makes logits of it.
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
	// Width is the number of channels: of a word's vector and of each layer.
	Width = 32
	// Taps is how many tokens a convolution looks at.
	Taps = 3
	// Layers is the number of convolutions.
	Layers = 3
	// Queries is the number of weighted means that sum up a window.
	Queries = 2
	// Pooled is the number of values that sum up a window.
	Pooled = (1 + Queries) * Width
	// Hidden is the width of the hidden layer.
	Hidden = 64
	// Outputs is the number of logits, padded to what package kernel takes; the first Heads are used.
	Outputs = 32
	// Marks is the number of things that are said of how a token is written.
	Marks = 12
	// Parts is the number of rows for parts of words, a power of two.
	Parts = 1 << 15
	// MostTokens is how many tokens a window may have.
	MostTokens = 64
)

// Steps are the distances between the taps of each layer.
var Steps = [Layers]int{1, 2, 4}

// Dense are the weights that every text meets, as slices of one array.
type Dense struct {
	All    []float32
	Kernel [Layers][]float32 // Taps*Width rows of 2*Width: values, then gates
	Bias   [Layers][]float32
	Query  []float32 // Queries rows of Width
	Mark   []float32 // Marks rows of Width
	Hide   []float32 // Pooled rows of Hidden
	HideBy []float32
	Out    []float32 // Hidden rows of Outputs
	OutBy  []float32
}

// DenseSize is the number of dense weights.
const DenseSize = Layers*(Taps*Width*2*Width+2*Width) + Queries*Width + Marks*Width + Pooled*Hidden + Hidden + Hidden*Outputs + Outputs

// NewDense lays the weights out in all, which must have DenseSize elements.
func NewDense(all []float32) *Dense {
	d := &Dense{All: all}
	take := func(n int) []float32 {
		part := all[:n:n]
		all = all[n:]
		return part
	}
	for l := range Layers {
		d.Kernel[l], d.Bias[l] = take(Taps*Width*2*Width), take(2*Width)
	}
	d.Query, d.Mark = take(Queries*Width), take(Marks*Width)
	d.Hide, d.HideBy = take(Pooled*Hidden), take(Hidden)
	d.Out, d.OutBy = take(Hidden*Outputs), take(Outputs)
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
		copy(sums[t*2*Width:(t+1)*2*Width], d.Bias[layer])
	}
	for tap := range Taps {
		away := (tap - Taps/2) * Steps[layer]
		from, to := max(first, -away), min(end, n-away) // there is nothing before the first token and after the last
		if from >= to {
			continue
		}
		weights := d.Kernel[layer][tap*Width*2*Width : (tap+1)*Width*2*Width]
		kernel.MulAddRows(sums[from*2*Width:to*2*Width], in[(from+away)*Width:(to+away)*Width], weights, to-from)
	}
	for t := first; t < end; t++ {
		sum := sums[t*2*Width : (t+1)*2*Width]
		kernel.Gate(out[t*Width:(t+1)*Width], in[t*Width:(t+1)*Width], sum[:Width], sum[Width:])
	}
}

// Gather puts the taps around token t side by side; there is nothing before the first token and after the last.
func Gather(row *[Taps * Width]float32, in []float32, t, n, step int) {
	for tap := range Taps {
		part := row[tap*Width : (tap+1)*Width]
		if at := t + (tap-Taps/2)*step; at >= 0 && at < n {
			copy(part, in[at*Width:(at+1)*Width])
		} else {
			clear(part)
		}
	}
}

// Pool sums up the n tokens of a window. best takes the token that each channel's largest value comes from, share the
// weight of each token in each mean.
func (d *Dense) Pool(pooled *[Pooled]float32, in []float32, n int, best *[Width]int32, share *[Queries][MostTokens]float32) {
	top := pooled[:Width]
	copy(top, in[:Width])
	clear(best[:])
	for t := 1; t < n; t++ {
		for c, v := range in[t*Width : (t+1)*Width] {
			if v > top[c] {
				top[c], best[c] = v, int32(t)
			}
		}
	}
	for q := range Queries {
		query := d.Query[q*Width : (q+1)*Width]
		weights := share[q][:n]
		dots(weights, in, query)
		largest := slices.Max(weights)
		var total float32
		for t, w := range weights {
			weights[t] = float32(math.Exp(float64(w - largest)))
			total += weights[t]
		}
		mean := pooled[(1+q)*Width : (2+q)*Width]
		clear(mean)
		for t := range weights {
			weights[t] /= total
		}
		kernel.MulAdd(mean, weights, in[:n*Width])
	}
}

// dots takes the products of the query and the vector of each token. Four sums at a time do not wait for each other.
func dots(out, in, query []float32) {
	query = query[:Width]
	for ; len(out) >= 4; out, in = out[4:], in[4*Width:] {
		a, b, c, d := in[:Width], in[Width:2*Width], in[2*Width:3*Width], in[3*Width:4*Width]
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
			out[t] += float32(in[t*Width+i] * q)
		}
	}
}

// Head turns what sums up a window into logits. hidden keeps the hidden layer.
func (d *Dense) Head(out *[Outputs]float32, hidden *[Hidden]float32, pooled *[Pooled]float32) {
	copy(hidden[:], d.HideBy)
	kernel.MulAdd(hidden[:], pooled[:], d.Hide)
	for i, v := range hidden {
		hidden[i] = max(v, 0)
	}
	copy(out[:], d.OutBy)
	kernel.MulAdd(out[:], hidden[:], d.Out)
}

// marks are the flags of a token that have a vector, in order.
var marks = [Marks]text.Flags{
	text.Obfuscated, text.Caps, text.SentenceEnd, text.Quoted, text.Negated, text.Emoji, text.Number, text.Mention,
	text.Stretched, text.Exclaimed, text.Asked, text.Hashtag,
}

// AppendMarks appends the numbers of the marks that a token has.
func AppendMarks(out []uint8, flags text.Flags) []uint8 {
	for i, m := range marks {
		if flags&m != 0 {
			out = append(out, uint8(i))
		}
	}
	return out
}

// AppendParts appends the rows of the parts of a word: its runs of three to five letters, with marks at its ends.
func AppendParts(out []uint16, folded []byte) []uint16 {
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
				out = append(out, uint16(h>>40%Parts))
			}
		}
	}
	return out
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}
