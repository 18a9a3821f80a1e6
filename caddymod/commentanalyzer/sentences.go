// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSentences is the maximum number of sentences that a text is split into; the last one holds the rest.
const maxSentences = 256

// sentence is a part of a text with its position in UTF-16 code units, end exclusive.
type sentence struct {
	text       string
	begin, end int
}

// sentences splits a text. A sentence ends at a line break, at 。！？, and at . ! ? or … before white space or the end,
// with the quotation marks and brackets that close it, but not after abbreviations and initials. White space around a
// sentence is not part of it. What has no letter or digit belongs to the sentence before it, or to the first one.
func sentences(text string) []sentence {
	var found []sentence
	units := 0 // before text
	for text != "" {
		length := len(text)
		if len(found) < maxSentences-1 {
			length = firstSentence(text)
		}
		part := text[:length]
		trimmed := strings.TrimLeftFunc(part, unicode.IsSpace)
		begin := units + utf16Length(part[:len(part)-len(trimmed)])
		trimmed = strings.TrimRightFunc(trimmed, unicode.IsSpace)
		if trimmed != "" {
			found = append(found, sentence{text: trimmed, begin: begin, end: begin + utf16Length(trimmed)})
		}
		units += utf16Length(part)
		text = text[length:]
	}
	return found
}

// firstSentence returns the length, in bytes, of the first sentence and everything up to the second.
func firstSentence(text string) int {
	words := false
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			words = true
		case !words:
		case r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029':
			return i + size + wordless(text[i+size:])
		case strings.ContainsRune(".!?…。！？", r):
			end := i + closing(text[i:])
			wide := strings.ContainsRune("。！？", r)
			if wide || spaceAt(text, end) && !(text[i:end] == "." && abbreviated(text[:i])) {
				return end + wordless(text[end:])
			}
			i = end
			continue
		}
		i += size
	}
	return len(text)
}

// closing returns the length of the end of a sentence: its punctuation, quotation marks and brackets.
func closing(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(".!?…。！？\"'”’»)]}」』*_~", r) })
	if end < 0 {
		return len(text)
	}
	return end
}

// spaceAt reports whether white space, or the end, is at a position of a text.
func spaceAt(text string, at int) bool {
	r, size := utf8.DecodeRuneInString(text[at:])
	return size == 0 || unicode.IsSpace(r)
}

// wordless returns the length of the words at the beginning of a text that have no letter and no digit, such as ":)"
// or "🙂".
func wordless(text string) int {
	kept := 0
	for {
		begin := strings.IndexFunc(text[kept:], func(r rune) bool { return !unicode.IsSpace(r) })
		if begin < 0 {
			return len(text)
		}
		end := strings.IndexFunc(text[kept+begin:], func(r rune) bool {
			return unicode.IsSpace(r) || unicode.IsLetter(r) || unicode.IsDigit(r)
		})
		if end < 0 {
			return len(text)
		}
		next := kept + begin + end
		if r, _ := utf8.DecodeRuneInString(text[next:]); !unicode.IsSpace(r) {
			return kept
		}
		kept = next
	}
}

// abbreviations end in a full stop that ends no sentence.
var abbreviations = map[string]bool{
	"mr": true, "mrs": true, "ms": true, "dr": true, "prof": true, "st": true, "jr": true, "sr": true, "vs": true,
	"e.g": true, "i.e": true, "cf": true, "approx": true, "fig": true, "rev": true, "gen": true, "sen": true,
	"rep": true, "gov": true,
	"u.s": true, "u.k": true, "ph.d": true, "a.m": true, "p.m": true,
}

// abbreviated reports whether a text ends in an abbreviation or an initial, so that the full stop behind it is part
// of it.
func abbreviated(text string) bool {
	const longest = 8
	tail := text[max(0, len(text)-longest):]
	begin := strings.LastIndexFunc(tail, func(r rune) bool { return !unicode.IsLetter(r) && r != '.' })
	if begin < 0 && len(tail) < len(text) {
		return false
	}
	_, size := utf8.DecodeRuneInString(tail[max(0, begin):])
	if begin < 0 {
		size = 0
	}
	word := strings.ToLower(tail[max(0, begin)+size:])
	// "I" ends sentences more often than it is an initial.
	return abbreviations[word] || utf8.RuneCountInString(word) == 1 && word != "i" && word[0] < utf8.RuneSelf &&
		unicode.IsUpper(rune(tail[len(tail)-1]))
}
