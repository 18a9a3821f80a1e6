// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import "strings"

// unfolded returns a text as programs see it that join its lines, and false if it is not written for such a program:
//
//   - calendars and cards (RFC 5545, RFC 6350) continue in the next line behind a blank, even within a word;
//   - strings of YAML and TOML continue behind a backslash at the end of a line, without the blanks of the next line;
//   - mail and old cards may be quoted-printable (RFC 2045), and say so.
func unfolded(text string) (string, bool) {
	if strings.IndexByte(text, '\n') < 0 {
		return text, false
	}
	plain := text
	if _, is := cutPrefixFold(strings.TrimLeft(text, blank), "begin:v"); is {
		plain = unfoldLines(plain)
	}
	if strings.Contains(plain, "\\\n") || strings.Contains(plain, "\\\r\n") {
		plain = joinContinuations(plain)
	}
	if indexFold(plain, "-printable") >= 0 {
		plain = unquotePrintable(plain)
	}
	return plain, plain != text
}

// unfoldLines joins lines that begin with a blank to the line before them.
func unfoldLines(s string) string {
	return strings.NewReplacer("\r\n ", "", "\r\n\t", "", "\n ", "", "\n\t", "").Replace(s)
}

// joinContinuations joins lines that end with a backslash to the next line.
func joinContinuations(s string) string {
	out := make([]byte, 0, len(s))
	for {
		before, rest, found := strings.Cut(s, "\\")
		out = append(out, before...)
		if !found {
			return stringOf(out)
		}
		if line := strings.TrimPrefix(rest, "\r"); strings.HasPrefix(line, "\n") {
			s = strings.TrimLeft(line, blank)
			continue
		}
		out, s = append(out, '\\'), rest
	}
}

// unquotePrintable decodes quoted-printable. What is not encoded stays.
func unquotePrintable(s string) string {
	out := make([]byte, 0, len(s))
	for {
		before, rest, found := strings.Cut(s, "=")
		out = append(out, before...)
		if !found {
			return stringOf(toValidUTF8(out))
		}
		s = rest
		if line := strings.TrimLeft(rest, " \t\r"); strings.HasPrefix(line, "\n") {
			s = line[1:]
			continue
		}
		if len(rest) > 1 {
			high, ok := hexValue(rest[0])
			low, also := hexValue(rest[1])
			if ok && also {
				out, s = append(out, high<<4|low), rest[2:]
				continue
			}
		}
		out = append(out, '=')
	}
}

// appendUnfolded appends a text with its lines joined, if that makes a difference.
func appendUnfolded(dst []Piece, name, text string) []Piece {
	plain, changed := unfolded(text)
	if !changed {
		return dst
	}
	return appendReading(dst, appendText(nil, name, plain), readingUnfolded)
}
