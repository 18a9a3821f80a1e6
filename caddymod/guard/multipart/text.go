// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"io"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
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

// readable returns what can be read in bytes that may be a file's: the bytes themselves, but for blocks that are noise. Of those it
// is, on lines of their own, what is printable.
func readable(b []byte) []byte {
	if !hasNoise(b) || isUTF16(b) {
		return bytes.Clone(b)
	}
	kept := make([]byte, 0, 512)
	var letters []byte // what is printable in the noise
	for len(b) > 0 {
		n := textual(b)
		if n == 0 {
			n = noise(b)
			kept, letters = appendRuns(kept, b[:n], n < len(b)), appendPrintable(letters, b[:n])
		} else {
			kept = append(kept, b[:n]...)
		}
		b = b[n:]
	}
	return appendLanguage(kept, letters)
}

// hasNoise reports whether any block is noise.
func hasNoise(b []byte) bool { return textual(b) < len(b) }

// textual is how many bytes at the start of b are in blocks that are no noise, and noise how many are in blocks that are.
func textual(b []byte) int { return blocks(b, false) }
func noise(b []byte) int   { return blocks(b, true) }

func blocks(b []byte, noise bool) (n int) {
	for n < len(b) {
		end := min(n+blockSize, len(b))
		if isBinary(b[n:end]) != noise {
			return n
		}
		n = end
	}
	return n
}

// appendRuns adds the long enough printable stretches of noise to kept, each on a line. One at the start goes on what is
// before it, and one at the end is followed by what comes next, if there is any.
func appendRuns(kept, b []byte, more bool) []byte {
	lead := run(b)
	if lead >= minRun || len(kept) > 0 {
		kept = append(kept, b[:lead]...)
	}
	for i := lead; i < len(b); {
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
		if n >= minRun || more && i+n == len(b) {
			kept = appendLine(kept, b[i:i+n])
		}
		i += n + 1
	}
	if more && len(kept) > 0 && breaks[b[len(b)-1]] {
		kept = append(kept, '\n')
	}
	return kept
}

// appendLine adds a stretch of text on a line of its own.
func appendLine(kept, text []byte) []byte {
	if len(kept) > 0 {
		kept = append(kept, '\n')
	}
	return append(kept, text...)
}

// appendPrintable adds what is printable in b: an app that shows the whole shows nothing else.
func appendPrintable(letters, b []byte) []byte {
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case breaks[c]:
			i++
		case c < utf8.RuneSelf:
			letters = append(letters, c)
			i++
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r != utf8.RuneError || size > 1 {
				letters = append(letters, b[i:i+size]...)
			}
			i += size
		}
	}
	return letters
}

// window is how many bytes are looked at to tell language from chance.
const window = 32

// appendLanguage adds those stretches of letters to kept that chance has not made. In a text some characters are far more
// frequent than others, however it is spelt; in noise all are equally frequent. Of 32 bytes of English some 35 of the 496
// pairs are of the same byte, of 32 random printable ones 5, and once in 100,000 times 18 or more.
func appendLanguage(kept, letters []byte) []byte {
	if len(letters) == 0 {
		return kept
	}
	if len(letters) <= window {
		return appendLine(kept, letters)
	}
	const same = 18
	var count [256]int
	pairs, until := 0, 0 // up to until letters are kept
	for i, c := range letters {
		pairs += count[c]
		count[c]++
		if i >= window {
			out := letters[i-window]
			count[out]--
			pairs -= count[out]
		}
		if i < window-1 || pairs < same {
			continue
		}
		start := max(0, i+1-window)
		if start > until || until == 0 {
			kept = append(kept, '\n')
		}
		kept = append(kept, letters[max(start, until):i+1]...)
		until = i + 1
	}
	return kept
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
	return false
}

// isWrapped reports whether a part must be whole to be read.
func isWrapped(fields textproto.MIMEHeader) bool {
	switch encoding(fields, "Content-Transfer-Encoding") {
	case "quoted-printable", "base64":
		return true
	}
	return isMultipart(fields) || len(fields["Content-Encoding"]) > 0
}

// mayBeEncoded reports whether there is, in any case, the name of a header field for an encoding and the name of one, or a
// charset in which letters are not those of ASCII.
func mayBeEncoded(text []byte) bool {
	if i := indexFold(text, "-encoding"); i >= 0 {
		for _, name := range []string{"base64", "quoted-printable", coding.Gzip, coding.Deflate} {
			if indexFold(text[i:], name) >= 0 {
				return true
			}
		}
	}
	const parameter = "charset="
	for i := indexFold(text, parameter); i >= 0; i = indexFold(text, parameter) {
		text = bytes.TrimLeft(text[i+len(parameter):], "\"' ")
		if !isLikeASCII(text) {
			return true
		}
	}
	return false
}

// isLikeASCII reports whether text begins with the name of a charset that contains ASCII.
func isLikeASCII(text []byte) bool {
	for _, name := range []string{"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-", "windows-125"} {
		if len(text) >= len(name) && strings.EqualFold(string(text[:len(name)]), name) {
			return true
		}
	}
	return false
}

// indexFold is the index of a word, in small letters, in any case.
func indexFold(text []byte, word string) int {
	for at := 0; at+len(word) <= len(text); at++ {
		next := bytes.IndexByte(text[at:], word[0])
		if word[0] != '-' {
			next = bytes.IndexAny(text[at:], word[:1]+string(word[0]-0x20))
		}
		if next < 0 {
			break
		}
		if at += next; at+len(word) <= len(text) && strings.EqualFold(string(text[at:at+len(word)]), word) {
			return at
		}
	}
	return -1
}

// decoded undoes the Content-Transfer-Encoding and the Content-Encoding of a part, which no browser sends but some servers
// know. It returns nil if there are none, and at most limit bytes. Of codings it knows those that such servers know.
func decoded(fields textproto.MIMEHeader, body []byte, limit int64) []byte {
	var r io.Reader
	switch encoding(fields, "Content-Transfer-Encoding") {
	case "quoted-printable":
		r = quotedprintable.NewReader(bytes.NewReader(body))
	case "base64":
		body = decodeBase64(body)
		r = bytes.NewReader(body)
	}
	name := encoding(fields, "Content-Encoding")
	if name == "" && r == nil {
		return nil
	}
	if r == nil {
		r = bytes.NewReader(body)
	}
	switch name {
	case coding.Gzip, coding.XGzip, coding.Deflate:
		decoder := coding.NewLenientReader(name, r)
		defer func() { _ = decoder.Close() }()
		r = decoder
	}
	text, _ := io.ReadAll(io.LimitReader(r, limit)) // an app may use what comes before an error
	return text
}

// encoding is the encoding that a header field names, "" where it names none that is known. Of several values and behind a
// semicolon some servers take the first, and some the last.
func encoding(fields textproto.MIMEHeader, name string) string {
	for _, value := range fields[name] {
		value, _, _ = strings.Cut(value, ";")
		switch value = strings.ToLower(strings.Trim(value, " \t\"")); value {
		case "quoted-printable", "base64", coding.Gzip, coding.XGzip, coding.Deflate:
			return value
		}
	}
	return ""
}

// decodeBase64 decodes all that may be base64, in both ways in which lenient servers do: Node knows the alphabet of
// addresses, too, and goes on behind the padding when that ends a piece that came, and Python leaves out all that is not of
// the alphabet.
func decodeBase64(body []byte) []byte {
	decoded := appendBase64(make([]byte, 0, len(body)/4*3+3), body, false)
	if !bytes.ContainsAny(bytes.TrimRight(body, "=\r\n"), "-_=") {
		return decoded
	}
	other := appendBase64(make([]byte, 0, len(body)/4*3+3), body, true)
	return append(append(decoded, '\n'), other...)
}

// appendBase64 decodes base64. In parts, padding ends a group, and - and _ are letters, too; otherwise they are left out.
func appendBase64(out, body []byte, parts bool) []byte {
	var group uint32
	bits := 0
	for _, c := range body {
		switch {
		case c >= 'A' && c <= 'Z':
			c -= 'A'
		case c >= 'a' && c <= 'z':
			c -= 'a' - 26
		case c >= '0' && c <= '9':
			c += 52 - '0'
		case c == '+' || c == '-' && parts:
			c = 62
		case c == '/' || c == '_' && parts:
			c = 63
		case c == '=' && parts:
			bits = 0
			continue
		default:
			continue
		}
		group = group<<6 | uint32(c)
		if bits += 6; bits >= 8 {
			bits -= 8
			out = append(out, byte(group>>bits))
		}
	}
	return out
}
