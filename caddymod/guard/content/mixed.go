// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

// appendNoise appends what may be language in bytes that are not text.
func appendNoise(dst []Piece, name string, b []byte, binary bool) []Piece {
	var text []byte
	flush := func() {
		if len(text) > 0 {
			dst = appendPiece(dst, Piece{Name: name, Text: stringOf(text), Reading: readingNoise})
		}
		text = nil
	}
	for _, s := range findLanguage(b, binary) {
		// Control characters, which would break words, are dropped. Letters of other charsets stay.
		part := bytes.Map(func(r rune) rune {
			if r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' {
				return -1
			}
			return r
		}, b[s.from:s.to])
		if !HasLetters(stringOf(part)) {
			continue
		}
		if !binary && len(part) > 2*margin {
			// Base64 has no spaces. The part is repeated without the bytes around it, because words that are run
			// together are only found where they begin and end.
			part = bytes.ReplaceAll(part, []byte("+"), []byte(" "))
			part = slices.Concat(part, []byte("\n"), part[margin:len(part)-margin])
		}
		if len(text)+len(part) > maxStretch {
			flush()
		}
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, part...)
	}
	flush()
	return dst
}

// looksWritten reports whether a value among binary data is itself text.
func looksWritten(b []byte) bool {
	good, speaks := 0, 0
	for i := 0; i < len(b); {
		size := textSize(b[i:])
		if size > 0 {
			good += size
			if isLetter(b[i]) || size > 1 {
				speaks++
			}
		}
		i += max(size, 1)
	}
	return speaks >= 3 && good*10 >= len(b)*7
}

// extractMixed extracts from a body of no known type that does not look like text: JSON strings, values of forms, and
// language anywhere. All of it is a reading of noise, which counts only where it is to be rejected.
func (s *Selection) extractMixed(dst []Piece, t Type, body []byte) []Piece {
	var found readings
	decodings(&found, t.charsets(), body)
	for _, reading := range found.all() {
		if isMostlyText(reading) && isPrintable(reading) {
			dst = appendReading(dst, everything.extractAs(nil, Text, t, reading), readingNoise)
		}
	}
	if dense := bytes.ReplaceAll(body, []byte{0}, nil); len(dense) < len(body) {
		if isMostlyText(dense) {
			dst = appendReading(dst, everything.extractAs(nil, Text, t, toValidUTF8(dense)), readingNoise)
		}
		dst = appendNoise(dst, "", dense, true)
	}
	dst = appendNoise(dst, "", body, true)
	if bytes.IndexByte(body, '"') >= 0 {
		in := jsonScanner{sel: &everything, dst: dst, src: body, inNoise: true}
		in.scan()
		dst = in.dst
	}
	if bytes.IndexByte(body, '=') >= 0 {
		for pair := range bytes.SplitSeq(body, []byte("&")) {
			name, value, _ := bytes.Cut(pair, []byte("="))
			for _, part := range [][]byte{name, value} {
				dst = appendIfText(dst, "", unescapeQuery(stringOf(part)))
			}
		}
	}
	return dst
}

// appendIfText appends a value among binary data if it is text, and otherwise what may be language in it.
func appendIfText(dst []Piece, name, text string) []Piece {
	if len(text) < 3 {
		return dst
	}
	if !looksWritten(bytesOf(text)) {
		if len(text) >= minCleanRun {
			dst = appendNoise(dst, name, bytesOf(text), true)
		}
		return dst
	}
	versions := readingsOf(nil, bytesOf(text))
	for _, reading := range versions.all() {
		dst = appendReading(dst, appendText(nil, name, stringOf(reading)), readingNoise)
	}
	return dst
}

// isPrintable reports whether a text that was decoded by a guess may be real: its characters are mostly printable.
func isPrintable(b []byte) bool {
	b = b[:min(len(b), 4*sniffSize)]
	odd, all := 0, 0
	for _, r := range stringOf(b) {
		all++
		if r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			odd++
		}
	}
	return odd*8 <= all
}

// ExtractEncoded appends what may be text in a body as it was sent, before its Content-Encoding is undone: an app
// that ignores Content-Encoding reads the bytes as what their type says. Honest bodies have nothing of that kind.
func (s *Selection) ExtractEncoded(dst []Piece, t Type, body []byte) []Piece {
	if isMostlyText(body) {
		return appendReading(dst, s.Extract(nil, t, body), readingNoise)
	}
	return s.extractMixed(dst, t, body)
}
