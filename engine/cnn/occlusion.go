// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn

import "github.com/caddy-moderation/caddy-moderation/engine/text"

// Occlusion reads windows of a text without one token at a time. How the tokens around a gap are read does not depend on the
// window, so what was read for one window is not read again for another that has the token, too.
type Occlusion struct {
	model  *Model
	s      *Scratch
	tokens []text.Token
	hashes []uint64
	layers [Layers + 1][]float32 // of the whole text, where they are done; the zeroth are the tokens themselves
	done   [Layers + 1][]bool
	near   map[int][]float32 // by the token that is left out: the last layer of those within ReceptiveRadius to each side
	local  [Layers + 1][]float32
	window []float32
}

// Occlude takes in a text with the memory of s, which must not be used for anything else meanwhile. hashes holds the hash of
// each token's folded form.
func (m *Model) Occlude(s *Scratch, tokens []text.Token, hashes []uint64) *Occlusion {
	g := &Occlusion{model: m, s: s, tokens: tokens, hashes: hashes, near: make(map[int][]float32)}
	for l := range g.layers {
		g.layers[l], g.done[l] = make([]float32, len(tokens)*Channels), make([]bool, len(tokens))
		g.local[l] = make([]float32, nearby*Channels)
	}
	g.window = make([]float32, MaxTokens*Channels)
	s.grow(MaxTokens + nearby)
	return g
}

// nearby is how many tokens around a gap what changes there is read from: ReceptiveRadius on each side, and ReceptiveRadius around these.
const nearby = 4 * ReceptiveRadius

// Logits reads a window as [Model.Logits] does, once without each of its tokens: the k-th logits are those without the k-th
// token. It costs far less than as many calls of Logits would: only what stands near the gap is read again. A window of
// one token leaves nothing to read; its logits are 0.
func (g *Occlusion) Logits(first, end int) [][Outputs]float32 {
	end = min(end, first+MaxTokens)
	if end <= first {
		return nil
	}
	out := make([][Outputs]float32, end-first)
	if len(out) == 1 {
		return out
	}
	s, dense := g.s, g.model.dense
	g.read(Layers, first, end)
	window := g.window[:(end-first-1)*Channels]
	copy(window, g.layers[Layers][(first+1)*Channels:end*Channels])
	for k := range out {
		gap := first + k
		around := g.around(gap)
		from, to := max(gap-ReceptiveRadius, first), min(gap+ReceptiveRadius, end-1)
		copy(window[(from-first)*Channels:(to-first)*Channels], around[(from-gap+ReceptiveRadius)*Channels:])
		dense.Pool(&s.pooled, window, end-1-first, &s.best, &s.share)
		dense.Logits(&s.out, &s.hidden, &s.pooled)
		out[k] = s.out
		if k == len(out)-1 {
			break
		}
		// The gap moves on to the next token: what was read anew around it goes back.
		copy(window[(from-first)*Channels:(k+1)*Channels], g.layers[Layers][from*Channels:(gap+1)*Channels])
		copy(window[(k+1)*Channels:max(to-first, k+1)*Channels], g.layers[Layers][(gap+2)*Channels:])
	}
	return out
}

// around returns the last layer without a token: ReceptiveRadius tokens to the left of the gap, then as many to the right. What lies
// beyond the text is not set.
func (g *Occlusion) around(gap int) []float32 {
	if near, ok := g.near[gap]; ok {
		return near
	}
	from, to := max(gap-nearby/2, 0), min(gap+1+nearby/2, len(g.tokens))
	n, at := to-from-1, gap-from
	reach := 0 // how far from the gap a layer changes
	for l := range g.layers {
		layer := g.local[l][:n*Channels]
		if l < Layers {
			// What the next layer looks at, which reaches further by a step and looks a step ahead.
			ahead := reach + 2*Dilations[l]
			first, end := max(gap-ahead, 0), min(gap+1+ahead, len(g.tokens))
			g.read(l, first, end)
			copy(layer[(first-from)*Channels:at*Channels], g.layers[l][first*Channels:gap*Channels])
			copy(layer[at*Channels:], g.layers[l][(gap+1)*Channels:end*Channels])
		}
		if l > 0 {
			g.model.dense.convolve(l-1, layer, g.s.sums, g.local[l-1], max(at-reach, 0), min(at+reach, n), n)
		}
		if l < Layers {
			reach += Dilations[l]
		}
	}
	near := make([]float32, 2*ReceptiveRadius*Channels)
	first, end := max(at-ReceptiveRadius, 0), min(at+ReceptiveRadius, n)
	copy(near[(first-at+ReceptiveRadius)*Channels:], g.local[Layers][first*Channels:end*Channels])
	g.near[gap] = near
	return near
}

// read reads a layer of the tokens from first to end, where that is not done yet.
func (g *Occlusion) read(l, first, end int) {
	for t := first; t < end; t++ {
		if g.done[l][t] {
			continue
		}
		stop := t
		for ; stop < end && !g.done[l][stop]; stop++ {
			g.done[l][stop] = true
		}
		if l == 0 {
			for i := t; i < stop; i++ {
				g.model.embed(g.s, g.layers[0][i*Channels:(i+1)*Channels], &g.tokens[i], g.hashes[i])
			}
		} else {
			from, to := max(t-Dilations[l-1], 0), min(stop+Dilations[l-1], len(g.tokens))
			g.read(l-1, from, to)
			g.model.dense.convolve(l-1, g.layers[l][from*Channels:to*Channels], g.s.sums, g.layers[l-1][from*Channels:to*Channels], t-from, stop-from, to-from)
		}
		t = stop
	}
}
