// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"
)

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
		kind, data, _ := strings.Cut(rest[:min(len(rest), 128)], ",")
		if hasSuffixFold(kind, ";base64") && data != "" {
			return isEncoded(rest[len(kind)+1:])
		}
	}
	return isEncoded(s)
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

// isEncoded reports whether a long text is bytes in base64 or in hexadecimal, and neither a text in base64 nor words that are
// run together in camel case or with underscores: its letters are not those of a language. In English, two of
// five letters are vowels; in random base64 it is one of six (without the A, of which zeros are made), and nothing else has so
// many digits and changes of case.
func isEncoded(s string) bool {
	var digits, letters, vowels, changes int
	var last byte
	hex := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		class := classes[c]
		switch class & classMask {
		case 0:
			return false
		case classDigit:
			digits++
		case classSmall, classCapital:
			letters++
			vowels += int(class >> 7)
			hex = hex && c|0x20 <= 'f'
		case classLine:
			continue
		default:
			hex = false
		}
		if class &= classMask; class != last {
			changes++
			last = class
		}
	}
	if hex {
		return digits*5 >= len(s)*2
	}
	if vowels*10 >= letters*3 {
		return false
	}
	return digits*20 >= len(s) && changes*9 >= len(s)*4 || isMedia(s)
}

// The classes of the characters of base64.
const (
	classDigit = 1 + iota
	classSmall
	classCapital
	classSymbol
	classLine
	classMask  = 0x7f
	classVowel = 0x80
)

var classes = func() (t [256]byte) {
	for c := '0'; c <= '9'; c++ {
		t[c] = classDigit
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = classSmall, classCapital
	}
	for _, c := range "aeiouEIOU" {
		t[c] |= classVowel
	}
	for _, c := range "+/-_=" {
		t[c] = classSymbol
	}
	t['\r'], t['\n'] = classLine, classLine
	return t
}()

// isMedia reports whether base64 begins like a picture, a sound, a film, a font or an archive.
func isMedia(s string) bool {
	var head [48]byte
	n, err := base64.StdEncoding.Decode(head[:], bytesOf(s[:64]))
	if err != nil {
		return false
	}
	media := http.DetectContentType(head[:n])
	return media != "application/octet-stream" && !strings.HasPrefix(media, "text/")
}
