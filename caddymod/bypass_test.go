// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// attempt is a way to bring a threat to an app behind the guard.
type attempt struct {
	name string // as docs/guard-bypass.md has it
	// path chooses the configuration, see TestBypass. "" is the default one.
	path string
	// method is POST where it is "".
	method string
	// header are lines of the request's header. Content-Length is added where there is none.
	header []string
	// body is sent as it is; where it is Transfer-Encoding's, the header says so.
	body string
	// ends says that the client ends the connection after the body.
	ends bool
	// status is the answer's.
	status int
	// why says why it passes.
	why string
}

// group is a table of docs/guard-bypass.md.
type group struct {
	title    string
	attempts []attempt
}

// typ is a Content-Type line.
func typ(value string) []string { return []string{"Content-Type: " + value} }

var (
	asJSON  = typ("application/json")
	asForm  = typ("application/x-www-form-urlencoded")
	asText  = typ("text/plain")
	asParts = typ("multipart/form-data; boundary=xyz")
)

// each writes every character of a text by a format.
func each(text, format string) string {
	var b strings.Builder
	for _, r := range text {
		fmt.Fprintf(&b, format, r)
	}
	return b.String()
}

// wideLE is a text in UTF-16 without a byte order mark.
func wideLE(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		b.Write([]byte{byte(unit), byte(unit >> 8)})
	}
	return b.String()
}

// wide32 is a text in UTF-32 without a byte order mark.
func wide32(text string) string { return each(text, "\x00\x00\x00%c") }

// chunked is a body in chunks of a size, each with an extension, and with trailers.
func chunked(body string, size int, extension, trailers string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x%s\r\n%s\r\n", n, extension, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n" + trailers + "\r\n"
}

// packed is a body with a Content-Encoding; "raw" is deflate without the header of zlib.
func packed(encoding, body string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, _ = flate.NewWriter(&b, flate.BestCompression)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	}
	_, _ = io.WriteString(w, body)
	_ = w.Close()
	return b.String()
}

// commented is a gzip stream with a text in its header, where decoders do not show it.
func commented(comment, body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Comment = comment
	_, _ = io.WriteString(w, body)
	_ = w.Close()
	return b.String()
}

// part is a part of a multipart body with the boundary xyz; header are its lines.
func part(body string, header ...string) string {
	return "--xyz\r\n" + strings.Join(header, "\r\n") + "\r\n\r\n" + body + "\r\n"
}

// field is a part that is a form's field.
func field(name, body string, header ...string) string {
	return part(body, append([]string{`Content-Disposition: form-data; name="` + name + `"`}, header...)...)
}

const lastPart = "--xyz--\r\n"

// harmless is a text of about n bytes that nobody minds, in one line.
func harmless(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "On day %d the bakery on the corner baked %d loaves of rye bread, and the neighbours came early. ", i, i%7+20)
	}
	return b.String()
}

// threat is what the rows bring to the app.
const threat = vile

const (
	refused  = http.StatusUnprocessableEntity
	passes   = http.StatusOK
	tooLarge = http.StatusRequestEntityTooLarge
)

// attempts are all the tables, with a text in the place of the threat. The bodies are made when the test runs.
func attempts(vile string) []group {
	vileJSON := `{"comment":"` + vile + `"}` // an object with the threat
	vileForm := "comment=" + url.QueryEscape(vile)
	vileWords := strings.Fields(vile)
	// halves that are no threat each, and which would not be rejected next to harmless text
	first, second := "I hope you and your children", "get raped and murdered."
	if vile != threat {
		first, second = "I hope you and your children", "get fresh bread tomorrow."
	}
	quoted := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	inJSON := vileJSON
	for range 2 {
		inJSON = `{"payload":` + quoted(inJSON) + `}`
	}
	var names, parts, letters []string
	for i, word := range vileWords {
		names = append(names, fmt.Sprintf(`"w%d":%q`, i, word))
		parts = append(parts, field(fmt.Sprintf("w%d", i), word))
	}
	for i, r := range vile {
		letters = append(letters, fmt.Sprintf(`"c%d":"%c"`, i, r))
	}
	brokenOff := packed("gzip", vileJSON+harmless(20_000))
	brokenOff = brokenOff[:len(brokenOff)-40]
	bomb := packed("gzip", strings.Repeat(harmless(1000), 12_000)+vile)
	return slices.Concat([]group{
		{"Inside JSON", []attempt{
			{name: "A duplicate member, the first harmless", header: asJSON, body: `{"comment":"` + fine + `","comment":"` + vile + `"}`, status: refused},
			{name: "A duplicate member, the last harmless", header: asJSON, body: `{"comment":"` + vile + `","comment":"` + fine + `"}`, status: refused},
			{name: "1,000 levels of nesting", header: asJSON, body: strings.Repeat(`{"a":[`, 500) + vileJSON + strings.Repeat(`]}`, 500), status: refused},
			{name: "200,000 levels of nesting", header: asJSON, body: strings.Repeat(`[`, 200_000) + vileJSON + strings.Repeat(`]`, 200_000), status: refused},
			{name: "A member in another case, where `json /comment` is configured", path: "/narrow", header: asJSON, body: `{"COMMENT":"` + vile + `"}`, status: refused},
			{name: "A member's name in escapes, where `json /comment` is configured", path: "/narrow", header: asJSON, body: `{"\u0063omment":"` + vile + `"}`, status: refused},
			{name: "A member's name with a NUL, where `json /comment` is configured", path: "/narrow", header: asJSON, body: `{"comment\u0000x":"` + vile + `"}`, status: refused},
			{name: "Another member than the configured one", path: "/narrow", header: asJSON, body: `{"other":"` + vile + `"}`, status: passes, why: "`json` names all that is read of JSON; leave it out to have all of it read"},
			{name: "Every character as a `\\u` escape", header: asJSON, body: `{"comment":"` + each(vile, `\u%04x`) + `"}`, status: refused},
			{name: "NUL and other control characters between letters", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, "ill", `\u0000i\bll`) + `"}`, status: refused},
			{name: "Invisible characters between letters", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, "i", "\u200bi\u00ad") + `"}`, status: refused},
			{name: "Broken UTF-8 before the text", header: asJSON, body: "{\"x\":\"\xc3\xff\",\"comment\":\"" + vile + "\"}", status: refused},
			{name: "JSON5: single quotes, bare names, comments, trailing commas", header: asJSON, body: "{comment:/* x */'" + vile + "',}", status: refused},
			{name: "JSON5, where `json /comment` is configured", path: "/narrow", header: asJSON, body: "{comment:'" + vile + "',}", status: refused},
			{name: "A line break inside of a string", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, " and ", " and\n") + `"}`, status: refused},
			{name: "JSON that breaks off", header: asJSON, body: `{"x":1,"comment":"` + vile, status: refused},
			{name: "Text behind an error in JSON, where `json /comment` is configured", path: "/narrow", header: asJSON, body: `{"x":"y":"z","other":"` + vile + `"}`, status: refused},
			{name: "A second value behind the first", header: asJSON, body: `{"comment":"hi"} ` + vileJSON, status: refused},
			{name: "Lines of JSON", header: typ("application/x-ndjson"), body: "1\n{\"comment\":\"hi\"}\n" + vileJSON + "\n", status: refused},
			{name: "A JSON text sequence", header: typ("application/json-seq"), body: "\x1e{\"comment\":\"hi\"}\n\x1e" + vileJSON + "\n", status: refused},
			{name: "JSON in UTF-16 without a byte order mark", header: asJSON, body: wideLE(vileJSON), status: refused},
			{name: "JSON in UTF-32", header: asJSON, body: wide32(vileJSON), status: refused},
			{name: "A UTF-8 byte order mark before JSON", header: asJSON, body: "\ufeff" + vileJSON, status: refused},
			{name: "JSON in a string of JSON", header: asJSON, body: `{"payload":` + quoted(vileJSON) + `}`, status: refused},
			{name: "JSON in a string of JSON, twice", header: asJSON, body: inJSON, status: refused},
			{name: "JSON in a string of JSON, in escapes, where `json /payload/comment` is configured", path: "/narrow", header: asJSON, body: `{"payload":` + quoted(`{"comment":"`+each(vile, `\u%04x`)+`"}`) + `}`, status: refused},
			{name: "An array around the object, where `json /comment` is configured", path: "/narrow", header: asJSON, body: "[" + vileJSON + "]", status: passes, why: "another place than the configured one; name `/*/comment`, too, where an app takes both"},
			{name: "Half in a member's name, half in its value", header: asJSON, body: `{"` + first + `":"` + second + `"}`, status: refused},
			{name: "JSON in strings of JSON, more than twice, the innermost in escapes", header: asJSON, body: `{"a":` + quoted(`{"b":`+quoted(`{"c":`+quoted(`{"d":"`+each(vile, `\u%04x`)+`"}`)+`}`)+`}`) + `}`, status: refused},
			{name: "Text in a member's name", header: asJSON, body: `{"` + vile + `":1}`, status: refused},
			{name: "A short text in a member's name, with underscores", header: asJSON, body: `{"i_will_kill_you":1}`, status: passes, why: "names of members are read when they have white space, letters beyond ASCII or 48 bytes, because others are a program's own"},
		}},
		{"What the Content-Type says", []attempt{
			{name: "JSON as `image/png`", header: typ("image/png"), body: vileJSON, status: refused},
			{name: "JSON as `application/octet-stream`", header: typ("application/octet-stream"), body: vileJSON, status: refused},
			{name: "JSON as `text/plain`, in escapes", header: asText, body: `{"comment":"` + each(vile, `\u%04x`) + `"}`, status: refused},
			{name: "JSON as a form", header: asForm, body: vileJSON, status: refused},
			{name: "JSON as a form, with an ampersand and escapes", header: asForm, body: `{"x":"&","comment":"` + each(vile, `\u%04x`) + `"}`, status: refused},
			{name: "JSON as a multipart form", header: asParts, body: vileJSON, status: refused},
			{name: "JSON without a type", body: vileJSON, status: refused},
			{name: "JSON of a type that nobody knows", header: typ("application/vnd.example.v1"), body: vileJSON, status: refused},
			{name: "A broken type", header: typ(`application/json; charset="utf-8`), body: vileJSON, status: refused},
			{name: "Two Content-Type headers", header: []string{"Content-Type: image/png", "Content-Type: application/json"}, body: vileJSON, status: refused},
			{name: "Two Content-Type headers, the other way round", header: []string{"Content-Type: application/json", "Content-Type: image/png"}, body: vileJSON, status: refused},
			{name: "Two Content-Type headers over a form", header: []string{"Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"}, body: vileForm, status: refused},
			{name: "Two types in one header", header: typ("image/png, application/json"), body: vileJSON, status: refused},
			{name: "A form as JSON", header: asJSON, body: "comment=" + each(vile, "%%%02x"), status: refused},
			{name: "A form as `text/plain`", header: asText, body: "comment=" + each(vile, "%%%02x"), status: refused},
			{name: "A form without a type", body: "x=1&comment=" + each(vile, "%%%02x"), status: refused},
			{name: "Plain text as JSON", header: asJSON, body: vile, status: refused},
			{name: "Plain text as `image/png`", header: typ("image/png"), body: vile, status: refused},
			{name: "A multipart form as `text/plain`", header: asText, body: field("comment", vile) + lastPart, status: refused},
			{name: "HTML, in a script", header: typ("text/html"), body: "<script>" + vile + "</script>", status: refused},
			{name: "HTML, in a comment", header: typ("text/html"), body: "<p>Hi<!-- " + vile + " -->", status: refused},
			{name: "XML, in an attribute", header: typ("application/xml"), body: `<?xml version="1.0"?><c t="` + vile + `"/>`, status: refused},
			{name: "XML, in CDATA", header: typ("application/xml"), body: `<?xml version="1.0"?><c><![CDATA[` + vile + `]]></c>`, status: refused},
			{name: "XML, in an entity", header: typ("application/xml"), body: `<!DOCTYPE c [<!ENTITY x "` + vile + `">]><c>&x;</c>`, status: refused},
			{name: "JSON as gRPC", header: typ("application/grpc"), body: vileJSON, status: refused},
			{name: "JSON as a PDF", header: typ("application/pdf"), body: vileJSON, status: refused},
			{name: "JSON behind 5,000 spaces, as a picture", header: typ("image/png"), body: strings.Repeat(" ", 5000) + vileJSON, status: refused},
			{name: "JSON behind a megabyte of spaces, as a picture", header: typ("image/png"), body: strings.Repeat(" ", 1_100_000) + vileJSON, status: refused},
			{name: "A form of the type `text/plain`, as browsers send it", header: asText, body: "x=1\r\ncomment=" + vile + "\r\n", status: refused},
			{name: "A form that hardly looks like one, as `text/plain`", header: asText, body: "a b=c d&comment=" + strings.ReplaceAll(vile, " ", "+"), status: refused},
			{name: "MessagePack", header: typ("application/msgpack"), body: "\x81\xa7comment\xd9" + string(rune(len(vile))) + vile, status: refused},
			{name: "A message of gRPC or protocol buffers", header: typ("application/grpc"), body: "\x00\x00\x00\x00" + string(rune(len(vile)+2)) + "\x0a" + string(rune(len(vile))) + vile, status: passes, why: "gRPC messages are not read; moderate them in the app, through the API"},
			{name: "Text behind a kilobyte of bytes that are no text, as a picture", header: typ("image/png"), body: strings.Repeat("\x89\x01\x02\xff", 1200) + vile, status: passes, why: "files are not moderated; use `text` where an app takes any type for text"},
		}},
		{"Escapes and disguises", []attempt{
			{name: "Every character of a form percent-encoded", header: asForm, body: "comment=" + each(vile, "%%%02x"), status: refused},
			{name: "Percent-encoded twice", header: asForm, body: "comment=" + each(vile, "%%25%02x"), status: refused},
			{name: "The escapes `%u0041` of old browsers", header: asForm, body: "comment=" + each(vile, "%%u%04x"), status: refused},
			{name: "Plus signs in JSON", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, " ", "+") + `"}`, status: refused},
			{name: "Entities of HTML", header: asJSON, body: `{"comment":"` + each(vile, "&#%d;") + `"}`, status: refused},
			{name: "Tags inside of words", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, "i", "<b></b>i<i></i>") + `"}`, status: refused},
			{name: "Comments inside of words", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, "i", "<!-- love -->i") + `"}`, status: refused},
			{name: "Unknown tags inside of words", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, "i", "<x>i</x>") + `"}`, status: refused},
			{name: "Text inside of a tag", header: asJSON, body: `{"comment":"Hi <` + strings.TrimSuffix(vile, ".") + `> there"}`, status: refused},
			{name: "Text in an attribute", header: asJSON, body: `{"comment":"Hi <img src=x alt='` + vile + `'> there"}`, status: refused},
			{name: "Line breaks of HTML between words", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, " ", "<br>") + `"}`, status: refused},
			{name: "Lines of one word", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, " ", `\n`) + `"}`, status: refused},
			{name: "Cells of a table between words", header: asJSON, body: `{"comment":"<table><tr><td>` + strings.ReplaceAll(vile, " ", "</td><td>") + `</td></table>"}`, status: refused},
			{name: "Spaces that do not break, as entities", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(vile, " ", "&nbsp;") + `"}`, status: refused},
			{name: "Written from right to left, and turned round by U+202E", header: asJSON, body: `{"comment":"` + "\u202e" + backwards(vile) + `"}`, status: refused},
			{name: "Escapes in a query of GraphQL", header: asJSON, body: `{"query":"mutation { post(text: \"` + strings.ReplaceAll(each(vile, `\u%04x`), `\`, `\\`) + `\") { id } }"}`, status: refused},
			{name: "Base64", header: asJSON, body: `{"comment":"` + base64.StdEncoding.EncodeToString([]byte(vile)) + `"}`, status: passes, why: "people do not read it; where an app decodes it, moderate the result through the API"},
			{name: "Another language than English, rot13, a picture of the text", header: asJSON, body: `{"comment":"V jvyy svaq lbh naq xvyy lbh."}`, status: passes, why: "the classifier understands English text"},
		}},
		{"Forms", []attempt{
			{name: "A field in another case, where `form comment` is configured", path: "/narrow", header: asForm, body: "Comment=" + url.QueryEscape(vile), status: refused},
			{name: "A field of an array, where `form comment` is configured", path: "/narrow", header: asForm, body: "comment%5B%5D=" + url.QueryEscape(vile), status: refused},
			{name: "A field's name percent-encoded, where `form comment` is configured", path: "/narrow", header: asForm, body: "%63omment=" + url.QueryEscape(vile), status: refused},
			{name: "A semicolon for an ampersand, where `form comment` is configured", path: "/narrow", header: asForm, body: "x=y;comment=" + url.QueryEscape(vile), status: refused},
			{name: "A space before the name, which PHP ignores, where `form comment` is configured", path: "/narrow", header: asForm, body: "+comment=" + url.QueryEscape(vile), status: refused},
			{name: "A duplicate field", path: "/narrow", header: asForm, body: "comment=hi&comment=" + url.QueryEscape(vile), status: refused},
			{name: "JSON instead, where only `form comment` would be read", path: "/narrow", header: asText, body: vile, status: refused},
			{name: "A broken escape before the text", header: asForm, body: "comment=%zz+" + url.QueryEscape(vile), status: refused},
			{name: "Text in a field's name", header: asForm, body: url.QueryEscape(vile) + "=1", status: refused},
			{name: "A name without a value", header: asForm, body: url.QueryEscape(vile), status: refused},
			{name: "The charset field", header: asForm, body: "_charset_=utf-16le&comment=" + each(wideLE(vile), "%%%02x"), status: refused},
		}},
		{"Multipart forms", []attempt{
			{name: "A field", header: asParts, body: field("comment", vile) + lastPart, status: refused},
			{name: "A boundary in quotes", header: typ(`multipart/form-data; boundary="xyz"`), body: field("comment", vile) + lastPart, status: refused},
			{name: "Two boundaries", header: typ("multipart/form-data; boundary=abc; boundary=xyz"), body: field("comment", vile) + lastPart, status: http.StatusBadRequest},
			{name: "No boundary", header: typ("multipart/form-data"), body: field("comment", vile) + lastPart, status: http.StatusBadRequest},
			{name: "Another boundary", header: typ("multipart/form-data; boundary=abc"), body: field("comment", vile) + lastPart, status: refused},
			{name: "No last boundary", header: asParts, body: field("comment", vile), status: refused},
			{name: "Line feeds only", header: asParts, body: strings.ReplaceAll(field("comment", vile)+lastPart, "\r\n", "\n"), status: refused},
			{name: "Text before the first boundary", header: asParts, body: vile + "\r\n" + field("comment", "hi") + lastPart, status: refused},
			{name: "Text behind the last boundary", header: asParts, body: field("comment", "hi") + lastPart + vile, status: refused},
			{name: "A field behind the last boundary", header: asParts, body: field("x", "hi") + lastPart + field("comment", vile) + lastPart, status: refused},
			{name: "A part in a part", header: asParts, body: part("--in\r\nContent-Disposition: form-data; name=\"comment\"\r\n\r\n"+vile+"\r\n--in--", `Content-Disposition: form-data; name="x"`, "Content-Type: multipart/mixed; boundary=in") + lastPart, status: refused},
			{name: "A part without a name", header: asParts, body: part(vile, "X: y") + lastPart, status: refused},
			{name: "A part without a header", header: asParts, body: "--xyz\r\n\r\n" + vile + "\r\n" + lastPart, status: refused},
			{name: "An empty file name", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; filename=""`) + lastPart, status: refused},
			{name: "A `filename*` only", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"; filename*=utf-8''a.txt`) + lastPart, status: refused},
			{name: "Two Content-Disposition headers", header: asParts, body: part(vile, `Content-Disposition: form-data; name="f"; filename="a.png"`, `Content-Disposition: form-data; name="comment"`) + lastPart, status: refused},
			{name: "A file name in another header", header: asParts, body: part(vile, `Content-Disposition: form-data; name="comment"`, `Content-Type: text/plain; name="a.png"; filename="a.png"`) + lastPart, status: refused},
			{name: "Text in a file's name", header: asParts, body: part("x", `Content-Disposition: form-data; name="f"; filename="`+strings.TrimSuffix(vile, ".")+`.png"`) + lastPart, status: refused},
			{name: "Text in a file's name, encoded", header: asParts, body: part("x", `Content-Disposition: form-data; name="f"; filename*=utf-8''`+url.PathEscape(vile)+`; filename="a.png"`) + lastPart, status: refused},
			{name: "Text in a field's name", header: asParts, body: field(vile, "1") + lastPart, status: refused},
			{name: "A transfer encoding: base64", header: asParts, body: field("comment", base64.StdEncoding.EncodeToString([]byte(vile)), "Content-Transfer-Encoding: base64") + lastPart, status: refused},
			{name: "A transfer encoding: quoted-printable", header: asParts, body: field("comment", each(vile, "=%02X"), "Content-Transfer-Encoding: quoted-printable") + lastPart, status: refused},
			{name: "A part in UTF-16", header: asParts, body: field("comment", wideLE(vile), "Content-Type: text/plain; charset=utf-16le") + lastPart, status: refused},
			{name: "A part of JSON, in escapes", header: asParts, body: field("comment", `{"c":"`+each(vile, `\u%04x`)+`"}`, "Content-Type: application/json") + lastPart, status: refused},
			{name: "A field that says that it is a picture", header: asParts, body: field("comment", vile, "Content-Type: image/png") + lastPart, status: refused},
			{name: "Text behind a file of 2 MB", header: asParts, body: part(strings.Repeat("\x00\xff\x13\x07", 500_000), `Content-Disposition: form-data; name="f"; filename="a.png"`) + field("comment", vile) + lastPart, status: refused},
			{name: "20,000 parts before the text", header: asParts, body: strings.Repeat(field("a", "b"), 20_000) + field("comment", vile) + lastPart, status: http.StatusBadRequest},
			{name: "A field in another case, where `form comment` is configured", path: "/narrow", header: asParts, body: field("COMMENT[]", vile) + lastPart, status: refused},
			{name: "Two names, where `form comment` is configured", path: "/narrow", header: asParts, body: part(vile, `Content-Disposition: form-data; name="x"; name="comment"`) + lastPart, status: refused},
			{name: "Two Content-Disposition headers, where `form comment` is configured", path: "/narrow", header: asParts, body: part(vile, `Content-Disposition: form-data; name="x"`, `Content-Disposition: form-data; name="comment"`) + lastPart, status: refused},
			{name: "Line feeds within a part, where `form comment` is configured", path: "/narrow", header: asParts, body: field("x", "y\n--xyz\nContent-Disposition: form-data; name=\"comment\"\n\n"+vile) + lastPart, status: refused},
			{name: "Another field than the configured one", path: "/narrow", header: asParts, body: field("x", vile) + lastPart, status: passes, why: "`form` names all that is read of forms; leave it out to have all of it read"},
			{name: "A field sent as a file, as scripts send a `Blob`", header: asParts, body: part(vileJSON, `Content-Disposition: form-data; name="data"; filename="blob"`, "Content-Type: application/json") + lastPart, status: refused},
			{name: "Text in a file", header: asParts, body: part(vile, `Content-Disposition: form-data; name="f"; filename="a.txt"`, "Content-Type: text/plain") + lastPart, status: refused},
			{name: "Text in a file of a type that is not text", header: asParts, body: part(vile, `Content-Disposition: form-data; name="f"; filename="a.bin"`, "Content-Type: application/octet-stream") + lastPart, status: passes, why: "all parsers say that it is a file, and files are not moderated"},
		}},
		{"Content-Encoding", []attempt{
			{name: "gzip", header: append(asJSON, "Content-Encoding: gzip"), body: packed("gzip", vileJSON), status: refused},
			{name: "br", header: append(asJSON, "Content-Encoding: br"), body: packed("br", vileJSON), status: refused},
			{name: "zstd", header: append(asJSON, "Content-Encoding: zstd"), body: packed("zstd", vileJSON), status: refused},
			{name: "deflate", header: append(asJSON, "Content-Encoding: deflate"), body: packed("deflate", vileJSON), status: refused},
			{name: "deflate without the header of zlib", header: append(asJSON, "Content-Encoding: deflate"), body: packed("raw", vileJSON), status: refused},
			{name: "gzip over a multipart form", header: append(asParts, "Content-Encoding: gzip"), body: packed("gzip", field("comment", vile)+lastPart), status: refused},
			{name: "gzip over a body without a type", header: []string{"Content-Encoding: gzip"}, body: packed("gzip", vileJSON), status: refused},
			{name: "Two encodings", header: append(asJSON, "Content-Encoding: gzip, br"), body: packed("br", packed("gzip", vileJSON)), status: refused},
			{name: "Two Content-Encoding headers", header: append(asJSON, "Content-Encoding: gzip", "Content-Encoding: BR"), body: packed("br", packed("gzip", vileJSON)), status: refused},
			{name: "Several gzip streams behind each other", header: append(asJSON, "Content-Encoding: gzip"), body: packed("gzip", `{"comment":"`) + packed("gzip", vile+`"}`), status: refused},
			{name: "gzip that breaks off", header: append(asJSON, "Content-Encoding: gzip"), body: brokenOff, status: refused},
			{name: "Text behind the gzip stream", header: append(asForm, "Content-Encoding: gzip"), body: packed("gzip", "a=b") + "&" + vileForm, status: refused},
			{name: "A comment in the header of gzip", header: append(asForm, "Content-Encoding: gzip"), body: commented("&"+vileForm+"&", "a=b"), status: refused},
			{name: "No gzip at all, for apps that do not look at the header", header: append(asJSON, "Content-Encoding: gzip"), body: vileJSON, status: refused},
			{name: "An unknown encoding that is none", header: append(asJSON, "Content-Encoding: none"), body: vileJSON, status: refused},
			{name: "An unknown encoding", header: append(asJSON, "Content-Encoding: lzma"), body: "\x5d\x00\x00\x80\x00" + strings.Repeat("\xfe\x01", 50), status: passes, why: "`on_error pass` is the default; it is logged and counted"},
			{name: "An unknown encoding, where `on_error reject` is configured", path: "/strict", header: append(asJSON, "Content-Encoding: lzma"), body: "\x5d\x00\x00\x80\x00" + strings.Repeat("\xfe\x01", 50), status: http.StatusUnsupportedMediaType},
			{name: "Four encodings", header: append(asJSON, "Content-Encoding: gzip, gzip, gzip, gzip"), body: packed("gzip", packed("gzip", packed("gzip", packed("gzip", vileJSON)))), status: passes, why: "at most three are undone, more are unknown; nobody sends them, and `on_error reject` refuses them"},
			{name: "A bomb", header: append(asJSON, "Content-Encoding: gzip"), body: bomb, status: tooLarge},
			{name: "A bomb in a bomb", header: append(asJSON, "Content-Encoding: gzip, gzip"), body: packed("gzip", bomb), status: tooLarge},
		}},
		{"Charsets", []attempt{
			{name: "UTF-16", header: typ("text/plain; charset=utf-16"), body: "\xff\xfe" + wideLE(vile), status: refused},
			{name: "UTF-16 that is UTF-8", header: typ("application/json; charset=utf-16"), body: vileJSON, status: refused},
			{name: "UTF-8 behind the byte order mark of UTF-16", header: asText, body: "\xff\xfe" + vile, status: refused},
			{name: "UTF-7", header: typ("text/plain; charset=utf-7"), body: "+" + strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(each(vile, "\x00%c"))), "=") + "-", status: refused},
			{name: "EBCDIC", header: typ("text/plain; charset=cp037"), body: ebcdic(vile), status: refused},
			{name: "Escapes of Python", header: typ("text/plain; charset=unicode_escape"), body: each(vile, `\x%02x`), status: refused},
			{name: "An unknown charset", header: typ("text/plain; charset=klingon"), body: vile, status: refused},
			{name: "A charset in another case and quotes", header: typ(`text/plain; charset="UTF-16LE"`), body: wideLE(vile), status: refused},
			{name: "Overlong UTF-8", header: asText, body: strings.ReplaceAll(vile, "i", "\xc1\xa9"), status: refused},
			{name: "XML that names its charset itself", header: typ("text/xml"), body: `<?xml version="1.0" encoding="utf-7"?><c>` + strings.ReplaceAll(vile, "kill", "+AGsAaQBsAGw-") + "</c>", status: refused},
		}},
		{"Splitting and padding", []attempt{
			{name: "Words in different members", header: asJSON, body: "{" + strings.Join(names, ",") + "}", status: refused},
			{name: "Words in different fields", header: asParts, body: strings.Join(parts, "") + lastPart, status: refused},
			{name: "Letters in different members", header: asJSON, body: "{" + strings.Join(letters, ",") + "}", status: refused},
			{name: "Words in different members, behind 200 harmless ones", header: asJSON, body: "{" + strings.Repeat(`"x":"The bread is good.",`, 200) + strings.Join(names, ",") + "}", status: refused},
			{name: "Words in different members, harmless texts between them", header: asJSON, body: "{" + strings.Join(names, `,"x":"The bread is good, and the coffee is better than it was.",`) + "}", status: passes, why: "read together it is no threat either"},
			{name: "The two halves at the ends of long texts", header: asForm, body: "a=" + url.QueryEscape(harmless(300)+first) + "&b=" + url.QueryEscape(second+" "+harmless(300)), status: refused},
			{name: "The first half at the end of a long text, the second in a short one", header: asForm, body: "a=" + url.QueryEscape(harmless(300)+first) + "&b=" + url.QueryEscape(second), status: refused},
			{name: "Words in different requests", header: asJSON, body: `{"comment":"you"}`, status: passes, why: "each request is moderated by itself"},
			{name: "900 kB of spaces before it", header: asJSON, body: strings.Repeat(" ", 900_000) + vileJSON, status: refused},
			{name: "90,000 harmless characters before it, in lines", header: asJSON, body: `{"comment":"` + strings.ReplaceAll(harmless(90_000), ". ", `.\n`) + vile + `"}`, status: refused},
			{name: "90,000 harmless characters before it, in one line", header: asJSON, body: `{"comment":"` + harmless(90_000) + vile + `"}`, status: refused},
			{name: "90,000 harmless characters around it", header: asForm, body: "comment=" + url.QueryEscape(harmless(45_000)+vile+" "+harmless(45_000)), status: refused},
			{name: "1,000 harmless fields before it", header: asForm, body: strings.Repeat("x=The+bread+is+good&", 1000) + vileForm, status: refused},
			{name: "150,000 harmless characters before it", header: asText, body: harmless(150_000) + vile, status: refused},
			{name: "Behind `max_body`, in plain text", header: asText, body: strings.Repeat(" ", 1<<20) + vile, status: refused},
			{name: "Behind `max_body`, in JSON", header: asJSON, body: `{"avatar":"` + strings.Repeat("QUJD", 300_000) + `","comment":"` + vile + `"}`, status: refused},
			{name: "Behind `max_body`, in a form", header: asForm, body: "a=" + strings.Repeat("%20", 400_000) + "&" + vileForm, status: refused},
			{name: "Across `max_body`", header: asText, body: strings.Repeat(" ", 1<<20-20) + vile + strings.Repeat(" ", 1000), status: refused},
		}},
		{"HTTP itself", []attempt{
			{name: "Chunks of one byte", header: append(asJSON, "Transfer-Encoding: chunked"), body: chunked(vileJSON, 1, "", ""), status: refused},
			{name: "Chunk extensions", header: append(asJSON, "Transfer-Encoding: chunked"), body: chunked(vileJSON, 7, `;x="y"`, ""), status: refused},
			{name: "Trailers", header: append(asJSON, "Transfer-Encoding: chunked", "Trailer: X-Moderation-Flagged"), body: chunked(vileJSON, 7, "", "X-Moderation-Flagged: false\r\n"), status: refused},
			{name: "Chunks and a Content-Length", header: append(asJSON, "Content-Length: 0", "Transfer-Encoding: chunked"), body: chunked(vileJSON, 7, "", ""), status: refused},
			{name: "Two different Content-Lengths", header: append(asJSON, "Content-Length: 2", fmt.Sprintf("Content-Length: %d", len(vileJSON))), body: vileJSON, status: http.StatusBadRequest},
			{name: "A transfer encoding that is not chunked", header: append(asJSON, "Transfer-Encoding: gzip, chunked"), body: chunked(packed("gzip", vileJSON), 7, "", ""), status: http.StatusNotImplemented},
			{name: "A body that is shorter than announced", header: append(asJSON, fmt.Sprintf("Content-Length: %d", len(vileJSON)+10)), body: vileJSON, ends: true, status: http.StatusBadRequest},
			{name: "GET with a body", method: http.MethodGet, header: asJSON, body: vileJSON, status: refused},
			{name: "DELETE with a body", method: http.MethodDelete, header: asJSON, body: vileJSON, status: refused},
			{name: "A method of one's own", method: "COMMENT", header: asJSON, body: vileJSON, status: refused},
			{name: "A method override", method: http.MethodGet, header: append(asJSON, "X-HTTP-Method-Override: POST"), body: vileJSON, status: refused},
			{name: "An Upgrade header on a POST", header: append(asJSON, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), body: vileJSON, status: refused},
			{name: "An Upgrade header on a GET with a body", method: http.MethodGet, header: append(asJSON, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), body: vileJSON, status: refused},
			{name: "Expect: 100-continue", header: append(asJSON, "Expect: 100-continue"), body: vileJSON, status: refused},
			{name: "A forged verdict", header: append(asJSON, "X-Moderation-Id: mod_1", "X-Moderation-Status: judged", "X-Moderation-Recommendation: approve"), body: vileJSON, status: refused},
			{name: "Text in the query string", path: "/?q=" + url.QueryEscape(vile), header: asJSON, body: `{"comment":"hi"}`, status: passes, why: "name the parameters with `query`"},
			{name: "Text in the query string, where `query q` is configured", path: "/query?Q=" + url.QueryEscape(vile), method: http.MethodGet, status: refused},
			{name: "Text in a header, where `header Subject` is configured", path: "/query", header: append(asJSON, "subject: =?utf-8?B?"+base64.StdEncoding.EncodeToString([]byte(vile))+"?="), body: `{"comment":"hi"}`, status: refused},
			{name: "Text in the path, in another header or in a cookie", path: "/" + url.PathEscape(vile), header: append(asJSON, "Cookie: c="+url.QueryEscape(vile)), body: `{"comment":"hi"}`, status: passes, why: "paths are not read; headers are where `header` names them"},
			{name: "Messages of a WebSocket", method: http.MethodGet, header: []string{"Connection: Upgrade", "Upgrade: websocket"}, status: passes, why: "a WebSocket's messages are not requests; moderate them in the app, through the API"},
		}},
	}, framingAttempts(vile), contentAttempts(vile), disguiseAttempts(vile), policyAttempts(vile), attackAttempts(vile))
}

// ebcdic is ASCII text in code page 37.
func ebcdic(text string) string {
	table := map[rune]byte{' ': 0x40, '.': 0x4b, ',': 0x6b, 'I': 0xc9}
	for i, r := range "abcdefghi" {
		table[r] = 0x81 + byte(i)
	}
	for i, r := range "jklmnopqr" {
		table[r] = 0x91 + byte(i)
	}
	for i, r := range "stuvwxyz" {
		table[r] = 0xa2 + byte(i)
	}
	var b strings.Builder
	for _, r := range text {
		b.WriteByte(table[r])
	}
	return b.String()
}

// backwards is a text from its end to its beginning.
func backwards(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// raw sends a request as it is, and returns the answer's status and body.
func (a *attempt) raw(t *testing.T) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	method, path := a.method, a.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/"
	}
	header := append([]string{method + " " + path + " HTTP/1.1", "Host: " + strings.TrimPrefix(base, "http://")}, a.header...)
	all := strings.ToLower(strings.Join(header, "\n"))
	if !strings.Contains(all, "content-length:") && !strings.Contains(all, "transfer-encoding:") {
		header = append(header, fmt.Sprintf("Content-Length: %d", len(a.body)))
	}
	if !strings.Contains(all, "connection:") {
		header = append(header, "Connection: close")
	}
	go func() {
		// The server may answer before it has read all of it.
		_, _ = io.WriteString(conn, strings.Join(header, "\r\n")+"\r\n\r\n"+a.body)
		if tcp, ok := conn.(*net.TCPConn); ok && a.ends {
			_ = tcp.CloseWrite()
		}
	}()
	in := bufio.NewReader(conn)
	for {
		answer, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode == http.StatusContinue {
			continue
		}
		return answer.StatusCode, string(body)
	}
}

// bypassConfig has a guard for each configuration that a row may name by its path.
func bypassConfig(t testing.TB, app *backend) string {
	return guardConfig(t, `
	handle /narrow* {
		moderate {
			json /comment /payload/comment
			form comment
		}
		`+app.proxy()+`
	}
	handle /strict* {
		moderate {
			on_error reject
		}
		`+app.proxy()+`
	}
	handle /query* {
		moderate {
			query q
			header Subject
		}
		`+app.proxy()+`
	}
	handle {
		moderate
		`+app.proxy()+`
	}`)
}

// TestBypass tries each of the ways, and sees that what is refused has not reached the app.
func TestBypass(t *testing.T) {
	app := newBackend(t)
	load(t, bypassConfig(t, app))
	for _, group := range attempts(threat) {
		for i := range group.attempts {
			a := &group.attempts[i]
			t.Run(group.title+"/"+a.name, func(t *testing.T) {
				if (a.why != "") != (a.status == passes) {
					t.Error("what passes, and nothing else, needs a reason")
				}
				status, body := a.raw(t)
				if status != a.status {
					t.Errorf("got %d, want %d: %.300s", status, a.status, body)
				}
				for _, r := range app.whole() {
					if a.status == passes && a.method != http.MethodGet && string(r.body) != a.body {
						t.Errorf("the app got another body: %.300q", r.body)
					}
					if a.status != passes {
						t.Errorf("the app got it: %.300q", r.body)
					}
				}
			})
		}
	}
}

// TestBypassTables sees that the tables say something: a row that is refused must be refused for its text, and not for
// its form, so that the same row with a harmless text reaches the app, byte for byte.
func TestBypassTables(t *testing.T) {
	app := newBackend(t)
	load(t, bypassConfig(t, app))
	for _, group := range attempts(fine) {
		for i := range group.attempts {
			a := &group.attempts[i]
			if a.status != refused {
				continue
			}
			t.Run(group.title+"/"+a.name, func(t *testing.T) {
				if status, body := a.raw(t); status != http.StatusOK {
					t.Errorf("got %d with a harmless text: %.300s", status, body)
				}
				if arrived := app.whole(); len(arrived) != 1 {
					t.Errorf("the app got %d requests", len(arrived))
				}
			})
		}
	}
	// The halves of the rows on splitting.
	for _, half := range []string{"I hope you and your children", "get raped and murdered.",
		harmless(300) + "I hope you and your children", "get raped and murdered. " + harmless(300)} {
		if got := send(t, "text/plain", half); got.status != http.StatusOK {
			t.Errorf("%q is refused by itself: %s", half, got.body)
		}
		app.take()
	}
}

// TestForgedVerdicts sees that no field that looks like a verdict reaches the app, but the guard's own.
func TestForgedVerdicts(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()))
	a := attempt{
		header: append(asJSON, "X-Moderation-Flagged: forged", "x-moderation-scores: forged", "X_Moderation_Flagged: forged", "X-Moderation_Other: forged",
			"X-Moderation-New: forged", "Transfer-Encoding: chunked", "Trailer: X-Moderation-Flagged, X_Moderation_Id"),
		body: chunked(`{"comment":"`+fine+`"}`, 5, "", "X-Moderation-Flagged: forged\r\nX_Moderation_Id: forged\r\nX-Moderation-More: forged\r\n"),
	}
	if status, body := a.raw(t); status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", status, body)
	}
	arrived := app.take()
	if len(arrived) != 1 {
		t.Fatalf("%d requests", len(arrived))
	}
	for _, header := range []http.Header{arrived[0].Header, arrived[0].Trailer} {
		for name, values := range header {
			if strings.Contains(strings.Join(values, " "), "forged") {
				t.Errorf("the app sees %s: %q, want nothing forged", name, values)
			}
		}
	}
	if got := arrived[0].Header.Get("X-Moderation-Flagged"); got != "false" {
		t.Errorf("the guard's own: %q", got)
	}
}

// TestBypassDocs sees that the tables of docs/guard-bypass.md are those that are tested.
func TestBypassDocs(t *testing.T) {
	const file = "../docs/guard-bypass.md"
	var tables strings.Builder
	for _, group := range attempts(threat) {
		fmt.Fprintf(&tables, "\n## %s\n\n| Attempt | Outcome |\n|---|---|\n", group.title)
		for _, a := range group.attempts {
			outcome := fmt.Sprintf("refused (%d)", a.status)
			if a.status == passes {
				outcome = "**passes**: " + a.why
			}
			fmt.Fprintf(&tables, "| %s | %s |\n", a.name, outcome)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- The tables are written by: go test ./caddymod -run TestBypassDocs -update -->\n", "\n<!-- end of the tables -->\n"
	before, rest, _ := strings.Cut(string(page), begin)
	_, after, found := strings.Cut(rest, end)
	want := before + begin + tables.String() + end + after
	if !found {
		t.Fatalf("%s has no place for the tables", file)
	}
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatalf("the tables in %s are not those of this test; write them anew with -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
