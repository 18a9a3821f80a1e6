// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package text turns a text into word tokens, seeing through what people do to hide words.
//
// [Scratch.Tokenize] reads a text once. A token is one of:
//
//   - a word: a run of letters and digits, with the apostrophes inside it. In scripts without spaces (Han, kana, Thai,
//     Lao, Khmer, Burmese) each letter is a word by itself;
//   - an emoji or a pair of regional indicators that is a flag.
//
// Everything else separates. Every word has two forms. [Token.Raw] is the word as it was typed, in lower case and
// without invisible characters. [Token.Folded] is the word as it is meant to be read; for most words it is the same:
//
//   - compatibility forms become plain letters (full-width, mathematical, circled, parenthesised, superscript), and so do regional
//     indicators that are no flags;
//   - accents and stacked combining marks on Latin letters go, apostrophes go;
//   - look-alike letters of other scripts become ASCII, but only in a word that mixes scripts, or in a word that
//     consists of look-alikes alone while most letters of the text are Latin. Honest Russian or Greek stays as it is;
//   - digits and symbols that stand for letters become those letters (sh1t, a$$), only in a word that has a letter and
//     never in ordinals, units and figures (4th, 10km, mp3);
//   - letters repeated more than twice are squeezed to two, or to one where that makes a known word;
//   - masked words (f*ck, b****) are completed where a known word fits;
//   - three or more single letters in a row, each divided by the same single separator (f.u.c.k, f u c k), become one
//     word.
//
// [Scratch.TokenizeWith] has a [Dictionary] beside this, and reads words that are not in it as the ones that they may be a change
// of: letters are doubled, neighbours swapped (fcuk), a vowel is left out (idit), any word is masked (l*ser) or written in
// digits, words are joined (youareanidiot). Each part of joined words is a token.
//
// Offsets are code points of the original text; a broken UTF-8 byte counts as one code point, as it does in a Go range
// loop. The number of tokens that are not emoji is what the service reports as tokens_used ([Scratch.Words]).
//
// The cost is linear in the length of the text whatever the text is, and a reused [Scratch] does not allocate.
package text

import "sync"

// Flags are properties of a token.
type Flags uint16

// The flags.
const (
	// Obfuscated says that the word was written so that a simple filter would not recognise it.
	Obfuscated Flags = 1 << iota
	// Caps says that the word has at least two letters and all of them are capitals.
	Caps
	// SentenceEnd says that a sentence or a line ends after the token.
	SentenceEnd
	// Quoted says that the token stands inside a closed pair of quotation marks, at most 40 tokens long.
	Quoted
	// Negated says that one of the three tokens before it, in the same sentence, negates (not, never, don't, without).
	Negated
	// Emoji says that the token is an emoji or a flag and not a word.
	Emoji
	// Number says that the word consists of digits only.
	Number
	// Mention says that an @ stands directly before the word, as in @someone.
	Mention
	// Stretched says that a letter was repeated more than twice (sooooo).
	Stretched
	// Exclaimed says that the sentence after the token ends in an exclamation mark.
	Exclaimed
	// Asked says that the sentence after the token ends in a question mark.
	Asked
	// Hashtag says that a # stands directly before the word.
	Hashtag
	// Recovered says that the word is in no dictionary as it was typed, and is read as one that it may be a change of.
	// See [Scratch.Read].
	Recovered
)

// Token is a word or an emoji. Its byte slices belong to the [Scratch] that made it and are valid until that is used
// again.
type Token struct {
	// Raw is the word as typed, in lower case, without invisible characters.
	Raw []byte
	// Folded is the word as it reads. It shares its memory with Raw when the two are equal.
	Folded []byte
	// Begin and End are the place in the original text in code points; End is exclusive.
	Begin, End int
	// Flags are the properties of the token.
	Flags Flags

	// rawAt, rawEnd, foldAt and foldEnd are the place of the forms in Scratch.buf, which may move while it grows.
	rawAt, rawEnd, foldAt, foldEnd int32
	// byteAt and byteEnd are the place of a word in the original text in bytes.
	byteAt, byteEnd int32
	// hash is the Hash of Folded; 0 while it is not known.
	hash uint64
}

// Hash is the [Hash] of the folded form.
func (t *Token) Hash() uint64 {
	if t.hash == 0 {
		return Hash(t.Folded)
	}
	return t.hash
}

// Is reports whether the token has all of the flags f.
func (t *Token) Is(f Flags) bool { return t.Flags&f == f }

// Differs reports whether Folded is not the same as Raw without its apostrophes.
func (t *Token) Differs() bool {
	if t.foldAt == t.rawAt {
		return false
	}
	i := 0
	for _, c := range t.Raw {
		if c == '\'' {
			continue
		}
		if i == len(t.Folded) || t.Folded[i] != c {
			return true
		}
		i++
	}
	return i != len(t.Folded)
}

// Scratch holds the memory of a tokenisation. The zero value is ready. It is not safe for concurrent use.
type Scratch struct {
	tokens []Token
	buf    []byte
	word   []letter
	words  int
	points int
	latin  bool // most letters of the text are Latin, so words of look-alikes are suspect

	singles   int  // length of the run of single letters that ends with the last token
	separator rune // what divides them
	quote     openQuote

	dictionary *Dictionary
	ways       []way   // scratch of split
	spare      []Token // scratch of recover
	content    string  // the text
	looks      int     // how many more words masked ones may be compared with
	patience   int     // of recover
	shouting   int     // how many more words are in capitals than not; 0 when that is not counted
	trial      []byte  // scratch of readsAsKnown
	ells       int     // which of the first four of 1, | and ! read as l, a bit for each; -1 when their neighbours decide
}

// Words is the number of word tokens of the last text: all tokens but emoji, joined words counting as the one that they
// are typed as.
func (s *Scratch) Words() int { return s.words }

// CodePoints is the length of the last text in code points.
func (s *Scratch) CodePoints() int { return s.points }

// keepBytes bounds what a pooled Scratch keeps, so that one huge text does not hold memory for ever.
const keepBytes = 1 << 20

var pool = sync.Pool{New: func() any { return new(Scratch) }}

// Get takes a Scratch from a shared pool.
func Get() *Scratch { return pool.Get().(*Scratch) }

// Put gives a Scratch back. Its tokens must not be used afterwards.
func Put(s *Scratch) {
	if cap(s.buf) > keepBytes || cap(s.tokens)+cap(s.spare) > keepBytes/16 {
		return
	}
	pool.Put(s)
}
