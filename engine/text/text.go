// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package text tokenizes: it splits a text into words and folds each of them, that is, undoes what people do to hide
// words.
//
// [Scratch.Tokenize] passes over a text once. A token is one of:
//
//   - a word: a run of letters and digits, with the apostrophes inside it. In scripts without spaces (Han, kana, Thai,
//     Lao, Khmer, Burmese) each letter is a word by itself;
//   - an emoji or a pair of regional indicators that is a flag.
//
// Everything else separates tokens. Every word has two forms. [Token.Raw] is the word as it was typed, in lower case
// and without invisible characters. [Token.Folded] is the word as it is meant; for most words it is the same:
//
//   - Compatibility forms become plain letters (full-width, mathematical, circled, parenthesised, superscript), as do
//     regional indicators that are not flags.
//   - Accents and stacked combining marks on Latin letters go, and so do apostrophes.
//   - Look-alike letters of other scripts become ASCII, but only in a word that mixes scripts, or in a word of nothing
//     but look-alikes in a text most letters of which are Latin. Genuine Russian or Greek stays as it is, and Latin
//     letters in it become its own.
//   - Digits and symbols that stand for letters become those letters (sh1t, a$$), but only in a word with a letter, and
//     never in ordinals, units and figures (4th, 10km, mp3).
//   - Letters that are repeated more than twice are squeezed to two, or to one where that makes a known word.
//   - Masked words (f*ck, b****) are completed where a known word fits.
//   - Three or more single letters in a row with the same single separator between them (f.u.c.k, f u c k) become one
//     word.
//
// [Scratch.TokenizeWith] also has a [Dictionary]. It recovers a word that is not in the dictionary as one that it may
// be a change of: letters are doubled, neighbours swapped (fcuk), a vowel is left out (idit), any word is masked
// (l*ser) or written in digits, or words are joined (youareanidiot). Each part of joined words is a token. Words of
// other scripts are recovered where letters are doubled or stand apart, and in Cyrillic and Greek also where neighbours
// are swapped or a vowel is masked.
//
// Offsets are code points of the original text. An invalid byte counts as one code point, as in a Go range loop. The
// number of tokens that are not emoji is what the service reports as tokens_used ([Scratch.Words]).
//
// The cost is linear in the length of the text, whatever the text is, and a reused [Scratch] does not allocate.
package text

import "sync"

// Flags are properties of a token, a bit for each.
type Flags uint16

// The flags.
const (
	// Obfuscated says that the word is written so that a simple filter would not recognise it.
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
	// Recovered says that the word is not in the dictionary as it was typed, and that Folded is a word of the
	// dictionary that it may be a change of. See [Scratch.TokenizeWith].
	Recovered
)

// Token is a word or an emoji. Its byte slices belong to the [Scratch] that made it and are valid until that is used
// again.
type Token struct {
	// Raw is the word as typed, in lower case, without invisible characters.
	Raw []byte
	// Folded is the word as it is meant. It shares its memory with Raw when the two are equal.
	Folded []byte
	// Begin and End are the place in the original text in code points; End is exclusive.
	Begin, End int
	// Flags are the properties of the token.
	Flags Flags

	// rawAt, rawEnd, foldAt and foldEnd are the places of the forms in Scratch.buf, which may move while it grows.
	rawAt, rawEnd, foldAt, foldEnd int32
	// byteAt and byteEnd are the place of a word in the original text, in bytes.
	byteAt, byteEnd int32
	// hash is the Hash of Folded, or 0 where it is not computed.
	hash uint64
}

// Hash returns the [Hash] of the folded form.
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

// Scratch tokenizes texts, one at a time, and keeps its memory between them. The zero value is ready. It is not safe
// for concurrent use.
type Scratch struct {
	tokens []Token
	buf    []byte
	word   []letter
	words  int
	points int
	latin  share // whether most letters of the text are Latin

	singles   int  // length of the run of single letters that ends with the last token
	separator rune // what stands between them
	quote     openQuote

	dictionary  *Dictionary
	content     string     // the text
	segments    []segment  // memory of split
	spare       []Token    // memory of recoverWords
	candidate   []byte     // memory for a word that is tried
	places      [64]uint32 // of words in the dictionary
	comparisons int        // how many more words of the dictionary masked ones may be compared with
	vowelTries  int        // how many more words may be tried with two vowels more
	capitals    int        // how many more words are in capitals than not; 0 until that is counted
	strokes     int        // a bit for each of the first four of 1, | and ! that is l; -1 when their neighbours decide
}

// Words returns the number of word tokens of the last text: all tokens but emoji. Joined words count as one, as they
// are typed.
func (s *Scratch) Words() int { return s.words }

// CodePoints returns the length of the last text in code points.
func (s *Scratch) CodePoints() int { return s.points }

// maxPooledBytes is the maximum size of the buffer of a pooled Scratch, so that one huge text does not hold memory for
// ever.
const maxPooledBytes = 1 << 20

var pool = sync.Pool{New: func() any { return new(Scratch) }}

// Get takes a Scratch from a pool that is shared by the whole process.
func Get() *Scratch { return pool.Get().(*Scratch) }

// Put gives a Scratch back to the pool. Its tokens must not be used afterwards.
func Put(s *Scratch) {
	if cap(s.buf) > maxPooledBytes || cap(s.tokens)+cap(s.spare) > maxPooledBytes/16 {
		return
	}
	pool.Put(s)
}
