// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// between puts something between all characters of a text.
func between(text, what string) string { return strings.Join(strings.Split(text, ""), what) }

// photoNoise is as dense as a photo.
func photoNoise(n int) string {
	random := rand.New(rand.NewPCG(10, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return string(b)
}

const (
	fileField = `Content-Disposition: form-data; name="comment"; filename="a.png"`
	asImage   = "Content-Type: image/png"
)

// framingAttempts are about where a form ends its parts, and which of them are files.
func framingAttempts(vile string) []group {
	const ambiguous = http.StatusBadRequest
	controls := strings.Repeat("\x01\x02\x00\x03", 300)
	// other has the text in a field of another boundary, and a harmless one in a field of xyz.
	other := func(boundary string) string {
		return strings.ReplaceAll(field("comment", vile), "--xyz", "--"+boundary) + "--" + boundary + "--\r\n" + field("comment", "hi") + lastPart
	}
	java := func(s string) string { return strings.ReplaceAll(s, "--xyz", "------=_Part_1") }
	return []group{
		{"The boundary of a form", []attempt{
			{name: "`boundary*`", header: typ("multipart/form-data; boundary*=utf-8''xyz"), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "`boundary*` and another boundary", header: typ("multipart/form-data; boundary*=utf-8''abc; boundary=xyz"), body: other("abc"), status: ambiguous},
			{name: "A boundary in pieces: `boundary*0`", header: typ("multipart/form-data; boundary*0=xy; boundary*1=z"), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "Two Content-Type headers with a boundary each", header: []string{"Content-Type: multipart/form-data; boundary=abc", "Content-Type: multipart/form-data; boundary=xyz"}, body: other("abc"), status: ambiguous},
			{name: "Two Content-Type headers, one of them of plain text", header: []string{"Content-Type: text/plain", "Content-Type: multipart/form-data; boundary=xyz"}, body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "`xboundary`, which PHP takes", header: typ("multipart/form-data; xboundary=abc; boundary=xyz"), body: other("abc"), status: ambiguous},
			{name: "A boundary in the value of another parameter", header: typ(`multipart/form-data; x="; boundary=abc"; boundary=xyz`), body: other("abc"), status: ambiguous},
			{name: "A boundary in a charset", header: typ(`multipart/form-data; charset="boundary=abc"; boundary=xyz`), body: other("abc"), status: ambiguous},
			{name: "A boundary with an escape", header: typ(`multipart/form-data; boundary="x\yz"`), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "A boundary with a semicolon", header: typ(`multipart/form-data; boundary="xyz;abc"`), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "A boundary with a comma", header: typ("multipart/form-data; boundary=xyz,abc"), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "A boundary with a blank", header: typ("multipart/form-data; boundary=xyz abc"), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "A boundary with a blank behind it", header: typ("multipart/form-data; boundary=xyz ; charset=utf-8"), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "A boundary in single quotes", header: typ("multipart/form-data; boundary='xyz'"), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "A boundary without a semicolon before it", header: typ("multipart/form-data boundary=xyz"), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "A form in a parameter of another type, which formidable reads", header: typ("text/plain; x=multipart/form-data; boundary=xyz"), body: field("comment", vile) + lastPart, status: ambiguous},
			{name: "Two boundaries, the text behind a file of 2 MB", header: typ("multipart/form-data; boundary=abc; boundary=xyz"), body: part(photoNoise(2e6), fileField, asImage) + other("abc"), status: ambiguous},
			{name: "A boundary with `=`, without quotes, as Java sends it", header: typ("multipart/form-data; boundary=----=_Part_1"), body: java(field("comment", vile) + lastPart), status: refused},
			{name: "The same, ended at the `=` in the body, as Starlette and Flask read it", header: typ("multipart/form-data; boundary=----=_Part_1"),
				body: java(part("\r\n------\r\nContent-Disposition: form-data; name=\"comment\"\r\n\r\n"+vile+"\r\n--------\r\n", fileField, asImage) + lastPart), status: refused},
		}},
		{"Fields of a form that look like something else", []attempt{
			{name: "NUL bytes between the letters", header: asParts, body: field("comment", between(vile, "\x00")) + lastPart, status: refused},
			{name: "Behind a kilobyte of control characters", header: asParts, body: field("comment", controls+vile) + lastPart, status: refused},
			{name: "Before a kilobyte of control characters", header: asParts, body: field("comment", vile+controls) + lastPart, status: refused},
			{name: "A control character behind each word of ten letters", header: asParts, body: field("comment", strings.ReplaceAll(vile, " ", " \x00\x00")) + lastPart, status: refused},
			{name: "Amid control characters, behind a file of 1 MB", header: asParts, body: part(photoNoise(1100<<10), fileField, asImage) + field("comment", controls+vile+controls) + lastPart, status: refused},
			{name: "A field that says that it is a picture, NUL bytes between the letters", header: asParts, body: field("comment", between(vile, "\x00"), asImage) + lastPart, status: refused},
			{name: "A field that says that it is a picture, in 40 kB of noise", header: asParts, body: field("comment", photoNoise(20_000)+"\n"+vile+"\n"+photoNoise(20_000), asImage) + lastPart, status: refused},
			{name: "The field `_charset_` and UTF-7", header: asParts, body: field("_charset_", "utf-7") + field("comment", strings.ReplaceAll(vile, "i", "+AGk-")) + lastPart, status: refused},
			{name: "An unknown charset, in a part", header: asParts, body: field("comment", each(vile, "%c\x80"), "Content-Type: text/plain; charset=x-nosuch") + lastPart, status: refused},
			{name: "An unknown charset, in a part, where `on_error reject` is configured", path: "/strict", header: asParts, body: field("comment", "hi", "Content-Type: text/plain; charset=x-nosuch") + lastPart, status: http.StatusUnsupportedMediaType},
			{name: "An unknown charset behind a file of 2 MB, where `on_error reject` is configured", path: "/strict", header: asParts,
				body: part(photoNoise(2e6), fileField, asImage) + field("comment", "hi", "Content-Type: text/plain; charset=x-nosuch") + lastPart, status: http.StatusServiceUnavailable},
			{name: "`_charset_` with an unknown charset, where `on_error reject` is configured", path: "/strict", header: asParts, body: field("_charset_", "x-nosuch") + field("comment", "hi") + lastPart, status: http.StatusUnsupportedMediaType},
		}},
		{"Fields of a form that some parsers take for a file", []attempt{
			{name: "A file name and no type, which formidable takes for a field", header: asParts, body: part(vile, fileField) + lastPart, status: refused},
			{name: "A file name and an empty type", header: asParts, body: part(vile, fileField, "Content-Type:") + lastPart, status: refused},
			{name: "A file name and two types", header: asParts, body: part(vile, fileField, asImage, "Content-Type: text/plain") + lastPart, status: refused},
			{name: "A file name and a type of text, whose text hapi gives to the app", header: asParts, body: part(vile, fileField, "Content-Type: text/csv") + lastPart, status: refused},
			{name: "A file name and JSON in escapes, which hapi gives to the app", header: asParts, body: part(`{"c":"`+each(vile, `\u%04x`)+`"}`, fileField, "Content-Type: application/json") + lastPart, status: refused},
			{name: "`FILENAME`, which hapi and Rack do not know", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; FILENAME="a.png"`, asImage) + lastPart, status: refused},
			{name: "No blank before `filename`, which hapi takes for a part of the name", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment";filename="a.png"`, asImage) + lastPart, status: refused},
			{name: "A blank before the semicolon, which aiohttp takes for a part of the name", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment" ; filename="a.png"`, asImage) + lastPart, status: refused},
			{name: "A `filename*` only, of a picture, which PHP does not know", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; filename*=utf-8''a.png`, asImage) + lastPart, status: refused},
			{name: "A quote that is not closed, which Rack does not read", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; filename="a.png`, asImage) + lastPart, status: refused},
			{name: "A file name without a value", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; filename=;`, asImage) + lastPart, status: refused},
			{name: "An empty file name of a picture", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; filename=""`, asImage) + lastPart, status: refused},
			{name: "A file name in a parameter's name", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; "filename="a.png"`, asImage) + lastPart, status: refused},
			{name: "A file name in the field's name", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment; filename=a.png"`, asImage) + lastPart, status: refused},
			{name: "An escaped quote in the field's name", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment\"; filename="a.png"`, asImage) + lastPart, status: refused},
			{name: "A header line of 5,200 bytes, which PHP cuts", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; x="`+strings.Repeat("y", 5200)+`:"; filename="a.png"`, asImage) + lastPart, status: refused},
			{name: "A Content-Disposition of 1,600 bytes, which Rack does not read", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; filename="`+strings.Repeat("y", 1600)+`.png"`, asImage) + lastPart, status: refused},
			{name: "A file name and no type, NUL bytes between the letters", header: asParts, body: part(between(vile, "\x00"), fileField) + lastPart, status: refused},
			{name: "A file name and no type, in 2 MB of noise", header: asParts, body: part(photoNoise(1e6)+"\n"+vile+"\n"+photoNoise(1e6), fileField) + lastPart, status: refused},
			{name: "A file name and no type, in noise, lost bytes between the letters", header: asParts, body: part(photoNoise(2000)+between(vile, "\xff")+photoNoise(2000), fileField) + lastPart, status: refused},
			{name: "A file name and no type, behind 3 MB of text", header: asParts, body: part(harmless(3e6)+"\n"+vile, fileField) + lastPart, status: refused},
			{name: "A `filename*` only, of a picture, behind 3 MB of noise", header: asParts, body: part(photoNoise(3e6)+vile, `Content-Disposition: form-data; name="comment"; filename*=utf-8''a.png`, asImage) + lastPart, status: refused},
			{name: "Parts in a part, with base64", header: asParts, body: part("--in\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"+each(vile, "=%02X")+"\r\n--in--", `Content-Disposition: form-data; name="x"`, "Content-Type: multipart/mixed; boundary=in") + lastPart, status: refused},
			{name: "20,000 parts in a part before the text", header: asParts, body: part(strings.Repeat("--in\r\n\r\nx\r\n", 20_000), `Content-Disposition: form-data; name="x"`, "Content-Type: multipart/mixed; boundary=in") + field("comment", vile) + lastPart, status: refused},
		}},
	}
}

// TestHarmlessFilesPass sends files as clients send them that are no browsers. None may be refused for its form or its
// size.
func TestHarmlessFilesPass(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()))
	picture := "\x89PNG\r\n\x1a\n" + photoNoise(3<<20)
	page := harmless(3 << 20)
	for _, test := range []struct{ name, header, content string }{
		{"a browser", fileField + "\r\n" + asImage, picture},
		{"filename* only", `Content-Disposition: form-data; name="f"; filename*=utf-8''a.png` + "\r\n" + asImage, picture},
		{"curl with an escaped quote", `Content-Disposition: form-data; name="f"; filename="a\"b.png"` + "\r\n" + asImage, picture},
		{"requests, without a type", fileField, picture},
		{"requests, a text without a type", fileField, page},
		{"curl, a text file", `Content-Disposition: form-data; name="f"; filename="a.txt"` + "\r\nContent-Type: text/plain", page},
		{"a script, a table", `Content-Disposition: form-data; name="f"; filename="a.csv"` + "\r\nContent-Type: text/csv", strings.ReplaceAll(page, " ", ",")},
		{"a picture without a name, as in multipart/related", asImage, picture},
		{"a name of 255 characters beyond ASCII", `Content-Disposition: form-data; name="f"; filename="` + strings.Repeat("日", 255) + `.png"; filename*=UTF-8''` + strings.Repeat("%E6%97%A5", 255) + ".png\r\n" + asImage, picture},
		{"a path of Windows", `Content-Disposition: form-data; name="f"; filename="C:\temp\a.png"` + "\r\n" + asImage, picture},
		{"a small picture in a field", `Content-Disposition: form-data; name="f"`, picture[:20_000]},
	} {
		for _, boundary := range []string{"xyz", "----=_Part_1_123.456"} {
			t.Run(test.name+", "+boundary, func(t *testing.T) {
				body := strings.ReplaceAll(field("title", fine)+part(test.content, test.header)+field("comment", fine)+lastPart, "--xyz", "--"+boundary)
				got := call(t, http.MethodPost, base, "", strings.NewReader(body), "Content-Type", "multipart/form-data; boundary="+boundary)
				if got.status != http.StatusOK {
					t.Fatalf("got %d %s, want 200", got.status, got.body)
				}
				if arrived := app.take(); len(arrived) != 1 || string(arrived[0].body) != body {
					t.Errorf("the app got %d requests", len(arrived))
				}
			})
		}
	}
}
