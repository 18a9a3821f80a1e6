// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
	"unicode/utf8"
)

const (
	// blockSize is how many bytes are looked at to tell text from what is not.
	blockSize = 512
	// minRun is how many bytes in a row have to be printable to be text amidst what is not. In random bytes there is one
	// such stretch in 100 KiB.
	minRun = 12
)

// isBinary reports whether one byte in 20 or more is a control character that no charset has in its texts. Compressed data
// has twice as many; NUL, which UTF-16 is full of, is one of them.
func isBinary(b []byte) bool {
	n := 0
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\v' && c != '\f' && c != '\r' && c != 0x1b || c == 0x7f {
			n++
		}
	}
	return n > 0 && n*20 >= len(b)
}

// run returns how many bytes at the start of b are printable UTF-8. A rune that b cuts is one of them.
func run(b []byte) int {
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case c >= ' ' && c < 0x7f || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case c < utf8.RuneSelf:
			return i
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			if !utf8.FullRune(b[i:]) {
				return len(b)
			}
			return i
		}
		i += size
	}
	return len(b)
}

// appendRuns adds the long enough printable stretches of b to kept, and returns where the last one starts if it goes on up
// to the end of b: more of it may follow.
func appendRuns(kept, b []byte) (all []byte, open int) {
	for i := 0; i < len(b); {
		n := run(b[i:])
		if i+n == len(b) {
			return kept, i
		}
		if n >= minRun {
			kept = appendLine(kept, b[i:i+n])
		}
		i += n + 1
	}
	return kept, len(b)
}

// appendLine adds a stretch of text on a line of its own.
func appendLine(kept, text []byte) []byte {
	if len(kept) > 0 {
		kept = append(kept, '\n')
	}
	return append(kept, text...)
}

// declaresCharset reports whether a part says what its bytes mean, or starts with a byte order mark of UTF-16. What is a
// control character in one charset is half a letter in another.
func declaresCharset(fields textproto.MIMEHeader) bool {
	for _, value := range fields["Content-Type"] {
		if strings.Contains(strings.ToLower(value), "charset") {
			return true
		}
	}
	return false
}

// transferDecoded undoes the Content-Transfer-Encoding of a part, which is obsolete in forms, but some servers know it. It
// returns nil if there is none.
func transferDecoded(fields textproto.MIMEHeader, body []byte) []byte {
	for _, value := range fields["Content-Transfer-Encoding"] {
		switch strings.ToLower(strings.TrimSpace(value)) {
		case "quoted-printable":
			decoded, _ := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
			return decoded
		case "base64":
			return decodeBase64(body)
		}
	}
	return nil
}

// decodeBase64 decodes up to the padding, and leaves out what is not of the alphabet.
func decodeBase64(body []byte) []byte {
	letters := make([]byte, 0, len(body))
	for _, c := range body {
		switch {
		case c == '=':
		case alphanumeric(c) || c == '+' || c == '/':
			letters = append(letters, c)
			continue
		default:
			continue
		}
		break
	}
	letters = letters[:len(letters)-boolInt(len(letters)%4 == 1)]
	decoded := make([]byte, base64.RawStdEncoding.DecodedLen(len(letters)))
	n, _ := base64.RawStdEncoding.Decode(decoded, letters)
	return decoded[:n]
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
