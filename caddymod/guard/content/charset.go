// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

const utf8BOM = "\xef\xbb\xbf"

// versions are the readings of a body, which do without memory of their own.
type versions struct {
	list [3][]byte
	n    int
}

func (v *versions) add(b []byte) {
	v.list[v.n] = b
	v.n++
}

// all returns the readings.
func (v *versions) all() [][]byte { return v.list[:v.n] }

// readings returns what a body may say, in UTF-8: in the charset that it is sent as, in the one that it looks like, and as
// it is, where these differ and where both may be meant. An ordinary body has one reading, which is the body itself.
func readings(charset string, body []byte) (found versions) {
	wide, sure := detectWide(body)
	if wide != nil {
		found.add(decodeWith(wide, body))
	}
	if _, decode := lookup(charset); decode != nil && !sure {
		found.add(repair(decode(body)))
	}
	if found.n == 0 || alsoPlain(body, found.list[found.n-1]) {
		found.add(repair(bytes.TrimPrefix(body, []byte(utf8BOM))))
	}
	return found
}

// alsoPlain reports whether a body that says another thing in another charset may be meant as it is: many apps
// never look at the charset.
func alsoPlain(body, decoded []byte) bool {
	if sameASCII(body, decoded) {
		// Only other characters are at stake. UTF-8 is hardly ever there by accident.
		return hasMultibyte(body)
	}
	return textual(body)
}

// sameASCII reports whether the ASCII characters of both are the same.
func sameASCII(a, b []byte) bool {
	i, j := 0, 0
	for {
		for i < len(a) && a[i] >= utf8.RuneSelf {
			i++
		}
		for j < len(b) && b[j] >= utf8.RuneSelf {
			j++
		}
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if a[i] != b[j] {
			return false
		}
		i, j = i+1, j+1
	}
}

// hasMultibyte reports whether there is a character of UTF-8 beyond ASCII.
func hasMultibyte(b []byte) bool {
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, size := utf8.DecodeRune(b[i:])
		if size > 1 {
			return true
		}
		i++
	}
	return false
}

// detectWide returns the encoding of bytes that are UTF-16 or UTF-32, with a byte order mark or without, as parsers of JSON
// detect it, and nil for others. It reports whether that is sure.
func detectWide(b []byte) (e encoding.Encoding, sure bool) {
	if len(b) < 2 || b[0] != 0 && b[1] != 0 && b[0] < 0xfe {
		return nil, false
	}
	var next [2]byte
	copy(next[:], b[2:])
	more := next != [2]byte{}
	switch {
	case b[0] == 0xff && b[1] == 0xfe && len(b) >= 4 && !more:
		return utf32.UTF32(utf32.LittleEndian, utf32.UseBOM), true
	case b[0] == 0xff && b[1] == 0xfe:
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), true
	case b[0] == 0xfe && b[1] == 0xff:
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM), true
	case b[0] == 0 && b[1] == 0 && next == [2]byte{0xfe, 0xff}:
		return utf32.UTF32(utf32.BigEndian, utf32.UseBOM), true
	case b[0] == 0 && b[1] == 0 && next[0] == 0 && next[1] != 0:
		return utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM), false
	case b[0] == 0 && b[1] != 0:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), false
	case b[0] != 0 && b[1] == 0 && len(b) >= 4 && !more:
		return utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM), false
	case b[0] != 0 && b[1] == 0:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), false
	}
	return nil, false
}

// decodeWith returns bytes of another encoding in UTF-8. What cannot be decoded becomes U+FFFD.
func decodeWith(e encoding.Encoding, b []byte) []byte {
	decoded, err := e.NewDecoder().Bytes(b)
	if err != nil && len(decoded) == 0 {
		return b
	}
	return decoded
}

// lookup returns what decodes a charset, nil for UTF-8 and for one that is not known.
func lookup(charset string) (known bool, decode func([]byte) []byte) {
	switch charset {
	case "", "utf-8", "utf8", "us-ascii", "ascii", "unicode-1-1-utf-8", "utf-8-sig", "utf_8_sig", "utf_8", "u8", "cp65001":
		return true, nil
	case "utf-7", "utf7", "unicode-1-1-utf-7", "csutf7", "x-unicode-2-0-utf-7":
		return true, decodeUTF7
	case "unicode_escape", "unicode-escape", "raw_unicode_escape", "raw-unicode-escape":
		// Python decodes a body so when it is told to.
		return true, func(b []byte) []byte { return bytesOf(undoEscapes(view(b))) }
	}
	e := encodingOf(charset)
	if e == nil {
		return false, nil
	}
	return true, func(b []byte) []byte { return decodeWith(e, b) }
}

// encodingOf returns the encoding of a name that a browser, the IANA or Python knows.
func encodingOf(charset string) encoding.Encoding {
	switch strings.NewReplacer("_", "", "-", "", " ", "").Replace(charset) {
	case "utf16", "u16", "ucs2", "iso10646ucs2", "unicode":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case "utf16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case "utf16be":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case "utf32", "u32", "ucs4", "iso10646ucs4":
		return utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)
	case "utf32le":
		return utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)
	case "utf32be":
		return utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)
	case "cp037", "ibm037", "ebcdiccpus", "cp500":
		return charmap.CodePage037
	case "cp1047", "ibm1047":
		return charmap.CodePage1047
	case "cp1140", "ibm1140":
		return charmap.CodePage1140
	}
	if e, err := htmlindex.Get(charset); err == nil && e != encoding.Replacement {
		return e
	}
	if e, err := ianaindex.IANA.Encoding(charset); err == nil && e != nil {
		return e
	}
	return nil
}

// decodeUTF7 decodes UTF-7 (RFC 2152): ASCII with UTF-16 in base64 between + and -.
func decodeUTF7(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, '+')
		if i < 0 {
			return append(out, b...)
		}
		out, b = append(out, b[:i]...), b[i+1:]
		n := 0
		for n < len(b) && (isLetter(b[n]) || isDigit(b[n]) || b[n] == '+' || b[n] == '/') {
			n++
		}
		if n == 0 {
			out = append(out, '+')
		} else {
			wide, _ := base64.RawStdEncoding.DecodeString(string(b[:n-n%4]))
			if rest := n % 4; rest > 1 {
				tail, _ := base64.RawStdEncoding.DecodeString(string(b[n-rest : n]))
				wide = append(wide, tail...)
			}
			units := make([]uint16, len(wide)/2)
			for u := range units {
				units[u] = uint16(wide[2*u])<<8 | uint16(wide[2*u+1])
			}
			out = append(out, string(utf16.Decode(units))...)
		}
		b = b[n:]
		if len(b) > 0 && b[0] == '-' {
			b = b[1:]
		}
	}
}

// repair returns bytes as valid UTF-8 without NUL bytes: themselves where they are. A byte that is not UTF-8 is read as
// windows-1252, which is what most texts without a charset are that are not UTF-8, and an overlong form of an ASCII
// character as that character.
func repair(b []byte) []byte {
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/8+16)
	for i := 0; i < len(b); {
		c := b[i]
		if c < utf8.RuneSelf {
			if c != 0 {
				out = append(out, c)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			r = charmap.Windows1252.DecodeByte(c)
			if (c == 0xc0 || c == 0xc1) && i+1 < len(b) && b[i+1]&0xc0 == 0x80 {
				r, size = rune(c&0x1f)<<6|rune(b[i+1]&0x3f), 2
			}
		}
		out = utf8.AppendRune(out, r)
		i += size
	}
	return out
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
