// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"
)

const (
	maxBBCodeTag   = 256 // bytes of a tag of BBCode, and of what an image stands for
	maxBBCodeNames = 16  // names of them in a text
)

// withoutBBCode removes the tags of BBCode from a text: those with a name for which there is an end tag ([/b]).
func withoutBBCode(s string) string {
	names := make([]string, 0, maxBBCodeNames)
	for rest := s; len(names) < maxBBCodeNames; {
		i := strings.Index(rest, "[/")
		if i < 0 {
			break
		}
		rest = rest[i+2:]
		if name, end := bbCodeName(rest); end < len(rest) && rest[end] == ']' && !containsNameFold(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for {
		i := strings.IndexByte(s, '[')
		if i < 0 {
			return stringOf(append(out, s...))
		}
		out = append(out, s[:i]...)
		s = s[i:]
		ends := strings.HasPrefix(s, "[/")
		start := 1
		if ends {
			start = 2
		}
		name, n := bbCodeName(s[start:])
		size := bbCodeTagSize(s)
		if size == 0 || !containsNameFold(names, name) && name != "*" && !strings.EqualFold(name, "br") &&
			!strings.EqualFold(name, "hr") {
			out = append(out, '[')
			s = s[1:]
			continue
		}
		if behind := s[start+n]; behind != ']' && behind != '=' && behind != ' ' {
			out = append(out, '[')
			s = s[1:]
			continue
		}
		s = s[size:]
		switch strings.ToLower(name) {
		case "img", "attach", "attachment":
			if end := strings.Index(s[:min(len(s), maxBBCodeTag)], "[/"); end >= 0 && !ends {
				s = s[end:]
			}
		case "*", "br", "hr", "li", "tr", "td", "quote", "list", "code":
			out = append(out, '\n')
		}
	}
}

// bbCodeName returns the name that a tag begins with, and its length.
func bbCodeName(s string) (string, int) {
	i := 0
	for i < len(s) && i < 20 && (isLetter(s[i]) || isDigit(s[i]) || s[i] == '*' || s[i] == '-' || s[i] == '_') {
		i++
	}
	return s[:i], i
}

// bbCodeTagSize returns the size of the tag that s begins with, 0 if it does not end.
func bbCodeTagSize(s string) int {
	for i := 1; i < len(s) && i < maxBBCodeTag; i++ {
		switch s[i] {
		case ']':
			return i + 1
		case '[', '\n':
			return 0
		}
	}
	return 0
}

// containsNameFold reports whether a name is empty or in the list, in any case.
func containsNameFold(list []string, s string) bool {
	for _, one := range list {
		if strings.EqualFold(one, s) {
			return true
		}
	}
	return s == ""
}
