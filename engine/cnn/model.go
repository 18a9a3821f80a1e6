// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
	"github.com/caddy-moderation/caddy-moderation/engine/internal/offheap"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Model is a trained network. It is immutable and safe for concurrent use.
type Model struct {
	dense    *Dense
	words    table
	subwords subwordRows          // a power of two of rows, at most SubwordRows
	scale    [2][Channels]float32 // of words and of sub-words: what one step of an embedding stands for, by channel
}

// Word is a known word with its embedding, which already includes those of its sub-words.
type Word struct {
	Hash   uint64
	Vector [Channels]float32
}

// New makes a model of learned weights and rounds the embeddings of words and sub-words to int8. subwords holds
// [SubwordRows] rows, or a smaller power of two. Of words that share the high half of their hash only the first is
// kept. steps is the number of steps on each side of zero that an embedding is rounded to, from 1 to 127, which is as
// fine as an int8 allows; with 15, the weights of Spanish compress to three quarters of their size with 127.
func New(dense *Dense, words []Word, subwords []float32, steps int) *Model {
	m := &Model{dense: dense}
	sorted := slices.Clone(words)
	slices.SortStableFunc(sorted, func(a, b Word) int { return cmp.Compare(short(a.Hash), short(b.Hash)) })
	sorted = slices.CompactFunc(sorted, func(a, b Word) bool { return short(a.Hash) == short(b.Hash) })
	flat := make([]float32, 0, len(sorted)*Channels)
	for _, w := range sorted {
		m.words.hashes = append(m.words.hashes, short(w.Hash))
		flat = append(flat, w.Vector[:]...)
	}
	raw := make([]byte, max(len(flat), len(subwords)))
	m.scale[0] = round(raw, flat, steps)
	m.words.setVectors(raw[:len(flat)])
	m.scale[1] = round(raw, subwords, steps)
	m.subwords = makeSubwordRows(raw[:len(subwords)])
	m.words.makeStarts()
	return m
}

// round rounds rows to int8, as bytes of out, and returns the size of a step for each channel. One value in 2,000, the
// largest, is clipped: finer steps for the others are worth more.
func round(out []byte, rows []float32, steps int) (scale [Channels]float32) {
	largest := float64(min(max(steps, 1), 127))
	for c := range Channels {
		sizes := make([]float32, 0, len(rows)/Channels)
		for i := c; i < len(rows); i += Channels {
			sizes = append(sizes, float32(math.Abs(float64(rows[i]))))
		}
		scale[c] = 1e-6
		if len(sizes) > 0 {
			slices.Sort(sizes)
			scale[c] = max(sizes[len(sizes)-1-len(sizes)/2000]/float32(largest), 1e-6)
		}
		for i := c; i < len(rows); i += Channels {
			q := math.Round(float64(rows[i] / scale[c]))
			out[i] = byte(int8(min(max(q, -largest), largest)))
		}
	}
	return scale
}

// Scratch is the memory of one classification at a time. The zero value is ready; it is not safe for concurrent use.
type Scratch struct {
	layers    [2][]float32
	sums      []float32
	places    []uint32 // of the words of the tokens in the table, and then their rows
	subwords  []uint16
	argmax    [Channels]int32
	attention [AttentionQueries][MaxTokens]float32
	pooled    [Pooled]float32
	hidden    [Hidden]float32
	out       [Outputs]float32

	tokens  []text.Token
	hashes  []uint64
	state   []tokenState
	pending bool                        // whether any token is wanted
	last    []float32                   // the last layer, of the tokens that are done
	scores  [AttentionQueries][]float32 // their dot products with the attention queries
}

// tokenState is what is known of a token of a text.
type tokenState uint8

const (
	_      tokenState = iota
	wanted            // it is in a window
	done              // and its last layer is computed
)

// Begin sets the text whose windows [Model.WindowLogits] then classifies. hashes holds the hash of each token's folded
// form. Both slices must not change until the last window is classified.
func (s *Scratch) Begin(tokens []text.Token, hashes []uint64) {
	s.tokens, s.hashes, s.pending = tokens, hashes, false
	n := len(tokens)
	if cap(s.state) < n {
		s.state, s.last = make([]tokenState, n), make([]float32, n*Channels)
		for q := range s.scores {
			s.scores[q] = make([]float32, n)
		}
	}
	s.state, s.last = s.state[:n], s.last[:n*Channels]
	clear(s.state)
}

// Want says that the window from first to end will be classified, so that all that the windows of a text have in common
// is computed once and in one go.
func (s *Scratch) Want(first, end int) {
	for t := first; t < min(end, first+MaxTokens); t++ {
		if s.state[t] != done {
			s.state[t], s.pending = wanted, true
		}
	}
}

// Logits returns the logits of the window from first to end of a text: [Scratch.Begin] and [Model.WindowLogits] in one.
func (m *Model) Logits(s *Scratch, tokens []text.Token, hashes []uint64, first, end int) *[Outputs]float32 {
	s.Begin(tokens, hashes)
	return m.WindowLogits(s, first, end)
}

// WindowLogits returns the logits of the window from first to end of the text that s began with. The caller uses the
// first of them, one for each head. Tokens beyond the first [MaxTokens] do not count; an empty window has the logits 0.
// The result belongs to s and holds until its next use.
//
// The last layer of a token depends on the [ReceptiveRadius] around it and not on the window, so what was computed for
// one window is kept for the next.
func (m *Model) WindowLogits(s *Scratch, first, end int) *[Outputs]float32 {
	end = min(end, first+MaxTokens)
	if end <= first {
		clear(s.out[:])
		return &s.out
	}
	s.Want(first, end)
	if s.pending {
		m.computeWanted(s)
	}
	in, n := s.last[first*Channels:end*Channels], end-first
	maxima := s.pooled[:Channels]
	copy(maxima, in)
	kernel.MaxRows((*[kernel.Block]float32)(maxima), in[Channels:])
	for q := range AttentionQueries {
		copy(s.attention[q][:n], s.scores[q][first:end])
	}
	attend(&s.pooled, in, n, &s.attention)
	m.dense.Logits(&s.out, &s.hidden, &s.pooled)
	return &s.out
}

// maxGap is the maximum number of tokens between wanted ones that are computed with them: to begin anew beyond the gap
// costs more.
const maxGap = ReceptiveRadius

// computeWanted computes the last layer of all wanted tokens.
func (m *Model) computeWanted(s *Scratch) {
	s.pending = false
	first, end := -1, 0 // a run of wanted tokens, with small gaps
	for t, state := range s.state {
		if state != wanted {
			continue
		}
		if first >= 0 && t-end > maxGap {
			m.compute(s, first, end)
			first = -1
		}
		if first < 0 {
			first = t
		}
		end = t + 1
	}
	if first >= 0 {
		m.compute(s, first, end)
	}
}

// compute computes the last layer of the tokens from first to end.
func (m *Model) compute(s *Scratch, first, end int) {
	from, to := max(first-ReceptiveRadius, 0), min(end+ReceptiveRadius, len(s.tokens))
	n := to - from
	s.grow(n)
	m.embedAll(s, s.layers[0], s.tokens[from:to], s.hashes[from:to])
	in, out := s.layers[0], s.layers[1]
	radius := ReceptiveRadius // of the layers that are still to come
	for l, dilation := range Dilations {
		radius -= dilation
		m.dense.convolve(l, out, s.sums, in, max(first-radius, 0)-from, min(end+radius, len(s.tokens))-from, n)
		in, out = out, in
	}
	last := s.last[first*Channels : end*Channels]
	copy(last, in[(first-from)*Channels:])
	for q := range s.scores {
		m.dense.score(q, s.scores[q][first:end], last)
	}
	for t := first; t < end; t++ {
		s.state[t] = done
	}
}

// embedAll sets out to the vectors of tokens. The embeddings of their words are asked for first, so that they are on
// their way from memory at once.
func (m *Model) embedAll(s *Scratch, out []float32, tokens []text.Token, hashes []uint64) {
	places := s.places[:len(tokens)]
	m.words.rows(places, hashes)
	for i := range tokens {
		m.embed(s, (*[Channels]float32)(out[i*Channels:]), &tokens[i], places[i])
	}
}

// grow makes room for the layers of n tokens.
func (s *Scratch) grow(n int) {
	if cap(s.sums) >= n*2*Channels {
		return
	}
	s.layers[0], s.layers[1] = make([]float32, n*Channels), make([]float32, n*Channels)
	s.sums, s.places = make([]float32, n*2*Channels), make([]uint32, n)
}

// embed sets out to the vector of a token: the embedding of its word, which is in that row, or of its sub-words, plus
// its shape features.
func (m *Model) embed(s *Scratch, out *[Channels]float32, t *text.Token, row uint32) {
	if row != unknown {
		m.words.embed(out, row, &m.scale[0])
	} else {
		s.subwords = AppendSubwords(s.subwords[:0], t.Folded)
		if rows := m.subwords.count(); rows < SubwordRows {
			FoldSubwords(s.subwords, rows)
		}
		var sums [Channels]int32
		m.subwords.add(&sums, s.subwords)
		each := 1 / float32(max(len(s.subwords), 1))
		for c, v := range sums {
			out[c] = float32(float32(v)*m.scale[1][c]) * each
		}
	}
	for i, flag := range shapeFlags {
		if t.Flags&flag == 0 {
			continue
		}
		for c, v := range m.dense.Shape[i*Channels : (i+1)*Channels] {
			out[c] += v
		}
	}
}

// MoveTo moves the tables of a network that is not in use yet.
func (m *Model) MoveTo(a *offheap.Arena) {
	w, s := &m.words, &m.subwords
	w.hashes, w.starts = offheap.Move(a, w.hashes), offheap.Move(a, w.starts)
	w.wide, w.packed = offheap.Move(a, w.wide), offheap.Move(a, w.packed)
	s.wide, s.packed = offheap.Move(a, s.wide), offheap.Move(a, s.packed)
	m.dense = NewDense(offheap.Move(a, m.dense.All))
}

// ErrCorrupt reports that bytes are not a network that [Model.Marshal] wrote.
var ErrCorrupt = errors.New("the reader's weights are corrupt")

// Marshal encodes the model: the number of words, the differences of their sorted hashes, the scales, the dense
// weights, the embeddings of words and those of sub-words. All numbers are little-endian.
func (m *Model) Marshal() []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(m.words.hashes)))
	last := uint32(0)
	for _, h := range m.words.hashes {
		out = binary.LittleEndian.AppendUint32(out, h-last)
		last = h
	}
	for _, scales := range m.scale {
		for _, s := range scales {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(s))
		}
	}
	for _, w := range m.dense.All {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(w))
	}
	for row := range m.words.hashes {
		out = m.words.appendVector(out, row)
	}
	return m.subwords.appendAll(out)
}

// Unmarshal decodes what [Model.Marshal] encoded. Any error is [ErrCorrupt].
func Unmarshal(in []byte) (*Model, error) {
	if len(in) < 4 {
		return nil, ErrCorrupt
	}
	count := binary.LittleEndian.Uint32(in)
	if uint64(count) > uint64(len(in)/4) {
		return nil, ErrCorrupt
	}
	words := int(count)
	size := len(in) - (4 + 4*words + 4*2*Channels + 4*DenseSize + words*Channels)
	if size <= 0 || size > SubwordRows*Channels || size%Channels != 0 || bits.OnesCount(uint(size)) != 1 {
		return nil, ErrCorrupt
	}
	in = in[4:]
	next := func() uint32 {
		v := binary.LittleEndian.Uint32(in)
		in = in[4:]
		return v
	}
	m := &Model{words: table{hashes: make([]uint32, words)}}
	last := uint32(0)
	for i := range m.words.hashes {
		difference := next()
		if i > 0 && difference == 0 || difference > math.MaxUint32-last {
			return nil, ErrCorrupt // the table needs them in their order
		}
		last += difference
		m.words.hashes[i] = last
	}
	ok := true
	number := func() float32 {
		v := math.Float32frombits(next())
		ok = ok && !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
		return v
	}
	for i := range m.scale {
		for c := range m.scale[i] {
			m.scale[i][c] = number()
		}
	}
	dense := make([]float32, DenseSize)
	for i := range dense {
		dense[i] = number()
	}
	if !ok {
		return nil, ErrCorrupt
	}
	m.dense = NewDense(dense)
	m.words.setVectors(in[:words*Channels])
	m.subwords = makeSubwordRows(in[words*Channels:])
	m.words.makeStarts()
	return m, nil
}
