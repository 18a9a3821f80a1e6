// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// withoutMarks removes from a text what stands within its words and is no letter, and the addresses of links.
func withoutMarks(s string) string {
	m := markRemover{s: s, left: 4*len(s) + 1024}
	m.scan()
	if m.faint >= 3 && !m.all {
		// Hyphens and the like are spelling in a few words, and a disguise in many.
		m = markRemover{s: s, left: 4*len(s) + 1024, all: true}
		m.scan()
	}
	if m.kept == 0 {
		return s
	}
	return stringOf(append(m.out, s[m.kept:]...))
}

// markRemover removes runs of marks from a text.
type markRemover struct {
	s     string
	out   []byte
	kept  int  // up to here s has been copied to out
	left  int  // bytes that may still be searched in vain
	latex int  // LaTeX commands whose closing brace is to come
	all   bool // faint marks are removed, too
	faint int  // runs of faint marks beside single letters
}

// markKind is what a mark means within a word.
type markKind uint8

const (
	noMark  markKind = iota
	weak             // part of a run of other marks
	faint            // may be spelling: k-ill
	strong           // never part of a word: k**ill
	address          // never text, wherever it stands: ](x)
)

func (m *markRemover) scan() {
	s := m.s
	for i := 0; i < len(s); {
		if class := markClass[s[i]]; class == byteText || class == byteTurned {
			i++
			continue
		}
		latex := m.latex
		end, strongest, addresses := m.run(i)
		if end == i {
			i++
			continue
		}
		joins := strongest >= faint && m.letterBefore(i) && end < len(s) && m.letterAt(end)
		if joins && strongest == faint {
			if joins = m.besideSingle(i, end); joins {
				m.faint++
				joins = m.all
			}
		}
		switch {
		case joins:
			m.drop(i, end)
			m.replace(s[i:end])
		case addresses:
			m.latex = latex
			for at := i; at < end; {
				size, kind := m.mark(at)
				if kind == address {
					m.drop(at, at+size)
				}
				at += max(size, 1)
			}
		}
		i = end
	}
}

// run returns the end of a run of marks, its strongest kind, and whether there are addresses in it.
func (m *markRemover) run(i int) (end int, strongest markKind, addresses bool) {
	for end = i; end < len(m.s); {
		size, kind := m.mark(end)
		if size == 0 {
			break
		}
		if kind == address {
			addresses = true
		}
		strongest = max(strongest, kind)
		end += size
	}
	return end, strongest, addresses
}

func (m *markRemover) drop(from, to int) {
	m.out = append(m.out, m.s[m.kept:from]...)
	m.kept = to
}

// replace appends the letters that the symbols of a run look like.
func (m *markRemover) replace(run string) {
	for _, r := range run {
		switch r {
		case '⭕', '◯', '⚪', '🔴', '🔵':
			m.out = append(m.out, 'o')
		case '❌', '❎', '✖':
			m.out = append(m.out, 'x')
		case '❗', '❕':
			m.out = append(m.out, 'i')
		case '💲':
			m.out = append(m.out, 's')
		case '➕', '✝':
			m.out = append(m.out, 't')
		}
	}
}

// letterBefore reports whether a letter ends before i.
func (m *markRemover) letterBefore(i int) bool {
	if i == 0 {
		return false
	}
	if c := m.s[i-1]; c < utf8.RuneSelf {
		return isLetter(c)
	}
	r, _ := utf8.DecodeLastRuneInString(m.s[:i])
	return isSpelled(r)
}

func (m *markRemover) letterAt(i int) bool {
	if c := m.s[i]; c < utf8.RuneSelf {
		return isLetter(c)
	}
	r, _ := utf8.DecodeRuneInString(m.s[i:])
	return isSpelled(r)
}

// isSpelled reports whether a character beyond ASCII is a letter (or a mark on one) of a script that is written with
// spaces or looks like ASCII letters.
func isSpelled(r rune) bool {
	switch {
	case r < 0x590:
		return unicode.IsLetter(r) || unicode.Is(unicode.Mn, r)
	case r >= 0x1d00 && r < 0x2000, r >= 0x2070 && r < 0x2190, r >= 0xa720 && r < 0xa800:
		return unicode.IsLetter(r)
	case r >= 0x249c && r < 0x24ea, r >= 0x1f110 && r < 0x1f18a, r >= 0x1f1e6 && r < 0x1f200,
		r >= 0xff21 && r < 0xff5b, r >= 0x1d400 && r < 0x1d7cc:
		return true
	}
	return false
}

// besideSingle reports whether one of the letters around a run stands alone, so that the run does not separate two
// words. Single letters that a single mark separates are left to the classifier, which understands abbreviations, but
// takes | for a letter.
func (m *markRemover) besideSingle(i, end int) bool {
	before := i < 2 || !isLetter(m.s[i-2])
	behind := end+1 >= len(m.s) || !isLetter(m.s[end+1])
	return before != behind || before && (end > i+1 || m.s[i] == '|')
}

// mark returns the size of the mark at i, 0 where there is none, and its kind.
func (m *markRemover) mark(i int) (int, markKind) {
	s := m.s[i:]
	next := byte(0)
	if len(s) > 1 {
		next = s[1]
	}
	switch c := s[0]; c {
	case '*', '~', '`', '^':
		return 1, strong
	case '<':
		return customEmoji(s)
	case '|':
		// ||a spoiler||. Between words it is an operator.
		if next == c && (m.letterBefore(i) || len(s) > 2 && m.letterAt(i+2)) {
			return 2, address
		}
		return 1, faint
	case '_', '=':
		if next == c || i > 0 && m.s[i-1] == c {
			return 1, strong
		}
		return 1, faint
	case '.':
		if next == '_' || i > 0 && m.s[i-1] == '_' {
			return 0, noMark // of a program: x.__init__
		}
		return 1, faint
	case '-', '/', ',', ';', '+', '#', '&':
		return 1, faint
	case '!':
		if next == '[' {
			return 1, address // of an image
		}
	case '"':
		if strings.HasPrefix(s, `":http`) || strings.HasPrefix(s, `":/`) {
			if end := m.until(s, " \n\t", 2048); end > 0 {
				return end, address
			}
			return len(s), address
		}
		return 1, faint
	case '\\':
		return m.backslash(s, next)
	case ':':
		return shortcode(s)
	case '[':
		return m.linkStart(i, next)
	case ']':
		return m.linkEnd(i, next)
	case '(':
		return m.group(i, ')')
	case '{':
		return m.group(i, '}')
	case ')':
		return m.closingBracket(i, '(')
	case '}':
		if m.latex > 0 {
			m.latex--
			return 1, address
		}
		return m.closingBracket(i, '{')
	}
	if s[0] < utf8.RuneSelf {
		return 0, noMark
	}
	r, size := utf8.DecodeRuneInString(s)
	return symbol(r, size)
}

// until returns the index of the first of some bytes, -1 if there is none among the next most bytes.
func (m *markRemover) until(s, stops string, most int) int {
	if m.left < 0 {
		return -1
	}
	s = s[:min(len(s), most)]
	end := strings.IndexAny(s, stops)
	if end < 0 {
		m.left -= len(s)
		return -1
	}
	m.left -= end
	return end
}

// linkStart parses an opening square bracket: of a link, or around letters of a word.
func (m *markRemover) linkStart(i int, next byte) (int, markKind) {
	s := m.s[i:]
	if next == '[' {
		if end := m.until(s, "|]\n", 128); end > 0 && s[end] == '|' {
			return end + 1, address // [[page|label]]
		}
		return 1, strong
	}
	if end := m.until(s, "]\n", 64); end > 1 && end+1 < len(s) && s[end] == ']' &&
		(s[end+1] == '(' || s[end+1] == '[') {
		return 1, strong
	}
	return m.group(i, ']')
}

// linkEnd parses a closing square bracket.
func (m *markRemover) linkEnd(i int, next byte) (int, markKind) {
	s := m.s[i:]
	switch next {
	case '(':
		if end := m.until(s, ")\n", 2048); end > 0 && s[end] == ')' {
			return end + 1, address
		}
	case '[':
		if end := m.until(s[2:], "]\n[", 128); end >= 0 && s[2+end] == ']' {
			return end + 3, address
		}
	case ']':
		return 1, strong
	}
	if i > 0 && m.s[i-1] == ']' {
		return 1, strong
	}
	return m.closingBracket(i, '[')
}

// maxGrouped is the maximum number of letters of a word that may stand in brackets.
const maxGrouped = 3

// group parses a bracket that opens before some letters of a word: k(i)ll, (k)ill, kil(l).
func (m *markRemover) group(i int, closing byte) (int, markKind) {
	s := m.s[i+1:]
	n := 0
	for n < len(s) && n <= maxGrouped && isLetter(s[n]) {
		n++
	}
	if n == len(s) || s[n] != closing {
		return 0, noMark
	}
	if n == 0 {
		return 2, strong
	}
	behind := byte(' ')
	if n+1 < len(s) {
		behind = s[n+1]
	}
	switch {
	case isLetter(behind) || behind == m.s[i]:
		return 1, strong
	case n == 1 && strings.IndexByte(" \n.,!?", behind) >= 0 && i > 1 &&
		(m.s[i-1] == closing || isLetter(m.s[i-1]) && isLetter(m.s[i-2])):
		return 1, strong
	}
	return 0, noMark
}

// closingBracket parses a bracket that closes behind some letters of a word.
func (m *markRemover) closingBracket(i int, opening byte) (int, markKind) {
	j := i - 1
	for j >= 0 && i-j <= maxGrouped && isLetter(m.s[j]) {
		j--
	}
	if j >= 0 && j < i-1 && m.s[j] == opening {
		return 1, strong
	}
	return 0, noMark
}

// backslash parses a LaTeX command up to its brace, or the backslash of an escape.
func (m *markRemover) backslash(s string, next byte) (int, markKind) {
	if !isLetter(next) {
		if next > ' ' && next < utf8.RuneSelf {
			return 1, weak
		}
		return 0, noMark
	}
	i := 1
	for i < len(s) && i < 20 && isLetter(s[i]) {
		i++
	}
	if i > 2 && i < len(s) && s[i] == '{' {
		m.latex++
		return i + 1, address
	}
	return 1, faint
}

// customEmoji parses an emoji as chats write it: <:smile:123>.
func customEmoji(s string) (int, markKind) {
	if !strings.HasPrefix(s, "<:") && !strings.HasPrefix(s, "<a:") {
		return 0, noMark
	}
	end := strings.IndexAny(s[:min(len(s), 64)], "> \n")
	if end < 0 || s[end] != '>' {
		return 0, noMark
	}
	return end + 1, strong
}

// shortcode parses the name of an emoji between colons.
func shortcode(s string) (int, markKind) {
	if len(s) < 4 || !isLetter(s[1]) {
		return 1, faint
	}
	for i := 1; i < len(s) && i < 40; i++ {
		switch c := s[i]; {
		case c == ':':
			return i + 1, strong
		case !isLetter(c) && !isDigit(c) && c != '_' && c != '-' && c != '+':
			return 1, faint
		}
	}
	return 1, faint
}

// symbol classifies a character beyond ASCII within a word.
func symbol(r rune, size int) (int, markKind) {
	switch {
	case r == 0xad, r >= 0x200b && r <= 0x200f, r >= 0x2060 && r <= 0x206f, r >= 0xfe00 && r <= 0xfe0f,
		r >= 0x1f3fb && r <= 0x1f3ff,
		r == 0x20e3, r == 0x2800, r >= 0xe0000 && r < 0xe1000:
		return size, weak
	case r == 0xb7, r == 0x2026:
		return size, faint
	case r == 0xaa, r == 0xb5, r == 0xba, r == 0xab, r == 0xbb:
		return 0, noMark
	case r > 0xa0 && r < 0xc0, r == 0xd7, r == 0xf7, r == 0x640, r >= 0x2020 && r <= 0x2024, r == 0x203c, r == 0x2043,
		r == 0x2049:
		return size, strong
	case isSpelled(r):
		return 0, noMark
	case r >= 0x2190 && r < 0x2c00, r >= 0x1f000 && r < 0x1fb00:
		return size, strong
	}
	return 0, noMark
}
