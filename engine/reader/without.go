// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// ReadWithout reads a window as [Model.Read] does, once without each of its tokens: the k-th logits are those without the
// k-th token. It costs far less than as many calls of Read would: only what stands near the gap is read again. A window of
// one token leaves nothing to read; its logits are 0.
func (m *Model) ReadWithout(s *Scratch, tokens []text.Token, hashes []uint64, first, end int) [][Outputs]float32 {
	end = min(end, first+MostTokens)
	if end <= first {
		return nil
	}
	out := make([][Outputs]float32, end-first)
	if len(out) == 1 {
		return out
	}
	from, to := max(first-Margin, 0), min(end+Margin, len(tokens))
	n := to - from
	first, end = first-from, end-from
	s.grow(n)
	// All layers with all tokens; the zeroth are the tokens themselves.
	var whole, gapped [Layers + 1][]float32
	for l := range whole {
		whole[l] = make([]float32, n*Width)
	}
	for i := range n {
		m.embed(s, whole[0][i*Width:(i+1)*Width], &tokens[from+i], hashes[from+i])
	}
	for l := range Layers {
		m.dense.convolve(l, whole[l+1], s.sums, whole[l], 0, n, n)
	}
	for l := range gapped {
		gapped[l] = slices.Concat(whole[l][:first*Width], whole[l][(first+1)*Width:])
	}
	for k := range out {
		gap, reach := first+k, 0
		for l, step := range Steps {
			reach += step
			m.dense.convolve(l, gapped[l+1], s.sums, gapped[l], max(gap-reach, 0), min(gap+reach, n-1), n-1)
		}
		m.dense.Pool(&s.pooled, gapped[Layers][first*Width:(end-1)*Width], end-1-first, &s.best, &s.share)
		m.dense.Head(&s.out, &s.hidden, &s.pooled)
		out[k] = s.out
		closeGap(&gapped, &whole, gap, n)
	}
	return out
}

// closeGap moves the gap to the next token and puts back what was read anew around it.
func closeGap(gapped, whole *[Layers + 1][]float32, gap, n int) {
	reach := 1
	for l := range gapped {
		for t := max(gap-reach, 0); t < min(gap+reach, n-1); t++ {
			at := t
			if t > gap {
				at++
			}
			copy(gapped[l][t*Width:(t+1)*Width], whole[l][at*Width:(at+1)*Width])
		}
		if l < Layers {
			reach += Steps[l]
		}
	}
}
