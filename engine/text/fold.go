// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// letter is a code point of a word that is being read.
type letter struct {
	r    rune // as typed
	to   rune // as it reads, 0 when it has no form of its own
	kind kind
}

// kind says what folding a letter means.
type kind uint8

const (
	plain   kind = iota // ASCII, or a letter that stays as it is
	accent              // Latin letter with a mark: é
	compat              // another form of an ASCII letter: ｅ, 𝐞, ⓔ
	look                // a letter of another script that looks the same: е
	faux                // a letter of another script that is made to look so: є, я
	foreign             // a letter of another script that looks like nothing in ASCII
	digit               // 0 to 9, which may stand for a letter
	symbol              // $ @ ! | + € ¢
	mask                // * or #
	silent              // apostrophe: in the raw form only
)

// emitPlain makes a token of the ASCII letters from the cursor to the byte end.
func (s *Scratch) emitPlain(in *cursor, begin, end int, before rune) {
	from := len(s.buf)
	s.buf = append(s.buf, in.text[in.at:end]...)
	small, long := 0, false
	var last, beforeLast byte
	for i, b := range s.buf[from:] {
		small += int(b >> 5 & 1)
		b |= 0x20
		s.buf[from+i] = b
		if b == last && b == beforeLast {
			long = true
		}
		last, beforeLast = b, last
	}
	length, at := end-in.at, int32(in.at)
	in.last = rune(in.text[end-1])
	in.at, in.point = end, in.point+length
	if !long && small > 0 && length > 1 && before != '@' && before != '#' {
		// What most words are: nothing but letters.
		s.joinSingles()
		s.words, s.singles = s.words+1, 0
		s.tokens = append(s.tokens, Token{Begin: begin, End: in.point, rawAt: int32(from), rawEnd: int32(from + length),
			foldAt: int32(from), foldEnd: int32(from + length), byteAt: at, byteEnd: int32(end)})
		return
	}

	t := Token{Begin: begin, End: in.point, rawAt: int32(from), rawEnd: int32(len(s.buf)), foldAt: int32(from), foldEnd: int32(len(s.buf)),
		byteAt: at, byteEnd: int32(end)}
	if small == 0 && length >= 2 {
		t.Flags |= Caps
	}
	if long {
		t.Flags |= Stretched
		s.squeeze(&t)
	}
	s.addWord(t, before)
}

// addWord appends a word, with the flags that come from the code point before it.
func (s *Scratch) addWord(t Token, before rune) {
	switch before {
	case '@':
		t.Flags |= Mention
	case '#':
		t.Flags |= Hashtag
	}
	single := t.foldEnd-t.foldAt == 1 || s.singles >= 2 && t.rawEnd-t.rawAt <= 4 && s.buf[t.rawAt+1] == '\'' // t h a t's
	if single && isASCIILetter(rune(s.buf[t.foldAt])) {
		s.addSingle(t, before)
		return
	}
	s.add(t)
	s.singles = 0
}

// emitWord makes a token of s.word at the place of t. hidden says that something invisible stood between its letters.
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
			lower = unicode.ToLower(l.r)
			alphabetic = unicode.IsLetter(l.r)
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
	count := s.classifyLetters()
	if count[digit] == len(w) {
		t.Flags |= Number
		s.addWord(t, before)
		return
	}
	s.foldScripts(&t, count)
	s.foldDigits(&t, count)
	s.appendFolded(&t, count)
	if stretched >= 3 {
		t.Flags |= Stretched
		s.squeeze(&t)
	}
	s.addWord(t, before)
}

// classifyLetters fills in what each letter of the word could read as, and counts the kinds.
func (s *Scratch) classifyLetters() (count [silent + 1]int) {
	for i := range s.word {
		l := &s.word[i]
		l.to, l.kind = foldRune(l.r)
		count[l.kind]++
	}
	return count
}

// foldScripts decides whether letters of other scripts in the word are look-alikes in disguise, and takes back the
// folding of those that are not.
func (s *Scratch) foldScripts(t *Token, count [silent + 1]int) {
	alike := count[look] + count[faux]
	if alike == 0 {
		if count[compat] > 0 {
			t.Flags |= Obfuscated
		}
		return
	}
	ascii := count[plain] + count[accent] + count[compat]
	disguised := ascii > 0 && (count[foreign] == 0 || ascii >= alike+count[foreign]) ||
		ascii == 0 && count[foreign]+count[faux] == 0 && alike >= 2 && s.latin
	if disguised {
		t.Flags |= Obfuscated
		return
	}
	for i := range s.word {
		if l := &s.word[i]; l.kind == look || l.kind == faux {
			l.to = unicode.ToLower(l.r)
		}
	}
}

// foldDigits decides which digits and symbols of the word stand for letters.
func (s *Scratch) foldDigits(t *Token, count [silent + 1]int) {
	if count[digit] == 0 && count[symbol] == 0 {
		return
	}
	s.ells = -1
	w := s.word
	letters := len(w) - count[digit] - count[symbol] - count[mask] - count[silent]
	if letters == 0 {
		return
	}
	first, last := 0, len(w)-1
	for first < len(w) && w[first].kind == digit {
		first++
	}
	for last >= 0 && w[last].kind == digit {
		last--
	}
	leading, trailing := first, len(w)-1-last
	interior := count[digit] - leading - trailing
	if leading > 0 && interior == 0 && trailing == 0 && s.isUnit(first) {
		return
	}
	wholly := (letters+count[symbol] >= 2 || s.dictionary != nil) && s.readsAsKnown(letters)
	for i := range w {
		l := &w[i]
		if l.kind != digit && l.kind != symbol {
			continue
		}
		reads := wholly || l.kind == symbol
		switch {
		case reads:
		case i < leading:
			reads = leading == 1 && letters >= 2
		case i > last:
			reads = trailing == 1 && letters >= 3 && (interior > 0 || l.r == '0' || l.r == '3' || l.r == '4')
		default:
			reads = true
		}
		if !reads {
			continue
		}
		l.to = s.leet(i)
		if wholly || l.kind == symbol || i >= leading && i <= last && letters >= 3 && letters > count[digit] {
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
	if s.ells >= 0 {
		nth := 0
		for _, l := range w[:i] {
			if isTwofold(l.r) {
				nth++
			}
		}
		if s.ells>>min(nth, 3)&1 != 0 {
			return 'l'
		}
		return 'i'
	}
	if w[i].r == '!' {
		return 'i'
	}
	// 1 and | are i, or l beside a vowel or beside another of their kind: k1ll, s1ut, ki11.
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

// readsAsKnown says whether the word, which has so many letters, is a known one when all of its digits and symbols are
// letters, and sets what those read as that have two readings.
func (s *Scratch) readsAsKnown(letters int) bool {
	twofold := 0
	for i := range s.word {
		if isTwofold(s.word[i].r) {
			twofold++
		}
	}
	for s.ells = -1; ; {
		if !s.readAll() {
			break
		}
		if isKnown(s.trial) || s.isLikely(letters) {
			return true
		}
		if s.ells++; s.dictionary == nil || twofold == 0 || s.ells >= 1<<min(twofold, 4) {
			break
		}
	}
	s.ells = -1
	return false
}

// isTwofold says whether a symbol reads as i or as l.
func isTwofold(r rune) bool { return r == '1' || r == '!' || r == '|' }

// readAll writes the word to s.trial with all of its digits and symbols read; it fails where that is no ASCII.
func (s *Scratch) readAll() bool {
	s.trial = s.trial[:0]
	for i := range s.word {
		l := &s.word[i]
		r := l.to
		switch l.kind {
		case silent:
			continue
		case digit, symbol:
			r = s.leet(i)
		}
		if r >= utf8.RuneSelf || len(s.trial) == longestWord {
			return false
		}
		s.trial = append(s.trial, byte(r))
	}
	return true
}

// isLikely says whether s.trial is a word of the dictionary and common enough for what it is made of: few letters among
// digits are more often a name of something than a word.
func (s *Scratch) isLikely(letters int) bool {
	if s.dictionary == nil {
		return false
	}
	cost := s.dictionary.cost(polynomial(s.trial))
	switch n := len(s.trial); {
	case n < 3:
		return false
	case n == 3:
		return letters >= 2 && cost <= 11*8 || cost <= 8*8
	case letters < 2:
		return cost <= 17*8
	}
	return cost < unknown
}

// completes says whether the symbol at the cursor makes a known word with the letters before it and those behind it, which
// are none by themselves.
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
	if !mayRead(next) {
		return false
	}
	// What is longer than any word, or has no letter, is no word: that is seen before anything is read.
	end, letters := in.at+1, len(s.word)
	for end < len(in.text) && end-in.at <= longestWord && mayRead(rune(in.text[end])) {
		if isASCIILetter(rune(in.text[end])) {
			letters++
		}
		end++
	}
	if n := len(s.word) + end - in.at; letters == 0 || n <= 3 || n > longestWord {
		return false
	}
	for _, one := range [...]rune{'i', 'l'} {
		s.trial = s.trial[:0]
		for _, l := range s.word {
			s.trial = appendReading(s.trial, l.r, one)
		}
		s.trial = appendReading(s.trial, r, one)
		after := len(s.trial)
		for i := in.at + 1; i < end; i++ {
			s.trial = appendReading(s.trial, rune(in.text[i]), one)
		}
		if s.dictionary.cost(polynomial(s.trial)) < unknown && s.dictionary.cost(polynomial(s.trial[after:])) == unknown {
			return true
		}
	}
	return false
}

// masksEnd says whether an asterisk at the cursor masks the last letter of the word, which is none without it.
func (s *Scratch) masksEnd(next rune) bool {
	if len(s.word) < 3 || next == '*' || isDigit(next) {
		return false
	}
	s.trial = s.trial[:0]
	for _, l := range s.word {
		s.trial = appendReading(s.trial, l.r, 'i')
	}
	return !isKnown(s.trial) && s.dictionary.cost(polynomial(s.trial)) == unknown && s.dictionary.unmask(append(s.trial, '*'), &s.looks) != nil
}

// opens says whether the symbol at the cursor is the first letter of a known word: !diot, @ttack, $71ll.
func (s *Scratch) opens(in *cursor, r rune) bool {
	s.word = s.word[:0]
	return !isASCIILetter(in.last) && s.completes(in, r)
}

// mayRead says whether a code point may stand for an ASCII letter in a word.
func mayRead(r rune) bool { return isASCIILetter(r) || isDigit(r) || r == '$' || r == '@' || r == '!' }

// appendReading appends the ASCII letter that a code point mostly reads as; one is what 1 does.
func appendReading(to []byte, r, one rune) []byte {
	if i := strings.IndexByte("0123456789$@", byte(r)); r < utf8.RuneSelf && i >= 0 {
		r = rune("oizeasgtbgsa"[i])
		if i == 1 {
			r = one
		}
	} else if isTwofold(r) {
		r = one
	} else {
		r, _ = foldRune(r)
	}
	if r >= utf8.RuneSelf {
		r = '?'
	}
	return append(to, byte(r))
}

// isUnit says whether the letters from the index i on are those of an ordinal or a unit: 4th, 10km.
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

// appendFolded writes the folded form of the word to the buffer, where it is not the raw form.
func (s *Scratch) appendFolded(t *Token, count [silent + 1]int) {
	from := len(s.buf)
	for _, l := range s.word {
		switch {
		case l.kind == silent:
		case l.kind == mask:
			s.buf = append(s.buf, '*')
		case l.to == 'æ' && l.kind == accent:
			s.buf = append(s.buf, 'a', 'e')
		case l.to == 'œ' && l.kind == accent:
			s.buf = append(s.buf, 'o', 'e')
		case l.to == 'ß' && l.kind == accent:
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
			if word := s.dictionary.unmask(s.buf[from:], &s.looks); word != nil {
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

// squeeze shortens runs of three and more equal letters in the folded form, to two, or to one when that is a known
// word and two is not.
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

// rarity is what a word costs: nothing when it is one that people disguise.
func (s *Scratch) rarity(word []byte) int {
	if isKnown(word) {
		return 0
	}
	if s.dictionary == nil || len(word) > longestWord {
		return unknown
	}
	return s.dictionary.cost(polynomial(word))
}

// appendSqueezed appends word with each run of three or more equal code points cut to keep of them.
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

// addSingle appends a token of one letter, which may belong to a word that is spelled with separators.
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

// apostropheBetween says whether nothing but an apostrophe among separators divides two letters: t h a t ' s.
func (s *Scratch) apostropheBetween(a, b *Token, separator rune) bool {
	if b.Begin-a.End != 3 || s.separator != separator || b.byteAt < a.byteEnd {
		return false
	}
	between := s.content[a.byteEnd:b.byteAt]
	r, size := utf8.DecodeRuneInString(between)
	mark, _ := utf8.DecodeRuneInString(between[size:])
	return r == separator && classify(mark) == apostrophe
}

// joinSingles makes one word of the run of single letters at the end of the tokens, when there is one.
func (s *Scratch) joinSingles() {
	count := s.singles
	s.singles = 0
	if count < 3 {
		return
	}
	first := len(s.tokens) - count
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
	s.tokens[first] = Token{Begin: s.tokens[first].Begin, End: last.End, Flags: flags | last.Flags, byteAt: s.tokens[first].byteAt, byteEnd: last.byteEnd,
		rawAt: int32(from), rawEnd: int32(len(s.buf)), foldAt: int32(from), foldEnd: int32(len(s.buf))}
	s.tokens = s.tokens[:first+1]
	s.words -= count - 1
}
