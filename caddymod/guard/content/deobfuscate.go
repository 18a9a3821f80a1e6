// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"html"
	"strings"
	"unicode/utf8"
)

// Deobfuscate returns what is left of a text without what an app may not show and what a reader skips, and false if
// that is the text itself or what [Visible] returned for it, which the caller passes. The result is a further view of
// the text:
//
//   - what a browser hides (comments, `hidden`, display:none) is gone, and what it reverses (<bdo>) is reversed;
//   - marks of Markdown, BBCode, wikis and LaTeX are gone, and so are the addresses of their links;
//   - symbols, emoji and brackets within words are gone: k😀ill, k(i)ll;
//   - letters that are upside down, mirrored, in Braille or in invisible characters are plain letters.
//
// A text without any of this costs no allocation.
func Deobfuscate(text, visible string) (string, bool) {
	found := findDisguises(text)
	bare := text
	if visible != text {
		bare = unescapeText(bare)
		if hasTag(bare) {
			bare = renderMarkup(bare)
		}
		if strings.IndexByte(bare, '&') >= 0 {
			bare = html.UnescapeString(bare)
		}
		found = findDisguises(bare)
	}
	if found.glyphs {
		bare = readableGlyphs(bare)
	}
	if found.marks && strings.Contains(bare, "[/") {
		bare = withoutBBCode(bare)
	}
	if found.marks || found.glyphs {
		bare = withoutMarks(bare)
	}
	if found.turned {
		bare = upright(bare)
	}
	return bare, bare != text && bare != visible && HasLetters(bare)
}

// disguises says what a text may have that [Deobfuscate] takes away.
type disguises struct {
	marks  bool // marks in words or of links
	glyphs bool // characters for [readableGlyphs]
	turned bool // letters that are upside down or mirrored
}

// findDisguises looks for what may have to be taken away. It is fast, and has false positives.
func findDisguises(s string) (found disguises) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch markClass[c] {
		case byteText:
			continue
		case byteMark:
			found.marks = found.marks || i+1 < len(s) && s[i+1] > ' ' && i > 0 && isWordEnd(s[i-1])
		case byteOpening:
			found.marks = true
		case byteLead: // a symbol or a letter
			found.marks = found.marks || i > 0 && isWordEnd(s[i-1])
			if i+2 < len(s) {
				found.glyphs = found.glyphs || c == 0xf3 || c == 0xe2 && s[i+1] >= 0xa0 && s[i+1] <= 0xa3 ||
					c == 0xef && s[i+1] == 0xb8
			}
		case byteTurned:
			found.turned = true
		}
	}
	return found
}

func isWordEnd(c byte) bool { return isLetter(c) || c >= utf8.RuneSelf }

// The classes of bytes for findDisguises and [markRemover].
const (
	byteText    uint8 = iota // letters, digits, white space, later bytes of a character
	byteMark                 // an ASCII mark
	byteOpening              // a mark that may stand at the beginning of a word
	byteLead                 // begins characters that are marks
	byteTurned               // begins letters that may be turned, and no marks
)

var markClass = func() (class [256]uint8) {
	for _, c := range "<>](){}*_~`^=:\"&.-/,;+#!" {
		class[c] = byteMark
	}
	for _, c := range "[\\|" {
		class[c] = byteOpening
	}
	for _, c := range []byte{0xc2, 0xe2, 0xef, 0xf0, 0xf3} {
		class[c] = byteLead
	}
	for _, c := range []byte{0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xe1, 0xea} {
		class[c] = byteTurned
	}
	return class
}()
