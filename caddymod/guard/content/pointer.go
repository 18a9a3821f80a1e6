// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"strconv"
	"strings"
)

// maxDepth is the maximum number of levels of a JSON body that have names, and of tokens of a pointer. What is deeper
// is extracted under the name of its container.
const maxDepth = 64

// Pointer names places in a JSON body: a JSON Pointer (RFC 6901) in which the token * stands for any member or
// element. It selects the value there and, of an object or an array, everything below. Names match in any case. The
// zero Pointer selects everything.
type Pointer struct {
	text   string
	tokens []token
}

// token is one reference token.
type token struct {
	name  string
	index int // of an array's element, -1 when the name is none
	any   bool
}

// ParsePointer parses a pointer such as /comment, /items/*/text, or "" for everything. In a name, ~1 stands for a
// slash and ~0 for a tilde. A member that is really called * cannot be selected alone.
func ParsePointer(s string) (Pointer, error) {
	p := Pointer{text: s}
	if s == "" {
		return p, nil
	}
	if s[0] != '/' {
		return Pointer{}, fmt.Errorf("the JSON pointer %q must start with a slash: /%s", s, s)
	}
	for part := range strings.SplitSeq(s[1:], "/") {
		name, err := unescapeToken(part)
		if err != nil {
			return Pointer{}, fmt.Errorf("the JSON pointer %q: %w", s, err)
		}
		t := token{name: name, index: -1, any: part == "*"}
		if n, err := strconv.Atoi(name); err == nil && n >= 0 && strconv.Itoa(n) == name {
			t.index = n
		}
		p.tokens = append(p.tokens, t)
	}
	if len(p.tokens) > maxDepth {
		return Pointer{}, fmt.Errorf("the JSON pointer %.40q... has %d tokens; at most %d are possible",
			s, len(p.tokens), maxDepth)
	}
	return p, nil
}

// unescapeToken undoes ~0 and ~1.
func unescapeToken(s string) (string, error) {
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return "", fmt.Errorf("a tilde in a name is written ~0, and a slash ~1, in %q", s)
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~"), nil
}

// String returns the pointer as it was written.
func (p Pointer) String() string { return p.text }

// covers reports whether a place is the one that p names, or below it.
func (p *Pointer) covers(place []frame) bool {
	if len(p.tokens) > len(place) {
		return false
	}
	for i := range p.tokens {
		if !p.tokens[i].matches(&place[i]) {
			return false
		}
	}
	return true
}

// matches reports whether t names the current member or element of a container.
func (t *token) matches(f *frame) bool {
	switch {
	case t.any:
		return true
	case !f.object:
		return t.index == f.index
	}
	// Parsers in C end a name at a NUL.
	name, _, _ := strings.Cut(f.key, "\x00")
	return strings.EqualFold(name, t.name)
}
