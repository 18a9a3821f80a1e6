// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"net/http"
	"strings"
	"unicode/utf8"
)

// readForm appends the texts of an urlencoded body.
func (s *Selection) readForm(dst []Piece, t Type, body []byte) []Piece {
	clean := false
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		// Many clients send JSON under this type, because it is the default of their library.
		dst, clean = s.readJSON(dst, body)
	}
	if clean && !bytes.ContainsAny(body, "&%+=") {
		return dst
	}
	return s.readPairs(dst, t.Charset, body)
}

// readPairs appends the texts of the pairs of a form.
func (s *Selection) readPairs(dst []Piece, charset string, body []byte) []Piece {
	if given := charsetField(body); given != "" {
		charset = given
	}
	for len(body) > 0 {
		var pair []byte
		pair, body, _ = bytes.Cut(body, []byte("&"))
		if len(s.Form) == 0 {
			dst = s.readPair(dst, charset, pair)
			continue
		}
		// Some apps take a semicolon for an ampersand. Where all is read it makes no difference.
		dst = s.readPair(dst, charset, pair)
		for {
			_, rest, found := bytes.Cut(pair, []byte(";"))
			if !found {
				break
			}
			pair = rest
			first, _, _ := bytes.Cut(pair, []byte(";"))
			dst = s.readPair(dst, charset, first)
		}
	}
	return dst
}

// readPair appends the text of one pair, if its field is read.
func (s *Selection) readPair(dst []Piece, charset string, pair []byte) []Piece {
	rawName, rawValue, paired := bytes.Cut(pair, []byte("="))
	sent := unescapeQuery(view(rawName))
	var names versions
	if charset == "" {
		names.add(repair(bytesOf(sent)))
	} else {
		names = readings(charset, bytesOf(sent))
	}
	for i, name := range names.all() {
		name := view(name)
		if !s.WantsField(name) && !s.WantsField(sent) {
			continue
		}
		if i == 0 && (!paired && len(s.Form) == 0 && Letters(name) || isText(name)) {
			// A name without a value is a value without a name to some.
			dst = appendText(dst, place(name, "#name"), name)
		}
		values := readings(charset, bytesOf(unescapeQuery(view(rawValue))))
		for _, value := range values.all() {
			if !s.leavesOutField(name, view(value)) || !s.leavesOutField(sent, view(value)) {
				dst = s.appendValue(dst, name, view(value))
			}
		}
		return dst
	}
	return dst
}

// charsetField returns the charset that a form says itself to be in, by the field that browsers fill in for it.
func charsetField(body []byte) string {
	i := bytes.Index(body, []byte("_charset_="))
	if i < 0 || i > 0 && body[i-1] != '&' {
		return ""
	}
	value, _, _ := bytes.Cut(body[i+len("_charset_="):], []byte("&"))
	return strings.ToLower(unescapeQuery(view(value)))
}

// Query appends the parameters of a raw query string that have one of the names, in any case and with [] or not; * names
// all of them. Their places are "query:" and the name.
func Query(dst []Piece, rawQuery string, names []string) []Piece {
	if rawQuery == "" || len(names) == 0 {
		return dst
	}
	s := Selection{Form: names}
	for _, name := range names {
		if name == "*" {
			s.Form, s.Credentials = nil, true
		}
	}
	for _, p := range s.readPairs(nil, "", repair(bytesOf(rawQuery))) {
		p.Name = "query:" + p.Name
		dst = add(dst, p)
	}
	return dst
}

// Header appends the values of the header fields of the names, without the encoding of RFC 2047. Their places are
// "header:" and the canonical name.
func Header(dst []Piece, h http.Header, names []string) []Piece {
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		for _, value := range h[name] {
			versions := readings("", bytesOf(value))
			for _, reading := range versions.all() {
				dst = appendText(dst, "header:"+name, words(view(reading)))
			}
		}
	}
	return dst
}

// unescapeQuery undoes the escapes of a form: %41, the %u0041 of old browsers, and + for a space. What is no escape stays
// as it is.
func unescapeQuery(s string) string {
	i := strings.IndexAny(s, "%+")
	if i < 0 {
		return s
	}
	out := make([]byte, len(s))
	n := copy(out, s[:i])
	for ; i < len(s); i++ {
		c := s[i]
		switch c {
		case '+':
			c = ' '
		case '%':
			if i+2 >= len(s) {
				break
			}
			high, ok := hexValue(s[i+1])
			low, also := hexValue(s[i+2])
			if ok && also {
				c = high<<4 | low
				i += 2
				break
			}
			if s[i+1]|0x20 == 'u' && s[i+2] != '{' {
				if r, size := hexEscape(s[i+2:], 4); size > 0 {
					n += utf8.EncodeRune(out[n:], r)
					i += 1 + size
					continue
				}
			}
		}
		out[n] = c
		n++
	}
	return view(out[:n])
}

// sameField reports whether a field's name is the one that is wanted: in any case, with brackets for the elements of an
// array, and with the characters that PHP replaces by an underscore.
func sameField(wanted, name string) bool {
	name = strings.TrimLeft(name, " ")
	name, _, _ = strings.Cut(name, "\x00")
	if sameMangled(wanted, name) {
		return true
	}
	base, _, found := strings.Cut(name, "[")
	return found && sameMangled(wanted, base)
}

func sameMangled(a, b string) bool {
	if len(a) != len(b) {
		return strings.EqualFold(a, b)
	}
	for i := 0; i < len(a); i++ {
		if mangled(a[i]) != mangled(b[i]) {
			return strings.EqualFold(a, b)
		}
	}
	return true
}

// mangled returns what PHP makes of a character that cannot stand in the name of a variable, and small letters.
func mangled(c byte) byte {
	switch {
	case c == '.' || c == ' ' || c == '[':
		return '_'
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}
