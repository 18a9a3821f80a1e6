// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"net/http"
	"strings"
	"unicode/utf8"
)

// extractForm appends the texts of an urlencoded body. The charset of a form is that of its values, under their
// escapes; an app may also take it for that of the body.
func (s *Selection) extractForm(dst []Piece, t Type, body []byte) []Piece {
	body = bytes.TrimPrefix(body, []byte(utf8BOM))
	charsets := t.charsets()
	var whole readings
	decodings(&whole, charsets, body)
	if whole.n > 0 && !isMostlyText(body) {
		dst = s.extractUTF8Form(dst, charsets, whole.list[0])
		dst = appendReading(dst, s.extractUTF8Form(nil, charsets, body), readingAsForm)
	} else {
		dst = s.extractUTF8Form(dst, charsets, body)
	}
	for i, reading := range whole.all() {
		if !bytes.Equal(reading, body) {
			dst = appendReading(dst, s.extractUTF8Form(nil, charsets, reading), i+1)
		}
	}
	return dst
}

// extractUTF8Form appends the texts of an urlencoded body whose separators are in ASCII.
func (s *Selection) extractUTF8Form(dst []Piece, charsets []string, body []byte) []Piece {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		// Many clients send JSON under this type, because it is their library's default.
		found, clean := s.extractJSON(nil, toValidUTF8(body))
		switch {
		case clean && !bytes.ContainsAny(body, "&%+="):
			return appendReading(dst, found, 0)
		case clean:
			return appendReading(appendReading(dst, found, 0), s.extractPairs(nil, charsets, body), readingAsForm)
		}
		return appendReading(s.extractPairs(dst, charsets, body), found, readingAsForm)
	}
	return s.extractPairs(dst, charsets, body)
}

// extractPairs appends the texts of the pairs of a form.
func (s *Selection) extractPairs(dst []Piece, charsets []string, body []byte) []Piece {
	given, unknown := charsetFields(body)
	charsets = append(given, charsets...)
	from := len(dst)
	for rest := body; len(rest) > 0; {
		var pair []byte
		pair, rest, _ = bytes.Cut(rest, []byte("&"))
		if len(s.Form) == 0 {
			dst = s.extractPair(dst, charsets, pair)
			continue
		}
		// Some apps take a semicolon for an ampersand. If all fields are selected, that makes no difference.
		dst = s.extractPair(dst, charsets, pair)
		for {
			_, behind, found := bytes.Cut(pair, []byte(";"))
			if !found {
				break
			}
			pair = behind
			first, _, _ := bytes.Cut(pair, []byte(";"))
			dst = s.extractPair(dst, charsets, first)
		}
	}
	return markUnknown(dst, min(from, len(dst)), "_charset_", unknown)
}

// extractPair appends the text of one pair, if its field is selected.
func (s *Selection) extractPair(dst []Piece, charsets []string, pair []byte) []Piece {
	rawName, rawValue, paired := bytes.Cut(pair, []byte("="))
	sent := unescapeQuery(stringOf(rawName))
	names := readingsOf(charsets, bytesOf(sent))
	wanted := len(s.Form) == 0 || s.WantsField(sent)
	for _, name := range names.all() {
		wanted = wanted || s.WantsField(stringOf(name))
	}
	if !wanted {
		return dst
	}
	for i, name := range names.all() {
		if name := stringOf(name); !paired && len(s.Form) == 0 && HasLetters(name) || nameSpeaks(name) {
			// Some programs take a name without a value for a value without a name.
			dst = appendReading(dst, appendText(nil, placeName(name, "#name"), name), i)
		}
	}
	value := readingsOf(charsets, bytesOf(unescapeQuery(stringOf(rawValue))))
	if s.leavesOutPair(append(names.all(), bytesOf(sent)), value.all()) {
		return dst
	}
	return s.appendReadings(dst, stringOf(names.list[0]), &value)
}

// charsetFields returns the charsets that a form declares in the _charset_ field, which browsers fill in, and reports
// whether one of them is not known.
func charsetFields(body []byte) (charsets []string, unknown bool) {
	const field = "_charset_"
	if bytes.IndexByte(body, '_') < 0 && bytes.IndexByte(body, '%') < 0 {
		return nil, false
	}
	for rest := body; len(rest) > 0 && len(charsets) < 2; {
		var pair []byte
		pair, rest, _ = bytes.Cut(rest, []byte("&"))
		name, value, _ := bytes.Cut(pair, []byte("="))
		if len(name) < len(field) || len(name) > 3*len(field) || name[0] != '_' && name[0] != '%' ||
			unescapeQuery(stringOf(name)) != field {
			continue
		}
		charset := strings.ToLower(strings.TrimSpace(unescapeQuery(stringOf(value))))
		if known, _ := lookup(charset); !known {
			unknown = true
		}
		charsets = append(charsets, charset)
	}
	return charsets, unknown
}

// ExtractQuery appends those parameters of a raw query string that have one of the names, in any case, with or
// without []. The name * selects all of them. Their places are "query:" and the name.
func ExtractQuery(dst []Piece, rawQuery string, names []string) []Piece {
	if rawQuery == "" || len(names) == 0 {
		return dst
	}
	s := Selection{Form: names}
	for _, name := range names {
		if name == "*" {
			s.Form, s.Credentials = nil, true
		}
	}
	for _, p := range s.extractPairs(nil, nil, bytesOf(rawQuery)) {
		p.Name = "query:" + p.Name
		dst = appendPiece(dst, p)
	}
	return dst
}

// ExtractHeader appends the values of the named header fields, with their encoded words (RFC 2047) decoded. Their
// places are "header:" and the canonical name.
func ExtractHeader(dst []Piece, h http.Header, names []string) []Piece {
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		for _, value := range h[name] {
			versions := readingsOf(nil, bytesOf(value))
			for i, reading := range versions.all() {
				dst = appendReading(dst, appendText(nil, "header:"+name, decodeWords(stringOf(reading))), i)
			}
		}
	}
	return dst
}

// unescapeQuery undoes the escapes of a form: %41, the %u0041 of old browsers, and + for a space. What is no escape
// stays.
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
	return stringOf(out[:n])
}

// sameField reports whether the name of a field is the wanted one: in any case, with or without brackets for the
// elements of an array, and with the characters that PHP replaces by an underscore.
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

// mangled returns what PHP makes of a character that cannot be in the name of a variable, in lower case.
func mangled(c byte) byte {
	switch {
	case c == '.' || c == ' ' || c == '[':
		return '_'
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}
