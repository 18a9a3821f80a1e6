// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"fmt"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// schema names the features and the shape of the table. It must change whenever older weights files must no longer be
// loaded.
const schema = "words-subwords-frames-3"

// Schema identifies the features that this build computes, word classes included. [Load] refuses a weights file with
// another schema.
func Schema() string {
	h := sha256.New()
	fmt.Fprintln(h, schema)
	for _, words := range lexicon {
		fmt.Fprintln(h, words)
	}
	return fmt.Sprintf("%s-%x", schema, h.Sum(nil)[:4])
}

// The seeds keep the kinds of features apart.
const (
	_                 = iota // words have the seed of text.Hash
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
	_ // no longer used
	seedRaw
	seedTag
	seedChars
	seedStretched
	seedClass
	seedCluster
)

const (
	edge = 0x5bd1e9955bd1e995 // the hash of what stands before the first word of a sentence and after the last
	// maxPairDistance is the maximum distance in tokens of the words in a frame.
	maxPairDistance = 7
	// maxPairs is the maximum number of words with a class that one token is paired with.
	maxPairs = 3
)

// Features extracts the features of texts. It keeps its memory between texts. The zero value is ready; it is not safe
// for concurrent use.
type Features struct {
	tokens  []text.Token
	words   []word
	hashes  []uint64
	letters []rune
	bigrams recentBigrams

	vocabulary vocabulary

	// Clusters are those of words that are used alike. The zero value has none.
	Clusters Clusters
	// Foreign says that the texts are in another language than English: the classes of words are in Clusters, too
	// ([ClassCluster]), and all words may stand in frames.
	Foreign bool
}

// firstClassCluster is the first number of a cluster that stands for a class.
const firstClassCluster = 0x8000

// ClassCluster is the number in [Clusters] of the words of a class, from 1 to [NumWordClasses]-1.
func ClassCluster(class int) uint16 { return firstClassCluster + uint16(class) }

// WordHash is the hash of a folded word in [Clusters].
func WordHash(folded []byte) uint64 { return text.Hash(folded) }

// word is what the features of other tokens need of a token.
type word struct {
	hash     uint64 // of the folded form
	form     uint64 // the hash of the word's class, else of its cluster, else hash
	class    wordClass
	prior    int32 // index of the last word with a class before it in its sentence, or -1
	start    bool  // whether it is the first of its sentence
	repeated bool  // see Repeats
}

// maxRepetition is the maximum distance in tokens at which a bigram counts as a repetition. A repetition has no
// features: saying a thing fifty times is no more evidence than saying it once.
const maxRepetition = 64

// recentBigrams holds where bigrams were last seen, 256 of them at most.
type recentBigrams [256]struct {
	bigram uint64
	at     int32
}

// seen records a bigram at a token and reports whether it was seen less than [maxRepetition] tokens ago.
func (r *recentBigrams) seen(bigram uint64, at int) bool {
	e := &r[bigram>>32%256]
	recently := e.bigram == bigram && at-int(e.at) < maxRepetition
	e.bigram, e.at = bigram, int32(at)
	return recently
}

// Extract prepares the features of a text. [Features.Word] and [Features.Context] then return those of each token.
func (f *Features) Extract(tokens []text.Token) {
	f.begin(tokens)
	for i := range tokens {
		f.addToken(i)
	}
}

// begin begins a text. Its tokens must then be added one by one: the features of a token depend only on those before
// it.
func (f *Features) begin(tokens []text.Token) {
	f.tokens, f.words = tokens, f.words[:0]
	f.bigrams = recentBigrams{}
}

// addToken adds token i and returns its entry in the vocabulary, or nil where that lacks its word.
func (f *Features) addToken(i int) *wordEntry {
	t := &f.tokens[i]
	w := word{hash: t.Hash(), prior: -1, start: true}
	known := f.vocabulary.find(t.Folded, w.hash)
	if known != nil {
		w.form, w.class = known.form, known.class
	} else {
		f.lookUp(&w, t.Folded)
	}
	previous := uint64(edge)
	if i > 0 {
		last := &f.words[i-1]
		w.start, previous = f.tokens[i-1].Flags&text.SentenceEnd != 0, last.hash
		switch {
		case w.start:
		case last.class != noClass:
			w.prior = int32(i - 1)
		default:
			w.prior = last.prior
		}
	}
	w.repeated = f.bigrams.seen(text.Mix(previous, w.hash), i)
	f.words = append(f.words, w)
	return known
}

// lookUp fills in the class and the form of a word.
func (f *Features) lookUp(w *word, folded []byte) {
	w.form = w.hash
	if folded[0] < utf8.RuneSelf && !f.Foreign {
		w.class = classOf[string(folded)]
	}
	if w.class != noClass {
		w.form = text.Mix(seedClass, uint64(w.class))
	} else if !f.Clusters.filter.lacks(w.hash) {
		switch c, ok := f.Clusters.find(w.hash); {
		case !ok:
		case c >= firstClassCluster:
			w.class = wordClass(c - firstClassCluster)
			w.form = text.Mix(seedClass, uint64(w.class))
		default:
			w.form = text.Mix(seedCluster, uint64(c))
		}
	}
}

// Repeats reports whether token i and the one before it repeat two tokens that stood shortly before them. Token i then
// counts for nothing.
func (f *Features) Repeats(i int) bool { return f.words[i].repeated }

// WholeWord returns how many features of [Features.Word] stand for the word as a whole. They come first, before those
// of its sub-words.
func (f *Features) WholeWord(i int) int {
	if f.words[i].form != f.words[i].hash {
		return 2
	}
	return 1
}

// Word returns the features that come from the letters of token i alone. They are valid until the next call of Word or
// Context.
func (f *Features) Word(i int) []uint64 {
	f.hashes = f.appendWord(f.hashes[:0], i)
	return f.hashes
}

// appendWord appends the features of [Features.Word].
func (f *Features) appendWord(out []uint64, i int) []uint64 {
	t, w := &f.tokens[i], &f.words[i]
	out = append(out, w.hash)
	if w.form != w.hash {
		out = append(out, w.form)
	}
	if t.Flags&text.Emoji == 0 {
		out = f.subwords(out, t.Folded)
	}
	return out
}

// Context returns the features that come from the place of token i and from how it is written. They are valid until the
// next call of Word or Context.
func (f *Features) Context(i int) []uint64 {
	f.hashes = f.appendContext(f.hashes[:0], i)
	return f.hashes
}

// appendContext appends the features of [Features.Context].
func (f *Features) appendContext(out []uint64, i int) []uint64 {
	t, w := &f.tokens[i], &f.words[i]
	before, beforeThat := word{hash: edge, form: edge}, word{hash: edge, form: edge}
	// A sentence begins like a text, so that it has the same features inside a long text as by itself.
	if !w.start {
		before = f.words[i-1]
		if !before.start {
			beforeThat = f.words[i-2]
		}
	}
	out = append(out, text.Mix(text.Mix(seedBigram, before.hash), w.hash))
	// The frames of English are in Latin letters. In other scripts bigrams are enough there.
	if t.Folded[0] < utf8.RuneSelf || f.Foreign {
		out = f.sentence(out, i, before, beforeThat)
	}
	out = flags(out, t, w)
	if i == len(f.tokens)-1 || t.Flags&text.SentenceEnd != 0 {
		out = append(out, text.Mix(text.Mix(seedEnd, w.hash), edge), text.Mix(text.Mix(seedClassBigram, w.form), edge))
	}
	return out
}

// sentence appends the features of token i with the two words before it, and its frames.
func (f *Features) sentence(out []uint64, i int, before, beforeThat word) []uint64 {
	w := &f.words[i]
	if w.form != w.hash || before.form != before.hash {
		out = append(out, text.Mix(text.Mix(seedClassBigram, before.form), w.form))
	}
	out = append(out, text.Mix(text.Mix(text.Mix(seedTrigram, beforeThat.form), before.form), w.form))
	if !w.start && !before.start {
		out = append(out, text.Mix(text.Mix(seedSkip, beforeThat.form), w.form))
	}
	return f.frames(out, i)
}

// frames appends what the token says of whom: its pairs with the persons and the other words with a class before it in
// the sentence ("you ... worthless", "GROUP ... vermin", "will ... HARM").
func (f *Features) frames(out []uint64, i int) []uint64 {
	w := &f.words[i]
	negated := uint64(f.tokens[i].Flags & text.Negated)
	pairs, persons := 0, 0
	for j := int(w.prior); j >= 0 && i-j <= maxPairDistance; j = int(f.words[j].prior) {
		p := &f.words[j]
		if persons == 0 && p.class.isPerson() {
			persons++
			out = append(out, text.Mix(text.Mix(seedPerson, uint64(p.class)), w.form))
			out = append(out, text.Mix(text.Mix(seedPerson, uint64(p.class)|negated<<16|1<<40), w.hash))
		}
		if w.class != noClass && pairs < maxPairs {
			pairs++
			out = append(out, text.Mix(seedPair, uint64(p.class)<<8|uint64(w.class)|negated<<16))
		}
	}
	return out
}

// flags appends the features that come from the flags of the token.
func flags(out []uint64, t *text.Token, w *word) []uint64 {
	if t.Flags == 0 {
		return out
	}
	if t.Flags&text.Negated != 0 {
		out = append(out, text.Mix(seedNegated, w.form))
	}
	if t.Flags&text.Quoted != 0 {
		out = append(out, text.Mix(seedQuoted, w.form))
	}
	if t.Flags&text.Asked != 0 {
		out = append(out, text.Mix(seedAsked, w.form))
	}
	if t.Flags&text.Exclaimed != 0 {
		out = append(out, text.Mix(seedExclaimed, w.form))
	}
	if t.Flags&text.Caps != 0 {
		out = append(out, text.Mix(seedCaps, 0), text.Mix(seedCaps, w.form))
	}
	if t.Flags&text.Stretched != 0 {
		out = append(out, text.Mix(seedStretched, 0))
	}
	if t.Flags&(text.Mention|text.Hashtag) != 0 {
		out = append(out, text.Mix(seedTag, uint64(t.Flags&(text.Mention|text.Hashtag))))
	}
	// A disguised word counts as the word that it hides and no more, so that nothing is gained by a disguise.
	if t.Flags&(text.Obfuscated|text.Recovered) == 0 && t.Differs() {
		out = append(out, text.SeededHash(seedRaw, t.Raw))
	}
	return out
}

// maxLetters is the maximum number of letters of a word that count. No word is longer; longer tokens repeat themselves.
const maxLetters = 40

// subwords appends the sub-words of a word: its runs of three to five letters, with < before the word and > after it.
func (f *Features) subwords(out []uint64, folded []byte) []uint64 {
	letters := append(f.letters[:0], '<')
	for i := 0; i < len(folded) && len(letters) <= maxLetters; {
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
		return out // a single letter has no sub-word but itself
	}
	for i := 0; i+3 <= len(letters); i++ {
		h := uint64(letters[i])<<42 | uint64(letters[i+1])<<21 | uint64(letters[i+2])
		h = text.Mix(seedChars, h)
		out = append(out, h)
		if i+4 <= len(letters) {
			h = text.Mix(h, uint64(letters[i+3])+1)
			out = append(out, h)
			if i+5 <= len(letters) {
				out = append(out, text.Mix(h, uint64(letters[i+4])+1))
			}
		}
	}
	return out
}
