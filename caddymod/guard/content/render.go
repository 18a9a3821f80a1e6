// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"
	"unicode/utf8"
)

// renderMarkup returns what a browser shows of markup.
func renderMarkup(s string) string {
	out := make([]byte, 0, len(s))
	in := newTagParser(s)
	var hidden string // name of the element that is not shown
	depth := 0        // elements of that name
	var turned []turn
	for s != "" {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			break
		}
		if hidden == "" {
			out = append(out, s[:i]...)
		}
		s = s[i:]
		if inside, size, cdata := declaration(s); size > 0 {
			if cdata && hidden == "" {
				out = append(out, inside...)
			}
			s = s[size:]
			continue
		}
		t, size := in.parse(s)
		if size == 0 {
			if hidden == "" {
				out = append(out, '<')
			}
			s = s[1:]
			continue
		}
		whole := s[:size]
		s = s[size:]
		switch {
		case hidden != "":
			if strings.EqualFold(t.name, hidden) {
				if depth++; t.end {
					depth -= 2
				}
				if depth == 0 {
					hidden = ""
				}
			}
		case t.end:
			if n := len(turned); n > 0 && strings.EqualFold(turned[n-1].name, t.name) {
				reverse(out[turned[n-1].from:])
				turned = turned[:n-1]
			}
			if t.class == block {
				out = append(out, '\n')
			}
		case t.class == unknown && (strings.HasSuffix(t.name, ":") || strings.Contains(t.name, "@")):
			out = append(out, linkLabel(whole[1:len(whole)-1])...)
		case t.class == raw || t.class == hiding:
			s = s[endOf(s, t.name):]
		case !t.empty() && (t.isAnnotation() || t.hides()):
			hidden, depth = t.name, 1
		default:
			if t.class == block {
				out = append(out, '\n')
			}
			// Deeper nesting would take long to reverse, and nobody follows it.
			if len(turned) < 3 && t.reversesText() {
				turned = append(turned, turn{name: t.name, from: len(out)})
			}
		}
	}
	if hidden == "" {
		out = append(out, s...)
	}
	for i := len(turned) - 1; i >= 0; i-- {
		reverse(out[turned[i].from:])
	}
	return stringOf(out)
}

// turn is an element whose text is shown from right to left.
type turn struct {
	name string
	from int
}

// reverse reverses a text in place, character by character.
func reverse(text []byte) {
	for begin := 0; begin < len(text); { // the bytes of each first, so that they come out right
		_, size := utf8.DecodeRune(text[begin:])
		reverseBytes(text[begin : begin+size])
		begin += size
	}
	reverseBytes(text)
}

func reverseBytes(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}

// linkLabel returns what is shown of an address in angle brackets: its label, or the address without its scheme.
func linkLabel(s string) string {
	if _, label, found := strings.Cut(s, "|"); found {
		return label
	}
	_, rest, _ := strings.Cut(s, ":")
	return strings.TrimLeft(rest, "/")
}
