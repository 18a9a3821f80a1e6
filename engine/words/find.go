// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Find appends to dst the places in content where expressions stand, in order and without overlap. Where several begin
// at a word the longest is taken, and the search goes on behind it. Nothing is allocated but what dst grows by.
func (l *List) Find(dst []Match, content string) []Match {
	if l.Len() == 0 {
		return dst
	}
	scratch := text.Get()
	defer text.Put(scratch)
	tokens := scratch.Tokenize(content)
	at := place{content: content}
	for len(tokens) > 0 {
		best := found{expression: none}
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

// Cut returns content with one space in place of each match of [List.Find]; content itself, and without an allocation,
// when there is none.
func (l *List) Cut(content string) string {
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
		b.WriteByte(' ')
		from = m.End
	}
	b.WriteString(content[from:])
	return b.String()
}

// found is the longest expression at a place of a text.
type found struct {
	expression int32
	words      int // its length
}

// search follows the tokens from a node that is reached by some words, and takes the longest expression. It goes no
// deeper than the longest expression, which is short.
func (l *List) search(tokens []text.Token, from uint32, words int, best *found) {
	var few [4]uint32
	for _, word := range l.numbersOf(few[:0], &tokens[0]) {
		at, ok := l.edges[edge{from, word}]
		if !ok {
			continue
		}
		n := l.nodes[at]
		if n.expression != none && words+1 > best.words {
			*best = found{expression: n.expression, words: words + 1}
		}
		if n.inner && len(tokens) > 1 {
			l.search(tokens[1:], at, words+1, best)
		}
	}
}

// numbersOf appends the numbers of the words that a token may be, mostly none.
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
		var single [2 * MaxCharacters * utf8.UTFMax]byte
		for _, n := range l.singled[string(appendSingled(single[:0], t.Folded))] {
			if isStretchOf(t.Folded, l.words[n]) && string(t.Folded) != l.words[n] { // which it is already
				to = append(to, n)
			}
		}
	}
	return to
}

// numberOf returns the number of a word. Those that are too long for the list are not even hashed: the words of a text
// may have any length, and are looked at several times.
func (l *List) numberOf(word []byte) (uint32, bool) {
	if len(word) > l.longest {
		return 0, false
	}
	n, ok := l.numbers[string(word)]
	return n, ok
}

// appendSingled appends a word with equal letters in a row written once.
func appendSingled(to, word []byte) []byte {
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

// isStretchOf reports whether a stretched word, of which package text leaves two letters wherever there were more, is
// another one, which has one or two there. The two are the same but for repeated letters.
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

// run counts how often r stands at the beginning of word.
func run(word string, r rune) (n int) {
	for _, c := range word {
		if c != r {
			break
		}
		n++
	}
	return n
}

// place is a place in a text, in bytes and in code points. It only moves on, so that all conversions together take one pass.
type place struct {
	content      string
	bytes, point int
}

// byteOf returns the byte at which a code point begins, which is not before the last one asked for.
func (p *place) byteOf(point int) int {
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
