// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
)

// The costs of changes of a word, in the unit of [Word.Cost], an eighth of a bit. A change that can be made in many
// places, or that people rarely make, costs more.
const (
	costDoubled       = 32  // letters are doubled
	costSwapped       = 56  // two neighbours are swapped
	costDropped       = 60  // a vowel is left out
	costFirst         = 24  // more where that changes the first letter
	costLast          = 8   // more where it is the last letter
	costBoundary      = 16  // a space is left out
	costLone          = 12  // more before a word of one letter
	costTwoDropped    = 100 // two vowels are left out
	costUnknownWord   = 80  // an unknown word is among joined ones
	costUnknownLetter = 32  // more for each letter of it
)

// The maximum cost of an unknown word of n letters as a changed one: about what the word would cost as an unknown name.
func maxEditCost(n int) int  { return 120 + 20*n }
func maxSplitCost(n int) int { return 110 + 24*n + 8*max(0, n-9) } // names are hardly longer than nine letters
func maxRunCost(n int) int   { return 160 + 32*n }                 // letters that stand apart are not a name

// What is taken off the maximum where the word has a capital, as names have, and what is added otherwise.
const (
	lessAtOpening       = 20  // of a changed word that begins a sentence
	lessAsName          = 40  // of a changed word with a capital inside a sentence
	lessJoinedAtOpening = 40  // of joined words that begin a sentence
	lessJoinedEach      = 4   // more for each letter of joined words with a capital
	lessJoinedAsName    = 120 // of joined words with a capital inside a sentence
	moreAsPhrase        = 64  // of joined words that begin a sentence with a word that costs at most maxOpeningWord
	maxOpeningWord      = 80
	moreWithoutVowel    = 32 // of a changed word without a vowel, as no name is
)

const (
	minEdit            = 3      // the minimum length of a word that may be a changed one
	minSplit, maxSplit = 5, 400 // the lengths of a word that may be joined ones
	// The lengths of unknown words among joined ones, and the minimum length of all of them together.
	minUnknown, maxUnknown = 3, 10
	minAroundUnknown       = 12
	// maxVowelTries is the maximum number of words of a text that are tried with two vowels more, so that a text of
	// random letters does not take much longer than others.
	maxVowelTries = 100
)

// recoverWords replaces words that are not in the dictionary by words of it that they may be a change of.
func (s *Scratch) recoverWords(content string) {
	s.vowelTries, s.capitals = maxVowelTries, 0
	s.spare = s.spare[:0]
	done := 0 // tokens that are in s.spare
	for i := range s.tokens {
		if i%len(s.places) == 0 {
			s.hashTokens(s.tokens[i:min(i+len(s.places), len(s.tokens))])
		}
		t := &s.tokens[i]
		word := s.buf[t.foldAt:t.foldEnd]
		if len(word) < minEdit || s.dictionary.Knows(t.hash) || t.Flags&(Emoji|Number|Mention) != 0 {
			continue
		}
		opens := i == 0 || s.tokens[i-1].Flags&SentenceEnd != 0
		if word[0] >= firstOtherScript {
			s.recoverOther(t, opens)
			continue
		}
		// In English, a word with accents is a genuine one of another language.
		accents := s.hasAccents(t)
		if !isLatin(word) || accents && (s.dictionary.isEnglish() || s.isOtherName(t, opens)) {
			continue
		}
		role := roleOf(content, t, opens)
		if role == acronym && s.mostlyCapitals() {
			role = ordinary
		}
		if role == inAddress {
			continue
		}
		if !s.dictionary.isEnglish() && s.recoverUmlauts(t) {
			continue
		}
		change := edit{cost: unknown}
		if t.Flags&Hashtag == 0 {
			change = s.edit(word, role)
		}
		if cost := s.split(word, t, role); cost < change.cost && !accents {
			s.spare = append(s.spare, s.tokens[done:i]...)
			s.appendParts(*t)
			done = i + 1
			continue
		}
		if change.cost == unknown {
			continue
		}
		from := len(s.buf)
		s.buf = change.appendTo(s.buf, word)
		t.foldAt, t.foldEnd = int32(from), int32(len(s.buf))
		t.hash = Hash(s.buf[from:])
		t.Flags |= Recovered
	}
	if done > 0 {
		s.spare = append(s.spare, s.tokens[done:]...)
		s.tokens, s.spare = s.spare, s.tokens
	}
}

// hashTokens hashes tokens and has the processor load what tells whether the dictionary knows them.
func (s *Scratch) hashTokens(tokens []Token) {
	for i := range tokens {
		t := &tokens[i]
		t.hash = Hash(s.buf[t.foldAt:t.foldEnd])
		s.places[i] = uint32(t.hash >> s.dictionary.knownShift)
	}
	kernel.Prefetch(s.dictionary.known, s.places[:len(tokens)])
}

// hasAccents reports whether the word has letters with accents, as genuine words of other languages have.
func (s *Scratch) hasAccents(t *Token) bool {
	if t.Flags&Obfuscated != 0 {
		return false
	}
	for _, c := range s.buf[t.rawAt:t.rawEnd] {
		if c >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// mostlyCapitals reports whether most words of the text are in capitals, so that they are not acronyms.
func (s *Scratch) mostlyCapitals() bool {
	if s.capitals == 0 {
		for i := range s.tokens {
			if s.tokens[i].Flags&Caps != 0 {
				s.capitals += 2
			}
			s.capitals--
		}
	}
	return s.capitals > 0
}

// role is what a word may be by its capitals and by what stands around it.
type role uint8

const (
	ordinary  role = iota
	opening        // has a capital because it begins a sentence, or because it begins with I
	name           // has a capital elsewhere
	acronym        // a short word in capitals
	inAddress      // part of an address or an identifier, and so never a changed word
)

// roleOf returns the role of a word. opens says whether it begins a sentence.
func roleOf(content string, t *Token, opens bool) role {
	from, end := int(t.byteAt), int(t.byteEnd)
	if end <= from {
		return ordinary
	}
	if from > 0 && (joins(content[from-1]) || strings.HasSuffix(content[:from], "www.")) {
		return inAddress
	}
	if end < len(content) && (joins(content[end]) || content[end] == '.' && isDomain(content[end+1:])) {
		return inAddress
	}
	switch {
	case t.Flags&Caps != 0 && end-from <= maxAcronym:
		return acronym
	case t.Flags&Caps == 0 && isCapital(content[from]) && !hasCapital(content[from+1:end]):
		if opens || content[from] == 'I' {
			return opening
		}
		return name
	}
	return ordinary
}

func isCapital(b byte) bool { return b >= 'A' && b <= 'Z' }

func hasCapital(letters string) bool {
	for i := range len(letters) {
		if isCapital(letters[i]) {
			return true
		}
	}
	return false
}

// maxAcronym is the maximum length of an acronym, which is left alone.
const maxAcronym = 4

// joins reports whether a byte joins words in addresses and identifiers.
func joins(b byte) bool {
	switch b {
	case '/', '\\', '_', '=', '&', '%', '~', '@':
		return true
	}
	return false
}

// isDomain reports whether rest begins with the last part of a common host or file name.
func isDomain(rest string) bool {
	n := 0
	for n < len(rest) && n < 5 && isASCIILetter(rune(rest[n])) {
		n++
	}
	switch rest[:n] {
	case "com", "org", "net", "edu", "gov", "io", "dev", "co", "uk", "de", "fr", "eu", "info", "app", "html", "php", "js",
		"ts", "py", "go", "md", "txt", "pdf", "jpg", "png", "gif", "json", "xml", "exe", "zip":
		return true
	}
	return false
}

// edit turns an unknown word back into the word that it may be a change of.
type edit struct {
	cost      int
	operation operation
	at        int8   // where to swap or to insert
	insert    byte   // the letter to insert
	at2       int8   // where to insert another
	insert2   byte   // the other letter, or 0 for none
	keep      uint32 // a bit for each run of equal letters of which two are kept
}

type operation uint8

const (
	swap operation = iota
	insert
	collapse
)

// edit finds the cheapest word among those that become the unknown one when letters are doubled, neighbours swapped or
// vowels left out.
func (s *Scratch) edit(word []byte, role role) edit {
	best := edit{cost: unknown}
	n := len(word)
	if n > 2*maxWord || role == acronym {
		return best
	}
	limit := maxEditCost(n)
	switch role {
	case opening:
		limit -= lessAtOpening
	case name:
		limit -= lessAsName
	}
	if !hasVowel(word) {
		limit += moreWithoutVowel
	}
	s.collapse(word, &best)
	if n <= maxWord {
		prefixes := prefixesOf(word)
		s.swapOrInsert(word, &prefixes, &best)
		if best.cost > limit && n >= 4 && n <= 8 && s.vowelTries > 0 && !hasVowel(word) {
			s.vowelTries--
			s.insertTwo(word, &prefixes, &best)
		}
	}
	if best.cost > limit {
		best.cost = unknown
	}
	return best
}

// prefixesOf returns the polynomials of the prefixes of a word.
func prefixesOf(word []byte) (prefixes [maxWord + 1]uint64) {
	for i, c := range word {
		prefixes[i+1] = prefixes[i]*base + coefficient(c)
	}
	return prefixes
}

// swapOrInsert tries the word with two neighbours swapped, and with a vowel inserted.
func (s *Scratch) swapOrInsert(word []byte, prefixes *[maxWord + 1]uint64, best *edit) {
	d, n := s.dictionary, len(word)
	whole := prefixes[n]
	if n > 3 {
		for i := range n - 1 {
			if i > 0 && !d.isPrefix(prefixes[i]) {
				break
			}
			a, b := coefficient(word[i]), coefficient(word[i+1])
			c := d.cost(whole+(b-a)*(powers[n-1-i]-powers[n-2-i])) + costSwapped
			if i == 0 {
				c += costFirst
			}
			if c < best.cost && a != b {
				*best = edit{cost: c, operation: swap, at: int8(i)}
			}
		}
	}
	for i := range n + 1 {
		if i > 0 && !d.isPrefix(prefixes[i]) {
			break
		}
		head, tail := prefixes[i]*base, whole-prefixes[i]*powers[n-i]
		extra := costDropped
		switch i {
		case 0:
			extra += costFirst
		case n:
			extra += costLast
		}
		for _, v := range [...]byte{'a', 'e', 'i', 'o', 'u'} {
			if c := d.cost((head+coefficient(v))*powers[n-i]+tail) + extra; c < best.cost {
				*best = edit{cost: c, operation: insert, at: int8(i), insert: v}
			}
		}
	}
}

func hasVowel(word []byte) bool {
	for _, c := range word {
		if isVowel(rune(c)) {
			return true
		}
	}
	return false
}

// insertTwo tries the word, which has no vowel, with two vowels inserted.
func (s *Scratch) insertTwo(word []byte, prefixes *[maxWord + 1]uint64, best *edit) {
	const vowels = "aeiou"
	d, n := s.dictionary, len(word)
	for i := 1; i < n && d.isPrefix(prefixes[i]); i++ {
		for v := range len(vowels) {
			start := prefixes[i]*base + coefficient(vowels[v])
			for j := i + 1; j <= n; j++ {
				// The letters from i to j, the second vowel, the rest.
				middle := start*powers[j-i] + prefixes[j] - prefixes[i]*powers[j-i]
				if !d.isPrefix(middle) {
					break
				}
				rest := prefixes[n] - prefixes[j]*powers[n-j]
				for w := range len(vowels) {
					c := d.cost((middle*base+coefficient(vowels[w]))*powers[n-j]+rest) + costTwoDropped
					if c < best.cost {
						*best = edit{cost: c, operation: insert, at: int8(i), insert: vowels[v]}
						best.at2, best.insert2 = int8(j), vowels[w]
					}
				}
			}
		}
	}
}

// collapse tries the word with its runs of equal letters as single letters, all but up to two, which stay doubled.
func (s *Scratch) collapse(word []byte, best *edit) {
	var single [2 * maxWord]byte
	var double [2 * maxWord]int // indexes in single
	m, k := 0, 0
	for i, c := range word {
		if i > 0 && word[i-1] == c {
			if k == 0 || double[k-1] != m-1 {
				double[k] = m - 1
				k++
			}
			continue
		}
		single[m] = c
		m++
	}
	if k == 0 || m > maxWord || m < 2 {
		return
	}
	try := func(poly uint64, keep uint32) {
		if c := s.dictionary.cost(poly) + costDoubled; c < best.cost {
			*best = edit{cost: c, operation: collapse, keep: keep}
		}
	}
	prefixes := prefixesOf(single[:m])
	whole := prefixes[m]
	if m >= minEdit {
		try(whole, 0)
	}
	if m >= maxWord {
		return
	}
	for a := range k {
		// The letter twice, and what follows it.
		i := double[a] + 1
		tail := whole - prefixes[i]*powers[m-i]
		twice := prefixes[i]*base + coefficient(single[i-1])
		try(twice*powers[m-i]+tail, 1<<double[a])
		if m+2 > maxWord {
			continue
		}
		for b := a + 1; b < k; b++ {
			j := double[b] + 1
			middle := twice*powers[j-i] + prefixes[j] - prefixes[i]*powers[j-i]
			rest := whole - prefixes[j]*powers[m-j]
			try((middle*base+coefficient(single[j-1]))*powers[m-j]+rest, 1<<double[a]|1<<double[b])
		}
	}
}

// appendTo appends the edited word.
func (e *edit) appendTo(buf, word []byte) []byte {
	switch e.operation {
	case swap:
		from := len(buf)
		buf = append(buf, word...)
		buf[from+int(e.at)], buf[from+int(e.at)+1] = word[e.at+1], word[e.at]
	case insert:
		buf = append(append(buf, word[:e.at]...), e.insert)
		if e.insert2 == 0 {
			return append(buf, word[e.at:]...)
		}
		buf = append(append(buf, word[e.at:e.at2]...), e.insert2)
		buf = append(buf, word[e.at2:]...)
	case collapse:
		m := 0
		for i, c := range word {
			if i > 0 && word[i-1] == c {
				continue
			}
			buf = append(buf, c)
			if e.keep>>m&1 != 0 {
				buf = append(buf, c)
			}
			m++
		}
	}
	return buf
}

// split finds the words that a word may be joined of, by the least sum of their costs, and leaves them in s.segments.
// It returns the sum, or unknown.
func (s *Scratch) split(word []byte, t *Token, role role) int {
	n := len(word)
	if n < minSplit || n > maxSplit {
		return unknown
	}
	d := s.dictionary
	if cap(s.segments) <= n {
		s.segments = make([]segment, 2*n+1)
	}
	segments := s.segments[:n+1]
	for i := range segments {
		segments[i] = segment{cost: unknown}
	}
	segments[0].cost = 0
	for i := range n {
		from := int(segments[i].cost)
		if from >= unknown {
			continue
		}
		if n >= minAroundUnknown {
			for length := minUnknown; length <= min(maxUnknown, n-i); length++ {
				segments[i+length].take(from+costBoundary+costUnknownWord+costUnknownLetter*length, i)
			}
		}
		poly := uint64(0)
		for j := i; j < min(n, i+maxWord); j++ {
			poly = poly*base + coefficient(word[j])
			if !d.isPrefix(poly) {
				break
			}
			cost := from + costBoundary
			switch j - i {
			case 0:
				if !isLoneLetter(word[j]) {
					continue
				}
				cost += costLone
			case 1:
				if !isShortWord(word[i], word[j]) {
					continue
				}
			}
			segments[j+1].take(cost+d.cost(poly), i)
		}
	}
	limit := maxSplitCost(n)
	switch {
	case t.Flags&Obfuscated != 0:
		limit = maxRunCost(n)
	case role == name:
		limit -= lessJoinedAsName + lessJoinedEach*n
	case role == opening:
		limit -= lessJoinedAtOpening + lessJoinedEach*n
		if s.firstCost(n) <= maxOpeningWord {
			limit += moreAsPhrase
		}
	}
	if cost := int(segments[n].cost); cost <= limit {
		return cost
	}
	return unknown
}

// firstCost returns the cost of the first word of the cheapest split of n letters.
func (s *Scratch) firstCost(n int) int {
	first := n
	for from := n; from > 0; from = int(s.segments[from].from) {
		first = from
	}
	return int(s.segments[first].cost) - costBoundary
}

// segment is the last word of the cheapest split of the letters before a place.
type segment struct {
	cost int32 // of the whole split
	from int32 // where the last word begins
}

// take takes another split where it is cheaper.
func (g *segment) take(cost, from int) {
	if cost < int(g.cost) {
		*g = segment{cost: int32(cost), from: int32(from)}
	}
}

// isLoneLetter reports whether a letter is a word by itself.
func isLoneLetter(c byte) bool { return c == 'a' || c == 'i' || c == 'u' }

// isShortWord reports whether two letters are a word that is common among joined ones.
func isShortWord(a, b byte) bool {
	switch string([]byte{a, b}) {
	case "of", "to", "in", "is", "it", "on", "be", "at", "as", "he", "we", "me", "my", "do", "go", "no", "so", "us", "up",
		"an", "or", "by", "if", "am", "im", "ur":
		return true
	}
	return false
}

// appendParts appends the words that split found in a token, in the order of the text.
func (s *Scratch) appendParts(t Token) {
	n := t.foldEnd - t.foldAt
	count := 0
	for end := n; end > 0; end = s.segments[end].from {
		count++
	}
	first := len(s.spare)
	for range count {
		s.spare = append(s.spare, Token{})
	}
	// A run of letters that stand apart is longer than the word. The places of its parts are in proportion.
	span := t.End - t.Begin
	for end, k := n, first+count-1; end > 0; k-- {
		begin := s.segments[end].from
		part := t
		part.Flags |= Recovered
		part.Flags &^= Hashtag
		if end < n {
			part.Flags &^= SentenceEnd | Asked | Exclaimed
		}
		part.foldAt, part.foldEnd = t.foldAt+begin, t.foldAt+end
		part.rawAt, part.rawEnd = part.foldAt, part.foldEnd
		part.Begin, part.End = t.Begin+span*int(begin)/int(n), t.Begin+span*int(end)/int(n)
		part.hash = Hash(s.buf[part.foldAt:part.foldEnd])
		s.spare[k] = part
		end = begin
	}
}
