// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// bytesOf returns the bytes of a string, which must not be changed.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// longName is the length in bytes at which the name of a member or a field is text, whatever it is made of.
const longName = 48

// isText reports whether the name of a member or a field says something: developers write names in ASCII and without white
// space between their letters, and whatever else stands there may be somebody's words.
func isText(name string) bool {
	if len(name) >= longName {
		return Letters(name)
	}
	letter, gap := false, false
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case isLetter(c):
			if gap {
				return true
			}
			letter = true
		case c <= ' ' || c == '+':
			gap = letter
		case c >= utf8.RuneSelf:
			return Letters(name)
		}
	}
	return false
}

// blob is the length in bytes at which a string without white space may be data and not language.
const blob = 256

// notLanguage reports whether a text with letters is clearly none that a person reads: a UUID, a time, or a
// long run of encoded bytes.
func notLanguage(s string) bool {
	if len(s) <= 36 {
		return isDigit(s[0]) && isTime(s) || len(s) == 36 && isUUID(s)
	}
	if len(s) < blob {
		return false
	}
	if rest, is := cutPrefixFold(s, "data:"); is {
		kind, data, found := strings.Cut(rest, ",")
		if found && len(kind) < 128 && hasSuffixFold(kind, ";base64") && kindOf(mediaOf(kind)) == Binary {
			return isEncoded(data)
		}
	}
	return isEncoded(s)
}

func mediaOf(kind string) string {
	media, _, _ := strings.Cut(strings.ToLower(kind), ";")
	if media == "" {
		return "text/plain"
	}
	if media == "image/svg+xml" {
		return "text/xml"
	}
	return media
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

// isTime reports whether a text is a date or a time as in RFC 3339.
func isTime(s string) bool {
	digits := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isDigit(c):
			digits++
		case c == '-' || c == ':' || c == '.' || c == '+' || c == 'T' || c == 'Z' || c == ' ':
		default:
			return false
		}
	}
	return digits >= 8
}

func isUUID(s string) bool {
	for i := 0; i < len(s); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
			continue
		}
		if _, ok := hexValue(s[i]); !ok {
			return false
		}
	}
	return true
}

// isEncoded reports whether a long text is bytes in base64 or in hexadecimal. Words that are run together, in camel case
// or with underscores, are not: in each stretch of 64 characters of base64 small letters, capitals and digits change far
// more often than in words, and hexadecimal is half digits.
func isEncoded(s string) bool {
	const stretch = 64
	classes := [256]byte{}
	_ = classes
	for from := 0; from+stretch <= len(s); from += stretch {
		changes, digits := 0, 0
		var last byte
		hex := true
		for i := from; i < from+stretch; i++ {
			c := s[i]
			var class byte
			switch {
			case c >= 'a' && c <= 'z':
				class = 'a'
				hex = hex && c <= 'f'
			case c >= 'A' && c <= 'Z':
				class = 'A'
				hex = hex && c <= 'F'
			case isDigit(c):
				class = '0'
				digits++
			case c == '+' || c == '/' || c == '-' || c == '_' || c == '=':
				class, hex = '+', false
			case (c == '\n' || c == '\r') && from+stretch > 64:
				continue
			default:
				return false
			}
			if class != last {
				changes++
			}
			last = class
		}
		if changes < 24 && !(hex && digits >= 16) {
			return false
		}
	}
	return unicodeFree(s[len(s)-len(s)%stretch:])
}

// unicodeFree reports whether the last stretch has nothing but what encodings have.
func unicodeFree(s string) bool {
	for _, r := range s {
		if r >= utf8.RuneSelf || unicode.IsSpace(r) && r != '\n' && r != '\r' {
			return false
		}
	}
	return true
}
