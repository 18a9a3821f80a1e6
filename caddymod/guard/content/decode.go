// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
)

// Decode undoes the codings that the values of a Content-Encoding header name, as [coding.Decode] does, and appends
// the text that can be read in the body as it was sent. With [coding.ErrUnknown], and without a coding, it returns
// the body as it is, whatever its size.
//
// Many apps never look at Content-Encoding, and text can be hidden where decoders do not show it: in the header of
// gzip, in skippable frames, behind the end, or in a body that is not encoded at all. So what can be read in the body
// as it was sent follows behind a line feed, even beyond the limit. Honest bodies have nothing of that kind.
func Decode(values []string, body []byte, limit int64) (decoded []byte, err error) {
	if len(values) == 0 {
		return body, nil
	}
	names, err := coding.Parse(values)
	if err != nil || len(names) == 0 {
		return body, err
	}
	decoded, err = coding.Decode(names, body, limit)
	return appendPlain(decoded, body), err
}

// plainRun is how many characters of text in a row are no chance in compressed bytes: of a megabyte one in a thousand
// has as many.
const plainRun = 24

// maxRuns is how many stretches of text are looked for in what a body is decoded to.
const maxRuns = 16

// appendPlain appends the text that can be read in an encoded body, with a line feed before each stretch of it, but for
// what it is decoded to anyway.
func appendPlain(decoded, body []byte) []byte {
	clear, from, count, runs := len(decoded), 0, 0, 0
	for i := 0; i <= len(body); {
		size := textSize(body[i:])
		if size > 0 {
			count++
			i += size
			continue
		}
		if run := body[from:i]; count >= plainRun && HasLetters(stringOf(run)) {
			// Searching costs as much as the body is long, and is bounded for bodies that are made of such runs.
			if runs++; runs > maxRuns || !bytes.Contains(decoded[:clear], run) {
				decoded = append(append(decoded, '\n'), run...)
			}
		}
		i++
		from, count = i, 0
	}
	return decoded
}

// textSize returns the size of the character of text that b begins with, 0 where it begins with none.
func textSize(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if c := b[0]; c < utf8.RuneSelf {
		if c >= ' ' && c != 0x7f || c == '\t' || c == '\r' || c == '\n' {
			return 1
		}
		return 0
	}
	if r, size := utf8.DecodeRune(b); r != utf8.RuneError {
		return size
	}
	return 0
}
