// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
)

// contentAttempts are those that make a body look like something else than what an app reads.
func contentAttempts(vile string) []group {
	random := make([]byte, 3000)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(random)
	noise := base64.StdEncoding.EncodeToString(random)
	bytes := string(random[:1500])
	escaped := url.QueryEscape(vile)
	letters := strings.NewReplacer(",", "", ".", "").Replace(vile) // what base64 can hold
	words := strings.Fields(letters)
	var camel strings.Builder
	for _, word := range words {
		camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	wideBE := func(text string) string {
		b := []byte(wideLE(text))
		for i := 0; i < len(b); i += 2 {
			b[i], b[i+1] = b[i+1], b[i]
		}
		return string(b)
	}
	half := len(words) / 2
	first, second := strings.Join(words[:half], " "), strings.Join(words[half:], " ")
	inJSON := func(text string) string {
		return `{"a":"` + strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(text) + `"}`
	}
	var lines []string
	for line := range slices.Chunk([]byte(noise), 76) {
		lines = append(lines, string(line))
	}
	mime := strings.Join(lines, "\n")
	return []group{
		{"Bytes that look like another charset", []attempt{
			{name: "The mark of UTF-16 before plain text", header: asText, body: "\xfe\xff" + vile, status: refused},
			{name: "A NUL as the second byte of plain text", header: asText, body: "x\x00" + vile, status: refused},
			{name: "The mark of UTF-16 in a form's field", header: asForm, body: "comment=%FF%FE" + escaped, status: refused},
			{name: "A NUL as the second byte of a form's field", header: asForm, body: "comment=x%00" + escaped, status: refused},
			{name: "The mark of UTF-16 in a part", header: asParts, body: field("comment", "\xff\xfe"+vile) + lastPart, status: refused},
			{name: "A NUL as the second byte of a part", header: asParts, body: field("comment", "x\x00"+vile) + lastPart, status: refused},
			{name: "The mark of UTF-16 before a form", header: asForm, body: "\xff\xfe&comment=" + escaped, status: refused},
			{name: "The mark of UTF-16 before JSON", header: asJSON, body: "\xff\xfe{\"comment\":\"" + vile + "\"}", status: refused},
			{name: "Bytes that are no UTF-8 within words, which apps leave out", header: asText, body: strings.ReplaceAll(vile, "ll", "l\xffl"), status: refused},
			{name: "The same in a form's field", header: asForm, body: "comment=" + strings.ReplaceAll(escaped, "ll", "l%FFl"), status: refused},
			{name: "Words in different fields, each with such a byte", header: asForm, body: "a=" + strings.Join(strings.Fields(strings.ReplaceAll(vile, "i", "\xffi")), "&a="), status: refused},
			{name: "UTF-16 without a mark, little-endian", header: typ("text/plain; charset=utf-16"), body: wideLE(vile), status: refused},
			{name: "UTF-16 without a mark, big-endian", header: typ("text/plain; charset=utf-16"), body: wideBE(vile), status: refused},
			{name: "UTF-16 under the escapes of a form, whose last field says so", header: asForm, body: "comment=" + percentOf(wideBE(vile)) + "&%5Fcharset_=utf-16", status: refused},
			{name: "A form in UTF-16", header: typ("application/x-www-form-urlencoded; charset=utf-16"), body: wideBE("comment=" + vile), status: refused},
			{name: "EBCDIC of another country", header: typ("text/plain; charset=cp1141"), body: ebcdic(vile), status: refused},
			{name: "EBCDIC in a part, where `on_error reject` is configured", path: "/strict", header: asParts, body: field("comment", ebcdic(fine), "Content-Type: text/plain; charset=cp273") + lastPart, status: 415},
			{name: "A form's field that names an unknown charset, where `on_error reject` is configured", path: "/strict", header: asForm, body: "comment=%81%82&_charset_=klingon", status: 415},
			{name: "The charset of all parts, unknown, where `on_error reject` is configured", path: "/strict", header: asParts, body: field("_charset_", "klingon") + field("comment", "x") + lastPart, status: 415},
			{name: "The charset of all parts is UTF-16", header: asParts, body: field("_charset_", "utf-16") + field("comment", wideBE(vile)) + lastPart, status: refused},
		}},
		{"Beside and within encoded bytes", []attempt{
			{name: "Before base64", header: asJSON, body: inJSON(vile + " " + noise), status: refused},
			{name: "Behind base64", header: asJSON, body: inJSON(noise + " " + vile), status: refused},
			{name: "Between the lines of base64", header: asJSON, body: inJSON(mime + "\n" + vile + "\n" + mime), status: refused},
			{name: "A word in each line", header: asJSON, body: inJSON(mime + "\n" + strings.Join(words, "\n") + "\n" + mime), status: refused},
			{name: "Run together within base64", header: asJSON, body: inJSON(noise[:1200] + strings.Join(words, "") + noise[1200:]), status: refused},
			{name: "In camel case within base64", header: asJSON, body: inJSON(noise[:1200] + camel.String() + noise[1200:]), status: refused},
			{name: "With slashes within base64", header: asJSON, body: inJSON(noise[:1200] + "/" + strings.Join(words, "/") + "/" + noise[1200:]), status: refused},
			{name: "With plus signs within base64", header: asJSON, body: inJSON(noise[:1200] + "+" + strings.Join(words, "+") + "+" + noise[1200:]), status: refused},
			{name: "Within the base64 of a data: URL", header: asJSON, body: inJSON("data:image/png;base64," + noise[:1200] + camel.String() + noise[1200:]), status: refused},
			{name: "Behind hexadecimal", header: asForm, body: "a=" + fmt.Sprintf("%x", random[:400]) + "+" + escaped, status: refused},
		}},
		{"Bodies that look binary", []attempt{
			{name: "JSON without a type, with a string of odd bytes", body: `{"x":"` + strings.Repeat("\x01\xff\x90", 600) + `","comment":"` + vile + `"}`, status: refused},
			{name: "The same in escapes", body: `{"x":"` + strings.Repeat("\x01\xff\x90", 600) + `","comment":"` + each(vile, `\u%04x`) + `"}`, status: refused},
			{name: "JSON of an unknown type, with a string of odd bytes", header: typ("application/vnd.example.v1"), body: `{"x":"` + strings.Repeat("\x01\xff\x90", 600) + `","comment":"` + vile + `"}`, status: refused},
			{name: "JSON of a type that does not parse, with a string of odd bytes", header: typ(`image/png; a="`), body: `{"x":"` + strings.Repeat("\x01\xff\x90", 600) + `","comment":"` + vile + `"}`, status: refused},
			{name: "A form without a type, with a field of odd bytes", body: "x=" + strings.Repeat("\x01\xff\x90", 600) + "&comment=" + each(vile, "%%%02x"), status: refused},
			{name: "Text within noise, without a type", body: bytes + vile + bytes, status: refused},
			{name: "Words with control characters within noise, without a type", body: bytes + strings.ReplaceAll(vile, " ", "\x01") + bytes, status: refused},
			{name: "Noise without a type", body: bytes, status: passes, why: "there is no text in it"},
		}},
		{"What is not encoded as it says", []attempt{
			{name: "A form behind gzip, each character escaped, with a control character in each word", header: append(asForm, "Content-Encoding: gzip"), body: packed("gzip", "a=b") + "&comment=" + each(strings.ReplaceAll(vile, " ", "\x01"), "%%%02x"), status: refused},
			{name: "JSON behind gzip, in escapes", header: append(asJSON, "Content-Encoding: gzip"), body: packed("gzip", "{}") + `{"comment":"` + each(vile, `\u%04x`) + `"}`, status: refused},
			{name: "A multipart form behind gzip, in base64", header: append(asParts, "Content-Encoding: gzip"), body: packed("gzip", "x") + "\r\n" + field("comment", base64.StdEncoding.EncodeToString([]byte(vile)), "Content-Transfer-Encoding: base64") + lastPart, status: refused},
		}},
		{"Entities of XML", []attempt{
			{name: "Two halves", header: typ("application/xml"), body: `<!DOCTYPE c [<!ENTITY a "` + first + `"><!ENTITY b " ` + second + `">]><c>&a;&b;</c>`, status: refused},
			{name: "Nested", header: typ("application/xml"), body: `<!DOCTYPE c [<!ENTITY a "` + first + ` &b;"><!ENTITY b "` + second + `">]><c>&a;</c>`, status: refused},
			{name: "By a parameter entity", header: typ("application/xml"), body: `<!DOCTYPE c [<!ENTITY % p "<!ENTITY a '` + first + `'>">%p;<!ENTITY b " ` + second + `">]><c>&a;&b;</c>`, status: refused},
			{name: "The first of two declarations, or the last", header: typ("application/xml"), body: `<!DOCTYPE c [<!ENTITY a "x"><!ENTITY a "` + first + `"><!ENTITY b " ` + second + `">]><c>&a;&b;</c>`, status: refused},
		}},
	}
}

// percentOf escapes every byte.
func percentOf(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "%%%02X", text[i])
	}
	return b.String()
}
