// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"fmt"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// schema names the features and the shape of the table. It changes whenever a weights file that was trained before
// the change must no longer be read.
const schema = "words-subwords-frames-3"

// Schema identifies the features that this build computes: a weights file that was trained with others is refused.
func Schema() string {
	h := sha256.New()
	fmt.Fprintln(h, schema)
	for _, words := range lexicon {
		fmt.Fprintln(h, words)
	}
	return fmt.Sprintf("%s-%x", schema, h.Sum(nil)[:4])
}

// Seeds keep the kinds of features apart.
const (
	_                 = iota // that of words is text.Hash's
	seedBigram uint64 = (iota + 1) * 0x009E3779B97F4A7C
	seedClassBigram
	seedTrigram
	seedSkip
	seedPair
	seedPerson
	seedNegated
	seedQuoted
	seedEnd
	seedAsked
	seedExclaimed
	seedCaps
	_ // once that of disguised words
	seedRaw
	seedTag
	seedChars
	seedStretched
	seedClass
	seedCluster
)

const (
	edgeMark = 0x5bd1e9955bd1e995 // stands for the word before the first and after the last
	// pairReach is how many tokens back a token looks for a person that it is said of.
	pairReach = 7
	// maxPairs bounds the class words that one token is paired with.
	maxPairs = 3
)

// mix folds v into h. Multiply-and-xor-shift: two multiplications spread every bit well enough for hashing.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// Features computes the features of texts. It keeps its memory between texts; it is not safe for concurrent use.
type Features struct {
	tokens  []text.Token
	words   []word
	hashes  []uint64
	letters []rune
	pairs   memory
	known   cache

	vocabulary vocabulary
	clustered  filter // of Clusters

	// Clusters maps the hashes of words to groups of words that keep similar company. It may be nil.
	Clusters map[uint64]uint16
}

// WordHash is the hash by which Clusters knows a folded word.
func WordHash(folded []byte) uint64 { return text.Hash(folded) }

// word is what the features of its neighbours need to know of a token.
type word struct {
	hash  uint64 // of the folded form
	form  uint64 // of the class or else of the cluster when it has one, else hash
	class wordClass
	prior int32 // index of the last word with a class before it in its sentence, or -1
	start bool  // first of its sentence
	again bool  // the same two words stood here a moment ago
}

// recently is how many tokens back the same two words count as a repetition. A repetition has no features: saying a
// thing fifty times is no more evidence than saying it once.
const recently = 64

// memory remembers where pairs of words were last met, 256 of them.
type memory [256]struct {
	pair uint64
	at   int32
}

// met takes note of a pair at a token and reports whether it was met recently.
func (m *memory) met(pair uint64, at int) bool {
	e := &m[pair>>32%256]
	again := e.pair == pair && at-int(e.at) < recently
	e.pair, e.at = pair, int32(at)
	return again
}

// Extract takes in a text. [Features.Word] and [Features.Context] then give the features of its tokens.
func (f *Features) Extract(tokens []text.Token) {
	f.begin(tokens)
	for i := range tokens {
		f.read(i)
	}
}

// begin takes in a text whose tokens are then read one by one: the features of a token need only those before it.
func (f *Features) begin(tokens []text.Token) {
	f.tokens, f.words = tokens, f.words[:0]
	f.pairs = memory{}
}

// read reads token i and returns what is known of its word. The entry holds until the next call.
func (f *Features) read(i int) *known {
	t := &f.tokens[i]
	hash := t.Hash()
	e := f.vocabulary.find(t.Folded, hash)
	if e == nil {
		if e = f.known.entry(t.Folded, hash); e.form == 0 {
			f.learn(e, t.Folded, hash)
		}
	}
	w := word{hash: hash, form: e.form, class: e.class, prior: -1, start: true}
	before := uint64(edgeMark)
	if i > 0 {
		last := &f.words[i-1]
		w.start, before = f.tokens[i-1].Flags&text.SentenceEnd != 0, last.hash
		switch {
		case w.start:
		case last.class != noClass:
			w.prior = int32(i - 1)
		default:
			w.prior = last.prior
		}
	}
	w.again = f.pairs.met(mix(before, hash), i)
	f.words = append(f.words, w)
	return e
}

// learn looks up the class or else the cluster of a word.
func (f *Features) learn(e *known, folded []byte, hash uint64) {
	e.class, e.form = noClass, hash
	if folded[0] < utf8.RuneSelf {
		e.class = classOf[string(folded)]
	}
	if e.class != noClass {
		e.form = mix(seedClass, uint64(e.class))
	} else if !f.clustered.lacks(hash) {
		if c, ok := f.Clusters[hash]; ok {
			e.form = mix(seedCluster, uint64(c))
		}
	}
}

// Repeats reports whether token i only repeats what stood shortly before it. It then counts for nothing.
func (f *Features) Repeats(i int) bool { return f.words[i].again }

// WholeWord is the number of features of [Features.Word] that stand for the word as a whole: they come first, then those
// of its parts.
func (f *Features) WholeWord(i int) int {
	if f.words[i].form != f.words[i].hash {
		return 2
	}
	return 1
}

// Word returns the features that come from the letters of token i alone. They are valid until the next call.
func (f *Features) Word(i int) []uint64 {
	t, w := &f.tokens[i], &f.words[i]
	out := append(f.hashes[:0], w.hash)
	if w.form != w.hash {
		out = append(out, w.form)
	}
	if t.Flags&text.Emoji == 0 {
		out = f.chars(out, t.Folded)
	}
	f.hashes = out
	return out
}

// Context returns the features that come from where token i stands and from how it is written. They are valid until
// the next call.
func (f *Features) Context(i int) []uint64 {
	f.hashes = f.appendContext(f.hashes[:0], i)
	return f.hashes
}

// appendContext appends the features of [Features.Context] to out.
func (f *Features) appendContext(out []uint64, i int) []uint64 {
	t, w := &f.tokens[i], &f.words[i]
	before, beforeThat := word{hash: edgeMark, form: edgeMark}, word{hash: edgeMark, form: edgeMark}
	// A sentence starts like a text, so that it means the same inside a long text as by itself.
	if !w.start {
		before = f.words[i-1]
		if !before.start {
			beforeThat = f.words[i-2]
		}
	}
	out = append(out, mix(mix(seedBigram, before.hash), w.hash))
	// What is known of sentences is known of English ones; elsewhere neighbours are enough.
	if t.Folded[0] < utf8.RuneSelf {
		out = f.sentence(out, i, before, beforeThat)
	}
	out = flags(out, t, w)
	if i == len(f.tokens)-1 || t.Flags&text.SentenceEnd != 0 {
		out = append(out, mix(mix(seedEnd, w.hash), edgeMark), mix(mix(seedClassBigram, w.form), edgeMark))
	}
	return out
}

// sentence appends the features of token i with the two words before it, and its frames.
func (f *Features) sentence(out []uint64, i int, before, beforeThat word) []uint64 {
	w := &f.words[i]
	if w.form != w.hash || before.form != before.hash {
		out = append(out, mix(mix(seedClassBigram, before.form), w.form))
	}
	out = append(out, mix(mix(mix(seedTrigram, beforeThat.form), before.form), w.form))
	if !w.start && !before.start {
		out = append(out, mix(mix(seedSkip, beforeThat.form), w.form))
	}
	return f.frames(out, i)
}

// frames appends what the token says of whom: pairs with the persons and the other class words before it in the
// sentence ("you ... worthless", "GROUP ... vermin", "will ... HARM").
func (f *Features) frames(out []uint64, i int) []uint64 {
	w := &f.words[i]
	negated := uint64(f.tokens[i].Flags & text.Negated)
	pairs, persons := 0, 0
	for j := int(w.prior); j >= 0 && i-j <= pairReach; j = int(f.words[j].prior) {
		p := &f.words[j]
		if persons == 0 && p.class.isPerson() {
			persons++
			out = append(out, mix(mix(seedPerson, uint64(p.class)), w.form), mix(mix(seedPerson, uint64(p.class)|negated<<16|1<<40), w.hash))
		}
		if w.class != noClass && pairs < maxPairs {
			pairs++
			out = append(out, mix(seedPair, uint64(p.class)<<8|uint64(w.class)|negated<<16))
		}
	}
	return out
}

// flags appends the features that come from how the token is written and where it stands.
func flags(out []uint64, t *text.Token, w *word) []uint64 {
	if t.Flags == 0 {
		return out
	}
	if t.Flags&text.Negated != 0 {
		out = append(out, mix(seedNegated, w.form))
	}
	if t.Flags&text.Quoted != 0 {
		out = append(out, mix(seedQuoted, w.form))
	}
	if t.Flags&text.Asked != 0 {
		out = append(out, mix(seedAsked, w.form))
	}
	if t.Flags&text.Exclaimed != 0 {
		out = append(out, mix(seedExclaimed, w.form))
	}
	if t.Flags&text.Caps != 0 {
		out = append(out, mix(seedCaps, 0), mix(seedCaps, w.form))
	}
	if t.Flags&text.Stretched != 0 {
		out = append(out, mix(seedStretched, 0))
	}
	if t.Flags&(text.Mention|text.Hashtag) != 0 {
		out = append(out, mix(seedTag, uint64(t.Flags&(text.Mention|text.Hashtag))))
	}
	// A disguised word counts as the word that it hides and no more: who hides words must gain nothing by it.
	if t.Flags&(text.Obfuscated|text.Recovered) == 0 && t.Differs() {
		out = append(out, text.SeededHash(seedRaw, t.Raw))
	}
	return out
}

// mostLetters bounds the letters of a word that are looked at: no word is longer, and what is repeats itself.
const mostLetters = 40

// chars appends the runs of three to five letters of a word with marks at its ends.
func (f *Features) chars(out []uint64, folded []byte) []uint64 {
	letters := append(f.letters[:0], '<')
	for i := 0; i < len(folded) && len(letters) <= mostLetters; {
		r, size := rune(folded[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(folded[i:])
		}
		letters = append(letters, r)
		i += size
	}
	letters = append(letters, '>')
	f.letters = letters
	if len(letters) <= 3 {
		return out // one letter: the word itself says it all
	}
	for i := 0; i+3 <= len(letters); i++ {
		h := uint64(letters[i])<<42 | uint64(letters[i+1])<<21 | uint64(letters[i+2])
		h = mix(seedChars, h)
		out = append(out, h)
		if i+4 <= len(letters) {
			h = mix(h, uint64(letters[i+3])+1)
			out = append(out, h)
			if i+5 <= len(letters) {
				out = append(out, mix(h, uint64(letters[i+4])+1))
			}
		}
	}
	return out
}
