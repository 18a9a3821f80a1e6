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

// key identifies a word or phrase: the number of a term, or the top bit and a hash for a word that the lexicon lacks.
type key uint32

const unknown key = 1 << 31

func unknownKey(word []byte) key { return unknown | key(lexicon.UnknownKey(word)>>32) }

// word is a distinct word of a text.
type word struct {
	form   []byte
	keys   [3]key // the terms that it may be a form of
	nkeys  uint8
	stop   bool
	reach  uint8 // the number of words in the longest known phrase that it starts
	rarity float32
	vector []int8
	scale  float32
	signs  uint64
}

// phrase is a known phrase in a text.
type phrase struct {
	from, to int32 // tokens; to is exclusive
	key      key
}

// The size of the windows in which a text is scored, in tokens. A window is three blocks.
const (
	blockWords  = 10
	windowWords = 30
)

// document is a text prepared for all themes, with the memory to score it. It is pooled.
type document struct {
	content string
	scratch *text.Scratch
	tokens  []text.Token
	words   []word
	slots   []uint32 // hash table of words: number + 1
	ids     []uint32 // the word of each token
	phrases []phrase
	covered []bool // whether the token stands in a known phrase in which it means something else
	blocks  []int32
	windows []float32 // a unit vector for each window
	lengths []float32 // the length of each window's vector before it was scaled to 1
	filled  []uint8   // content words in each window
	terms   []lexicon.Term
	join    []byte

	scores      []wordScore // evidence of each word for one theme
	occurrences []occurrence
	chosen      []bool             // tokens that carry the hit
	input       [numInputs]float32 // of the best window
}

var documents = sync.Pool{New: func() any { return new(document) }}

func getDocument() *document {
	doc := documents.Get().(*document)
	doc.scratch = text.Get()
	return doc
}

// keepTokens bounds the memory that the pool keeps of a document, so that one huge text does not hold it forever.
const keepTokens = 1 << 16

func putDocument(doc *document) {
	text.Put(doc.scratch)
	doc.scratch, doc.tokens, doc.content = nil, nil, ""
	clear(doc.words)
	if cap(doc.ids) <= keepTokens {
		documents.Put(doc)
	}
}

// analyze finds the words, phrases and window vectors of a text.
func (doc *document) analyze(lex *lexicon.Lexicon, tokenize func(*text.Scratch, string) []text.Token, content string) {
	doc.content = content
	doc.tokens = tokenize(doc.scratch, content)
	doc.words, doc.ids, doc.phrases = doc.words[:0], doc.ids[:0], doc.phrases[:0]
	size := 64
	for size < 2*len(doc.tokens) {
		size *= 2
	}
	doc.slots = grow(doc.slots, size)
	for i := range doc.tokens {
		doc.ids = append(doc.ids, doc.intern(lex, &doc.tokens[i]))
	}
	doc.covered = grow(doc.covered, len(doc.tokens))
	for i := range doc.tokens {
		if w := &doc.words[doc.ids[i]]; w.reach > 0 && w.nkeys > 0 {
			doc.phrasesFrom(lex, i, int(w.reach))
		}
	}
	doc.embed(lex)
}

// intern returns the number of a token's word. It assigns one to a word that it sees for the first time.
func (doc *document) intern(lex *lexicon.Lexicon, t *text.Token) uint32 {
	mask := uint32(len(doc.slots) - 1)
	i := hash(t.Folded) & mask
	for ; doc.slots[i] != 0; i = (i + 1) & mask {
		if bytes.Equal(doc.words[doc.slots[i]-1].form, t.Folded) {
			return doc.slots[i] - 1
		}
	}
	doc.words = append(doc.words, word{form: t.Folded})
	doc.slots[i] = uint32(len(doc.words))
	doc.describe(lex, &doc.words[len(doc.words)-1], t)
	return uint32(len(doc.words) - 1)
}

// describe fills in what the lexicon knows about a word.
func (doc *document) describe(lex *lexicon.Lexicon, w *word, t *text.Token) {
	w.rarity = lexicon.NeverSeen
	w.stop = lexicon.IsStop(w.form)
	if t.Is(text.Emoji) || len(w.form) == 0 {
		w.keys[0], w.nkeys = unknownKey(w.form), 1
		return
	}
	doc.terms = lex.Bases(w.form, doc.terms[:0])
	if len(doc.terms) == 0 {
		w.keys[0], w.nkeys = unknownKey(w.form), 1
		return
	}
	for _, term := range doc.terms[:min(len(doc.terms), len(w.keys))] {
		w.keys[w.nkeys] = key(term)
		w.nkeys++
		w.reach = max(w.reach, uint8(lex.PhraseLength(term)))
	}
	w.rarity = float32(lex.Rarity(doc.terms[0]))
	if !w.stop {
		w.vector, w.scale = lex.Vector(doc.terms[0])
		w.signs = lex.Signs(doc.terms[0])
	}
}

// phrasesFrom records the longest known phrase that starts at token i. It looks the words up as they are, with the last
// one in its base form ("hot dogs"), and with the first one in its base form ("setting fire").
func (doc *document) phrasesFrom(lex *lexicon.Lexicon, i, reach int) {
	for n := min(reach, lexicon.MaxPhrase, len(doc.tokens)-i); n >= 2; n-- {
		first, last := &doc.words[doc.ids[i]], &doc.words[doc.ids[i+n-1]]
		for f := -1; f < int(first.nkeys); f++ {
			head := first.form
			if f >= 0 {
				if first.keys[f]&unknown != 0 {
					continue
				}
				head = lex.Bytes(lexicon.Term(first.keys[f]))
				if bytes.Equal(head, first.form) {
					continue
				}
			}
			doc.join = append(doc.join[:0], head...)
			for k := 1; k < n-1; k++ {
				doc.join = append(append(doc.join, ' '), doc.words[doc.ids[i+k]].form...)
			}
			doc.join = append(doc.join, ' ')
			at := len(doc.join)
			for b := -1; b < int(last.nkeys); b++ {
				tail := last.form
				if b >= 0 {
					if last.keys[b]&unknown != 0 {
						continue
					}
					tail = lex.Bytes(lexicon.Term(last.keys[b]))
				}
				doc.join = append(doc.join[:at], tail...)
				if term, ok := lex.Find(doc.join); ok {
					doc.phrases = append(doc.phrases, phrase{int32(i), int32(i + n), key(term)})
					for k := range n {
						doc.covered[i+k] = doc.covered[i+k] || lex.Opaque(term, k)
					}
					return
				}
			}
		}
	}
}

// weight is the weight of a word in the vector of a window. It grows with the rarity of the word.
func (w *word) weight() float32 { return float32(int32(w.rarity*w.scale*1024) + 1) }

// embed computes the vector of each window: the unit vector along the weighted mean of its words' vectors.
func (doc *document) embed(lex *lexicon.Lexicon) {
	dims := lex.Dims()
	blocks := (len(doc.tokens) + blockWords - 1) / blockWords
	doc.blocks = grow(doc.blocks, blocks*dims)
	counts := grow(doc.filled, blocks)
	for i, id := range doc.ids {
		w := &doc.words[id]
		if w.vector == nil {
			continue
		}
		weight := int32(w.weight())
		b := i / blockWords
		sum := doc.blocks[b*dims : (b+1)*dims]
		for d, x := range w.vector {
			sum[d] += weight * int32(x)
		}
		counts[b]++
	}
	windows := doc.windowCount()
	doc.windows = grow(doc.windows, windows*dims)
	doc.lengths = grow(doc.lengths, windows)
	for w := range windows {
		out := doc.windows[w*dims : (w+1)*dims]
		for b := w; b < min(w+windowWords/blockWords, blocks); b++ {
			for d, x := range doc.blocks[b*dims : (b+1)*dims] {
				out[d] += float32(x)
			}
		}
		var square float32
		for _, x := range out {
			square += x * x
		}
		if square > 0 {
			doc.lengths[w] = float32(math.Sqrt(float64(square)))
			f := 1 / doc.lengths[w]
			for d := range out {
				out[d] *= f
			}
		}
	}
	// Turn the counts of blocks into those of the windows that start at them.
	for w := range windows {
		for b := w + 1; b < min(w+windowWords/blockWords, blocks); b++ {
			counts[w] += counts[b]
		}
	}
	doc.filled = counts
}

// windowCount returns the number of windows. One starts at each block, as long as it reaches a block that the windows
// before it do not.
func (doc *document) windowCount() int {
	blocks := (len(doc.tokens) + blockWords - 1) / blockWords
	return max(min(blocks, 1), blocks-windowWords/blockWords+1)
}

// grow returns a zeroed slice of n elements. It reuses the memory of s if that is large enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	s = s[:n]
	clear(s)
	return s
}

func hash(b []byte) uint32 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return uint32(h ^ h>>32)
}
