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
const schema = "words-subwords-frames-1"

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
	seedWord uint64 = (iota + 1) * 0x009E3779B97F4A7C
	seedBigram
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
	seedObfuscated
	seedRaw
	seedTag
	seedChars
	seedStretched
	seedClass
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
	words   []word
	hashes  []uint64 // features of all tokens, one after the other
	ends    []int32  // end of each token's features in hashes
	letters []rune
}

// word is what the features of its neighbours need to know of a token.
type word struct {
	hash  uint64 // of the folded form
	form  uint64 // of the class when it has one, else hash
	class wordClass
	start bool // first of its sentence
}

// Compute returns the feature hashes of all tokens and, for each token, where its own end.
func (f *Features) Compute(tokens []text.Token) (hashes []uint64, ends []int32) {
	f.words, f.hashes, f.ends = f.words[:0], f.hashes[:0], f.ends[:0]
	start := true
	for i := range tokens {
		t := &tokens[i]
		w := word{hash: hashBytes(seedWord, t.Folded), class: classOf[string(t.Folded)], start: start}
		w.form = w.hash
		if w.class != noClass {
			w.form = mix(seedClass, uint64(w.class))
		}
		start = t.Flags&text.SentenceEnd != 0
		f.words = append(f.words, w)
	}
	for i := range tokens {
		f.token(tokens, i)
		f.ends = append(f.ends, int32(len(f.hashes)))
	}
	return f.hashes, f.ends
}

// token appends the features of token i.
func (f *Features) token(tokens []text.Token, i int) {
	t, w := &tokens[i], &f.words[i]
	before, beforeThat := word{hash: edgeMark, form: edgeMark}, word{hash: edgeMark, form: edgeMark}
	if i > 0 {
		before = f.words[i-1]
	}
	if i > 1 {
		beforeThat = f.words[i-2]
	}
	out := append(f.hashes, w.hash, mix(mix(seedBigram, before.hash), w.hash))
	if w.class != noClass || before.class != noClass {
		out = append(out, mix(mix(seedClassBigram, before.form), w.form))
	}
	out = append(out, mix(mix(mix(seedTrigram, beforeThat.form), before.form), w.form))
	if i > 1 {
		out = append(out, mix(mix(seedSkip, beforeThat.form), w.form))
	}
	out = f.frames(out, tokens, i)
	out = flags(out, t, w)
	if i == len(tokens)-1 {
		out = append(out, mix(mix(seedEnd, w.hash), edgeMark), mix(mix(seedClassBigram, w.form), edgeMark))
	}
	if t.Flags&text.Emoji == 0 {
		out = f.chars(out, t.Folded)
	}
	f.hashes = out
}

// frames appends what the token says of whom: pairs with the persons and the other class words before it in the
// sentence ("you ... worthless", "GROUP ... vermin", "will ... HARM").
func (f *Features) frames(out []uint64, tokens []text.Token, i int) []uint64 {
	w := &f.words[i]
	negated := uint64(tokens[i].Flags & text.Negated)
	pairs, persons := 0, 0
	for j := i; j > 0 && i-j < pairReach; {
		if f.words[j].start {
			break
		}
		j--
		p := &f.words[j]
		if p.class == noClass {
			continue
		}
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
	if w.class != noClass {
		out = append(out, w.form)
	}
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
	if t.Flags&text.Obfuscated != 0 {
		out = append(out, mix(seedObfuscated, 0), mix(seedObfuscated, w.form))
	}
	if t.Flags&text.Stretched != 0 {
		out = append(out, mix(seedStretched, 0))
	}
	if t.Flags&(text.Mention|text.Hashtag) != 0 {
		out = append(out, mix(seedTag, uint64(t.Flags&(text.Mention|text.Hashtag))))
	}
	if t.Differs() {
		out = append(out, hashBytes(seedRaw, t.Raw))
	}
	return out
}

// chars appends the runs of three to five letters of a word with marks at its ends.
func (f *Features) chars(out []uint64, folded []byte) []uint64 {
	letters := append(f.letters[:0], '<')
	for i := 0; i < len(folded); {
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

// hashBytes hashes a short byte string, eight bytes at a time.
func hashBytes(seed uint64, b []byte) uint64 {
	h := mix(seed, uint64(len(b)))
	for len(b) >= 8 {
		h = mix(h, uint64(b[0])|uint64(b[1])<<8|uint64(b[2])<<16|uint64(b[3])<<24|uint64(b[4])<<32|uint64(b[5])<<40|uint64(b[6])<<48|uint64(b[7])<<56)
		b = b[8:]
	}
	var tail uint64
	for i, c := range b {
		tail |= uint64(c) << (8 * i)
	}
	return mix(h, tail+1)
}
