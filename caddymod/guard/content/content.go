// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package content reads the texts of an HTTP message: where they stand, and what a person would read there.
//
// It is written for messages of people who do not want their texts to be found. What a body says it is ([TypeOf]) is only
// the first guess; what does not look like that is read as what it looks like, and nothing that may be language is left
// out because a parser gives up:
//
//   - JSON is scanned by a parser that never fails. Whatever a lenient parser of an app may take for a value (comments,
//     single quotes, several values, broken nesting) is read; what stands outside of values is read as plain text;
//   - of a body that is a form and looks like JSON both readings are taken;
//   - all duplicates are read, names are compared in any case, and texts in another charset are decoded.
//
// The pieces that are found share memory with the body where nothing had to be decoded, so that an ordinary text is never
// copied.
package content

import (
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// Piece is one text and the place where it stands.
type Piece struct {
	// Name is the place: a JSON Pointer ("/comment", "/a/0/b"), the name of a form's field, "query:q", "header:Subject",
	// or "" for a whole body. "/a b#name" is the member's name "a b" itself. Names are cut after a few hundred bytes.
	Name string
	// Text is what is there, decoded. It may share memory with the body that it was read from.
	Text string
}

// Letters reports whether a text has at least one letter. Texts without are not judged.
func Letters(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' {
			return true
		}
		if c >= utf8.RuneSelf {
			return lettersBeyondASCII(s[i:])
		}
	}
	return false
}

// lettersBeyondASCII is the slow path of [Letters]. Emoji and other symbols speak, too, and count.
func lettersBeyondASCII(s string) bool {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.Is(unicode.So, r) || unicode.Is(unicode.Regional_Indicator, r) {
			return true
		}
	}
	return false
}

// mayRead reports whether a text is worth to be read: it has letters, or escapes that may be some.
func mayRead(s string) bool {
	return Letters(s) || strings.Contains(s, "&#") || strings.Count(s, "%") > 1
}

// view returns the bytes as a string that shares their memory.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
