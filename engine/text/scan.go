// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"unicode"
	"unicode/utf8"
)

// class is the part that a code point plays in words.
type class uint8

const (
	separator class = iota
	letterClass
	digitClass
	markClass      // combining mark: part of the letter before it
	invisible      // has no glyph: skipped wherever it stands
	ideograph      // letter of a script without spaces: a word by itself
	emojiClass     // a token by itself
	regional       // regional indicator: two are a flag or letters, see scanRegional
	apostrophe     // part of a word between letters
	symbolOfLetter // $ @ ! | + * and the like: part of a word in some places
)

// Tokenize splits content into tokens and folds them. The result is valid until s is used again.
func (s *Scratch) Tokenize(content string) []Token { return s.TokenizeWith(content, nil) }

// TokenizeWith is [Scratch.Tokenize] with a dictionary, which may be nil: words that are not in it are recovered as
// words of it that they may be a change of. It leaves alone words in addresses and identifiers, and changes that are
// too unlikely: a name must not become a bad word.
func (s *Scratch) TokenizeWith(content string, d *Dictionary) []Token {
	s.dictionary, s.content, s.comparisons = d, content, maxComparisons
	s.tokens, s.buf, s.word = s.tokens[:0], s.buf[:0], s.word[:0]
	s.words, s.singles, s.quote, s.latin = 0, 0, openQuote{}, uncounted

	in := cursor{text: content}
	for in.at < len(content) {
		if content[in.at] == ' ' { // the commonest by far
			in.skip(' ', 1)
			continue
		}
		r, size := in.rune()
		switch c := classOf(r); {
		case c == letterClass, c == digitClass, c == symbolOfLetter && (in.opensWord(r) || s.opens(&in, r)):
			s.scanWord(&in)
		case c == ideograph:
			s.emitRune(&in, r, size, 0)
		case c == emojiClass:
			s.emitRune(&in, r, size, Emoji)
		case c == regional:
			s.scanRegional(&in)
		default:
			s.punctuation(r, &in)
			in.skip(r, size)
		}
	}
	s.points = in.point
	s.joinSingles()
	if d != nil {
		s.recoverWords(content)
	}
	s.content = "" // a pooled Scratch must not keep the text alive
	s.bind()
	s.negate()
	return s.tokens
}

// cursor is a place in a text, in bytes and in code points.
type cursor struct {
	text  string
	at    int
	point int
	last  rune // the code point before it
}

// rune returns the code point at the cursor and its length in bytes.
func (c *cursor) rune() (rune, int) {
	if b := c.text[c.at]; b < utf8.RuneSelf {
		return rune(b), 1
	}
	return utf8.DecodeRuneInString(c.text[c.at:])
}

// skip moves the cursor over the code point that rune returned.
func (c *cursor) skip(r rune, size int) {
	c.at += size
	c.point++
	c.last = r
}

// peek returns the code point after bytes behind the cursor, or 0 at the end. It does not skip invisible ones.
func (c *cursor) peek(after int) rune {
	if c.at+after >= len(c.text) {
		return 0
	}
	if b := c.text[c.at+after]; b < utf8.RuneSelf {
		return rune(b)
	}
	r, _ := utf8.DecodeRuneInString(c.text[c.at+after:])
	return r
}

// opensWord reports whether the symbol at the cursor is the first letter of a word: $hit, @ss.
func (c *cursor) opensWord(r rune) bool {
	if classOf(c.last) == letterClass || classOf(c.last) == digitClass {
		return false
	}
	switch r {
	case '$':
		return isASCIILetter(c.peek(1))
	case '@':
		// @someone is a mention. The few words that people write with an @ in front are short or start like "ass".
		return (c.peek(1)|32) == 's' && (c.peek(2)|32) == 's'
	}
	return false
}

// continues reports whether the symbol at the cursor belongs to the word before it, which has count letters and symbols
// so far. opened is the code point before the word.
func (c *cursor) continues(r rune, count int, opened rune) bool {
	next := c.peek(utf8.RuneLen(r))
	switch r {
	case '$':
		return !isDigit(next)
	case '@':
		return isASCIILetter(next) && count <= 6 && !c.looksLikeAddress()
	case '!':
		return isASCIILetter(next) && count <= 4
	case '|', '+', '€', '¢', '#':
		return isASCIILetter(next) || next == r && r == '|'
	case '*':
		if opened == '*' || opened == '_' {
			return false // emphasis: *word*
		}
		end := 1
		for end < maxMask && c.peek(end) == '*' {
			end++
		}
		after := c.peek(end)
		return isASCIILetter(after) || (end >= 2 || c.last == '*') && count <= maxKnown && !isDigit(after)
	}
	return false
}

// maxComparisons is the maximum number of words that the masked words of a text are compared with, so that a text of
// nothing but masks that fit no word takes little longer than others. A page of masked words takes a tenth of it.
const maxComparisons = 100_000

// maxMask is the maximum length of a run of asterisks that stands for letters.
const maxMask = 8

// looksLikeAddress reports whether the @ at the cursor is that of an e-mail address: a dot follows in the same word.
func (c *cursor) looksLikeAddress() bool {
	const maxDomain = 40
	for i := c.at + 1; i < len(c.text) && i < c.at+maxDomain; i++ {
		switch b := c.text[i]; {
		case b == '.':
			return i+1 < len(c.text) && isASCIILetter(rune(c.text[i+1]))
		case !isASCIILetter(rune(b)) && !isDigit(rune(b)) && b != '-' && b != '_':
			return false
		}
	}
	return false
}

// scanWord makes a token of the word that begins at the cursor.
func (s *Scratch) scanWord(in *cursor) {
	begin, opened := in.point, in.last
	if s.scanPlain(in, opened) {
		return
	}
	s.word = s.word[:0]
	from, to := in.at, in.at
	end := begin
	hidden, stacked := false, 0
	pending := false // whether an invisible character stands after the last letter
scan:
	for in.at < len(in.text) {
		r, size := in.rune()
		switch classOf(r) {
		case letterClass, digitClass, regional:
			s.word = append(s.word, letter{r: r})
			if pending {
				hidden = true
			}
			pending, stacked = false, 0
		case markClass:
			if len(s.word) == 0 {
				break scan
			}
			switch base := s.word[len(s.word)-1].r; {
			case keepsMarks(base):
				if !isVowelMark(r) {
					s.word = append(s.word, letter{r: r})
				}
			default:
				if stacked++; stacked > 1 {
					hidden = true
				}
			}
		case invisible:
			// The zero-width joiners are ordinary spelling in Arabic and Indic scripts.
			pending = len(s.word) > 0 && !keepsMarks(s.word[len(s.word)-1].r)
			in.at, in.point = in.at+size, in.point+1
			continue
		case apostrophe:
			if len(s.word) == 0 || !isLetter(in.peek(size)) {
				break scan
			}
			s.word = append(s.word, letter{r: '\''})
			pending = false
		case symbolOfLetter:
			if r == '*' {
				if vowel := s.unmaskedVowel(in); vowel != 0 {
					s.word = append(s.word, letter{r: vowel})
					hidden, pending = true, false
					break
				}
			}
			if len(s.word) > 0 && !in.continues(r, len(s.word), opened) && !s.completes(in, r) {
				break scan
			}
			s.word = append(s.word, letter{r: r})
			pending = false
		default:
			break scan
		}
		in.skip(r, size)
		end, to = in.point, in.at
	}
	s.emitWord(Token{Begin: begin, End: end, byteAt: int32(from), byteEnd: int32(to)}, opened, hidden)
}

// plainWord returns the end of the word at byte i if the word is nothing but ASCII letters, else 0.
func plainWord(text string, i int) int {
	for ; i < len(text); i++ {
		switch k := asciiClass[text[i]&0x7f]; {
		case text[i] >= utf8.RuneSelf:
			return 0
		case k == letterClass:
		case k == separator:
			return i
		default:
			return 0
		}
	}
	return i
}

// scanRegional makes tokens of a run of regional indicators: flags, or a word where not all pairs are flags or where
// the letters are a known word.
func (s *Scratch) scanRegional(in *cursor) {
	count, at, areFlags := 0, in.at, true
	var word [maxKnown + 1]byte
	var last rune
	for at < len(in.text) {
		r, size := utf8.DecodeRuneInString(in.text[at:])
		if classOf(r) != regional {
			break
		}
		letter := r - firstRegional
		if count%2 == 1 {
			areFlags = areFlags && flags[last][letter]
		}
		word[min(count, maxKnown)] = byte('a' + letter)
		count, at, last = count+1, at+size, letter
	}
	if count%2 == 1 || !areFlags || count > 2 && isKnown(word[:min(count, len(word))]) {
		s.scanWord(in)
		return
	}
	for ; count > 0; count -= 2 {
		begin, from := in.point, len(s.buf)
		for range 2 {
			r, size := in.rune()
			s.buf = utf8.AppendRune(s.buf, r)
			in.skip(r, size)
		}
		s.add(Token{Begin: begin, End: in.point, Flags: Emoji, rawAt: int32(from), rawEnd: int32(len(s.buf)),
			foldAt: int32(from), foldEnd: int32(len(s.buf))})
	}
}

// firstRegional is the regional indicator of A.
const firstRegional = 0x1F1E6

// emitRune makes a token of the one code point at the cursor.
func (s *Scratch) emitRune(in *cursor, r rune, size int, flags Flags) {
	from := len(s.buf)
	s.buf = utf8.AppendRune(s.buf, r)
	t := Token{Begin: in.point, End: in.point + 1, Flags: flags, rawAt: int32(from), rawEnd: int32(len(s.buf)),
		foldAt: int32(from), foldEnd: int32(len(s.buf))}
	in.skip(r, size)
	s.add(t)
}

// add appends a token that is no single letter.
func (s *Scratch) add(t Token) {
	if t.Flags&Emoji == 0 {
		s.words++
	}
	s.joinSingles()
	s.tokens = append(s.tokens, t)
}

// bind sets the forms of the tokens, once the buffer no longer moves.
func (s *Scratch) bind() {
	for i := range s.tokens {
		t := &s.tokens[i]
		t.Raw = s.buf[t.rawAt:t.rawEnd:t.rawEnd]
		t.Folded = s.buf[t.foldAt:t.foldEnd:t.foldEnd]
	}
}

// share says of a text whether most of its letters are Latin.
type share uint8

const (
	uncounted share = iota
	minority
	majority
)

// mostlyLatin reports whether most letters of the text are Latin, so that words of look-alikes are suspect. Few texts
// need it.
func (s *Scratch) mostlyLatin() bool {
	if s.latin == uncounted {
		latin, other := 0, 0
		for i := 0; i < len(s.content); i++ {
			b := scriptOf[s.content[i]]
			latin += int(b & 1)
			other += int(b >> 1)
		}
		s.latin = minority
		if latin > 2*other {
			s.latin = majority
		}
	}
	return s.latin == majority
}

// scriptOf is 1 for ASCII letters and 2 for the first bytes of Greek and Cyrillic letters.
var scriptOf = func() (t [256]uint8) {
	for b := range t {
		switch {
		case b < utf8.RuneSelf && asciiClass[b] == letterClass:
			t[b] = 1
		case b >= 0xCD && b <= 0xD4:
			t[b] = 2
		}
	}
	return t
}()

func isASCIILetter(r rune) bool { return r|32 >= 'a' && r|32 <= 'z' }

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isLetter(r rune) bool {
	return isASCIILetter(r) || r >= utf8.RuneSelf && classOf(r) == letterClass
}

// keepsMarks reports whether combining marks are ordinary spelling after the letter r, as they are everywhere but in
// Latin, Greek and Cyrillic.
func keepsMarks(r rune) bool {
	return r >= 0x0590 && r < 0x1D00 || r >= 0x2E80 && r < 0xA640 || r >= 0xA800 && r < 0xAB30
}

// asciiClass holds the class of each ASCII code point.
var asciiClass = func() (t [128]class) {
	for b := range t {
		switch {
		case isASCIILetter(rune(b)):
			t[b] = letterClass
		case isDigit(rune(b)):
			t[b] = digitClass
		}
	}
	t['\''] = apostrophe
	for _, b := range "$@!|+*#" {
		t[b] = symbolOfLetter
	}
	for b := range 32 {
		if b != '\t' && b != '\n' && b != '\v' && b != '\f' && b != '\r' {
			t[b] = invisible
		}
	}
	t[127] = invisible
	return t
}()

// classOf returns the class of a code point.
func classOf(r rune) class {
	if r < utf8.RuneSelf {
		return asciiClass[r&0x7f]
	}
	if uint32(r) < remembered {
		return propertiesOf(r).class()
	}
	return computeClass(r)
}

// computeClass computes the class of a code point beyond ASCII.
func computeClass(r rune) class {
	if r >= 0x1F200 && r < 0x1FB00 && (r < 0x1F3FB || r > 0x1F3FF) {
		return emojiClass // the most common code points of four bytes
	}
	switch {
	case r == '’' || r == 'ʼ' || r == '＇':
		return apostrophe
	case r == '€' || r == '¢':
		return symbolOfLetter
	case r < 0x300:
		if r == 0xAD {
			return invisible
		}
		if r >= 0xC0 && r != '×' && r != '÷' || r == 'ª' || r == 'º' {
			return letterClass
		}
		if r < 0xA0 {
			return invisible
		}
		return separator
	case isInvisible(r):
		return invisible
	case r >= firstRegional && r <= 0x1F1FF:
		return regional
	case r >= 0x1F110 && r <= 0x1F189: // boxed and circled capitals
		return letterClass
	case r >= 0x1F000 && r < 0x1FB00, r >= 0x2600 && r < 0x27C0, r == 0x203C, r >= 0x2B00 && r < 0x2B60:
		return emojiClass
	case r >= 0x1D400 && r < 0x1D7CC, r >= 0xFF21 && r <= 0xFF3A, r >= 0xFF41 && r <= 0xFF5A: // math, full-width
		return letterClass
	case r >= 0x24B6 && r <= 0x24E9, r >= 0x249C && r <= 0x24B5: // circled and parenthesised letters
		return letterClass
	case isIdeograph(r):
		return ideograph
	case unicode.IsLetter(r):
		return letterClass
	case unicode.IsMark(r):
		return markClass
	case unicode.IsDigit(r):
		return digitClass
	}
	return separator
}

// isIdeograph reports whether r is a letter of a script that is written without spaces.
func isIdeograph(r rune) bool {
	switch {
	case r >= 0x0E00 && r <= 0x0EFF, r >= 0x1000 && r <= 0x109F, r >= 0x1780 && r <= 0x17FF:
		return unicode.IsLetter(r)
	case r >= 0x3041 && r <= 0x30FF, r >= 0x3400 && r <= 0x4DBF, r >= 0x4E00 && r <= 0x9FFF,
		r >= 0xF900 && r <= 0xFAFF, r >= 0x20000 && r <= 0x3FFFF, r == '々', r == '〆':
		return unicode.IsLetter(r)
	}
	return false
}

// isInvisible reports whether r has no glyph of its own: zero-width, bidirectional control, variation selector, tag.
func isInvisible(r rune) bool {
	switch {
	case r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F,
		r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0000 && r <= 0xE0FFF, r >= 0xFFF9 && r <= 0xFFFB:
		return true
	case r == 0x034F, r == 0x061C, r == 0x0640, // the last is the tatweel, which stretches Arabic words
		r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r >= 0x180B && r <= 0x180F,
		r == 0x3164, r == 0xFEFF, r == 0xFFA0, r == 0x2800:
		return true
	case r >= 0x1F3FB && r <= 0x1F3FF, r == 0x20E3: // skin tones, key caps
		return true
	}
	return false
}
