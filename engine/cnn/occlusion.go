// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn

import "github.com/caddy-moderation/caddy-moderation/engine/text"

// Occlusion classifies windows of a text with one token left out at a time. The layers around a gap do not depend on
// the window, so what was computed for one window is kept for others with the same token.
type Occlusion struct {
	model  *Model
	s      *Scratch
	tokens []text.Token
	hashes []uint64
	layers [Layers + 1][]float32 // of the whole text, where they are done; layer 0 holds the embeddings
	done   [Layers + 1][]bool
	gaps   map[int][]float32 // by the token left out: the last layer of the tokens within ReceptiveRadius of the gap
	local  [Layers + 1][]float32
	window []float32
}

// Occlude begins with a text. hashes holds the hash of each token's folded form. The occlusion uses the memory of s,
// which must not be used for anything else meanwhile.
func (m *Model) Occlude(s *Scratch, tokens []text.Token, hashes []uint64) *Occlusion {
	o := &Occlusion{model: m, s: s, tokens: tokens, hashes: hashes, gaps: make(map[int][]float32)}
	for l := range o.layers {
		o.layers[l], o.done[l] = make([]float32, len(tokens)*Channels), make([]bool, len(tokens))
		o.local[l] = make([]float32, localTokens*Channels)
	}
	o.window = make([]float32, MaxTokens*Channels)
	s.grow(MaxTokens + localTokens)
	return o
}

// localTokens is the number of tokens around a gap that the changed part of the last layer depends on:
// [ReceptiveRadius] changed ones on each side, and [ReceptiveRadius] more around these.
const localTokens = 4 * ReceptiveRadius

// Logits classifies a window as [Model.Logits] does, once without each of its tokens: the k-th logits are those without
// the k-th token. Only the layers near the gap are computed again, so this costs far less than as many calls of
// [Model.Logits]. A window of one token has the logits 0 without it.
func (o *Occlusion) Logits(first, end int) [][Outputs]float32 {
	end = min(end, first+MaxTokens)
	if end <= first {
		return nil
	}
	out := make([][Outputs]float32, end-first)
	if len(out) == 1 {
		return out
	}
	s, dense := o.s, o.model.dense
	o.compute(Layers, first, end)
	window := o.window[:(end-first-1)*Channels]
	copy(window, o.layers[Layers][(first+1)*Channels:end*Channels])
	for k := range out {
		gap := first + k
		around := o.around(gap)
		from, to := max(gap-ReceptiveRadius, first), min(gap+ReceptiveRadius, end-1)
		copy(window[(from-first)*Channels:(to-first)*Channels], around[(from-gap+ReceptiveRadius)*Channels:])
		dense.Pool(&s.pooled, window, end-1-first, &s.argmax, &s.attention)
		dense.Logits(&s.out, &s.hidden, &s.pooled)
		out[k] = s.out
		if k == len(out)-1 {
			break
		}
		// The gap moves on to the next token: restore the whole text's layer around it.
		copy(window[(from-first)*Channels:(k+1)*Channels], o.layers[Layers][from*Channels:(gap+1)*Channels])
		copy(window[(k+1)*Channels:max(to-first, k+1)*Channels], o.layers[Layers][(gap+2)*Channels:])
	}
	return out
}

// around returns the last layer without the token at gap: ReceptiveRadius tokens to the left of the gap, then as many
// to the right. Positions outside the text are not set.
func (o *Occlusion) around(gap int) []float32 {
	if last, ok := o.gaps[gap]; ok {
		return last
	}
	from, to := max(gap-localTokens/2, 0), min(gap+1+localTokens/2, len(o.tokens))
	n, at := to-from-1, gap-from
	changed := 0 // how far from the gap the layer differs from the whole text's
	for l := range o.layers {
		layer := o.local[l][:n*Channels]
		if l < Layers {
			// The next layer changes one dilation further, and looks another dilation beyond that.
			needed := changed + 2*Dilations[l]
			first, end := max(gap-needed, 0), min(gap+1+needed, len(o.tokens))
			o.compute(l, first, end)
			copy(layer[(first-from)*Channels:at*Channels], o.layers[l][first*Channels:gap*Channels])
			copy(layer[at*Channels:], o.layers[l][(gap+1)*Channels:end*Channels])
		}
		if l > 0 {
			o.model.dense.convolve(l-1, layer, o.s.sums, o.local[l-1], max(at-changed, 0), min(at+changed, n), n)
		}
		if l < Layers {
			changed += Dilations[l]
		}
	}
	last := make([]float32, 2*ReceptiveRadius*Channels)
	first, end := max(at-ReceptiveRadius, 0), min(at+ReceptiveRadius, n)
	copy(last[(first-at+ReceptiveRadius)*Channels:], o.local[Layers][first*Channels:end*Channels])
	o.gaps[gap] = last
	return last
}

// compute computes a layer of the tokens from first to end of the whole text, where that is not done yet.
func (o *Occlusion) compute(l, first, end int) {
	for t := first; t < end; t++ {
		if o.done[l][t] {
			continue
		}
		stop := t
		for ; stop < end && !o.done[l][stop]; stop++ {
			o.done[l][stop] = true
		}
		if l == 0 {
			for i := t; i < stop; i++ {
				row := o.model.words.row(short(o.hashes[i]))
				o.model.embed(o.s, (*[Channels]float32)(o.layers[0][i*Channels:]), &o.tokens[i], row)
			}
		} else {
			from, to := max(t-Dilations[l-1], 0), min(stop+Dilations[l-1], len(o.tokens))
			o.compute(l-1, from, to)
			in, out := o.layers[l-1][from*Channels:to*Channels], o.layers[l][from*Channels:to*Channels]
			o.model.dense.convolve(l-1, out, o.s.sums, in, t-from, stop-from, to-from)
		}
		t = stop
	}
}
