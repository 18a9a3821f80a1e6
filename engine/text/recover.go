// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"unicode/utf8"
)

// What a change of a word costs, in the units of [Word.Cost]: eight to a bit. A change that can be made in many places, or
// that people rarely make, costs more.
const (
	costDoubled  = 32  // letters are doubled
	costSwapped  = 56  // two neighbours are swapped
	costDropped  = 60  // a vowel is left out
	costFirst    = 24  // and the first letter is another one then
	costLast     = 8   // and it is the last letter
	costBoundary = 16  // a space is left out
	costLone     = 12  // a word of one letter stands there
	costTwice    = 100 // two vowels are left out
	costStrange  = 80  // a word that nobody knows stands among joined ones
	eachStrange  = 32  // for each letter of it
)

// What an unknown word of n letters may cost as a changed one: as much as it would be worth as a name that nobody knows.
func mostOfEdit(n int) int  { return 120 + 20*n }
func mostOfSplit(n int) int { return 110 + 24*n + 8*max(0, n-9) } // hardly a name is longer than that
func mostOfRun(n int) int   { return 160 + 32*n }                 // letters that stand apart are no name

// It is less where the word has a capital, as names have, and more where it has no vowel, as no name has.
const (
	opensWith     = 20 // a sentence
	isName        = 40 // inside a sentence
	opensJoined   = 40 // a sentence, and joined words
	eachJoined    = 4  // and for each letter
	isJoinedName  = 120
	opensPhrase   = 64 // more again where the first part is a word that begins sentences
	costOfOpening = 80 // what such a word costs at most
	noVowel       = 32
)

const (
	shortestEdit  = 3
	shortestSplit = 5
	longestSplit  = 400
	// Strange words of such lengths may stand among joined ones, where they are so long together.
	shortestStrange, longestStrange = 3, 10
	shortestAround                  = 12
	// patience is how many words of a text are tried with two vowels more: a text that consists of letters at random must
	// not take much longer than others.
	patience = 100
)

// recover reads the words that are in no dictionary as the ones that they may be a change of.
func (s *Scratch) recover(content string) {
	s.patience, s.shouting = patience, 0
	s.spare = s.spare[:0]
	done := 0 // tokens that are in s.spare
	for i := range s.tokens {
		t := &s.tokens[i]
		word := s.buf[t.foldAt:t.foldEnd]
		t.hash = Hash(word)
		if len(word) < shortestEdit || s.dictionary.Knows(t.hash) || t.Flags&(Emoji|Number|Mention) != 0 || !isLatinWord(word) || s.hasAccents(t) {
			continue
		}
		in := placeOf(content, t, i == 0 || s.tokens[i-1].Flags&SentenceEnd != 0)
		if in == asAcronym && s.shouts() {
			in = inText
		}
		if in == inAddress {
			continue
		}
		change := edit{cost: unknown}
		if t.Flags&Hashtag == 0 {
			change = s.edit(word, in)
		}
		if cost := s.split(word, t, in); cost < change.cost {
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

// hasAccents says whether the word has letters with accents, as honest words of other languages have.
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

// shouts says whether most words of the text are in capitals, so that they are no acronyms.
func (s *Scratch) shouts() bool {
	if s.shouting == 0 {
		for i := range s.tokens {
			if s.tokens[i].Flags&Caps != 0 {
				s.shouting += 2
			}
			s.shouting--
		}
	}
	return s.shouting > 0
}

func isLatinWord(word []byte) bool {
	for _, c := range word {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// place says what the letters around a word and its capitals make of it.
type place uint8

const (
	inText    place = iota
	asOpening       // with a capital, where a sentence begins, or with I
	asName          // with a capital elsewhere
	asAcronym
	inAddress
)

// placeOf tells addresses and identifiers, which are never words in disguise, and what may be names. opens says that a
// sentence begins with the word.
func placeOf(content string, t *Token, opens bool) place {
	from, end := int(t.byteAt), int(t.byteEnd)
	if end <= from {
		return inText
	}
	if from > 0 && (joins(content[from-1]) || strings.HasSuffix(content[:from], "www.")) {
		return inAddress
	}
	if end < len(content) && (joins(content[end]) || content[end] == '.' && isDomain(content[end+1:])) {
		return inAddress
	}
	switch {
	case t.Flags&Caps != 0 && end-from <= longestAcronym:
		return asAcronym
	case t.Flags&Caps == 0 && isCapital(content[from]) && !hasCapital(content[from+1:end]):
		if opens || content[from] == 'I' {
			return asOpening
		}
		return asName
	}
	return inText
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

// longestAcronym is the length of the longest word of capitals that is left alone.
const longestAcronym = 4

// joins says whether a byte joins words in addresses and identifiers.
func joins(b byte) bool {
	switch b {
	case '/', '\\', '_', '=', '&', '%', '~', '@':
		return true
	}
	return false
}

// isDomain says whether a text begins with the last part of a common kind of host or file name.
func isDomain(rest string) bool {
	n := 0
	for n < len(rest) && n < 5 && isASCIILetter(rune(rest[n])) {
		n++
	}
	switch rest[:n] {
	case "com", "org", "net", "edu", "gov", "io", "dev", "co", "uk", "de", "fr", "eu", "info", "app", "html", "php", "js", "ts", "py", "go", "md", "txt",
		"pdf", "jpg", "png", "gif", "json", "xml", "exe", "zip":
		return true
	}
	return false
}

// edit is a word that another one may be a change of.
type edit struct {
	cost int
	kind editKind
	at   int8   // where
	put  byte   // a letter to put in, 0 for none
	also int8   // where to put in a second one
	then byte   // the second one
	keep uint32 // a bit for each run of equal letters of which two stay
}

type editKind uint8

const (
	swap editKind = iota
	insert
	collapse
)

// edit finds the word that costs least, among those that become the unknown one when letters are doubled, neighbours
// swapped or vowels left out.
func (s *Scratch) edit(word []byte, in place) edit {
	best := edit{cost: unknown}
	n := len(word)
	if n > 2*longestWord || in == asAcronym {
		return best
	}
	most := mostOfEdit(n)
	switch in {
	case asOpening:
		most -= opensWith
	case asName:
		most -= isName
	}
	if !hasVowel(word) {
		most += noVowel
	}
	s.collapse(word, &best)
	if n <= longestWord {
		d := s.dictionary
		var heads [longestWord + 1]uint64
		for i, c := range word {
			heads[i+1] = heads[i]*base + coefficient(c)
		}
		whole := heads[n]
		if n > 3 {
			for i := range n - 1 {
				if i > 0 && !d.begins(heads[i]) {
					break // no word begins so
				}
				a, b := coefficient(word[i]), coefficient(word[i+1])
				c := d.cost(whole+(b-a)*(powers[n-1-i]-powers[n-2-i])) + costSwapped
				if i == 0 {
					c += costFirst
				}
				if c < best.cost && a != b {
					best = edit{cost: c, kind: swap, at: int8(i)}
				}
			}
		}
		for i := range n + 1 {
			if i > 0 && !d.begins(heads[i]) {
				break
			}
			head, tail := heads[i]*base, whole-heads[i]*powers[n-i]
			extra := costDropped
			switch i {
			case 0:
				extra += costFirst
			case n:
				extra += costLast
			}
			for _, v := range [...]byte{'a', 'e', 'i', 'o', 'u'} {
				if c := d.cost((head+coefficient(v))*powers[n-i]+tail) + extra; c < best.cost {
					best = edit{cost: c, kind: insert, at: int8(i), put: v}
				}
			}
		}
		if best.cost > most && n >= 4 && n <= 8 && s.patience > 0 && !hasVowel(word) {
			s.patience--
			s.insertTwo(word, &heads, &best)
		}
	}
	if best.cost > most {
		best.cost = unknown
	}
	return best
}

func hasVowel(word []byte) bool {
	for _, c := range word {
		if isVowel(rune(c)) {
			return true
		}
	}
	return false
}

// insertTwo tries two vowels between the letters of a word that has none.
func (s *Scratch) insertTwo(word []byte, heads *[longestWord + 1]uint64, best *edit) {
	const vowels = "aeiou"
	d, n := s.dictionary, len(word)
	for i := 1; i < n && d.begins(heads[i]); i++ {
		for v := range len(vowels) {
			start := heads[i]*base + coefficient(vowels[v])
			for j := i + 1; j <= n; j++ {
				// The letters from i to j, the second vowel, the rest.
				middle := start*powers[j-i] + heads[j] - heads[i]*powers[j-i]
				if !d.begins(middle) {
					break
				}
				rest := heads[n] - heads[j]*powers[n-j]
				for w := range len(vowels) {
					if c := d.cost((middle*base+coefficient(vowels[w]))*powers[n-j]+rest) + costTwice; c < best.cost {
						*best = edit{cost: c, kind: insert, at: int8(i), put: vowels[v], also: int8(j), then: vowels[w]}
					}
				}
			}
		}
	}
}

// collapse tries the word with its doubled letters single, all but up to two.
func (s *Scratch) collapse(word []byte, best *edit) {
	var single [2 * longestWord]byte
	var double [2 * longestWord]int // indexes in single
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
	if k == 0 || m > longestWord || m < 2 {
		return
	}
	try := func(poly uint64, keep uint32) {
		if c := s.dictionary.cost(poly) + costDoubled; c < best.cost {
			*best = edit{cost: c, kind: collapse, keep: keep}
		}
	}
	var heads [longestWord + 1]uint64
	for i, c := range single[:m] {
		heads[i+1] = heads[i]*base + coefficient(c)
	}
	whole := heads[m]
	if m >= shortestEdit {
		try(whole, 0)
	}
	if m >= longestWord {
		return
	}
	for a := range k {
		// The letter once more, and what follows it.
		i := double[a] + 1
		tail := whole - heads[i]*powers[m-i]
		twice := heads[i]*base + coefficient(single[i-1])
		try(twice*powers[m-i]+tail, 1<<double[a])
		if m+2 > longestWord {
			continue
		}
		for b := a + 1; b < k; b++ {
			j := double[b] + 1
			middle := twice*powers[j-i] + heads[j] - heads[i]*powers[j-i]
			rest := whole - heads[j]*powers[m-j]
			try((middle*base+coefficient(single[j-1]))*powers[m-j]+rest, 1<<double[a]|1<<double[b])
		}
	}
}

// appendTo appends the word as it reads.
func (e *edit) appendTo(buf, word []byte) []byte {
	switch e.kind {
	case swap:
		from := len(buf)
		buf = append(buf, word...)
		buf[from+int(e.at)], buf[from+int(e.at)+1] = word[e.at+1], word[e.at]
	case insert:
		buf = append(append(buf, word[:e.at]...), e.put)
		if e.then == 0 {
			return append(buf, word[e.at:]...)
		}
		buf = append(append(buf, word[e.at:e.also]...), e.then)
		buf = append(buf, word[e.also:]...)
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

// split finds the words that a word consists of, by the least sum of their costs, and leaves the way to them in s.ways. It
// returns the sum, or unknown.
func (s *Scratch) split(word []byte, t *Token, in place) int {
	n := len(word)
	if n < shortestSplit || n > longestSplit {
		return unknown
	}
	d := s.dictionary
	if cap(s.ways) <= n {
		s.ways = make([]way, 2*n+1)
	}
	ways := s.ways[:n+1]
	for i := range ways {
		ways[i] = way{cost: unknown}
	}
	ways[0].cost = 0
	for i := range n {
		from := int(ways[i].cost)
		if from >= unknown {
			continue
		}
		if n >= shortestAround {
			for length := shortestStrange; length <= min(longestStrange, n-i); length++ {
				ways[i+length].take(from+costBoundary+costStrange+eachStrange*length, i)
			}
		}
		poly := uint64(0)
		for j := i; j < min(n, i+longestWord); j++ {
			poly = poly*base + coefficient(word[j])
			if !d.begins(poly) {
				break
			}
			cost := from + costBoundary
			switch j - i {
			case 0:
				if !standsAlone(word[j]) {
					continue
				}
				cost += costLone
			case 1:
				if !isShortWord(word[i], word[j]) {
					continue
				}
			}
			ways[j+1].take(cost+d.cost(poly), i)
		}
	}
	most := mostOfSplit(n)
	switch {
	case t.Flags&Obfuscated != 0:
		most = mostOfRun(n)
	case in == asName:
		most -= isJoinedName + eachJoined*n
	case in == asOpening:
		most -= opensJoined + eachJoined*n
		if s.opening(n) <= costOfOpening {
			most += opensPhrase
		}
	}
	if cost := int(ways[n].cost); cost <= most {
		return cost
	}
	return unknown
}

// opening returns what the first part of the cheapest way to n letters costs.
func (s *Scratch) opening(n int) int {
	first := n
	for from := n; from > 0; from = int(s.ways[from].from) {
		first = from
	}
	return int(s.ways[first].cost) - costBoundary
}

// way is the cheapest way to read a word up to a letter, and where the last part of it begins.
type way struct {
	cost, from int32
}

// take takes another way where it is cheaper.
func (w *way) take(cost, from int) {
	if cost < int(w.cost) {
		*w = way{cost: int32(cost), from: int32(from)}
	}
}

func standsAlone(c byte) bool { return c == 'a' || c == 'i' || c == 'u' }

// isShortWord says whether two letters are a word that often stands in joined ones.
func isShortWord(a, b byte) bool {
	switch string([]byte{a, b}) {
	case "of", "to", "in", "is", "it", "on", "be", "at", "as", "he", "we", "me", "my", "do", "go", "no", "so", "us", "up", "an", "or", "by",
		"if", "am", "im", "ur":
		return true
	}
	return false
}

// appendParts appends the parts of a token that split has found, in the order of the text.
func (s *Scratch) appendParts(t Token) {
	n := t.foldEnd - t.foldAt
	count := 0
	for end := n; end > 0; end = s.ways[end].from {
		count++
	}
	first := len(s.spare)
	for range count {
		s.spare = append(s.spare, Token{})
	}
	// A run of letters that stand apart is longer than the word: its parts lie in proportion.
	span := t.End - t.Begin
	for end, k := n, first+count-1; end > 0; k-- {
		begin := s.ways[end].from
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
