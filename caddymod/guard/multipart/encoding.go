// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"io"
	"mime/quotedprintable"
	"net/textproto"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
)

// declaresCharset reports whether a part declares a charset. Then its bytes may mean something else than they look
// like: a control character of one charset is half a letter in another.
func declaresCharset(fields textproto.MIMEHeader) bool {
	for _, value := range fields["Content-Type"] {
		if strings.Contains(strings.ToLower(value), "charset") {
			return true
		}
	}
	return false
}

// needsWhole reports whether a part can only be decoded as a whole.
func needsWhole(fields textproto.MIMEHeader) bool {
	switch declaredEncoding(fields, "Content-Transfer-Encoding") {
	case "quoted-printable", "base64":
		return true
	}
	return isMultipart(fields) || len(fields["Content-Encoding"]) > 0
}

// mayBeEncoded reports whether a text has, in any case, the name of a header field for an encoding followed by the
// name of an encoding, or a charset whose letters are not those of ASCII.
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

// isLikeASCII reports whether a text begins with the name of a charset that contains ASCII.
func isLikeASCII(text []byte) bool {
	for _, name := range []string{"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-", "windows-125"} {
		if len(text) >= len(name) && strings.EqualFold(string(text[:len(name)]), name) {
			return true
		}
	}
	return false
}

// indexFold returns the index of a word, which is in lower case, in any case.
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

// decoded undoes the Content-Transfer-Encoding and the Content-Encoding of a part, which no browser sends but some
// servers decode. It returns nil if there are none, and at most limit bytes. It knows those codings that such servers
// know.
func decoded(fields textproto.MIMEHeader, body []byte, limit int64) []byte {
	var r io.Reader
	switch declaredEncoding(fields, "Content-Transfer-Encoding") {
	case "quoted-printable":
		r = quotedprintable.NewReader(bytes.NewReader(body))
	case "base64":
		body = decodeBase64(body)
		r = bytes.NewReader(body)
	}
	name := declaredEncoding(fields, "Content-Encoding")
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

// declaredEncoding returns the encoding that a header field names, "" if it names none that is known. Of several
// values, some servers take the first, and some the last; the same goes for what follows a semicolon.
func declaredEncoding(fields textproto.MIMEHeader, name string) string {
	for _, value := range fields[name] {
		value, _, _ = strings.Cut(value, ";")
		switch value = strings.ToLower(strings.Trim(value, " \t\"")); value {
		case "quoted-printable", "base64", coding.Gzip, coding.XGzip, coding.Deflate:
			return value
		}
	}
	return ""
}

// decodeBase64 decodes everything that may be base64, in both ways in which lenient servers do. Node also knows the
// URL-safe alphabet, and continues behind padding if that ends a chunk of the body. Python leaves out everything
// outside of the alphabet.
func decodeBase64(body []byte) []byte {
	decoded := appendBase64(make([]byte, 0, len(body)/4*3+3), body, false)
	if !bytes.ContainsAny(bytes.TrimRight(body, "=\r\n"), "-_=") {
		return decoded
	}
	other := appendBase64(make([]byte, 0, len(body)/4*3+3), body, true)
	return append(append(decoded, '\n'), other...)
}

// appendBase64 appends decoded base64. If parts is true, padding ends a group, and - and _ are letters, too;
// otherwise they are left out.
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
