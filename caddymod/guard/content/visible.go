// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"html"
	"mime"
	"strings"
)

// words undoes the encoding of RFC 2047.
func words(s string) string {
	if !strings.Contains(s, "=?") {
		return s
	}
	plain, err := new(mime.WordDecoder).DecodeHeader(s)
	if err != nil {
		return s
	}
	return plain
}

// Visible returns what a person reads when an app shows a text, and false when that is the text itself.
func Visible(text string) (string, bool) {
	seen := html.UnescapeString(words(text))
	return seen, seen != text
}

// readMarkup appends the texts of HTML, XML and SVG.
func (s *Selection) readMarkup(dst []Piece, body []byte) []Piece {
	return appendText(dst, "", html.UnescapeString(view(body)))
}
