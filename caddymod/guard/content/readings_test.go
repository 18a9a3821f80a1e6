// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding/codingtest"
)

const threat = "I will find you and kill you"

// random returns bytes that are the same in every run.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

// says reports whether a text is among those of pieces if everything but letters is left out.
func says(pieces []content.Piece, text string) bool {
	letters := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r|0x20 >= 'a' && r|0x20 <= 'z' {
				return r | 0x20
			}
			return -1
		}, s)
	}
	for _, list := range content.ByReading(pieces) {
		var all strings.Builder
		for _, p := range list {
			seen, _ := content.Visible(p.Text)
			if strings.Contains(letters(seen), letters(text)) {
				return true
			}
			all.WriteString(letters(seen))
		}
		if strings.Contains(all.String(), letters(text)) {
			return true
		}
	}
	return false
}

// TestNoReadingIsDropped checks that a guess at what bytes are takes no other reading away.
func TestNoReadingIsDropped(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]struct{ typ, body string }{
		"a byte order mark before plain text":   {"text/plain", "\xff\xfe" + threat},
		"the other mark before plain text":      {"text/plain", "\xfe\xff" + threat},
		"a NUL first":                           {"text/plain", "\x00" + threat},
		"a NUL second":                          {"text/plain", "x\x00" + threat},
		"the mark of UTF-32":                    {"text/plain", "\xff\xfe\x00\x00" + threat},
		"a mark in a form's field":              {"application/x-www-form-urlencoded", "c=%FF%FE" + strings.ReplaceAll(threat, " ", "+")},
		"a NUL in a form's field":               {"application/x-www-form-urlencoded", "c=a%00" + strings.ReplaceAll(threat, " ", "+")},
		"a mark before a form":                  {"application/x-www-form-urlencoded", "\xff\xfec=" + strings.ReplaceAll(threat, " ", "+")},
		"a NUL before a form":                   {"application/x-www-form-urlencoded", "\x00&c=" + strings.ReplaceAll(threat, " ", "+")},
		"a mark before JSON":                    {"application/json", "\xff\xfe{\"c\":\"" + threat + "\"}"},
		"bytes that are no UTF-8 within words":  {"text/plain", strings.ReplaceAll(threat, "ll", "l\xffl")},
		"the same in a form":                    {"application/x-www-form-urlencoded", "c=" + strings.ReplaceAll(threat, "ll", "l%FFl")},
		"the same in JSON":                      {"application/json", `{"c":"` + strings.ReplaceAll(threat, "ll", "l\xffl") + `"}`},
		"UTF-16 that says nothing, little":      {"text/plain; charset=utf-16", wide(threat, false, false)},
		"UTF-16 that says nothing, big":         {"text/plain; charset=utf-16", wide(threat, true, false)},
		"the wrong order":                       {"text/plain; charset=utf-16le", wide(threat, true, false)},
		"a mark of the other order":             {"text/plain; charset=utf-16be", wide(threat, false, true)},
		"UTF-16 in a form":                      {"application/x-www-form-urlencoded; charset=utf-16", wide("c="+threat, true, false)},
		"UTF-16 under the escapes of a form":    {"application/x-www-form-urlencoded; charset=utf-16", "c=" + percent(wide(threat, true, false))},
		"the charset field says UTF-16":         {"application/x-www-form-urlencoded", "c=" + percent(wide(threat, true, false)) + "&_charset_=utf-16"},
		"the charset field in escapes":          {"application/x-www-form-urlencoded", "c=" + percent(wide(threat, true, false)) + "&%5fcharset%5F=utf-16"},
		"EBCDIC in a form":                      {"application/x-www-form-urlencoded; charset=cp037", "c=" + percent(ebcdic(threat))},
		"a form in EBCDIC":                      {"application/x-www-form-urlencoded; charset=cp037", ebcdic("c=" + threat)},
		"another EBCDIC":                        {"text/plain; charset=cp1141", ebcdic(threat)},
		"UTF-8 that is declared to be EBCDIC":   {"text/plain; charset=cp037", threat},
		"UTF-8 that is declared to be Cyrillic": {"text/plain; charset=koi8-r", strings.ReplaceAll(threat, "ll", "l\xffl")},
		"JSON as a form as text":                {"text/plain", `{"a":"b"}&c=` + percent(threat)},
		"a form as JSON":                        {"application/json", `{"a":1}&c=` + percent(threat)},
		"UTF-7 for IMAP":                        {"text/plain; charset=utf-7-imap", strings.ReplaceAll(threat, "ill", "&AGkAbA-l")},
	} {
		var s content.Selection
		pieces := s.Extract(nil, content.TypeOf([]string{c.typ}), []byte(c.body))
		if !says(pieces, threat) {
			t.Errorf("%s: got %s, want the threat among them", hazard, showAll(pieces))
		}
		check(t, pieces)
		if typ := content.TypeOf([]string{c.typ}); typ.Kind != content.Text || typ.UnknownCharset {
			continue
		}
		// A part and a field of that kind.
		pieces = s.ExtractPart(nil, "c", "", textproto.MIMEHeader{"Content-Type": {c.typ}}, []byte(c.body))
		if !says(pieces, threat) {
			t.Errorf("%s, in a part: got %s, want the threat among them", hazard, showAll(pieces))
		}
	}
}

// TestOrdinaryBodiesHaveOneReading checks that further readings are for odd bodies.
func TestOrdinaryBodiesHaveOneReading(t *testing.T) {
	t.Parallel()
	for typ, body := range map[string]string{
		"application/json":                                    `{"a":"größe 日本 😀","b":"a+b=c"}`,
		"application/json; charset=utf-8":                     `{"a":"größe"}`,
		"text/plain":                                          "größe, 3 < 5",
		"text/plain; charset=iso-8859-1":                      "plain ASCII",
		"application/x-www-form-urlencoded":                   "a=gr%C3%B6%C3%9Fe&b=x+y&utf8=%E2%9C%93",
		"application/x-www-form-urlencoded; charset=us-ascii": "a=b",
		"text/html; charset=utf-8":                            "<!doctype html><p>größe",
		"application/xml":                                     `<?xml version="1.0"?><!DOCTYPE a SYSTEM "x.dtd"><a>&amp;größe</a>`,
	} {
		var s content.Selection
		pieces := s.Extract(nil, content.TypeOf([]string{typ}), []byte(body))
		if len(pieces) == 0 || slices.ContainsFunc(pieces, func(p content.Piece) bool {
			return p.Reading > 0 || p.UnknownCharset
		}) {
			t.Errorf("%s: got %s, want one reading only", typ, showAll(pieces))
		}
	}
}

// TestUnknownCharsets checks that a charset that is not known is reported, wherever it stands.
func TestUnknownCharsets(t *testing.T) {
	t.Parallel()
	var s content.Selection
	for _, charset := range []string{
		"klingon", "cp273", "cp500", "ibm-1026", "csIBM277", "CCSID00280", "EBCDIC-CP-DK", "cp875", "punycode", "idna", "rot13", "base64",
		"quopri", "iso-2022-kr", "iso-2022-cn", "palmos", "x-mac-thai-unknown", "hex", "cp1149",
	} {
		if !content.TypeOf([]string{"text/plain; charset=" + charset}).UnknownCharset {
			t.Errorf("%s: got a known charset, want an unknown one", charset)
		}
		for place, pieces := range map[string][]content.Piece{
			"a part":             s.ExtractPart(nil, "c", "", textproto.MIMEHeader{"Content-Type": {"text/plain; charset=" + charset}}, []byte("\x81\x82")),
			"a part of JSON":     s.ExtractPart(nil, "c", "", textproto.MIMEHeader{"Content-Type": {"application/json; charset=" + charset}}, []byte("\x81\x82")),
			"the field of parts": s.ExtractPart(nil, "_charset_", "", nil, []byte(charset)),
			"the default":        (&content.Selection{Charset: charset}).ExtractPart(nil, "c", "", nil, []byte("1")),
			"the field of forms": s.Extract(nil, content.Type{Kind: content.Form}, []byte("a=1&_charset_="+charset)),
			"one of two":         s.Extract(nil, content.Type{Kind: content.Form}, []byte("_charset_=utf-8&a=1&_charset_="+charset)),
		} {
			if !slices.ContainsFunc(pieces, func(p content.Piece) bool { return p.UnknownCharset }) {
				t.Errorf("%s, %s: got %s, want an unknown charset", charset, place, showAll(pieces))
			}
		}
	}
	for _, charset := range []string{"", "utf-8", "hz", "gb2312", "shift_jis", "ISO_8859-15", "cp65001",
		"utf_16_be_sig", "big5-hkscs", "koi8_u", "iso-2022-jp", "windows-874"} {
		if content.TypeOf([]string{"text/plain; charset=" + charset}).UnknownCharset {
			t.Errorf("%s: got an unknown charset, want a known one", charset)
		}
	}
}

func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}

// ebcdic writes letters, spaces and what divides a form.
func ebcdic(text string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ =&"
	const codes = "\x81\x82\x83\x84\x85\x86\x87\x88\x89\x91\x92\x93\x94\x95\x96\x97\x98\x99\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9" +
		"\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xd1\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\x40\x7e\x50"
	out := []byte(text)
	for i, c := range out {
		out[i] = codes[strings.IndexByte(letters, c)]
	}
	return string(out)
}

// TestEncodedRuns checks that of a text with encoded bytes only these are left out, and that words in them are not.
func TestEncodedRuns(t *testing.T) {
	t.Parallel()
	noise := base64.StdEncoding.EncodeToString(random(3000))
	lines := strings.Join(slices.Collect(chunks(noise, 76)), "\r\n")
	camel := "IWillFindYouAndKillYou"
	for hazard, text := range map[string]string{
		"before":                       threat + " " + noise,
		"behind":                       noise + " " + threat,
		"behind a line break":          noise + "\n" + threat,
		"between":                      noise + " " + threat + " " + noise,
		"between lines":                lines + "\r\n" + threat + "\r\n" + lines,
		"a line of words":              lines + "\n" + strings.ReplaceAll(threat, " ", "\n") + "\n" + lines,
		"before a data URL":            threat + " data:image/png;base64," + noise,
		"as a data URL's type":         "data:" + strings.ReplaceAll(threat, " ", "-") + "/png;base64," + noise,
		"run together":                 noise[:1000] + strings.ReplaceAll(threat, " ", "") + noise[1000:],
		"camel case":                   noise[:1000] + camel + noise[1000:],
		"in capitals":                  noise[:1000] + strings.ToUpper(strings.ReplaceAll(threat, " ", "")) + noise[1000:],
		"alternating case":             noise[:1000] + "iWiLlFiNdYoUaNdKiLlYoU" + noise[1000:],
		"with slashes":                 noise[:1000] + "/" + strings.ReplaceAll(threat, " ", "/") + "/" + noise[1000:],
		"with plus signs":              noise[:1000] + "+" + strings.ReplaceAll(threat, " ", "+") + "+" + noise[1000:],
		"with hyphens and underscores": noise[:1000] + strings.ReplaceAll(threat, " ", "-_") + noise[1000:],
		"with line breaks":             noise[:1000] + strings.ReplaceAll(threat, " ", "\n") + noise[1000:],
		"in the end":                   noise + camel,
		"in the beginning":             camel + noise,
		"in a data URL":                "data:image/png;base64," + noise[:1200] + camel + noise[1200:],
		"in every line":                strings.ReplaceAll(lines, "\r\n", camel+"\r\n"),
		"behind hexadecimal":           fmt.Sprintf("%x", random(500)) + "\n" + threat,
	} {
		for _, typ := range []content.Kind{content.JSON, content.Form, content.Text, content.Markup} {
			body := text
			switch typ {
			case content.JSON:
				body = `{"a":"` + strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(text) + `"}`
			case content.Form:
				body = "a=" + percent(text)
			case content.Markup:
				body = "<p>" + text
			}
			var s content.Selection
			pieces := s.Extract(nil, content.Type{Kind: typ}, []byte(body))
			size := 0
			for _, p := range pieces {
				size += len(p.Text)
			}
			if !says(pieces, threat) {
				t.Errorf("%s, kind %d: got %.300s, want the threat among them", hazard, typ, showAll(pieces))
			}
			if size > len(body)/4 && hazard != "in every line" && typ != content.Markup {
				t.Errorf("%s, kind %d: got %d bytes of %d, want a quarter at most: %.300s", hazard, typ, size,
					len(body), showAll(pieces))
			}
			s.Text = true
			if pieces = s.Extract(nil, content.Type{Kind: typ}, []byte(body)); len(pieces) != 1 ||
				pieces[0].Text != body {
				t.Errorf("%s: got %.300s with Text, want the whole body", hazard, showAll(pieces))
			}
		}
	}
}

func chunks(s string, n int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for ; len(s) > n; s = s[n:] {
			if !yield(s[:n]) {
				return
			}
		}
		yield(s)
	}
}

// TestAvatars checks that images in JSON yield next to no text.
func TestAvatars(t *testing.T) {
	t.Parallel()
	avatar := base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), random(750_000)...))
	for _, body := range []string{`{"a":"` + avatar + `"}`, `{"a":"data:image/png;base64,` + avatar + `"}`} {
		var s content.Selection
		size := 0
		pieces := s.Extract(nil, content.Type{Kind: content.JSON}, []byte(body))
		for _, p := range pieces {
			size += len(p.Text)
			if p.Reading == 0 || len(p.Text) > 500 {
				t.Errorf("got %.100s, want further readings of 500 bytes at most", showAll(pieces))
			}
		}
		t.Logf("%d texts of %d bytes", len(pieces), size)
		if size > 20_000 {
			t.Errorf("got %d bytes of text from an image, want 20000 at most", size)
		}
	}
}

// TestUntyped checks that no body passes because of its looks unless its type is known to hold no text, and that
// noise yields next to no text.
func TestUntyped(t *testing.T) {
	t.Parallel()
	noise := string(random(2000))
	junk := "\x89PNG\r\n\x1a\n\x00\x00\x01\x02\xff\xfe\xfd" + strings.Repeat("\x00\x01\x90\xff", 400)
	for hazard, body := range map[string]string{
		"JSON with a binary string":      `{"x":"` + junk + `","c":"` + threat + `"}`,
		"JSON with a short text":         `{"x":"` + junk + `","c":"kill you"}`,
		"JSON in escapes":                `{"x":"` + junk + `","c":"` + strings.ReplaceAll(threat, "i", `\u0069`) + `"}`,
		"a form with a binary field":     "x=" + junk + "&c=" + strings.ReplaceAll(threat, " ", "+"),
		"a form in escapes":              "x=" + junk + "&c=" + percent(threat),
		"text behind noise":              noise + threat,
		"text within noise":              noise + threat + noise,
		"words with control characters":  noise + strings.ReplaceAll(threat, " ", "\x01") + noise,
		"letters with control bytes":     noise + strings.Join(strings.Split(threat, ""), "\x01") + noise,
		"letters with bytes of no UTF-8": noise + strings.Join(strings.Split(threat, ""), "\xff") + noise,
		"UTF-16":                         wide(`{"c":"`+threat+`"}`, true, false),
	} {
		for _, types := range [][]string{nil, {""}, {"nonsense"}, {"application/vnd.example"},
			{"application/x-unknown; a=b"}, {"image/png", "application/json"}, {"image/png; x=\"y"},
			{"image/png; a=b; a=c"}} {
			var s content.Selection
			typ := content.TypeOf(types)
			if typ.Opaque {
				t.Errorf("%q: got an opaque type, want another", types)
			}
			want := threat
			if hazard == "JSON with a short text" {
				want = "kill you"
			}
			pieces := s.Extract(nil, typ, []byte(body))
			check(t, pieces)
			if !says(pieces, want) {
				t.Errorf("%s as %q: got %.300s, want %q among them", hazard, types, showAll(pieces), want)
			}
		}
	}
	for _, types := range [][]string{{"image/png"}, {"application/octet-stream"}, {"application/zip"},
		{"application/offset+octet-stream"},
		{"application/grpc-web+proto"}, {"application/vnd.openxmlformats-officedocument.wordprocessingml.document"}, {"application/epub+zip"}} {
		var s content.Selection
		if pieces := s.Extract(nil, content.TypeOf(types), []byte(noise+threat)); len(pieces) > 0 {
			t.Errorf("%q: got %s, want nothing from an opaque type", types, showAll(pieces))
		}
		if pieces := s.Extract(nil, content.TypeOf(types), []byte(`{"c":"`+threat+`"}`)); !says(pieces, threat) {
			t.Errorf("JSON as %q: got %s, want the threat among them", types, showAll(pieces))
		}
	}
	var s content.Selection
	size := 0
	pieces := s.Extract(nil, content.Type{}, append([]byte("\x89PNG\r\n\x1a\n"), random(1_000_000)...))
	for _, p := range pieces {
		size += len(p.Text)
		if p.Reading == 0 {
			t.Errorf("got %q in the likeliest reading of noise, want nothing", p.Text)
		}
	}
	t.Logf("a megabyte of noise: %d texts of %d bytes", len(pieces), size)
	if size > 40_000 {
		t.Errorf("got %d bytes in %d texts from noise, want 40000 at most", size, len(pieces))
	}
}

// TestExtractEncoded checks that a body that is not encoded as it says is read as what its type says.
func TestExtractEncoded(t *testing.T) {
	t.Parallel()
	gzipped := codingtest.Encode(t, "gzip", []byte("a=b"))
	for hazard, c := range map[string]struct{ typ, body string }{
		"a form behind gzip":               {"application/x-www-form-urlencoded", string(gzipped) + "&c=" + percent(threat)},
		"with bytes that break it":         {"application/x-www-form-urlencoded", string(gzipped) + "&c=" + strings.ReplaceAll(threat, " ", "\x01")},
		"each word a field":                {"application/x-www-form-urlencoded", string(gzipped) + "&c=" + strings.ReplaceAll("I will find you and kill", " ", "\x01&c=") + "%20you"},
		"JSON behind gzip":                 {"application/json", string(gzipped) + `{"c":"` + strings.ReplaceAll(threat, "i", `\u0069`) + `"}`},
		"no gzip at all":                   {"application/x-www-form-urlencoded", "c=" + percent(threat)},
		"no gzip at all, in UTF-16":        {"text/plain", wide(threat, true, true)},
		"plain text with some bytes of it": {"text/plain", "\x1f\x8b\x08\x00" + strings.ReplaceAll(threat, " ", "\x01")},
	} {
		var s content.Selection
		pieces := s.ExtractEncoded(nil, content.TypeOf([]string{c.typ}), []byte(c.body))
		if hazard == "each word a field" {
			continue
		}
		if !says(pieces, threat) {
			t.Errorf("%s: got %s, want the threat among them", hazard, showAll(pieces))
		}
	}
	honest := codingtest.Encode(t, "gzip", bytes.Repeat(post, 50))
	var s content.Selection
	if pieces := s.ExtractEncoded(nil, content.Type{Kind: content.JSON}, honest); len(pieces) > 3 {
		t.Errorf("got %s from honest gzip, want 3 pieces at most", showAll(pieces))
	}
}

// TestEntities checks that XML entities are expanded, and that they cannot expand to a bomb.
func TestEntities(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]string{
		"two halves":            `<!DOCTYPE c [<!ENTITY a "I will find you"><!ENTITY b " and kill you">]><c>&a;&b;</c>`,
		"single quotes":         `<!doctype c [<!ENTITY a 'I will find you'><!ENTITY b ' and kill you'>]><c>&a;&b;</c>`,
		"nested":                `<!DOCTYPE c [<!ENTITY a "I will &b;"><!ENTITY b "find you and &d;"><!ENTITY d "kill you">]><c>&a;</c>`,
		"parameter entities":    `<!DOCTYPE c [<!ENTITY % p "<!ENTITY a 'I will find '>"> %p; <!ENTITY b "you and kill you">]><c>&a;&b;</c>`,
		"escaped declarations":  `<!DOCTYPE c [<!ENTITY % p '&#60;!ENTITY a "I will find ">'> %p; <!ENTITY b "you and kill you">]><c>&a;&b;</c>`,
		"in an attribute":       `<!DOCTYPE c [<!ENTITY a "I will find"><!ENTITY b " you and kill you">]><c t="&a;&b;"/>`,
		"a comment before":      `<?xml version="1.0"?><!-- " --><!DOCTYPE c SYSTEM "a[b" [<!-- ' ]> --><!ENTITY a "I will find"><!ENTITY b " you and kill you">]><c>&a;&b;</c>`,
		"the first counts":      `<!DOCTYPE c [<!ENTITY a "I will find"><!ENTITY a "I like"><!ENTITY b " you and kill you">]><c>&a;&b;</c>`,
		"the last counts":       `<!DOCTYPE c [<!ENTITY a "I like"><!ENTITY a "I will find"><!ENTITY b " you and kill you">]><c>&a;&b;</c>`,
		"numbers of characters": `<!DOCTYPE c [<!ENTITY a "I w&#105;ll find"><!ENTITY b " you and k&#x69;ll you">]><c>&a;&b;</c>`,
		"letters":               `<!DOCTYPE c [<!ENTITY i "i"><!ENTITY l "l">]><c>I w&i;&l;&l; f&i;nd you and k&i;&l;&l; you</c>`,
	} {
		var s content.Selection
		pieces := s.Extract(nil, content.TypeOf([]string{"application/xml"}), []byte(c))
		if found := slices.ContainsFunc(pieces, func(p content.Piece) bool {
			return strings.Contains(strings.Join(strings.Fields(p.Text), " "), threat)
		}); !found {
			t.Errorf("%s: got %s, want the threat among them", hazard, showAll(pieces))
		}
	}
	laughs := `<!DOCTYPE c [<!ENTITY a0 "ha ha ha ">`
	for i := range 40 {
		laughs += fmt.Sprintf(`<!ENTITY a%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&a%d;", i), 10))
	}
	for hazard, body := range map[string]string{
		"a billion laughs":             laughs + `]><c>&a40;` + threat + `</c>`,
		"an entity of itself":          `<!DOCTYPE c [<!ENTITY a "&a;&a;">]><c>&a;` + threat + `</c>`,
		"a parameter entity of itself": `<!DOCTYPE c [<!ENTITY % p "%p;%p;"> %p; <!ENTITY b "x">]><c>&b;` + threat + `</c>`,
	} {
		var s content.Selection
		pieces := s.Extract(nil, content.TypeOf([]string{"application/xml"}), []byte(body))
		size := 0
		for _, p := range pieces {
			size += len(p.Text)
		}
		if size > 100_000 || !says(pieces, threat) {
			t.Errorf("%s: got %d bytes, want 100000 at most and the threat among them", hazard, size)
		}
	}
}

// TestAmbiguity guards against bodies with so many or such long readings that extracting them is an attack, and
// against refusing honest ones.
func TestAmbiguity(t *testing.T) {
	t.Parallel()
	const line = "The train was late again, and nobody at the station could say why.\n"
	utf16 := func(s string) string {
		b := []byte("\xff\xfe")
		for _, r := range s {
			b = append(b, byte(r), byte(r>>8))
		}
		return string(b)
	}
	entities := func(value string, n int) string {
		return `<!DOCTYPE c [<!ENTITY a "` + value + `"><!ENTITY b "&a;&a;&a;&a;">]><c>` +
			strings.Repeat("&b; ", n) + `</c>`
	}
	for hazard, c := range map[string]struct {
		contentType, body string
		want              bool
	}{
		"plain text":                {"text/plain", strings.Repeat(line, 5000), false},
		"UTF-16":                    {"text/plain; charset=utf-16", utf16(strings.Repeat(line, 5000)), false},
		"Chinese in UTF-16":         {"text/plain", utf16(strings.Repeat("火车又晚点了，车站没有人能说为什么。我们等了两个小时。\n", 5000)), false},
		"Latin 1 in a form":         {"application/x-www-form-urlencoded", "a=" + strings.Repeat("sp%E4t+und+wei%DF+", 10000), false},
		"an entity for a name":      {"text/xml", entities("Caddy", 100), false},
		"entities without end":      {"text/xml", entities(line, 20000), true},
		"so many that none is left": {"text/xml", entities(strings.Repeat(line, 10), 100), true},
		"charsets and odd bytes in each of many fields": {"application/x-www-form-urlencoded; charset=utf-7",
			"_charset_=utf-16&_charset_=koi8-r&" + strings.Repeat("x=%ff%feI+am+here+to+stay&", 20000), true},
	} {
		var s content.Selection
		var further content.Ambiguity
		further.Add(s.Extract(nil, content.TypeOf([]string{c.contentType}), []byte(c.body)))
		if got := further.Excessive(len(c.body)); got != c.want {
			t.Errorf("%s: got excessive %v, want %v", hazard, got, c.want)
		}
	}
}

// TestByReading checks that texts are grouped as each program sees them.
func TestByReading(t *testing.T) {
	t.Parallel()
	pieces := []content.Piece{{Name: "a", Text: "I"}, {Name: "b", Text: "x"}, {Name: "b", Text: "will", Reading: 2},
		{Name: "c", Text: "kill"}}
	var got []string
	for _, list := range content.ByReading(pieces) {
		got = append(got, showAll(list))
	}
	if want := []string{"a=I | b=x | c=kill", "a=I | ~b=will | c=kill"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !utf8.ValidString(showAll(pieces)) {
		t.Errorf("got %q, want valid UTF-8", showAll(pieces))
	}
}
