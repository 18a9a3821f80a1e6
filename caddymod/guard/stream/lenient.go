// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"strings"
)

// strictJSON converts what lenient parsers take for JSON to JSON: NaN and other words of Python and JavaScript,
// single quotes, names without quotes, extra commas, and control characters in strings. It reports false if there are
// words that no parser takes for a value.
func strictJSON(loose []byte) (out []byte, ok bool) {
	ok = true
	for at := 0; at < len(loose); {
		switch c := loose[at]; c {
		case '"', '\'':
			var n int
			out, n = strictString(out, loose[at:])
			at += n
		case '}', ']':
			out = append(bytes.TrimRight(out, " \t\r\n,"), c)
			at++
		case '{', '[', ',', ':', ' ', '\t', '\r', '\n':
			out = append(out, c)
			at++
		default:
			end := bytes.IndexAny(loose[at:], "{}[],:\" \t\r\n'")
			if end < 0 {
				end = len(loose) - at
			}
			word := string(loose[at : at+end])
			at += end
			switch {
			case bytes.HasPrefix(bytes.TrimLeft(loose[at:], " \t\r\n"), []byte(":")):
				out, _ = strictString(out, []byte(`"`+word+`"`))
			case isLiteral(word):
				out = append(out, word...)
			default:
				ok = ok && strings.Contains(" NaN Infinity -Infinity +Infinity undefined None True False ",
					" "+word+" ")
				out = append(out, "null"...)
			}
		}
	}
	return out, ok
}

// isLiteral reports whether a word is a number or a literal of JSON.
func isLiteral(word string) bool {
	if word == "true" || word == "false" || word == "null" {
		return true
	}
	return strings.Trim(word, "0123456789.+-eE") == "" && word[len(word)-1] <= '9' && (word[0] == '-' || word[0] >= '0')
}

// strictString appends the string that text begins with as JSON, and returns its length in text.
func strictString(out, text []byte) ([]byte, int) {
	const hex = "0123456789abcdef"
	quote := text[0]
	out = append(out, '"')
	for at := 1; at < len(text); at++ {
		switch c := text[at]; {
		case c == quote:
			return append(out, '"'), at + 1
		case c == '"':
			out = append(out, '\\', '"')
		case c < ' ':
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c != '\\' || at+1 == len(text):
			out = append(out, c)
		default:
			at++
			if strings.IndexByte(`"\/bfnrtu`, text[at]) >= 0 {
				out = append(out, '\\')
			}
			out = append(out, text[at])
		}
	}
	return append(out, '"'), len(text)
}
