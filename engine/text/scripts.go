// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"unicode"
	"unicode/utf8"
)

// A word of another script than Latin is only recovered as one that the dictionary knows. A dictionary has no costs of
// these words, so only changes are undone that hardly make a common word of a rare one.

const (
	// firstOtherScript is the first byte, in UTF-8, of letters beyond Latin: from U+0370 on.
	firstOtherScript = 0xCD
	// maxApart is the maximum number of letters apart that are looked up as one word, and maxApartBytes that of its
	// bytes.
	maxApart, maxApartBytes = 12, 48
	// maxOther is the maximum length in bytes of a word that may be a changed one: twice that of the longest words of
	// the dictionaries.
	maxOther = 40
	// surelyApart is the number of letters apart that nobody writes but to spell a word, in alphabets whose letters are
	// seldom words, and longestApart that of the longest word.
	surelyApart, longestApart = 5, 24
	// enoughLeft is the number of such letters in no known word that are no words by themselves.
	enoughLeft = 3
)

// isOtherLetter reports whether a folded word is a single letter of another script than Latin, with its marks, or
// consonants that a virama joins.
func isOtherLetter(word []byte) bool {
	const virama = '\u094d'
	if len(word) < 2 || word[0] < firstOtherScript || len(word) > 4*utf8.UTFMax {
		return false
	}
	joined := true // whether the next letter is part of the first one
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRune(word[i:])
		switch classOf(r) {
		case markClass:
		case letterClass:
			if !joined {
				return false
			}
		default:
			return false
		}
		joined = r == virama
		i += size
	}
	return true
}

// joinOthers makes words of the run of single letters from the token first on, some of which are of other scripts:
// those that the dictionary knows, the longest first. A syllable of Hangul or Devanagari is often a word by itself, so
// two that a space divides are joined only where one of them is none. A run that is a spelled word becomes one word
// where the dictionary has only pieces of it.
func (s *Scratch) joinOthers(first int) {
	end, left := len(s.tokens), 0 // letters that are in no known word
	if s.dictionary == nil {
		left = end - first
	}
	for i := first; i < end && s.dictionary != nil; {
		n := s.knownApart(i)
		if n == 1 {
			left++
		}
		i += n
	}
	if s.isSpelled(first) && left > 0 && (left >= enoughLeft || s.separator != ' ') {
		s.tokens[first] = s.merged(first, end)
		s.tokens, s.words = s.tokens[:first+1], s.words-(end-first-1)
		return
	}
	if s.dictionary == nil || left == end-first {
		return
	}
	out := first
	for i := first; i < end; out++ {
		n := s.knownApart(i)
		if n == 1 {
			s.tokens[out] = s.tokens[i]
		} else {
			s.tokens[out] = s.merged(i, i+n)
		}
		s.words -= n - 1
		i += n
	}
	s.tokens = s.tokens[:out]
}

// knownApart returns how many of the single letters from token i on make the longest known word, or 1.
func (s *Scratch) knownApart(i int) int {
	best, unknownPart := 1, false
	s.candidate = s.candidate[:0]
	for n := 1; n <= maxApart && i+n <= len(s.tokens); n++ {
		t := &s.tokens[i+n-1]
		part := s.buf[t.foldAt:t.foldEnd]
		s.candidate = append(s.candidate, part...)
		if len(s.candidate) > maxApartBytes {
			break
		}
		unknownPart = unknownPart || !s.dictionary.Knows(Hash(part))
		enough := n > 2 || n == 2 && s.separator != '*' && (s.separator != ' ' || unknownPart)
		if enough && s.dictionary.Knows(Hash(s.candidate)) {
			best = n
		}
	}
	return best
}

// isSpelled reports whether the single letters from the token first on are so many that they are a spelled word.
func (s *Scratch) isSpelled(first int) bool {
	if n := len(s.tokens) - first; n < surelyApart || n > longestApart {
		return false
	}
	for i := range s.tokens[first:] {
		t := &s.tokens[first+i]
		if r, size := utf8.DecodeRune(s.buf[t.foldAt:t.foldEnd]); size != int(t.foldEnd-t.foldAt) || r >= 0x700 {
			return false // not an alphabet
		}
	}
	return true
}

// merged returns a token of the folded forms of those from first to end.
func (s *Scratch) merged(first, end int) Token {
	from := len(s.buf)
	var flags Flags
	for i := first; i < end; i++ {
		t := &s.tokens[i]
		s.buf = append(s.buf, s.buf[t.foldAt:t.foldEnd]...)
		flags |= t.Flags &^ (SentenceEnd | Asked | Exclaimed)
	}
	last := s.tokens[end-1]
	return Token{Begin: s.tokens[first].Begin, End: last.End, Flags: flags | last.Flags | Obfuscated,
		byteAt: s.tokens[first].byteAt, byteEnd: last.byteEnd,
		rawAt: int32(from), rawEnd: int32(len(s.buf)), foldAt: int32(from), foldEnd: int32(len(s.buf))}
}

// recoverOther replaces a word of another script that is not in the dictionary by one that is, if letters were doubled
// or, in scripts with letters for vowels, two neighbours swapped. Roots of Arabic and Hebrew have the same letters in
// another order. opens says whether the word begins a sentence: a name must not become a bad word.
func (s *Scratch) recoverOther(t *Token, opens bool) {
	if s.isOtherName(t, opens) {
		return
	}
	folded := s.buf[t.foldAt:t.foldEnd]
	if len(folded) > maxOther {
		return
	}
	var letters, tried [maxOther]rune
	n, swappable := 0, true
	for i := 0; i < len(folded); n++ {
		r, size := utf8.DecodeRune(folded[i:])
		letters[n] = r
		swappable = swappable && r >= 0x370 && r < 0x530
		i += size
	}
	word := letters[:n]
	// All runs of equal letters as single ones, then each of them.
	for only := -1; only < n; only++ {
		if only >= 0 && (only == 0 || word[only] != word[only-1]) {
			continue
		}
		m := 0
		for i, r := range word {
			if i > 0 && r == word[i-1] && (only < 0 || i == only) {
				continue
			}
			tried[m] = r
			m++
		}
		if m > 1 && m < n && s.takeKnown(t, tried[:m]) {
			return
		}
	}
	if !swappable || n < 4 {
		return
	}
	for i := 1; i+1 < n; i++ {
		word[i], word[i+1] = word[i+1], word[i]
		if s.takeKnown(t, word) {
			return
		}
		word[i], word[i+1] = word[i+1], word[i]
	}
}

// recoverUmlauts recovers a word in which ä, ö, ü or å, which are folded to a, o and u, are written as ae, oe, ue or
// aa, and reports whether it was one.
func (s *Scratch) recoverUmlauts(t *Token) bool {
	word := s.buf[t.foldAt:t.foldEnd]
	if len(word) > maxWord {
		return false
	}
	isPair := func(i int) bool {
		if i+1 >= len(word) {
			return false
		}
		a, b := word[i], word[i+1]
		return b == 'e' && (a == 'a' || a == 'o' || a == 'u') || a == 'a' && b == 'a'
	}
	// All pairs, then each of them.
	for only := -1; only < len(word); only++ {
		if only >= 0 && !isPair(only) {
			continue
		}
		s.candidate = s.candidate[:0]
		for i := 0; i < len(word); i++ {
			s.candidate = append(s.candidate, word[i])
			if isPair(i) && (only < 0 || i == only) {
				i++
			}
		}
		if len(s.candidate) == len(word) {
			return false
		}
		if len(s.candidate) > minEdit && s.dictionary.cost(polynomial(s.candidate)) < unknown {
			from := len(s.buf)
			s.buf = append(s.buf, s.candidate...)
			t.foldAt, t.foldEnd, t.hash = int32(from), int32(len(s.buf)), Hash(s.candidate)
			t.Flags |= Recovered
			return true
		}
	}
	return false
}

// isOtherName reports whether a word may be a name because it has a capital that is not ASCII inside a sentence.
func (s *Scratch) isOtherName(t *Token, opens bool) bool {
	first, _ := utf8.DecodeRuneInString(s.content[t.byteAt:t.byteEnd])
	return !opens && t.Flags&Caps == 0 && first >= utf8.RuneSelf && unicode.IsUpper(first)
}

// takeKnown makes letters the folded form of a word if the dictionary knows them.
func (s *Scratch) takeKnown(t *Token, letters []rune) bool {
	from := len(s.buf)
	for _, r := range letters {
		s.buf = utf8.AppendRune(s.buf, r)
	}
	hash := Hash(s.buf[from:])
	if !s.dictionary.Knows(hash) {
		s.buf = s.buf[:from]
		return false
	}
	t.foldAt, t.foldEnd, t.hash = int32(from), int32(len(s.buf)), hash
	t.Flags |= Recovered
	return true
}

// unmaskedVowel returns the vowel that an asterisk at the cursor stands for between letters of a Cyrillic or Greek
// word of the dictionary, or 0.
func (s *Scratch) unmaskedVowel(in *cursor) rune {
	next := in.peek(1)
	if s.dictionary == nil || len(s.word) == 0 || next < utf8.RuneSelf || classOf(next) != letterClass {
		return 0
	}
	var vowels string
	switch first := s.word[0].r; {
	case first >= 0x400 && first < 0x530:
		vowels = "аеиоуыэюяєії"
	case first >= 0x370 && first < 0x400:
		vowels = "αειοηυωάέίόήύώ"
	default:
		return 0
	}
	var word [maxApart]rune
	n := 0
	add := func(r rune) bool {
		if n == len(word) || r < 0x370 || r >= 0x530 || classOf(r) != letterClass {
			return false
		}
		word[n] = unicode.ToLower(r)
		if word[n] == 'ё' {
			word[n] = 'е'
		}
		n++
		return true
	}
	for _, l := range s.word {
		if !add(l.r) {
			return 0
		}
	}
	at := n
	n++
	for i := in.at + 1; i < len(in.text); {
		r, size := utf8.DecodeRuneInString(in.text[i:])
		if classOf(r) != letterClass {
			break
		}
		if !add(r) {
			return 0
		}
		i += size
	}
	for _, v := range vowels {
		word[at] = v
		s.candidate = s.candidate[:0]
		for _, r := range word[:n] {
			s.candidate = utf8.AppendRune(s.candidate, r)
		}
		if s.dictionary.Knows(Hash(s.candidate)) {
			return v
		}
	}
	return 0
}
