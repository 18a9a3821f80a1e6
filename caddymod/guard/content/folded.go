// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import "strings"

// unfolded returns what a text says to programs that join its lines, and false when it is not written for one of them:
//
//   - calendars and cards (RFC 5545, RFC 6350) go on in the next line behind a blank, anywhere in a word;
//   - strings of YAML and TOML go on behind a backslash at the end of a line, without the blanks of the next one;
//   - mail and old cards may be quoted-printable (RFC 2045), and say so.
func unfolded(text string) (string, bool) {
	if strings.IndexByte(text, '\n') < 0 {
		return text, false
	}
	plain := text
	if _, is := cutPrefixFold(strings.TrimLeft(text, blank), "begin:v"); is {
		plain = withoutFolds(plain)
	}
	if strings.Contains(plain, "\\\n") || strings.Contains(plain, "\\\r\n") {
		plain = withoutContinuations(plain)
	}
	if indexFold(plain, "-printable") >= 0 {
		plain = unquotePrintable(plain)
	}
	return plain, plain != text
}

// withoutFolds joins the lines that begin with a blank to those before them.
func withoutFolds(s string) string {
	return strings.NewReplacer("\r\n ", "", "\r\n\t", "", "\n ", "", "\n\t", "").Replace(s)
}

// withoutContinuations joins lines behind a backslash.
func withoutContinuations(s string) string {
	out := make([]byte, 0, len(s))
	for {
		before, rest, found := strings.Cut(s, "\\")
		out = append(out, before...)
		if !found {
			return view(out)
		}
		if line := strings.TrimPrefix(rest, "\r"); strings.HasPrefix(line, "\n") {
			s = strings.TrimLeft(line, blank)
			continue
		}
		out, s = append(out, '\\'), rest
	}
}

// unquotePrintable decodes quoted-printable, and leaves what is none.
func unquotePrintable(s string) string {
	out := make([]byte, 0, len(s))
	for {
		before, rest, found := strings.Cut(s, "=")
		out = append(out, before...)
		if !found {
			return view(repair(out))
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

// appendUnfolded appends a text without its folds, if it has any.
func appendUnfolded(dst []Piece, name, text string) []Piece {
	plain, changed := unfolded(text)
	if !changed {
		return dst
	}
	return again(dst, appendText(nil, name, plain), joinedLines)
}
