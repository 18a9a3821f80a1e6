// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"html"
	"io"
	"mime"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
)

// Visible returns what a person reads when an app shows a text, and false if that is the text itself. It does not
// know what the app is. So what one kind of app shows and another hides is kept, at the end:
//
//   - encoded words of mail (RFC 2047) and percent-escapes are decoded, and so are HTML entities and the escapes
//     \u006b and \x6b of source code and queries, all of them once;
//   - text that is forced to show from right to left is reversed;
//   - HTML tags are removed. The text continues through tags like <b> and is divided by tags like <p> and <br>;
//   - the texts of alt, title and similar attributes stand at the end, and so do comments, unknown tags <like this>,
//     scripts, and whatever else a browser hides and an app for plain text shows, with the words around them.
//
// A text without any of this costs no allocation.
func Visible(text string) (string, bool) {
	seen := unescapeText(text)
	if hasTag(seen) {
		seen = withoutTags(seen)
	}
	if strings.IndexByte(seen, '&') >= 0 {
		seen = html.UnescapeString(seen)
	}
	return seen, seen != text
}

// unescapeText undoes what apps undo before they show a text as plain text or as markup.
func unescapeText(text string) string {
	seen := decodeWords(text)
	if strings.IndexByte(seen, '+') >= 0 {
		seen = plusToSpace(seen)
	}
	if strings.IndexByte(seen, '%') >= 0 {
		seen = unescapePercent(seen)
	}
	if strings.IndexByte(seen, '\\') >= 0 {
		seen = unescapeSource(seen)
	}
	if strings.Contains(seen, rtlOverride) {
		seen = leftToRight(seen)
	}
	return seen
}

// maxEncodedWord is the maximum length, in bytes, of an encoded word. The RFC allows 75.
const maxEncodedWord = 4096

// decodeWords decodes the encoded words of RFC 2047.
func decodeWords(s string) string {
	i := strings.Index(s, "=?")
	if i < 0 {
		return s
	}
	var out []byte
	kept := 0 // up to here s is in out
	for i >= 0 {
		at := i
		size := wordSize(s[at:min(len(s), at+maxEncodedWord)])
		plain, err := wordDecoder.Decode(s[at : at+size])
		if size == 0 || err != nil {
			at += 2
		} else {
			between := s[kept:at]
			if kept == 0 || strings.TrimSpace(between) != "" { // white space between encoded words is not shown
				out = append(out, between...)
			}
			out = append(out, plain...)
			at += size
			kept = at
		}
		if i = strings.Index(s[at:], "=?"); i >= 0 {
			i += at
		}
	}
	if kept == 0 {
		return s
	}
	return stringOf(append(out, s[kept:]...))
}

// wordSize returns the size of the encoded word that s begins with, 0 if there is none.
func wordSize(s string) int {
	charset := strings.IndexByte(s[2:], '?')
	if charset < 1 {
		return 0
	}
	text := 2 + charset + len("?q?")
	if text > len(s) || s[text-1] != '?' {
		return 0
	}
	end := strings.Index(s[text:], "?=")
	if end < 0 {
		return 0
	}
	return text + end + len("?=")
}

var wordDecoder = &mime.WordDecoder{CharsetReader: func(charset string, input io.Reader) (io.Reader, error) {
	e, err := htmlindex.Get(charset)
	if err != nil {
		return nil, err
	}
	return e.NewDecoder().Reader(input), nil
}}

// unescapePercent decodes percent-escapes that are UTF-8 and not control characters.
func unescapePercent(s string) string {
	var out []byte
	kept := 0
	for i := strings.IndexByte(s, '%'); i >= 0 && i+2 < len(s); {
		var raw [utf8.UTFMax]byte
		n := 0
		for at := i; n < len(raw) && at+2 < len(s) && s[at] == '%'; at += 3 {
			high, ok := hexValue(s[at+1])
			low, also := hexValue(s[at+2])
			if !ok || !also {
				break
			}
			raw[n] = high<<4 | low
			n++
		}
		r, size := utf8.DecodeRune(raw[:n])
		if n > 0 && (r != utf8.RuneError || size > 1) && (r >= ' ' || r == '\n' || r == '\t' || r == '\r') {
			out = append(append(out, s[kept:i]...), raw[:size]...)
			i += 3 * size
			kept = i
		} else {
			i++
		}
		next := strings.IndexByte(s[min(i, len(s)):], '%')
		if next < 0 {
			break
		}
		i += next
	}
	if kept == 0 {
		return s
	}
	return stringOf(append(out, s[kept:]...))
}

// unescapeSource decodes the escapes \u006b, \u{6b} and \x6b, and no others: a backslash also stands in paths.
func unescapeSource(s string) string {
	var out []byte
	kept := 0
	for i := strings.IndexByte(s, '\\'); i >= 0 && i+3 < len(s); {
		r, size := rune(0), 0
		switch s[i+1] {
		case 'u':
			r, size = hexEscape(s[i+2:], 4)
			if utf16High(r) && strings.HasPrefix(s[i+2+size:], `\u`) {
				if low, more := hexEscape(s[i+4+size:], 4); more > 0 && utf16Low(low) {
					r, size = utf16.DecodeRune(r, low), size+2+more
				}
			}
		case 'x':
			r, size = hexEscape(s[i+2:], 2)
		}
		if size > 0 {
			out = utf8.AppendRune(append(out, s[kept:i]...), r)
			kept = i + 2 + size
		}
		i = max(kept, i+1)
		next := strings.IndexByte(s[i:], '\\')
		if next < 0 {
			break
		}
		i += next
	}
	if kept == 0 {
		return s
	}
	return stringOf(append(out, s[kept:]...))
}

// rtlOverride is the character RIGHT-TO-LEFT OVERRIDE. What follows it is shown from right to left up to the end of
// the paragraph or a POP DIRECTIONAL FORMATTING.
const rtlOverride = "\u202e"

// leftToRight reverses what is shown from right to left.
func leftToRight(s string) string {
	out := make([]byte, 0, len(s))
	for {
		before, turned, found := strings.Cut(s, rtlOverride)
		out = append(out, before...)
		if !found {
			return stringOf(out)
		}
		end := strings.IndexAny(turned, "\n\u202c\u202d\u202e")
		if end < 0 {
			end = len(turned)
		}
		s = strings.TrimPrefix(turned[end:], "\u202c")
		for part := turned[:end]; part != ""; {
			_, size := utf8.DecodeLastRuneInString(part)
			out = append(out, part[len(part)-size:]...)
			part = part[:len(part)-size]
		}
	}
}

// plusToSpace puts spaces in place of plus signs where only these separate the words of a text: what is left of a
// form that was encoded twice.
func plusToSpace(s string) string {
	if strings.ContainsAny(s, " \t\n") || strings.Count(s, "+") < 2 {
		return s
	}
	return strings.ReplaceAll(s, "+", " ")
}

// hasTag reports whether there may be a tag or a comment.
func hasTag(s string) bool {
	for {
		i := strings.IndexByte(s, '<')
		if i < 0 || i+1 >= len(s) {
			return false
		}
		if c := s[i+1]; isLetter(c) || c == '/' || c == '!' || c == '?' {
			return true
		}
		s = s[i+1:]
	}
}

// hiddenContext is how many bytes of text before and behind a hidden text are repeated with it.
const hiddenContext = 48

// withoutTags removes the tags of a text, see [Visible].
func withoutTags(s string) string {
	out := make([]byte, 0, len(s)+len(s)/4)
	var hidden []byte
	in, room := newTagParser(s), len(s)
	hide := func(text, behind string) {
		if !HasLetters(text) {
			return
		}
		hidden = append(hidden, '\n')
		if len(hidden) < room { // a text must not become many times as long
			hidden = append(append(hidden, lastContext(out)...), ' ')
			behind = firstContext(behind)
		} else {
			behind = ""
		}
		hidden = append(append(append(hidden, text...), ' '), behind...)
	}
	for s != "" {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			break
		}
		out = append(out, s[:i]...)
		s = s[i:]
		if inside, size, cdata := declaration(s); size > 0 {
			s = s[size:]
			if cdata {
				out = append(out, inside...)
				continue
			}
			hide(inside, s)
			continue
		}
		t, size := in.parse(s)
		if size == 0 {
			out = append(out, '<')
			s = s[1:]
			continue
		}
		if t.hasWords() {
			hide(s[1:size-1], s[size:])
		}
		s = s[size:]
		if t.end {
			if t.class == block {
				out = append(out, '\n')
			}
			continue
		}
		for rest := t.attrs; rest != ""; {
			name, value, next, ok := attribute(rest)
			if !ok {
				break
			}
			if isShownAttribute(name) && !manyWords(value) && HasLetters(value) {
				hidden = append(append(hidden, '\n'), value...)
			}
			rest = next
		}
		switch t.class {
		case block:
			out = append(out, '\n')
		case raw, hiding:
			end := endOf(s, t.name)
			hide(s[:end], s[end:])
			s = s[end:]
		}
	}
	return stringOf(append(append(out, s...), hidden...))
}

// lastContext returns the last words of a text.
func lastContext(text []byte) []byte {
	if len(text) <= hiddenContext {
		return text
	}
	text = text[len(text)-hiddenContext:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

// firstContext returns the first words of a text, between two tags.
func firstContext(text string) string {
	if len(text) > hiddenContext {
		text = text[:hiddenContext]
		for len(text) > 0 && !endsWhole(bytesOf(text)) {
			text = text[:len(text)-1]
		}
	}
	for strings.HasPrefix(text, "<") {
		_, behind, found := strings.Cut(text, ">")
		if !found {
			break
		}
		text = behind
	}
	text, _, _ = strings.Cut(text, "<")
	return text
}
