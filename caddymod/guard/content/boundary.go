// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import "strings"

// mentionsMultipart reports whether some parser may take a body for multipart. Formidable looks for the word anywhere
// in the value, PHP and Rack up to a comma or a blank, others at the beginning of the type.
func mentionsMultipart(values []string) bool {
	for _, value := range values {
		if containsFold(value, "multipart") {
			return true
		}
	}
	return false
}

// containsFold reports whether s has a word in any case. The word is in lower case and not empty.
func containsFold(s, word string) bool {
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == word[0] && strings.EqualFold(s[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// maxBoundary is the length of the longest boundary (RFC 2046, section 5.1.1).
const maxBoundary = 70

// plainBoundary returns the boundary of a multipart type, and whether all parsers read the same one: the header has
// one value, with one type and the plainest parameters, and the word boundary stands in it once, as the name of a
// parameter. Parsers differ in everything else: PHP, formidable and Rack find the word anywhere, even in another
// parameter; some decode boundary* and boundary*0; some end a value at a comma, at a blank or behind an escaped
// quote, and some do not. A boundary without quotes may have the characters ( ) / : = ? at which a few parsers end
// it, as Java mail programs send it: the scanner of package multipart handles those.
func plainBoundary(values []string) (boundary string, plain bool) {
	if len(values) != 1 {
		return "", false
	}
	media, rest, more := strings.Cut(values[0], ";")
	kind, subtype, _ := strings.Cut(strings.TrimRight(media, " "), "/")
	if !strings.EqualFold(kind, "multipart") || !plainToken(subtype) {
		return "", false
	}
	found := false
	for more {
		var param string
		param, rest, more = strings.Cut(rest, ";") // no plain value has a semicolon
		param = strings.TrimLeft(param, " ")
		if param == "" && !more {
			break // some clients end with a semicolon
		}
		name, value, _ := strings.Cut(param, "=")
		if isBoundary := strings.EqualFold(name, "boundary"); isBoundary && !found {
			boundary, found = unquoted(value), true
			if !validBoundary(boundary, len(boundary) < len(value)) {
				return "", false
			}
			continue
		}
		// "boundary" may stand in no other name or value.
		if !plainToken(name) || !plainValue(value) || containsFold(param, "boundary") {
			return "", false
		}
	}
	return boundary, found
}

// unquoted returns a value without the quotes around it, if any.
func unquoted(value string) string {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1]
	}
	return value
}

// plainToken reports whether a name has only characters that every parser accepts.
func plainToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && !isDigit(c) && c != '-' && c != '_' && c != '.' && c != '+' {
			return false
		}
	}
	return s != ""
}

// plainValue reports whether all parsers read the value of a parameter the same way.
func plainValue(value string) bool {
	inner := unquoted(value)
	if len(inner) == len(value) {
		return plainToken(value)
	}
	for i := range len(inner) {
		if c := inner[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == ',' || c == '=' {
			return false
		}
	}
	return inner != ""
}

// validBoundary reports whether a boundary has only the characters of RFC 2046, section 5.1.1, without those on which
// parsers differ: blanks, commas and single quotes. Without quotes, it begins with a character that every parser
// knows. In quotes, Python's package email begins it with equals signs.
func validBoundary(boundary string, quoted bool) bool {
	if boundary == "" || len(boundary) > maxBoundary || containsFold(boundary, "boundary=") {
		return false
	}
	if !quoted && !plainToken(boundary[:1]) {
		return false
	}
	for i := range len(boundary) {
		if c := boundary[i]; !plainToken(boundary[i:i+1]) && strings.IndexByte("()/:=?", c) < 0 {
			return false
		}
	}
	return true
}
