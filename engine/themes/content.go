// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import (
	"bytes"
	"math"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

// key names a word or phrase: the number of a term, or the top bit and a hash for words that the lexicon lacks.
type key uint32

const strange key = 1 << 31

func strangeKey(word []byte) key { return strange | key(lexicon.Strange(word)>>32) }

// word is a distinct word of a text.
type word struct {
	form   []byte
	keys   [3]key // what it may be a form of
	nkeys  uint8
	stop   bool
	reach  uint8 // words in the longest phrase that it starts
	rarity float32
	vector []int8
	scale  float32
	signs  uint64
}

// phrase is a known phrase in a text.
type phrase struct {
	from, to int32 // tokens, to exclusive
	key      key
}

// The windows in which a text is scored, in tokens. A window is three blocks.
const (
	blockWords  = 10
	windowWords = 30
)

// reading is a text as all themes see it, with the memory to score it. It is reused.
type reading struct {
	content string
	scratch *text.Scratch
	tokens  []text.Token
	words   []word
	slots   []uint32 // hash table of words: number + 1
	ids     []uint32 // the word of each token
	phrases []phrase
	covered []bool // the token is part of a known phrase in which it means something else
	blocks  []int32
	windows []float32 // a unit vector for each window
	lengths []float32 // of the vector before it was made a unit vector
	filled  []uint8   // content words in each window
	terms   []lexicon.Term
	join    []byte

	marks  []mark // evidence of each word for one theme
	events []event
	chosen []bool             // tokens that carry the hit
	input  [numInputs]float32 // of the best window
}

var readings = sync.Pool{New: func() any { return new(reading) }}

func getReading() *reading {
	r := readings.Get().(*reading)
	r.scratch = text.Get()
	return r
}

// keepTokens bounds what is kept for reuse, so that one huge text does not hold memory for ever.
const keepTokens = 1 << 16

func putReading(r *reading) {
	text.Put(r.scratch)
	r.scratch, r.tokens, r.content = nil, nil, ""
	clear(r.words)
	if cap(r.ids) <= keepTokens {
		readings.Put(r)
	}
}

// read takes a text apart.
func (r *reading) read(lex *lexicon.Lexicon, tokenize func(*text.Scratch, string) []text.Token, content string) {
	r.content = content
	r.tokens = tokenize(r.scratch, content)
	r.words, r.ids, r.phrases = r.words[:0], r.ids[:0], r.phrases[:0]
	size := 64
	for size < 2*len(r.tokens) {
		size *= 2
	}
	r.slots = grow(r.slots, size)
	for i := range r.tokens {
		r.ids = append(r.ids, r.number(lex, &r.tokens[i]))
	}
	r.covered = grow(r.covered, len(r.tokens))
	for i := range r.tokens {
		if w := &r.words[r.ids[i]]; w.reach > 0 && w.nkeys > 0 {
			r.phrasesFrom(lex, i, int(w.reach))
		}
	}
	r.embed(lex)
}

// number returns the number of a token's word, a new one if it was not met before.
func (r *reading) number(lex *lexicon.Lexicon, t *text.Token) uint32 {
	mask := uint32(len(r.slots) - 1)
	i := fnv(t.Folded) & mask
	for ; r.slots[i] != 0; i = (i + 1) & mask {
		if bytes.Equal(r.words[r.slots[i]-1].form, t.Folded) {
			return r.slots[i] - 1
		}
	}
	r.words = append(r.words, word{form: t.Folded})
	r.slots[i] = uint32(len(r.words))
	r.describe(lex, &r.words[len(r.words)-1], t)
	return uint32(len(r.words) - 1)
}

// describe fills in what the lexicon knows about a word.
func (r *reading) describe(lex *lexicon.Lexicon, w *word, t *text.Token) {
	w.rarity = lexicon.NeverSeen
	w.stop = lexicon.IsStop(w.form)
	if t.Is(text.Emoji) || len(w.form) == 0 {
		w.keys[0], w.nkeys = strangeKey(w.form), 1
		return
	}
	r.terms = lex.Bases(w.form, r.terms[:0])
	if len(r.terms) == 0 {
		w.keys[0], w.nkeys = strangeKey(w.form), 1
		return
	}
	for _, term := range r.terms[:min(len(r.terms), len(w.keys))] {
		w.keys[w.nkeys] = key(term)
		w.nkeys++
		w.reach = max(w.reach, uint8(lex.PhraseLength(term)))
	}
	w.rarity = float32(lex.Rarity(r.terms[0]))
	if !w.stop {
		w.vector, w.scale = lex.Vector(r.terms[0])
		w.signs = lex.Signs(r.terms[0])
	}
}

// phrasesFrom notes the longest known phrase that starts at token i. Its words are looked up as they stand, with the
// last one in its base form ("hot dogs"), and with the first one in its base form ("setting fire").
func (r *reading) phrasesFrom(lex *lexicon.Lexicon, i, reach int) {
	for n := min(reach, lexicon.MaxPhrase, len(r.tokens)-i); n >= 2; n-- {
		first, last := &r.words[r.ids[i]], &r.words[r.ids[i+n-1]]
		for f := -1; f < int(first.nkeys); f++ {
			head := first.form
			if f >= 0 {
				if first.keys[f]&strange != 0 {
					continue
				}
				head = lex.Bytes(lexicon.Term(first.keys[f]))
				if bytes.Equal(head, first.form) {
					continue
				}
			}
			r.join = append(r.join[:0], head...)
			for k := 1; k < n-1; k++ {
				r.join = append(append(r.join, ' '), r.words[r.ids[i+k]].form...)
			}
			r.join = append(r.join, ' ')
			at := len(r.join)
			for b := -1; b < int(last.nkeys); b++ {
				tail := last.form
				if b >= 0 {
					if last.keys[b]&strange != 0 {
						continue
					}
					tail = lex.Bytes(lexicon.Term(last.keys[b]))
				}
				r.join = append(r.join[:at], tail...)
				if term, ok := lex.Find(r.join); ok {
					r.phrases = append(r.phrases, phrase{int32(i), int32(i + n), key(term)})
					for k := range n {
						r.covered[i+k] = r.covered[i+k] || lex.Opaque(term, k)
					}
					return
				}
			}
		}
	}
}

// weight is what a word counts in the direction of a window: the more the rarer it is.
func (w *word) weight() float32 { return float32(int32(w.rarity*w.scale*1024) + 1) }

// embed computes the mean direction of the words of each window, rare words counting more.
func (r *reading) embed(lex *lexicon.Lexicon) {
	dims := lex.Dims()
	blocks := (len(r.tokens) + blockWords - 1) / blockWords
	r.blocks = grow(r.blocks, blocks*dims)
	counts := grow(r.filled, blocks)
	for i, id := range r.ids {
		w := &r.words[id]
		if w.vector == nil {
			continue
		}
		weight := int32(w.weight())
		b := i / blockWords
		sum := r.blocks[b*dims : (b+1)*dims]
		for d, x := range w.vector {
			sum[d] += weight * int32(x)
		}
		counts[b]++
	}
	windows := r.windowCount()
	r.windows = grow(r.windows, windows*dims)
	r.lengths = grow(r.lengths, windows)
	for w := range windows {
		out := r.windows[w*dims : (w+1)*dims]
		for b := w; b < min(w+windowWords/blockWords, blocks); b++ {
			for d, x := range r.blocks[b*dims : (b+1)*dims] {
				out[d] += float32(x)
			}
		}
		var square float32
		for _, x := range out {
			square += x * x
		}
		if square > 0 {
			r.lengths[w] = float32(math.Sqrt(float64(square)))
			f := 1 / r.lengths[w]
			for d := range out {
				out[d] *= f
			}
		}
	}
	// From here on the count is that of the window which starts at the block.
	for w := range windows {
		for b := w + 1; b < min(w+windowWords/blockWords, blocks); b++ {
			counts[w] += counts[b]
		}
	}
	r.filled = counts
}

// windowCount is the number of windows: one starts at each block as long as it holds a block that no window before it
// held.
func (r *reading) windowCount() int {
	blocks := (len(r.tokens) + blockWords - 1) / blockWords
	return max(min(blocks, 1), blocks-windowWords/blockWords+1)
}

// grow returns a zeroed slice of n elements, in the old memory where that is large enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	s = s[:n]
	clear(s)
	return s
}

func fnv(b []byte) uint32 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return uint32(h ^ h>>32)
}
