// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
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
		if controls[c] {
			n++
		}
	}
	return n > 0 && n*20 >= len(b)
}

// controls are the bytes that stand in no text, and breaks those and the ones that stand in no UTF-8.
var controls, breaks = func() (controls, breaks [256]bool) {
	for c := range 256 {
		controls[c] = c < ' ' && (c < '\t' || c > '\r') && c != 0x1b || c == 0x7f
		breaks[c] = c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f || c == 0xc0 || c == 0xc1 || c > 0xf4
	}
	return controls, breaks
}()

// run returns how many bytes at the start of b are printable UTF-8. A rune that b cuts is one of them.
func run(b []byte) int {
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case breaks[c]:
			return i
		case c < utf8.RuneSelf:
			i++
			continue
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
		if i+minRun <= len(b) { // most stretches are too short, which the last break in them tells
			last := i + minRun - 1
			for last >= i && !breaks[b[last]] {
				last--
			}
			if last >= i {
				i = last + 1
				continue
			}
		}
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

// isUTF16 reports whether a text starts with a byte order mark of UTF-16.
func isUTF16(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff"))
}

// isEncoded reports whether the bytes of a part may mean something else than they look like: what is a control character in
// one charset is half a letter in another.
func isEncoded(fields textproto.MIMEHeader) bool {
	for _, value := range fields["Content-Type"] {
		if strings.Contains(strings.ToLower(value), "charset") {
			return true
		}
	}
	return len(fields["Content-Encoding"]) > 0
}

// decoded undoes the Content-Transfer-Encoding and the Content-Encoding of a part, which no browser sends, but some servers
// know. It returns nil if there are none, and at most limit bytes.
func decoded(fields textproto.MIMEHeader, body []byte, limit int64) []byte {
	var r io.Reader
	switch encoding(fields, "Content-Transfer-Encoding") {
	case "quoted-printable":
		r = quotedprintable.NewReader(bytes.NewReader(body))
	case "base64":
		r = bytes.NewReader(decodeBase64(body))
	}
	inner := r
	if inner == nil {
		inner = bytes.NewReader(body)
	}
	switch encoding(fields, "Content-Encoding") {
	case "gzip", "x-gzip":
		if unzip, err := gzip.NewReader(inner); err == nil {
			r = unzip
		}
	case "deflate": // with its frame, or without as some write it
		start := bufio.NewReader(inner)
		if head, _ := start.Peek(2); len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			if inflate, err := zlib.NewReader(start); err == nil {
				r = inflate
			}
		} else {
			r = flate.NewReader(start)
		}
	}
	if r == nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(r, limit)) // what comes before an error may be read
	return text
}

// encoding is the value of a header field that names an encoding.
func encoding(fields textproto.MIMEHeader, name string) string {
	return strings.ToLower(fields.Get(name))
}

// decodeBase64 decodes up to the padding, and leaves out what is not of the alphabet.
func decodeBase64(body []byte) []byte {
	letters := make([]byte, 0, len(body))
	for _, c := range body {
		if c == '=' {
			break
		}
		if alphanumeric(c) || c == '+' || c == '/' {
			letters = append(letters, c)
		}
	}
	if len(letters)%4 == 1 { // six bits are no byte
		letters = letters[:len(letters)-1]
	}
	n, _ := base64.RawStdEncoding.Decode(letters, letters) // behind the reading
	return letters[:n]
}
