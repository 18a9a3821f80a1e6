// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// letter is a code point of a word that is being folded.
type letter struct {
	r       rune // as typed
	to      rune // as it is meant, or 0 where it has no folded form
	folding folding
}

// folding is what folding a letter means.
type folding uint8

const (
	plain     folding = iota // ASCII, or a letter that stays as it is
	accent                   // Latin letter with a mark: é
	compat                   // another form of an ASCII letter: ｅ, 𝐞, ⓔ
	lookalike                // a letter of another script that looks the same: е
	faux                     // a letter of another script that is used as if it looked so: є, я
	foreign                  // a letter of another script that looks like nothing in ASCII
	digit                    // 0 to 9, which may stand for a letter
	symbol                   // $ @ ! | + € ¢
	mask                     // * or #
	silent                   // apostrophe, in the raw form only
)

// scanPlain makes a token of the word at the cursor if it is nothing but ASCII letters. before is the code point before
// the word.
func (s *Scratch) scanPlain(in *cursor, before rune) bool {
	begin, from := in.point, len(s.buf)
	end, small, long := s.appendShort(in)
	if end == 0 {
		if end = plainWord(in.text, in.at); end == 0 {
			return false
		}
		s.buf = append(s.buf, in.text[in.at:end]...)
		var last, beforeLast byte
		for i, b := range s.buf[from:] {
			small = small || b >= 'a'
			b |= 0x20
			s.buf[from+i] = b
			long = long || b == last && b == beforeLast
			last, beforeLast = b, last
		}
	}
	length, at := end-in.at, int32(in.at)
	in.last = rune(in.text[end-1])
	in.at, in.point = end, in.point+length
	if !long && small && length > 1 && before != '@' && before != '#' {
		// Most words are like this: nothing but letters.
		s.joinSingles()
		s.words, s.singles = s.words+1, 0
		s.tokens = append(s.tokens, Token{Begin: begin, End: in.point, rawAt: int32(from), rawEnd: int32(from + length),
			foldAt: int32(from), foldEnd: int32(from + length), byteAt: at, byteEnd: int32(end)})
		return true
	}

	t := Token{Begin: begin, End: in.point, rawAt: int32(from), rawEnd: int32(len(s.buf)),
		foldAt: int32(from), foldEnd: int32(len(s.buf)), byteAt: at, byteEnd: int32(end)}
	if !small && length >= 2 {
		t.Flags |= Caps
	}
	if long {
		t.Flags |= Stretched
		s.squeeze(&t)
	}
	s.addWord(t, before)
	return true
}

// appendShort appends the word at the cursor, in lower case, to the buffer and returns its end, if the word is nothing
// but up to seven ASCII letters. Otherwise, and near the end of the text, it returns 0. small says whether there is a
// small letter and long whether a letter stands there three times in a row.
//
// It looks at eight bytes at once: loops over single letters end where no processor could predict it.
func (s *Scratch) appendShort(in *cursor) (end int, small, long bool) {
	const each, top = 0x0101010101010101, 0x8080808080808080
	if len(in.text)-in.at < 8 {
		return 0, false, false
	}
	b := in.text[in.at : in.at+8]
	typed := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	lower := typed | 0x20*each
	ascii := lower &^ top
	// The top bit of a byte: from a on, not from { on, not beyond ASCII.
	letters := (ascii + (0x80-'a')*each) &^ (ascii + (0x80-'{')*each) &^ typed & top
	n := bits.TrailingZeros64(^letters&top) / 8
	if n == 0 || n == 8 || b[n] >= utf8.RuneSelf || asciiClass[b[n]] != separator {
		return 0, false, false
	}
	word := lower & (1<<(8*n) - 1)
	s.buf = binary.LittleEndian.AppendUint64(s.buf, word)
	s.buf = s.buf[:len(s.buf)-8+n]
	// The top bit of a byte: the letter is not the next one.
	differ := (word ^ word>>8) + 0x7f*each
	same := ^differ & top & (1<<(8*n-8) - 1)
	return in.at + n, typed&(1<<(8*n)-1)&(0x20*each) != 0, same&(same>>8) != 0
}

// addWord appends a word, with the flags that come from the code point before it.
func (s *Scratch) addWord(t Token, before rune) {
	switch before {
	case '@':
		t.Flags |= Mention
	case '#':
		t.Flags |= Hashtag
	}
	single := t.foldEnd-t.foldAt == 1 ||
		s.singles >= 2 && t.rawEnd-t.rawAt <= 4 && s.buf[t.rawAt+1] == '\'' // t h a t's
	if single && isASCIILetter(rune(s.buf[t.foldAt])) || isOtherLetter(s.buf[t.foldAt:t.foldEnd]) {
		s.addSingle(t, before)
		return
	}
	s.add(t)
	s.singles = 0
}

// emitWord makes a token of s.word at the place of t. hidden says whether something invisible stands between its
// letters.
func (s *Scratch) emitWord(t Token, before rune, hidden bool) {
	w := s.word
	if len(w) == 0 {
		return
	}
	from := len(s.buf)
	letters, upper, stretched := 0, 0, 0
	var last rune
	run := 0
	for _, l := range w {
		lower := l.r
		alphabetic := isASCIILetter(l.r)
		if lower < utf8.RuneSelf {
			if lower >= 'A' && lower <= 'Z' {
				lower += 'a' - 'A'
			}
		} else {
			p := propertiesOf(l.r)
			lower, alphabetic = p.lower(), p.isLetter()
		}
		if l.r == '’' || l.r == 'ʼ' || l.r == '＇' {
			lower = '\''
		}
		s.buf = utf8.AppendRune(s.buf, lower)
		if alphabetic {
			letters++
			if lower != l.r {
				upper++
			}
		}
		if lower == last && !isDigit(lower) {
			run++
		} else {
			last, run = lower, 1
		}
		stretched = max(stretched, run)
	}
	t.rawAt, t.rawEnd, t.foldAt, t.foldEnd = int32(from), int32(len(s.buf)), int32(from), int32(len(s.buf))
	if letters >= 2 && upper == letters {
		t.Flags |= Caps
	}
	if hidden {
		t.Flags |= Obfuscated
	}
	count := s.foldLetters()
	if count[digit] == len(w) {
		t.Flags |= Number
		s.addWord(t, before)
		return
	}
	if !s.foldMixed(&t, count) {
		s.foldScripts(&t, count)
		s.foldDigits(&t, count)
	}
	s.appendFolded(&t, count)
	if stretched >= 3 {
		t.Flags |= Stretched
		s.squeeze(&t)
	}
	s.addWord(t, before)
}

// foldLetters fills in what each letter of the word may stand for, and counts the foldings.
func (s *Scratch) foldLetters() (count [silent + 1]int) {
	for i := range s.word {
		l := &s.word[i]
		l.to, l.folding = foldRune(l.r)
		count[l.folding]++
	}
	return count
}

// foldScripts decides whether the letters of other scripts in the word are a disguise, and undoes their folding where
// they are not.
func (s *Scratch) foldScripts(t *Token, count [silent + 1]int) {
	alike := count[lookalike] + count[faux]
	if alike == 0 {
		if count[compat] > 0 {
			t.Flags |= Obfuscated
		}
		return
	}
	ascii := count[plain] + count[accent] + count[compat]
	disguised := ascii > 0 && (count[foreign] == 0 || ascii >= alike+count[foreign]) ||
		ascii == 0 && count[foreign]+count[faux] == 0 && alike >= 2 && s.mostlyLatin()
	if disguised {
		t.Flags |= Obfuscated
		return
	}
	for i := range s.word {
		if l := &s.word[i]; l.folding == lookalike || l.folding == faux {
			l.to = unicode.ToLower(l.r)
		}
	}
}

// foldMixed folds a Cyrillic or Greek word with some Latin letters, digits or symbols in it, in a text that is not
// mostly Latin, and reports whether it was one.
func (s *Scratch) foldMixed(t *Token, count [silent + 1]int) bool {
	if count[lookalike]+count[faux]+count[foreign] == 0 || count[compat]+count[mask] > 0 {
		return false
	}
	return s.foldInto(t, cyrillic, 0x400, 0x530, false) || s.foldInto(t, greek, 0x370, 0x400, true)
}

// foldInto folds a word of letters from low to high, exclusively, in which others of a table stand for some. mustDiffer
// says that one of the letters must look like no Latin one: nearly every Greek word has such a letter, and yου is
// English.
func (s *Scratch) foldInto(t *Token, table map[rune]rune, low, high rune, mustDiffer bool) bool {
	own, mapped, differs := 0, 0, !mustDiffer
	for _, l := range s.word {
		switch {
		case l.r >= low && l.r < high:
			own++
			differs = differs || l.folding != lookalike
		case table[l.r] != 0 || table[unicode.ToLower(l.r)] != 0:
			mapped++
		default:
			return false
		}
	}
	if mapped == 0 || own < 2 || 2*own < mapped || !differs || s.mostlyLatin() {
		return false
	}
	for i := range s.word {
		l := &s.word[i]
		switch {
		case l.r >= low && l.r < high:
			l.to = unicode.ToLower(l.r)
		case table[l.r] != 0:
			l.to = table[l.r]
		default:
			l.to = table[unicode.ToLower(l.r)]
		}
	}
	t.Flags |= Obfuscated
	return true
}

// foldDigits decides which digits and symbols of the word stand for letters.
func (s *Scratch) foldDigits(t *Token, count [silent + 1]int) {
	if count[digit] == 0 && count[symbol] == 0 {
		return
	}
	s.strokes = -1
	w := s.word
	letters := len(w) - count[digit] - count[symbol] - count[mask] - count[silent]
	if letters == 0 {
		return
	}
	first, last := 0, len(w)-1
	for first < len(w) && w[first].folding == digit {
		first++
	}
	for last >= 0 && w[last].folding == digit {
		last--
	}
	leading, trailing := first, len(w)-1-last
	interior := count[digit] - leading - trailing
	if leading > 0 && interior == 0 && trailing == 0 && s.isUnit(first) {
		return
	}
	wholly := (letters+count[symbol] >= 2 || s.dictionary != nil) && s.isWordInLeet(letters)
	for i := range w {
		l := &w[i]
		if l.folding != digit && l.folding != symbol {
			continue
		}
		isLetter := wholly || l.folding == symbol
		switch {
		case isLetter:
		case i < leading:
			isLetter = leading == 1 && letters >= 2
		case i > last:
			isLetter = trailing == 1 && letters >= 3 && (interior > 0 || l.r == '0' || l.r == '3' || l.r == '4')
		default:
			isLetter = true
		}
		if !isLetter {
			continue
		}
		l.to = s.leet(i)
		if wholly || l.folding == symbol || i >= leading && i <= last && letters >= 3 && letters > count[digit] {
			t.Flags |= Obfuscated
		}
	}
}

// leet returns the letter that the digit or symbol at i stands for.
func (s *Scratch) leet(i int) rune {
	w := s.word
	switch w[i].r {
	case '0':
		return 'o'
	case '3', '€':
		return 'e'
	case '4', '@':
		return 'a'
	case '5', '$':
		return 's'
	case '7', '+':
		return 't'
	case '6', '9':
		return 'g'
	case '2':
		return 'z'
	case '8':
		return 'b'
	case '¢':
		return 'c'
	}
	if s.strokes >= 0 {
		nth := 0
		for _, l := range w[:i] {
			if isStroke(l.r) {
				nth++
			}
		}
		if s.strokes>>min(nth, 3)&1 != 0 {
			return 'l'
		}
		return 'i'
	}
	if w[i].r == '!' {
		return 'i'
	}
	// 1 and | are l after a vowel, after another of themselves, or between some consonants and a vowel, else i: ki11,
	// s1ut, k1ll.
	if i > 0 {
		if before := w[i-1].r | 0x20; isVowel(before) || w[i-1].r == w[i].r {
			return 'l'
		}
	}
	if i > 0 && i+1 < len(w) && isVowel(w[i+1].r|0x20) {
		switch w[i-1].r | 0x20 {
		case 'b', 'c', 'f', 'g', 'p', 's':
			return 'l'
		}
	}
	return 'i'
}

func isVowel(r rune) bool { return r == 'a' || r == 'e' || r == 'i' || r == 'o' || r == 'u' }

// isWordInLeet reports whether the word, of which letters are letters, is a known or a likely one when all its digits
// and symbols stand for letters, and sets strokes accordingly.
func (s *Scratch) isWordInLeet(letters int) bool {
	strokes := 0
	for i := range s.word {
		if isStroke(s.word[i].r) {
			strokes++
		}
	}
	for s.strokes = -1; ; {
		if !s.tryLeet() {
			break
		}
		if isKnown(s.candidate) || s.isLikely(letters) {
			return true
		}
		if s.strokes++; s.dictionary == nil || strokes == 0 || s.strokes >= 1<<min(strokes, 4) {
			break
		}
	}
	s.strokes = -1
	return false
}

// isStroke reports whether a digit or symbol stands for i or for l.
func isStroke(r rune) bool { return r == '1' || r == '!' || r == '|' }

// tryLeet sets s.candidate to the word with its digits and symbols as letters. It reports false where that is not ASCII
// or too long.
func (s *Scratch) tryLeet() bool {
	s.candidate = s.candidate[:0]
	for i := range s.word {
		l := &s.word[i]
		r := l.to
		switch l.folding {
		case silent:
			continue
		case digit, symbol:
			r = s.leet(i)
		}
		if r >= utf8.RuneSelf || len(s.candidate) == maxWord {
			return false
		}
		s.candidate = append(s.candidate, byte(r))
	}
	return true
}

// isLikely reports whether s.candidate is a word of the dictionary and common enough: few letters among digits are more
// often the name of something than a word.
func (s *Scratch) isLikely(letters int) bool {
	if s.dictionary == nil {
		return false
	}
	cost := s.dictionary.cost(polynomial(s.candidate))
	switch n := len(s.candidate); {
	case n < 3:
		return false
	case n == 3:
		return letters >= 2 && cost <= 11*8 || cost <= 8*8
	case letters < 2:
		return cost <= 17*8
	}
	return cost < unknown
}

// completes reports whether the symbol at the cursor makes a word of the dictionary with the letters before and after
// it, and the letters after it are none by themselves.
func (s *Scratch) completes(in *cursor, r rune) bool {
	if s.dictionary == nil {
		return false
	}
	next := in.peek(1)
	switch r {
	case '*':
		return s.masksEnd(next)
	case '!', '@', '$':
	default:
		return false
	}
	if !mayBeLetter(next) {
		return false
	}
	// Too long, too short, or without a letter: no word. This is checked before anything is hashed.
	end, letters := in.at+1, len(s.word)
	for end < len(in.text) && end-in.at <= maxWord && mayBeLetter(rune(in.text[end])) {
		if isASCIILetter(rune(in.text[end])) {
			letters++
		}
		end++
	}
	if n := len(s.word) + end - in.at; letters == 0 || n <= 3 || n > maxWord {
		return false
	}
	for _, stroke := range [...]rune{'i', 'l'} {
		s.candidate = s.candidate[:0]
		for _, l := range s.word {
			s.candidate = appendFolding(s.candidate, l.r, stroke)
		}
		s.candidate = appendFolding(s.candidate, r, stroke)
		after := len(s.candidate)
		for i := in.at + 1; i < end; i++ {
			s.candidate = appendFolding(s.candidate, rune(in.text[i]), stroke)
		}
		whole, rest := polynomial(s.candidate), polynomial(s.candidate[after:])
		if s.dictionary.cost(whole) < unknown && s.dictionary.cost(rest) == unknown {
			return true
		}
	}
	return false
}

// masksEnd reports whether an asterisk at the cursor masks the last letter of a word, which is none without it.
func (s *Scratch) masksEnd(next rune) bool {
	if len(s.word) < 3 || next == '*' || isDigit(next) {
		return false
	}
	s.candidate = s.candidate[:0]
	for _, l := range s.word {
		s.candidate = appendFolding(s.candidate, l.r, 'i')
	}
	return !isKnown(s.candidate) && s.dictionary.cost(polynomial(s.candidate)) == unknown &&
		s.dictionary.unmask(append(s.candidate, '*'), &s.comparisons) != nil
}

// opens reports whether the symbol at the cursor is the first letter of a word of the dictionary: !diot, @ttack, $71ll.
func (s *Scratch) opens(in *cursor, r rune) bool {
	s.word = s.word[:0]
	return !isASCIILetter(in.last) && s.completes(in, r)
}

// mayBeLetter reports whether a code point may stand for an ASCII letter in a word.
func mayBeLetter(r rune) bool {
	return isASCIILetter(r) || isDigit(r) || r == '$' || r == '@' || r == '!'
}

// appendFolding appends the ASCII letter that a code point mostly stands for. stroke is what 1, | and ! stand for.
func appendFolding(to []byte, r, stroke rune) []byte {
	if i := strings.IndexByte("0123456789$@", byte(r)); r < utf8.RuneSelf && i >= 0 {
		r = rune("oizeasgtbgsa"[i])
		if i == 1 {
			r = stroke
		}
	} else if isStroke(r) {
		r = stroke
	} else {
		r, _ = foldRune(r)
	}
	if r >= utf8.RuneSelf {
		r = '?'
	}
	return append(to, byte(r))
}

// isUnit reports whether the letters from the index i on are those of an ordinal or a unit: 4th, 10km.
func (s *Scratch) isUnit(i int) bool {
	var name [5]byte
	n := 0
	for _, l := range s.word[i:] {
		if n == len(name) || l.to >= utf8.RuneSelf {
			return false
		}
		name[n] = byte(l.to)
		n++
	}
	switch string(name[:n]) {
	case "st", "nd", "rd", "th", "am", "pm", "km", "kg", "mg", "ml", "mm", "cm", "nm", "gb", "mb", "kb", "tb", "lb",
		"lbs", "oz", "ft", "in", "yd", "mi", "mph", "kmh", "kph", "yr", "yrs", "yo", "min", "mins", "sec", "secs", "hr", "hrs",
		"days", "wk", "wks", "mo", "x", "k", "m", "b", "d", "g", "s", "h", "l", "c", "f", "w", "v", "a", "p", "fps", "hz",
		"ghz", "mhz", "kw", "kwh", "mah", "px", "pt", "pts", "pc", "pcs", "pk", "er", "ers", "ish", "bn", "mn", "tr",
		"way", "year", "years", "hour", "hours", "day", "week", "month", "mile", "miles", "bit", "star", "dr":
		return true
	}
	return false
}

// appendFolded appends the folded form of the word to the buffer, where it differs from the raw form.
func (s *Scratch) appendFolded(t *Token, count [silent + 1]int) {
	from := len(s.buf)
	for _, l := range s.word {
		switch {
		case l.folding == silent:
		case l.folding == mask:
			s.buf = append(s.buf, '*')
		case l.to == 'æ' && l.folding == accent:
			s.buf = append(s.buf, 'a', 'e')
		case l.to == 'œ' && l.folding == accent:
			s.buf = append(s.buf, 'o', 'e')
		case l.to == 'ß' && l.folding == accent:
			s.buf = append(s.buf, 's', 's')
		default:
			s.buf = utf8.AppendRune(s.buf, l.to)
		}
	}
	if count[mask] > 0 {
		if word := unmask(s.buf[from:]); word != "" {
			s.buf = append(s.buf[:from], word...)
			t.Flags |= Obfuscated
		} else if s.dictionary != nil {
			if word := s.dictionary.unmask(s.buf[from:], &s.comparisons); word != nil {
				s.buf = append(s.buf[:from], word...)
				t.Flags |= Obfuscated
			}
		}
	}
	if string(s.buf[from:]) == string(s.buf[t.rawAt:t.rawEnd]) {
		s.buf = s.buf[:from]
		return
	}
	t.foldAt, t.foldEnd = int32(from), int32(len(s.buf))
}

// squeeze shortens runs of three and more equal letters in the folded form to two, or to one where that makes a
// commoner word.
func (s *Scratch) squeeze(t *Token) {
	folded := s.buf[t.foldAt:t.foldEnd]
	from := len(s.buf)
	s.buf = appendSqueezed(s.buf, folded, 2)
	again := len(s.buf)
	s.buf = appendSqueezed(s.buf, folded, 1)
	if s.rarity(s.buf[again:]) < s.rarity(s.buf[from:again]) {
		from = again
	} else {
		s.buf = s.buf[:again]
	}
	t.foldAt, t.foldEnd = int32(from), int32(len(s.buf))
}

// rarity is the cost of a word, or 0 for a word that people disguise.
func (s *Scratch) rarity(word []byte) int {
	if isKnown(word) {
		return 0
	}
	if s.dictionary == nil || len(word) > maxWord {
		return unknown
	}
	return s.dictionary.cost(polynomial(word))
}

// appendSqueezed appends word with each run of three or more equal code points shortened to keep of them.
func appendSqueezed(to, word []byte, keep int) []byte {
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRune(word[i:])
		end, run := i+size, 1
		for end < len(word) {
			next, n := utf8.DecodeRune(word[end:])
			if next != r {
				break
			}
			end, run = end+n, run+1
		}
		if run >= 3 && !isDigit(r) {
			run = keep
		}
		for ; run > 0; run-- {
			to = append(to, word[i:i+size]...)
		}
		i = end
	}
	return to
}

// addSingle appends a token of one letter, which may be part of a word that is spelled with separators.
func (s *Scratch) addSingle(t Token, before rune) {
	n := len(s.tokens)
	if s.singles == 0 || s.tokens[n-1].End != t.Begin-1 && !s.apostropheBetween(&s.tokens[n-1], &t, before) {
		s.add(t)
		s.singles = 1
		return
	}
	if s.singles > 1 && s.separator != before {
		if s.separator != ' ' {
			s.add(t)
			s.singles = 1
			return
		}
		// The last letter belongs to what follows: "I f.u.c.k".
		last := s.tokens[n-1]
		s.tokens = s.tokens[:n-1]
		s.singles--
		s.joinSingles()
		s.tokens = append(s.tokens, last)
		s.singles = 1
	}
	s.words++
	s.singles++
	s.separator = before
	s.tokens = append(s.tokens, t)
}

// apostropheBetween reports whether only an apostrophe between two separators divides two letters: t h a t ' s.
func (s *Scratch) apostropheBetween(a, b *Token, separator rune) bool {
	if b.Begin-a.End != 3 || s.separator != separator || b.byteAt < a.byteEnd {
		return false
	}
	between := s.content[a.byteEnd:b.byteAt]
	r, size := utf8.DecodeRuneInString(between)
	mark, _ := utf8.DecodeRuneInString(between[size:])
	return r == separator && classOf(mark) == apostrophe
}

// joinSingles makes one word of the run of single letters at the end of the tokens, when there is one.
func (s *Scratch) joinSingles() {
	count := s.singles
	s.singles = 0
	if count < 2 {
		return
	}
	first := len(s.tokens) - count
	for i := range s.tokens[first:] {
		if t := &s.tokens[first+i]; s.buf[t.foldAt] >= firstOtherScript {
			s.joinOthers(first)
			return
		}
	}
	if count < 3 {
		return
	}
	from := len(s.buf)
	var flags Flags
	for i := range s.tokens[first:] {
		t := &s.tokens[first+i]
		s.buf = append(s.buf, s.buf[t.foldAt:t.foldEnd]...)
		flags |= t.Flags &^ (SentenceEnd | Asked | Exclaimed)
	}
	word := s.buf[from:]
	// "u r a star" and "i c u" are chat, not a spelled word.
	rarity := s.rarity(word)
	if count == 3 && s.separator == ' ' && rarity > 12*8 {
		s.buf = s.buf[:from]
		return
	}
	if count > 3 || rarity < unknown {
		flags |= Obfuscated
	}
	last := s.tokens[len(s.tokens)-1]
	s.tokens[first] = Token{Begin: s.tokens[first].Begin, End: last.End, Flags: flags | last.Flags,
		byteAt: s.tokens[first].byteAt, byteEnd: last.byteEnd,
		rawAt: int32(from), rawEnd: int32(len(s.buf)), foldAt: int32(from), foldEnd: int32(len(s.buf))}
	s.tokens = s.tokens[:first+1]
	s.words -= count - 1
}
