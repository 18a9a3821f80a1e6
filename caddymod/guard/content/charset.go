// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

const utf8BOM = "\xef\xbb\xbf"

// maxReadings is the maximum number of readings of bytes: in two declared charsets, in both orders of UTF-16 and of
// UTF-32, as they are, and without what is not UTF-8.
const maxReadings = 8

// readings are the different readings of some bytes. The list itself needs no allocation.
type readings struct {
	list [maxReadings][]byte
	n    int
}

// add adds a reading, unless it is there already.
func (v *readings) add(b []byte) {
	for _, have := range v.all() {
		if bytes.Equal(have, b) {
			return
		}
	}
	v.list[v.n] = b
	v.n++
}

// all returns the readings.
func (v *readings) all() [][]byte { return v.list[:v.n] }

// readingsOf returns all readings of bytes, in UTF-8, the likeliest first: in the declared charsets, of which the
// first two count; in UTF-16 and UTF-32, if the bytes begin so; and always as they are, because many apps ignore
// charsets and byte order marks. Ordinary bytes have one reading, which is the bytes themselves.
func readingsOf(charsets []string, body []byte) (found readings) {
	valid := utf8.Valid(body)
	if len(charsets) == 0 && valid && (len(body) < 2 || body[0] != 0 && body[1] != 0) && bytes.IndexByte(body, 0) < 0 {
		found.add(bytes.TrimPrefix(body, []byte(utf8BOM)))
		return found
	}
	plain := toValidUTF8(bytes.TrimPrefix(body, []byte(utf8BOM)))
	decodings(&found, charsets, body)
	if len(charsets) == 0 {
		found.likeliestFirst(plain, isMostlyText(body))
	}
	found.add(plain)
	if !valid {
		// Apps that decode UTF-8 may drop what is not UTF-8.
		found.add(toValidUTF8(bytes.ToValidUTF8(body, nil)))
	}
	return found
}

// likeliestFirst puts the likeliest reading first. All readings except plain are guesses.
func (v *readings) likeliestFirst(plain []byte, textual bool) {
	guesses := *v
	*v = readings{}
	if textual {
		v.add(plain)
	}
	for _, reading := range guesses.all() {
		if v.n == 0 && isPrintable(reading) {
			v.add(reading)
		}
	}
	if v.n == 0 {
		v.add(plain)
	}
	for _, reading := range guesses.all() {
		v.add(reading)
	}
}

// decodings adds the readings of bytes in charsets other than UTF-8: in declared ones, and in UTF-16 and UTF-32 where
// these may be meant. Their byte order is never certain: programs differ in what they assume without a byte order
// mark.
func decodings(found *readings, charsets []string, body []byte) {
	for _, charset := range charsets[:min(len(charsets), 2)] {
		if _, decode := lookup(charset); decode != nil {
			found.add(toValidUTF8(decode(body)))
		}
	}
	for _, decode := range wideDecoders(charsets, body) {
		found.add(toValidUTF8(decode(body)))
	}
}

// wideDecoders returns decoders for bytes that may be UTF-16 or UTF-32, by their charset or their beginning, in both
// byte orders.
func wideDecoders(charsets []string, body []byte) (found []func([]byte) []byte) {
	wide16, wide32 := looksWide(body)
	for _, charset := range charsets {
		name := canonical(charset)
		wide16 = wide16 || isUTF16(name)
		wide32 = wide32 || isUTF32(name)
	}
	if !wide16 && !wide32 {
		return nil
	}
	first, second := unicode.LittleEndian, unicode.BigEndian
	if len(body) > 1 && (body[0] == 0 || body[0] == 0xfe) {
		first, second = second, first
	}
	for _, order := range []unicode.Endianness{first, second} {
		if !wide32 {
			break
		}
		e := utf32.UTF32(utf32.Endianness(order), utf32.IgnoreBOM)
		text := decodeWith(e, body[:min(len(body), sniffSize)])
		if bytes.Count(text, []byte("\ufffd"))*2 < utf8.RuneCount(text) {
			found = append(found, func(b []byte) []byte { return trimBOM(decodeWith(e, b)) })
		}
	}
	for _, order := range []unicode.Endianness{first, second} {
		e := unicode.UTF16(order, unicode.IgnoreBOM)
		found = append(found, func(b []byte) []byte { return trimBOM(decodeWith(e, b)) })
	}
	return found
}

// trimBOM removes the byte order mark of text in UTF-8.
func trimBOM(b []byte) []byte { return bytes.TrimPrefix(b, []byte(utf8BOM)) }

// looksWide reports whether bytes may be UTF-16 or UTF-32: they begin with a byte order mark, or as JSON parsers
// expect it without one. It is a guess.
func looksWide(b []byte) (wide16, wide32 bool) {
	if len(b) < 2 || b[0] != 0 && b[1] != 0 && b[0] < 0xfe {
		return false, false
	}
	wide16 = b[0] == 0 || b[1] == 0 || b[0] == 0xff && b[1] == 0xfe || b[0] == 0xfe && b[1] == 0xff
	return wide16, len(b) >= 4 && bytes.Count(b[:4], []byte{0}) >= 2
}

// decodeWith decodes bytes to UTF-8. What cannot be decoded becomes U+FFFD.
func decodeWith(e encoding.Encoding, b []byte) []byte {
	decoded, err := e.NewDecoder().Bytes(b)
	if err != nil && len(decoded) == 0 {
		return b
	}
	return decoded
}

// canonical returns the name of a charset in lower case and without anything but letters and digits: programs differ
// in which of the others they ignore.
func canonical(charset string) string {
	// Some add the year of an ISO standard behind a colon.
	if i := strings.IndexByte(charset, ':'); i > 0 {
		charset = charset[:i]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, charset)
}

func isUTF16(name string) bool {
	switch name {
	case "u16", "ucs2", "iso10646ucs2", "csunicode", "unicode", "unicodefeff", "unicodefffe", "unicodelittle",
		"unicodebig",
		"unicodelittleunmarked", "unicodebigunmarked":
		return true
	}
	return strings.HasPrefix(strings.TrimLeft(name, "csx"), "utf16") || strings.HasPrefix(name, "ucs2")
}

func isUTF32(name string) bool {
	return name == "u32" || name == "iso10646ucs4" || name == "csucs4" ||
		strings.HasPrefix(strings.TrimLeft(name, "csx"), "utf32") ||
		strings.HasPrefix(name, "ucs4")
}

// lookup returns the decoder of a charset, nil for UTF-8, and whether the charset is known. Unknown variants of
// EBCDIC are decoded nevertheless, because their letters are known.
func lookup(charset string) (known bool, decode func([]byte) []byte) {
	switch charset {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return true, nil
	}
	switch name := canonical(charset); name {
	case "utf8", "utf", "u8", "unicode11utf8", "unicode20utf8", "xunicode20utf8", "csutf8", "utf8sig", "utf8mb3",
		"utf8mb4",
		"cp65001", "windows65001", "ascii", "usascii", "us", "csascii", "iso646us", "ansix341968":
		return true, nil
	case "utf7", "u7", "unicode11utf7", "unicode20utf7", "csutf7", "xunicode20utf7", "csunicode11utf7", "cp65000":
		return true, func(b []byte) []byte { return decodeUTF7(b, '+') }
	case "utf7imap", "imap4utf7", "xmodifiedutf7":
		return true, func(b []byte) []byte { return decodeUTF7(b, '&') }
	case "unicodeescape", "rawunicodeescape":
		// Python decodes a body so when it is told to.
		return true, func(b []byte) []byte { return bytesOf(undoEscapes(stringOf(b))) }
	case "":
		return false, nil
	default:
		if isUTF16(name) || isUTF32(name) {
			return true, nil // see decodings
		}
		if e := encodingOf(charset, name); e != nil {
			return true, func(b []byte) []byte { return decodeWith(e, b) }
		}
		if isEBCDIC(name) {
			return false, func(b []byte) []byte { return decodeWith(charmap.CodePage037, b) }
		}
	}
	return false, nil
}

// encodingOf returns the encoding that browsers, the IANA, Python, Java or iconv know by a name.
func encodingOf(charset, name string) encoding.Encoding {
	if e := charsets()[name]; e != nil {
		return e
	}
	for _, label := range []string{charset, strings.NewReplacer("_", "-", " ", "-").Replace(charset), name} {
		if e, err := htmlindex.Get(label); err == nil && e != encoding.Replacement {
			return e
		}
		if e, err := ianaindex.IANA.Encoding(label); err == nil && e != nil {
			return e
		}
	}
	return nil
}

// charsets maps canonical names to encodings.
var charsets = sync.OnceValue(func() map[string]encoding.Encoding {
	names := map[string]encoding.Encoding{
		"binary": charmap.ISO8859_1, "8859": charmap.ISO8859_1, "latin": charmap.ISO8859_1,
		"cp037": charmap.CodePage037, "cp1047": charmap.CodePage1047, "cp1140": charmap.CodePage1140,
		"ebcdiccpus": charmap.CodePage037,
		"ms932":      japanese.ShiftJIS, "cp932": japanese.ShiftJIS, "sjis": japanese.ShiftJIS, "ujis": japanese.EUCJP,
		"cp936": simplifiedchinese.GBK, "ms936": simplifiedchinese.GBK, "hz": simplifiedchinese.HZGB2312,
		"hzgb":  simplifiedchinese.HZGB2312,
		"cp949": korean.EUCKR, "ms949": korean.EUCKR, "uhc": korean.EUCKR, "cp950": traditionalchinese.Big5,
		"ms950":       traditionalchinese.Big5,
		"maccyrillic": charmap.MacintoshCyrillic, "macroman": charmap.Macintosh,
	}
	add := func(name string, e encoding.Encoding) {
		if name = canonical(name); name != "" && names[name] == nil {
			names[name] = e
		}
	}
	lists := [][]encoding.Encoding{
		charmap.All, japanese.All, korean.All, simplifiedchinese.All, traditionalchinese.All,
	}
	indexes := []func(encoding.Encoding) (string, error){htmlindex.Name, ianaindex.IANA.Name, ianaindex.MIME.Name}
	for _, list := range lists {
		for _, e := range list {
			for _, index := range indexes {
				name, err := index(e)
				if err != nil {
					continue
				}
				add(name, e)
				number := strings.TrimLeft(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz-")
				switch name = strings.ToLower(name); {
				case strings.HasPrefix(name, "windows-"), strings.HasPrefix(name, "ibm"):
					for _, prefix := range []string{"windows", "cp", "ibm", "xibm", "xcp", "csibm", "xwindows"} {
						add(prefix+strings.TrimLeft(number, "0"), e)
						add(prefix+number, e)
					}
				}
			}
		}
	}
	return names
})

// isEBCDIC reports whether a canonical name is that of a variant of EBCDIC.
func isEBCDIC(name string) bool {
	name = strings.TrimLeft(name, "csx")
	if strings.HasPrefix(name, "ebcdic") {
		return true
	}
	for _, prefix := range []string{"ibm", "p", "id"} { // cp, and ccsid
		number, is := strings.CutPrefix(name, prefix)
		if number = strings.TrimLeft(number, "0"); is && slices.Contains(strings.Fields(ebcdicPages), number) {
			return true
		}
	}
	return false
}

// ebcdicPages are IBM's code pages that are EBCDIC.
const ebcdicPages = "" +
	"37 256 273 274 275 277 278 280 281 284 285 290 297 420 423 424 500 803 833 836 838 870 871 875 880 " +
	"905 918 924 930 931 933 935 937 939 1025 1026 1027 1047 1097 1112 1122 1123 1130 1132 1137 1140 " +
	"1141 1142 1143 1144 1145 1146 1147 1148 1149 1153 1154 1155 1156 1157 1158 1160 1164 1166 1364 1371 " +
	"1388 1390 1399"

// decodeUTF7 decodes UTF-7 (RFC 2152): ASCII with UTF-16 in base64 between a sign (+, in IMAP &) and -.
func decodeUTF7(b []byte, sign byte) []byte {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, sign)
		if i < 0 {
			return append(out, b...)
		}
		out, b = append(out, b[:i]...), b[i+1:]
		n := 0
		for n < len(b) && (isLetter(b[n]) || isDigit(b[n]) || b[n] == '+' || b[n] == '/' ||
			b[n] == ',' && sign == '&') {
			n++
		}
		if n == 0 {
			out = append(out, sign)
		} else {
			units := bytes.ReplaceAll(b[:n], []byte(","), []byte("/"))
			wide, _ := base64.RawStdEncoding.DecodeString(string(units[:n-n%4]))
			if rest := n % 4; rest > 1 {
				tail, _ := base64.RawStdEncoding.DecodeString(string(units[n-rest:]))
				wide = append(wide, tail...)
			}
			chars := make([]uint16, len(wide)/2)
			for u := range chars {
				chars[u] = uint16(wide[2*u])<<8 | uint16(wide[2*u+1])
			}
			out = append(out, string(utf16.Decode(chars))...)
		}
		b = b[n:]
		if len(b) > 0 && b[0] == '-' {
			b = b[1:]
		}
	}
}

// toValidUTF8 returns bytes as valid UTF-8 without NUL bytes, and the bytes themselves if they are. A byte that is
// not UTF-8 is read as windows-1252, which most such texts without a charset are, and an overlong form of an ASCII
// character as that character.
func toValidUTF8(b []byte) []byte {
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

// withoutWindows1252 removes the characters as which [toValidUTF8] reads bytes that are not UTF-8.
func withoutWindows1252(s string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		if _, is := charmap.Windows1252.EncodeRune(r); is {
			return -1
		}
		return r
	}, s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
