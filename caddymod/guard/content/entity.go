// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"html"
	"strings"
	"unicode/utf8"
)

// Limits of the expansion of entities: nobody needs more, and a few lines can ask for gigabytes.
const (
	maxExpansion = maxFurtherRatio // times the size of the document
	minExpansion = minFurtherSize  // bytes, for small documents
	maxNesting   = 16              // entities within entities
	maxEntities  = 1000
)

// entities are the internal entities that a document declares.
type entities struct {
	general, parameter map[string]string
	// last says that the last of several declarations of an entity counts, as in some parsers, and not the first, as
	// in the standard.
	last bool
	// different says that an entity has two declarations that differ.
	different bool
	count     int
	// left is how many bytes entities may still add. steps is how many more of them may be looked up.
	left, steps int
	// full says that a limit was reached.
	full bool
}

// expand returns the document behind its declarations, with the internal entities that it declares expanded, "" if it
// declares none. It also reports whether an entity has two different declarations, and whether the limits were
// reached. What goes beyond the limits is not expanded.
func expand(s string, last bool) (text string, different, full bool) {
	start := indexFold(s, "<!doctype")
	if start < 0 {
		return "", false, false
	}
	subset, end := internalSubset(s[start:])
	if !strings.Contains(subset, "<!") {
		return "", false, false
	}
	room := max(minExpansion, maxExpansion*len(s))
	e := entities{general: map[string]string{}, parameter: map[string]string{}, last: last, left: room, steps: room / 4}
	e.declare(subset, 0)
	if len(e.general) == 0 {
		return "", false, e.full
	}
	body := s[start+end:]
	out := e.replace(make([]byte, 0, len(body)), body, 0)
	return stringOf(out), e.different, e.full
}

// indexFold returns the index of an ASCII word in any case, -1 if there is none.
func indexFold(s, word string) int {
	for at := 0; ; {
		i := strings.IndexByte(s[at:], word[0])
		if i < 0 {
			return -1
		}
		at += i
		if _, is := cutPrefixFold(s[at:], word); is {
			return at
		}
		at++
	}
}

// internalSubset returns what stands in the brackets of a document type declaration, and the size of the whole
// declaration.
func internalSubset(s string) (inside string, size int) {
	open, quote := -1, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' && open < 0:
			open = i
		case c == '>' && open < 0:
			return "", i + 1
		case c == '<' && strings.HasPrefix(s[i:], "<!--"):
			// Quotation marks in comments do not count.
			end := strings.Index(s[i:], "-->")
			if end < 0 {
				return s[open+1:], len(s)
			}
			i += end
		case c == ']' && open >= 0:
			end := strings.IndexByte(s[i:], '>')
			if end < 0 {
				return s[open+1 : i], len(s)
			}
			return s[open+1 : i], i + end + 1
		}
	}
	return s[open+1:], len(s)
}

const blank = " \t\r\n"

// declare takes in the entities that s declares, including those from parameter entities.
func (e *entities) declare(s string, depth int) {
	for s != "" {
		if e.full = e.full || e.steps <= 0 || e.count >= maxEntities; e.full {
			return
		}
		i := strings.IndexAny(s, "<%")
		if i < 0 {
			return
		}
		s = s[i:]
		e.steps--
		if s[0] == '%' {
			name, size := reference(s[1:])
			value, known := e.parameter[name]
			if !known {
				s = s[1:]
				continue
			}
			s = s[1+size:]
			if e.left -= len(value); e.left > 0 && depth < maxNesting {
				e.declare(value, depth+1)
			}
			e.full = e.full || e.left <= 0
			continue
		}
		if strings.HasPrefix(s, "<!--") {
			_, rest, _ := strings.Cut(s, "-->")
			s = rest
			continue
		}
		rest, is := cutPrefixFold(s, "<!entity")
		if !is {
			s = s[1:]
			continue
		}
		s = e.entity(rest)
	}
}

// entity takes in one declaration and returns what follows it.
func (e *entities) entity(s string) string {
	s = strings.TrimLeft(s, blank)
	into := e.general
	if rest, is := strings.CutPrefix(s, "%"); is {
		into, s = e.parameter, strings.TrimLeft(rest, blank)
	}
	end := strings.IndexAny(s, blank+"\"'>")
	if end < 0 {
		return ""
	}
	name := s[:end]
	s = strings.TrimLeft(s[end:], blank)
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return s // an external one
	}
	value, rest, found := strings.Cut(s[1:], s[:1])
	if !found {
		return ""
	}
	e.count++
	value = e.literal(value)
	before, has := into[name]
	e.different = e.different || has && before != value
	if !has || e.last {
		into[name] = value
	}
	return rest
}

// literal returns the value of an entity with its parameter entities and character references replaced, as at its
// declaration.
func (e *entities) literal(s string) string {
	if strings.IndexByte(s, '%') >= 0 {
		var out []byte
		for {
			before, rest, found := strings.Cut(s, "%")
			out = append(out, before...)
			if !found {
				break
			}
			name, size := reference(rest)
			value, known := e.parameter[name]
			if e.full = e.full || known && len(value) > e.left; !known || len(value) > e.left {
				out, s = append(out, '%'), rest
				continue
			}
			e.left -= len(value)
			out, s = append(out, value...), rest[size:]
		}
		s = stringOf(out)
	}
	var out []byte
	for {
		before, rest, found := strings.Cut(s, "&#")
		if !found && out == nil {
			return s
		}
		out = append(out, before...)
		if !found {
			return stringOf(out)
		}
		number, size := reference(rest)
		s = rest
		if char := html.UnescapeString("&#" + number + ";"); size > 0 && utf8.RuneCountInString(char) == 1 {
			out, s = append(out, char...), rest[size:]
		} else {
			out = append(out, "&#"...)
		}
	}
}

// reference returns the name of an entity behind its sign, and its size with the semicolon, 0 if there is none.
func reference(s string) (name string, size int) {
	end := strings.IndexByte(s[:min(len(s), maxEntityName)], ';')
	if end < 0 {
		return "", 0
	}
	return s[:end], end + 1
}

// maxEntityName is the maximum length of an entity's name, in bytes.
const maxEntityName = 256

// replace appends s with its entities expanded.
func (e *entities) replace(out []byte, s string, depth int) []byte {
	for {
		before, rest, found := strings.Cut(s, "&")
		out = append(out, before...)
		if !found {
			return out
		}
		s = rest
		name, size := reference(s)
		value, known := e.general[name]
		full := known && (len(value) > e.left || e.steps <= 0)
		e.full = e.full || full
		if known && !full && depth < maxNesting {
			e.left -= len(value)
			e.steps--
			out = e.replace(out, value, depth+1)
			s = s[size:]
			continue
		}
		out = append(out, '&')
	}
}
