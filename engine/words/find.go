// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Find appends the matches in content to dst, in order and without overlap. Where several expressions begin at the same
// word, the longest is taken and the search continues after it. Find allocates nothing but what dst grows by.
func (l *List) Find(dst []Match, content string) []Match {
	if l.Len() == 0 {
		return dst
	}
	scratch := text.Get()
	defer text.Put(scratch)
	tokens := scratch.Tokenize(content)
	at := position{content: content}
	for len(tokens) > 0 {
		best := candidate{expression: none}
		l.search(tokens, 0, 0, &best)
		if best.expression == none {
			tokens = tokens[1:]
			continue
		}
		begin := at.byteOf(tokens[0].Begin)
		end := at.byteOf(tokens[best.words-1].End)
		dst = append(dst, Match{Begin: begin, End: end, Expression: l.expressions[best.expression]})
		tokens = tokens[best.words:]
	}
	return dst
}

// Cut returns content with each match of [List.Find] replaced by one space. Without a match it returns content itself
// and allocates nothing.
func (l *List) Cut(content string) string {
	return l.replace(content, func(string) int { return 1 })
}

// Blank returns content with each code point of each match of [List.Find] replaced by a space, so that all other code
// points stay at their places. Without a match it returns content itself and allocates nothing.
func (l *List) Blank(content string) string { return l.replace(content, utf8.RuneCountInString) }

// replace replaces each match by as many spaces as length says.
func (l *List) replace(content string, length func(match string) int) string {
	var few [16]Match
	matches := l.Find(few[:0], content)
	if len(matches) == 0 {
		return content
	}
	var b strings.Builder
	b.Grow(len(content))
	from := 0
	for _, m := range matches {
		b.WriteString(content[from:m.Begin])
		for range length(content[m.Begin:m.End]) {
			b.WriteByte(' ')
		}
		from = m.End
	}
	b.WriteString(content[from:])
	return b.String()
}

// candidate is the longest expression found so far at one place of a text.
type candidate struct {
	expression int32
	words      int // the length of the expression
}

// search follows the tokens from a node that the given number of words led to, and keeps the longest expression in
// best. It recurses no deeper than the longest expression has words.
func (l *List) search(tokens []text.Token, from uint32, words int, best *candidate) {
	var few [4]uint32
	for _, word := range l.numbersOf(few[:0], &tokens[0]) {
		at, ok := l.edges[edge{from, word}]
		if !ok {
			continue
		}
		n := l.nodes[at]
		if n.expression != none && words+1 > best.words {
			*best = candidate{expression: n.expression, words: words + 1}
		}
		if n.inner && len(tokens) > 1 {
			l.search(tokens[1:], at, words+1, best)
		}
	}
}

// numbersOf appends the numbers of the listed words that a token may be; mostly there are none.
func (l *List) numbersOf(to []uint32, t *text.Token) []uint32 {
	if n, ok := l.numberOf(t.Folded); ok {
		to = append(to, n)
	}
	if t.Differs() {
		if n, ok := l.numberOf(t.Raw); ok {
			to = append(to, n)
		}
	}
	if t.Is(text.Stretched) && len(t.Folded) <= 2*l.longest {
		var form [2 * MaxCharacters * utf8.UTFMax]byte
		for _, n := range l.collapsed[string(appendCollapsed(form[:0], t.Folded))] {
			if string(t.Folded) == l.words[n] {
				continue // it is in the result already
			}
			if isStretchOf(t.Folded, l.words[n]) {
				to = append(to, n)
			}
		}
	}
	return to
}

// numberOf returns the number of a listed word. A word longer than all of the list is not even hashed: the words of a
// text may have any length and are looked up several times.
func (l *List) numberOf(word []byte) (uint32, bool) {
	if len(word) > l.longest {
		return 0, false
	}
	n, ok := l.numbers[string(word)]
	return n, ok
}

// appendCollapsed appends a word with repeated letters written once.
func appendCollapsed(to, word []byte) []byte {
	last := rune(-1)
	for len(word) > 0 {
		r, size := utf8.DecodeRune(word)
		if r != last {
			to = append(to, word[:size]...)
		}
		last, word = r, word[size:]
	}
	return to
}

// isStretchOf reports whether stretched may stand for word. The caller has checked that they differ in repeated letters
// only. Package text leaves two letters of a longer run; word may have one or two of them there.
func isStretchOf(stretched []byte, word string) bool {
	for len(stretched) > 0 && len(word) > 0 {
		r, size := utf8.DecodeRune(stretched)
		long := run(string(stretched), r)
		short := run(word, r)
		if short == 0 || short > long {
			return false
		}
		stretched, word = stretched[long*size:], word[short*size:]
	}
	return len(stretched) == len(word)
}

// run counts how often word repeats r at its beginning.
func run(word string, r rune) (n int) {
	for _, c := range word {
		if c != r {
			break
		}
		n++
	}
	return n
}

// position is an offset in a text, in bytes and in code points. It only moves forward, so all conversions together take
// one pass.
type position struct {
	content      string
	bytes, point int
}

// byteOf returns the byte offset of a code point, which must not lie before the one of the last call.
func (p *position) byteOf(point int) int {
	for p.point < point {
		if p.content[p.bytes] < utf8.RuneSelf {
			p.bytes++
		} else {
			_, size := utf8.DecodeRuneInString(p.content[p.bytes:])
			p.bytes += size
		}
		p.point++
	}
	return p.bytes
}
