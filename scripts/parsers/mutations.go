// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
)

// decoy is the boundary that is not that of the body.
const decoy = "decoy"

// noise puts much binary data before, behind or between the fields.
var noise = &mutation{"noise", nil, onValues, func(d *draft) {
	n := pick(d, 20, 700, 1500, 6000)
	d.note("%d", n)
	how := chosen(d, "another field", "another file", "before the value", "behind the value")
	switch how {
	case "another field", "another file":
		p := &part{name: "photo", value: d.noise(n)}
		if how == "another file" && d.kind == "multipart" {
			p.disposition, p.typ = `form-data; name="photo"; filename="a.png"`, "image/png"
		}
		d.parts = slices.Insert(d.parts, d.IntN(len(d.parts)+1), p)
	case "before the value":
		d.value(string(d.noise(n)) + string(d.target0()))
	case "behind the value":
		d.value(string(d.target0()) + string(d.noise(n)))
	}
}}

// mutations are all mutations of requests. B stands for the boundary of the body, D for another one, N for a field's
// name.
var mutations = []*mutation{
	// The contents of the fields.
	{"bytes before the value", nil, onValues, func(d *draft) { d.value(d.odd() + string(d.target0())) }},
	{"bytes behind the value", nil, onValues, func(d *draft) { d.value(string(d.target0()) + d.odd()) }},
	{"bytes in the sentence", nil, onValues, func(d *draft) {
		c := chosen(d, "\x01", "\x00", "\x0b", "\x7f", "\x1b", "\x08", "\x0e", "\r", "\u0085", "\u0080", "\x02\x03\x04")
		var b strings.Builder
		if n := pick(d, 1, 3, 5, 9, 0); n > 0 {
			d.note("every %d", n)
			for i := range len(d.sentence) {
				if i%n == 0 {
					b.WriteString(c)
				}
				b.WriteByte(d.sentence[i])
			}
		} else {
			b.WriteString(strings.ReplaceAll(d.sentence, " ", " "+c))
		}
		d.value(strings.Replace(string(d.target0()), d.sentence, b.String(), 1))
	}},
	noise,
	{"another field of odd bytes", nil, onValues, func(d *draft) {
		p := &part{name: "other", value: []byte(d.odd())}
		d.parts = slices.Insert(d.parts, d.IntN(len(d.parts)+1), p)
	}},
	{"the name twice", nil, onValues, func(d *draft) {
		d.parts = slices.Insert(d.parts, d.IntN(len(d.parts)+1), &part{name: d.target.name, value: []byte("Hello")})
	}},
	{"a name", nil, onValues, func(d *draft) {
		d.target.name = chosen(d, "a[b]", "a[]", "a.b", "a[b][c]", "__proto__", "_charset_", "constructor", "a b",
			"comment[0]", "password", "avatar", "data", "image", "file", "", "csrf_token", "filename")
	}},
	{"a base64 run", nil, onValues, func(d *draft) {
		run := base64.StdEncoding.EncodeToString(d.noise(60 + d.IntN(600)))
		d.value(chosen(d, "", "data:image/png;base64,") + run + chosen(d, " ", "\n", "",
			", ") + string(d.target0()) + chosen(d, "", " "+run, "\n"+run))
	}},
	{"many fields", is("multipart", "form", "json"), onValues, func(d *draft) {
		more := make([]*part, 60)
		for i := range more {
			more[i] = &part{name: fmt.Sprintf("f%d", i), value: []byte("The bread is good")}
		}
		d.parts = append(more, d.parts...)
	}},
	{"the sentence as a name", is("multipart", "form", "json"), onValues, func(d *draft) {
		d.target.name, d.target.value = d.sentence, []byte("x")
	}},
	{"the sentence as a file's name", is("multipart"), onValues, func(d *draft) {
		d.target.disposition = `form-data; name="f"; filename=` + strings.ReplaceAll(chosen(d, `"S"`, `"S.png"`,
			`"/tmp/S"`, `"C:\\dir\\S.txt"`, `"a.png"; filename="S"`, `"a.png"; filename*=UTF-8''S`), "S", d.sentence)
	}},

	// The boundary.
	{"boundary", is("multipart"), onFrame, func(d *draft) {
		d.boundaryParams()
		if d.IntN(3) > 0 {
			d.hide()
		}
	}},
	{"odd boundary", is("multipart"), onFrame, func(d *draft) {
		b := chosen(d, "a b", "a;b", "a,b", `a"b`, `a\b`, "a'b'", "a=b", "a/b", "a:b?", "(a)", "a*0", "", " ", "-", "--", "a\tb", strings.Repeat("x", 71), strings.Repeat("x", 300), "xyz--", "ä", "a%20b", "a+b.c_d", "'a'", "\x01")
		d.boundary = b
		d.params = strings.ReplaceAll(chosen(d, `; boundary=B`, `; boundary="B"`, `; boundary=Q`), "B", b)
		d.params = strings.ReplaceAll(d.params, "Q", `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(b)+`"`)
	}},
	{"form in a file", is("multipart"), onFrame, func(d *draft) { d.hide() }},
	{"text before the first boundary", is("multipart"), onFrame, func(d *draft) {
		d.preamble = chosen(d, "\r\n", "preamble\r\n", "\n", "preamble", "--D\r\n\r\n", "\r\n\r\n", " ", "a=b&c=d\r\n", "{}\r\n", "\xff\xfe\r\n", "\x00\r\n")
	}},
	{"text behind the last boundary", is("multipart"), onFrame, func(d *draft) {
		last := d.parts
		d.epilogue = chosen(d, "epilogue", "\r\n", "PART", "\r\nPART")
		if !strings.Contains(d.epilogue, "PART") {
			return
		}
		d.parts = []*part{{name: "title", value: []byte("Hello")}}
		end := d.epilogue
		d.epilogue = ""
		d.epilogue = strings.Replace(end, "PART", d.multipart(d.boundary, last), 1)
	}},
	{"line ends", is("multipart"), onFrame, func(d *draft) { d.eol = chosen(d, "\n", "\r", "\n\r", "\r\r\n") }},
	{"behind a boundary", is("multipart"), onBody, func(d *draft) {
		line := "--" + d.boundary + d.eol
		to := strings.ReplaceAll(chosen(d, "--B \r\n", "--B\t\r\n", "--B  \t \r\n", "--B\n", "--B-\r\n", "--B--\r\n", "--B;x\r\n", "--Bx\r\n", "--B\x00\r\n", " --B\r\n", "--B\r", "-B\r\n", "---B\r\n", "--B\v\r\n"), "B", d.boundary)
		if d.IntN(2) == 0 {
			d.body = bytes.Replace(d.body, []byte(line), []byte(to), 1)
		} else {
			d.body = bytes.ReplaceAll(d.body, []byte(line), []byte(to))
		}
	}},
	{"the end", is("multipart"), onFrame, func(d *draft) { d.end = chosen(d, "", "-", "--\x00", "---", " --", "-- ", "--x") }},
	{"cut off", nil, onBody, func(d *draft) { d.body = d.body[:max(0, len(d.body)-1-d.IntN(12))] }},
	{"a boundary's line in the value", is("multipart"), onValues, func(d *draft) {
		line := strings.ReplaceAll(chosen(d, "\r\n--Bx\r\n", "\r\n--B", "\n--B\n", "\r--B\r", "\r\n--B--x\r\n", "\r\n --B\r\n", "\r\n--B \r\n", "\r\n--\r\n", "\r\n--b\r\n", "--B\r\n"), "B", d.boundary)
		if d.IntN(2) == 0 {
			d.value(line + string(d.target0()))
		} else {
			d.value(string(d.target0()) + line)
		}
	}},

	// The headers of parts.
	{"disposition", is("multipart"), onFrame, func(d *draft) {
		t := chosen(d,
			`Form-Data; NAME="N"`, `form-data; name=N`, `form-data; name='N'`, `form-data;name="N"`, `form-data ; name = "N"`, `form-data; name="N";`, `form-data; name="N"; `,
			`form-data; name="N"; filename`, `form-data; name="N"; filename=`, `form-data; name="N"; filename=""`, `form-data; name="N"; filename=" "`, `form-data; name="N"; filename="."`,
			`form-data; name="N"; FILENAME="x.png"`, `form-data; name="N"; FileName=x.png`, `form-data; name="N"; filename*=utf-8''x.png`, `form-data; name="N"; filename*=x.png`, `form-data; name="N"; filename*0="x.png"`,
			`form-data; name="N"; filename*0*=utf-8''x.png`, `form-data; name="N"; filename *="x"`, `form-data; name="N"; filename ="x.png"`, `form-data; name="N"; filename= "x.png"`, `form-data; name="N"; file-name="x.png"`,
			`form-data; name="N"; xfilename="x.png"`, `form-data; name="N"; x-filename=x.png`, `form-data; name="N; filename=x.png"`, `form-data; name="N\"; filename=\"x.png"`, `form-data; name="N"; x="; filename=x.png"`,
			`form-data; x="; filename=x.png; y="; name="N"`, `form-data; name="N"; x="\"; filename=\"y.png"`, `form-data; name="N"; filename="x.png"; filename=""`, `form-data; name="N"; filename=""; filename="x.png"`,
			`form-data; name="N"; filename="x.png`, `form-data; name="N"; filename=x.png"`, `form-data; name="N"; filename='x.png'`, `form-data; filename="x.png"; name="N"`, `form-data; filename=x.png`, `form-data; filename="x.png`,
			`attachment; name="N"`, `attachment; name="N"; filename="x.png"`, `file; name="N"; filename="x.png"`, `inline; name="N"; filename="x.png"`, `file; filename="x.png"; name="N"`, `; name="N"`, `name="N"`, `name="N"; filename="x.png"`,
			`form-data; name*=utf-8''N`, `form-data; name*0="N"`, `form-data; name*=N; filename="x.png"`, `form-data; name="N`, `form-data; name=N"`, `form-data; name="N"x; filename="x.png"`, `form-data, name="N"; filename="x.png"`,
			`form-data name="N"`, `form-data; name="N" filename="x.png"`, `form-data; name="N", filename="x.png"`, `form-data; name="N"; (filename="x.png")`, `form-data; name=""`, `form-data; name`, `form-data`, `none`, ``,
			"form-data; name=\"N\";\r\n filename=\"x.png\"", "form-data;\r\n name=\"N\"",
			"form-data; name=\"N\"\r\n\t; filename=x.png", "form-data; name=\"N\";\tfilename=\"x.png\"",
			"form-data; name=\"N\"; filename=\"x.png\x00\"", "form-data; name=\"N\x00\"",
			"form-data; name=\"N\"\x00; filename=\"x.png\"", "form-data; name=\"N\"; filename=\"\x00\"",
			"form-data; name=\"N\"; \x0bfilename=\"x.png\"", "form-data; name=\"N\"; filename\x00=\"x.png\"",
			`form-data; name="N"; filename=x y.png`, `form-data; name="N"; filename="x\"y.png"`, `form-data; name="N"; filename="x\\"`, `form-data; name="N"; filename="\"`, `form-data; name="\"; filename=x.png; n="N"`,
			`form-data; name="a"; name="N"; filename="x.png"`, `form-data; name="N"; size=3; filename="x.png"`, `form-data; name="N"; filename="=?utf-8?q?x?="`, `form-data; name="N"; filename=/`, `form-data; name="N"; filename="/"`, `form-data; name="N"; filename="dir/"`, `form-data; name="N"; filename="C:\"`, `form-data; name="N"; filename=;`, `form-data; name="N";; filename="x.png"`, `form-data;; name="N"`, "form-data; name=\"N\"; filename=\"\xff\"", `form-data; name="N"; filename="blob"`,
			`form-data; name="N"; charset=utf-16le`, `form-data; name="N"; filename="`+strings.Repeat("a", 300)+`"`,
		)
		d.target.disposition = strings.ReplaceAll(t, "N", d.target.name)
	}},
	{"a second disposition", is("multipart"), onFrame, func(d *draft) {
		line := strings.ReplaceAll(chosen(d, `Content-Disposition: form-data; name="N"; filename="x.png"`,
			`Content-Disposition: form-data; name="N"`, `content-disposition: attachment; filename="x.png"`,
			`Content-Disposition : form-data; name="N"; filename="x.png"`,
			` Content-Disposition: form-data; name="N"; filename="x.png"`,
			`Content-Disposition:form-data; name="N"; filename=x`, `X: y`), "N", d.target.name)
		if d.IntN(2) == 0 {
			d.target.disposition = `form-data; name="` + d.target.name + `"; filename="x.png"`
		}
		d.target.lines = append(d.target.lines, line)
	}},
	{"a long line in a part's header", is("multipart"), onFrame, func(d *draft) {
		n := pick(d, 200, 1000, 4090, 5100, 5200, 8200, 17_000)
		d.note("%d", n)
		long := strings.Repeat("a", n)
		t := chosen(d, `form-data; name="N"; x="L"; filename="x.png"`, `form-data; x="L"; name="N"; filename="x.png"`,
			`form-data; name="N"; filename="L.png"`, `form-data; L; name="N"`, "line", "type")
		switch t {
		case "line":
			d.target.lines = append(d.target.lines, "X-Long: "+long)
		case "type":
			d.target.typ = "image/png; x=" + long
		default:
			d.target.disposition = strings.NewReplacer("N", d.target.name, "L", long).Replace(t)
		}
	}},
	{"many lines in a part's header", is("multipart"), onFrame, func(d *draft) {
		n := pick(d, 10, 33, 65, 130, 1100)
		d.note("%d", n)
		for i := range n {
			d.target.lines = append(d.target.lines, fmt.Sprintf("X-%d: y", i))
		}
	}},
	{"a line in a part's header", is("multipart"), onFrame, func(d *draft) {
		d.target.lines = append(d.target.lines, chosen(d, "X", "X:", ": x", " folded", "\tfolded", "X: \x00",
			"X\x00: y", "X Y: z", "X: ä", "X: \xff", "Content-Length: 3", "Content-Length: 0",
			"Content-Length: 999999", "Content-Encoding: gzip", "Content-Range: bytes 0-1/2", "Content-ID: <a>",
			"Content-Location: x.png", "Content-Description: file", "Content-Type", "\x0b", "--",
			"Content-Transfer-Encoding: binary"))
	}},
	{"a part's type", is("multipart"), onFrame, func(d *draft) {
		d.target.typ = chosen(d, "application/octet-stream", "image/png", "video/mp4", "application/pdf",
			"application/zip", "text/plain", "text/html", "application/json", "application/xml",
			"application/x-www-form-urlencoded", "multipart/mixed", "multipart/mixed; boundary=D",
			"multipart/form-data; boundary=D", "message/rfc822", "application/gzip", "IMAGE/PNG",
			"image/png; charset=utf-8", "image/png, text/plain", ";", "x", " ", "text/plain; charset=utf-16",
			"text/plain; charset=utf-16le", "text/plain; charset=utf-7", "text/plain; charset=cp037",
			"text/plain; charset=klingon", "text/plain; charset=base64", "text/plain; charset=iso-2022-jp",
			"text/plain; charset=\"", "application/octet-stream; charset=utf-16", "application/json; charset=utf-16",
			"audio/mpeg", "font/woff2", "application/x-protobuf", "application/grpc")
	}},
	{"a part in a charset", is("multipart"), onFrame, func(d *draft) {
		p := d.target
		p.typ = "text/plain; charset=" + chosen(d, "utf-16le", "utf-16be", "utf-16", "UTF-16", "iso-8859-1", "utf-32",
			"cp037", "utf-7", "windows-1252", "shift_jis", "_charset_")
		if strings.Contains(strings.ToLower(p.typ), "utf-16") {
			p.value = []byte(wide(string(p.value), strings.HasSuffix(p.typ, "be"), d.IntN(2) == 0))
		}
		if strings.Contains(p.typ, "_charset_") {
			p.typ = ""
			d.parts = append([]*part{{name: "_charset_", value: []byte(chosen(d, "utf-16le", "cp037", "utf-7",
				"iso-8859-1"))}}, d.parts...)
		}
		if strings.Contains(p.typ, "cp037") {
			p.value = ebcdic(p.value)
		}
	}},
	{"nested parts", is("multipart"), onFrame, func(d *draft) {
		inner := *d.target
		if d.IntN(2) == 0 {
			inner.disposition = chosen(d, `attachment; filename="x.txt"`, `file; filename="x.txt"`, "none",
				`form-data; name="inner"`, `form-data; name="inner"; filename="x.png"`)
		}
		d.target.value = []byte(d.multipart("inner", []*part{&inner}))
		d.target.typ = chosen(d, "multipart/mixed; boundary=inner", "multipart/mixed; boundary=D",
			"multipart/form-data; boundary=inner", "multipart/related; boundary=inner", "multipart/mixed",
			"MULTIPART/MIXED; boundary=inner")
	}},
	{"transfer encoding", is("multipart"), onFrame, func(d *draft) {
		p := d.target
		enc := chosen(d, "7bit", "8bit", "binary", "base64", "quoted-printable", "BASE64", "x-unknown", "x-uuencode",
			"quoted-printable; x", "base64, binary", "", "Base64 ")
		p.lines = append(p.lines, "Content-Transfer-Encoding: "+enc)
		if d.IntN(2) == 0 {
			return
		}
		switch strings.ToLower(enc[:min(6, len(enc))]) {
		case "base64":
			p.value = []byte(base64.StdEncoding.EncodeToString(p.value))
			d.note("encoded")
		case "quoted":
			p.value = []byte(strings.ReplaceAll(each(string(p.value), "=%02X"), "=0A", "=0A"))
			d.note("encoded")
		}
	}},

	// Forms.
	{"separator", is("form"), onFrame, func(d *draft) {
		d.separator = chosen(d, ";", "&&", "&amp;", "\n", "\r\n", ",", "&\x00", "& ", "&=&", "?", "|")
	}},
	{"escapes", is("form"), onFrame, func(d *draft) {
		how := chosen(d, "all", "ALL", "none", "some", "%20", "twice", "%u", "broken", "plus in the name",
			"none but blanks")
		d.escape = func(d *draft, value []byte) string {
			s := string(value)
			switch how {
			case "all":
				return each(s, "%%%02x")
			case "ALL":
				return each(s, "%%%02X")
			case "none":
				return s
			case "some":
				return strings.NewReplacer(" ", "+", "i", "%69", "o", "%6F").Replace(s)
			case "%20":
				return strings.ReplaceAll(s, " ", "%20")
			case "twice":
				return each(s, "%%25%02x")
			case "%u":
				return each(s, "%%u%04x")
			case "broken":
				return "%" + strings.ReplaceAll(s, " ", "+") + "%zz%"
			}
			return strings.ReplaceAll(s, " ", "+")
		}
	}},
	{"an end of the form", is("form"), onBody, func(d *draft) {
		d.body = append(d.body, chosen(d, "&", "=", "&=", "\x00", "\r\n", "%", "&x", ";", "&a[", "#x")...)
	}},
	{"a beginning of the form", is("form"), onBody, func(d *draft) {
		d.body = append([]byte(chosen(d, "&", "=&", "\ufeff", "?", " ", "\r\n", "\x00", "{}&", "x&", "[&",
			"{\"a\":1}&", "\"&", "<a>&", "--&", "\xff\xfe&", "%00&", "\x1f\x8b\x08&", "PK\x03\x04&", "%PDF-1.4&",
			"\x89PNG&")), d.body...)
	}},
	{"a charset of the form", is("form", "text", "json", "xml"), onFrame, func(d *draft) {
		d.params += "; charset=" + chosen(d, "utf-16", "utf-16le", "utf-16be", "iso-8859-1", "cp037", "utf-7",
			"klingon", `"utf-8"`, "utf8", "UTF-8", "x", "", "windows-1252", "shift_jis", "utf-32", "gbk", "koi8-r",
			"iso-2022-kr", "hz-gb-2312", "unicode_escape", "base64", "rot13", "ascii", "binary")
	}},

	// JSON.
	{"JSON in escapes", is("json"), onFrame, func(d *draft) {
		d.escape = func(_ *draft, value []byte) string { return each(string(value), `\u%04x`) }
	}},
	{"control bytes as they are", is("json"), onFrame, func(d *draft) {
		d.value(string(d.target0()) + chosen(d, "\n", "\t", "\x00", "\x01", "\r\n", "\x1f", "\x7f"))
		d.escape = func(_ *draft, value []byte) string {
			return strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(string(value))
		}
	}},
	{"around the JSON", is("json"), onFrame, func(d *draft) {
		t := chosen(d, "[J]", `{"a":J}`, " \n\tJ", "J ", "J\n", "J J", "J,", "J]", "J\x00", "\x00J", "/* x */ J",
			"// x\nJ", "\x1eJ\n", ")]}',\nJ", `{"a":[[[[J]]]]}`, `{"a":NaN,"b":J}`, `{"a":1e999,"b":J}`,
			"{\"a\":\"\xff\xfe\x80\",\"b\":J}", "{\"a\":\"\x01\x02\x03\",\"b\":J}",
			"{\"a\":\"\x7f\x7f\x7f\",\"b\":J}", `{"a":"\ud800","b":J}`, `{"a":`+strings.Repeat("9", 400)+`,"b":J}`,
			`S`, "null\nJ", `{"a":"`+strings.Repeat(`\u0000`, 50)+`","b":J}`,
			"{\"a\":\""+strings.Repeat("\x00", 50)+"\",\"b\":J}", "{\"a\":\""+strings.Repeat("\xfe",
				80)+"\",\"b\":J}", "J=", "a=J", "a=b&c=J")
		d.wrap = func(body string) string {
			quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(body)
			return strings.NewReplacer("J", body, "S", `"`+quoted+`"`).Replace(t)
		}
	}},

	// XML.
	{"XML", is("xml"), onFrame, func(d *draft) {
		half := len(d.sentence) / 2
		a, b := d.sentence[:half], d.sentence[half:]
		t := chosen(d, "<![CDATA[S]]>", "A<!-- x -->Y", "A<![CDATA[Y]]>", "&s;", "A&b;", "&a;&b;", "A&#x2009;Y",
			"<x t='S'/>", "A<i/>Y", "&c;", "R")
		d.preamble = fmt.Sprintf(`<!DOCTYPE c [<!ENTITY s "%s"><!ENTITY a "%s"><!ENTITY b "%s"><!ENTITY c "&a;&b;">]>`, d.sentence, a, b)
		d.escape = func(d *draft, value []byte) string {
			if string(value) != d.sentence {
				return xmlEscape(d, value)
			}
			return strings.NewReplacer("S", d.sentence, "A", a, "Y", b, "R", each(d.sentence, "&#%d;")).Replace(t)
		}
	}},

	// The body as a whole.
	{"wide", nil, onBody, func(d *draft) {
		switch chosen(d, "utf-16le", "utf-16be", "utf-16le with a mark", "utf-16be with a mark", "utf-32le",
			"utf-32be") {
		case "utf-16le":
			d.body = []byte(wide(string(d.body), false, false))
		case "utf-16be":
			d.body = []byte(wide(string(d.body), true, false))
		case "utf-16le with a mark":
			d.body = []byte(wide(string(d.body), false, true))
		case "utf-16be with a mark":
			d.body = []byte(wide(string(d.body), true, true))
		case "utf-32le":
			d.body = []byte(each(string(d.body), "%c\x00\x00\x00"))
		case "utf-32be":
			d.body = []byte(each(string(d.body), "\x00\x00\x00%c"))
		}
	}},
	{"bytes before the body", nil, onBody, func(d *draft) { d.body = append([]byte(d.odd()), d.body...) }},
	{"bytes behind the body", nil, onBody, func(d *draft) { d.body = append(d.body, d.odd()...) }},
	{"packed", nil, onBody, func(d *draft) {
		e := chosen(d, "gzip", "deflate", "raw", "gzip twice", "gzip and bytes", "not said", "x-gzip", "GZIP",
			"gzip in two", "as identity")
		raw := d.body
		switch e {
		case "deflate":
			d.body = zlibbed(raw)
		case "raw":
			d.body, e = deflated(raw), "deflate"
		case "gzip twice":
			d.body, e = gzipped(gzipped(raw, ""), ""), "gzip, gzip"
		case "gzip and bytes":
			d.body, e = append(gzipped(raw, ""), "&x=y"...), "gzip"
		case "gzip in two":
			d.body, e = append(gzipped(raw[:len(raw)/2], ""), gzipped(raw[len(raw)/2:], "")...), "gzip"
		case "not said":
			d.body = gzipped(raw, "")
			return
		case "as identity":
			d.body, e = gzipped(raw, ""), "identity"
		default:
			d.body = gzipped(raw, "")
		}
		d.header = append(d.header, "Content-Encoding: "+e)
	}},
	{"an encoding that is none", nil, onHeader, func(d *draft) {
		for _, line := range strings.Split(chosen(d, "identity", "IDENTITY", "none", "gzip", "deflate", "br", "zstd",
			"", "gzip, identity", "identity, identity", "x", "utf-8", "compress", "gzip\nidentity", "identity\nx",
			"*", "gzip;q=1", "chunked", "aes128gcm", "7bit"), "\n") {
			d.header = append(d.header, "Content-Encoding: "+line)
		}
	}},
	{"a gzip file that is the body, too", is("form", "text", "json", "multipart"), onBody, func(d *draft) {
		raw := string(d.body)
		switch how := chosen(d, "comment", "name", "extra", "stored", "behind"); how {
		case "comment":
			d.body = gzipped([]byte("a=b"), "&"+raw+"&")
		case "name":
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			w.Name = strings.ReplaceAll("&"+raw+"&", "\x00", "")
			_, _ = io.WriteString(w, "a=b")
			_ = w.Close()
			d.body = b.Bytes()
		case "extra":
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			w.Extra = []byte("&" + raw + "&")
			_, _ = io.WriteString(w, "a=b")
			_ = w.Close()
			d.body = b.Bytes()
		case "stored":
			var b bytes.Buffer
			w, _ := gzip.NewWriterLevel(&b, gzip.NoCompression)
			_, _ = io.WriteString(w, "\r\n&"+raw+"&\r\n")
			_ = w.Close()
			d.body = b.Bytes()
		case "behind":
			d.body = append(gzipped([]byte("a=b"), ""), "\r\n&"+raw...)
		}
		if d.IntN(2) == 0 {
			d.note("said")
			d.header = append(d.header, "Content-Encoding: gzip")
		}
	}},

	// The header.
	{"another type", nil, onHeader, func(d *draft) { d.retype(chosen(d, otherTypes...)) }},
	{"no type", nil, onHeader, func(d *draft) { d.retype("") }},
	{"how the type is written", nil, onHeader, func(d *draft) {
		how := chosen(d, "upper", "blank before ;", "tab", "no blank", "two ;", "comma", "quoted", "trailing ;",
			"trailing ,", "trailing text", "leading ;", "leading blank", "a second slash", "other case of the name",
			"comment")
		d.eachType(func(value string) string {
			media, params, _ := strings.Cut(value, ";")
			if params != "" {
				params = ";" + params
			}
			switch how {
			case "upper":
				return strings.ToUpper(media) + params
			case "blank before ;":
				return media + " " + params
			case "tab":
				return media + "\t" + strings.ReplaceAll(params, " ", "\t")
			case "no blank":
				return media + strings.ReplaceAll(params, " ", "")
			case "two ;":
				return media + ";" + params
			case "comma":
				return media + strings.Replace(params, ";", ",", 1)
			case "quoted":
				return `"` + media + `"` + params
			case "trailing ;":
				return value + ";"
			case "trailing ,":
				return value + ","
			case "trailing text":
				return value + " x"
			case "leading ;":
				return ";" + value
			case "leading blank":
				return "  " + value
			case "a second slash":
				return media + "/x" + params
			case "comment":
				return media + " (x)" + params
			}
			return value
		})
	}},
	{"a parameter of the type", nil, onHeader, func(d *draft) {
		p := chosen(d, "charset=utf-8", "x=y", "charset", "boundary=D", "boundary=", "charset=utf-16", `x="`, `x="y`,
			`x="a;b"`, "q=0.5", "name=x.png", "charset=utf-8; charset=utf-16", "type=text", "version=1", "=",
			"charset==", "x=\x01", "charset='utf-8'", "profile=a/b")
		if d.IntN(2) == 0 {
			d.eachType(func(v string) string { return v + "; " + p })
			return
		}
		d.note("first")
		d.eachType(func(v string) string {
			media, params, more := strings.Cut(v, ";")
			if more {
				return media + "; " + p + ";" + params
			}
			return media + "; " + p
		})
	}},
	{"two types", nil, onHeader, func(d *draft) {
		other := "Content-Type: " + chosen(d, otherTypes...)
		d.lift()
		how := chosen(d, "before", "behind", "comma before", "comma behind")
		switch how {
		case "before":
			d.header = append([]string{other}, d.header...)
		case "behind":
			d.header = append(d.header, other)
		default:
			value := strings.TrimPrefix(other, "Content-Type: ")
			d.eachType(func(v string) string {
				if how == "comma before" {
					return value + ", " + v
				}
				return v + ", " + value
			})
		}
	}},
	{"method", nil, onHeader, func(d *draft) {
		d.method = chosen(d, "PUT", "PATCH", "DELETE", "GET", "post", "Post")
	}},
	{"a header", nil, onHeader, func(d *draft) {
		d.header = append(d.header, chosen(d, "Content-Transfer-Encoding: base64",
			"Content-Disposition: attachment; filename=x.png", "X-Requested-With: XMLHttpRequest",
			"Content-Range: bytes 0-9/10", "X-HTTP-Method-Override: GET", "Content-Language: de",
			"Content_Type: image/png", "Content-Type : image/png", "X-Content-Type: image/png", "Range: bytes=0-",
			"Content-Location: x.png", "Sec-Fetch-Dest: image", "Accept-Encoding: identity", "Upload-Offset: 0",
			"Tus-Resumable: 1.0.0", "Connection: x-moderation-status, x-moderation-recommendation",
			"Connection: close, X-Moderation-Status", "X-Moderation-Status: judged", "x_moderation_status: nothing"))
	}},

	// Single bytes.
	{"bytes of the body", nil, onBytes, func(d *draft) {
		for range 1 + d.IntN(3) {
			d.body = d.mutate(d.body, "")
		}
	}},
	{"bytes of the type", nil, onBytes, func(d *draft) {
		d.eachType(func(v string) string { return string(d.mutate([]byte(v), "\r\n")) })
	}},
}

var otherTypes = []string{"image/png", "application/octet-stream", "text/plain", "text/html", "application/json",
	"application/x-www-form-urlencoded", "multipart/form-data", "multipart/form-data; boundary=D",
	"multipart/mixed; boundary=D",
	"application/xml", "application/vnd.api+json", "application/ld+json", "application/csp-report",
	"application/x-json", "text/json", "application/problem+json", "application/x-ndjson",
	"application/merge-patch+json", "video/mp4", "application/zip", "application/pdf", "application/gzip",
	"x", "*/*", "text", "", ";", "application/grpc", "application/x-protobuf", "application/msgpack", "text/csv",
	"application/graphql", "application/javascript", "text/xml", "image/svg+xml", "font/woff", "audio/mpeg",
	"application/offset+octet-stream", "image/png; charset=utf-8", "message/http", "application/wasm",
	"application/cbor"}

func (d *draft) target0() []byte {
	if d.target == nil {
		return d.body
	}
	return d.target.value
}

func (d *draft) value(v string) {
	if d.target != nil {
		d.target.value = []byte(v)
	}
}

// odd returns a run of bytes that texts hardly have, or that a file begins with.
func (d *draft) odd() string {
	s := chosen(d, "\x00", "\x00\x00", "\x01\x02\x03", "\x07", "\x1b[0m", "\x7f", "\x80", "\xff", "\xff\xfe",
		"\xfe\xff", "\xef\xbb\xbf", "\xff\xfe\x00\x00", "\x00\x00\xfe\xff", "\x89PNG\r\n\x1a\n", "GIF89a",
		"\xff\xd8\xff\xe0", "%PDF-1.4\n", "PK\x03\x04", "\x1f\x8b\x08\x00", "BM", "RIFF\x00\x00\x00\x00WEBP", "ID3",
		"\x7fELF", "OggS", "\x00a", "a\x00", "\x00 a\x00", "+/v8-", "\x0e", "\xc3", "\xed\xa0\x80",
		"\xf4\x90\x80\x80", "\u200b", "\u202e", "\U000e0041", "\x1a", "\x04", "\r", "\x0c", "\xc0\x80",
		"\x2b\x2f\x76\x38", "Rar!\x1a\x07", "\x00\x00\x00\x18ftypmp42", "wOFF", "\xca\xfe\xba\xbe", "%!PS", "{\\rtf1",
		"{", "[", "<", "<?xml", "--xyz", "\"", "=", "noise")
	if s == "noise" {
		return string(d.noise(1 + d.IntN(200)))
	}
	n := pick(d, 1, 1, 1, 2, 10, 80)
	if n > 1 {
		d.note("x%d", n)
	}
	return strings.Repeat(s, n)
}

func (d *draft) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(d.IntN(256))
	}
	return b
}

// hide puts the form into a file, or around one, of a form with the other boundary.
func (d *draft) hide() {
	switch how := chosen(d, "in a file", "in a file of noise", "in a field's header", "before", "behind",
		"interleaved"); how {
	case "in a file":
		d.preamble = "--" + decoy + "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.png\"\r\nContent-Type: image/png\r\n\r\n"
		d.epilogue = "\r\n--" + decoy + "--\r\n"
	case "in a file of noise":
		d.preamble = "--" + decoy + "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.png\"\r\nContent-Type: image/png\r\n\r\n" + string(d.noise(2000)) + "\r\n"
		d.epilogue = "\r\n--" + decoy + "--\r\n"
	case "in a field's header":
		d.preamble = "--" + decoy + "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.png\"\r\nX: "
		d.epilogue = "\r\n\r\n\r\n--" + decoy + "--\r\n"
	case "before":
		d.epilogue = "--" + decoy + "\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nHello\r\n--" + decoy + "--\r\n"
	case "behind":
		d.preamble = "--" + decoy + "\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nHello\r\n--" + decoy + "--\r\n"
	case "interleaved":
		d.parts = append([]*part{{name: "d",
			value: []byte("\r\n--" + decoy + "\r\nContent-Disposition: form-data; name=\"g\"; filename=\"y.png\"\r\nContent-Type: image/png\r\n\r\n")}}, d.parts...)
	}
}

// boundaryParams writes the boundary as somebody might who wants two parsers to disagree.
func (d *draft) boundaryParams() {
	t := chosen(d,
		`; boundary="B"`, `; BOUNDARY=B`, `; Boundary="B"`, `; boundary = B`, `; boundary =B`, `; boundary= B`,
		`;boundary=B`, `; boundary=B;`, `; boundary=B ;`, `; boundary=B; charset=utf-8`,
		`; charset=utf-8; boundary=B`,
		`; boundary*=utf-8''B`, `; boundary*=B`, `; boundary*0=B`, `; boundary*0="B"`, `; boundary*0*=utf-8''B`,
		`; boundary*1=B`, `; boundary*0=P; boundary*1=R`, `; boundary=D; boundary=B`, `; boundary=B; boundary=D`,
		`; boundary="D"; boundary=B`, `; boundary=B; boundary="D"`,
		`; boundary=D; BOUNDARY=B`, `; BOUNDARY=B; boundary=D`, `; boundary=D; boundary*=utf-8''B`,
		`; boundary*=utf-8''D; boundary=B`, `; boundary=B; boundary*=utf-8''D`, `; boundary=D; boundary*0=B`,
		`; boundary=B; boundary*0=D`, `; boundary*0=D; boundary=B`,
		`; xboundary=B`, `; xboundary=D; boundary=B`, `; x-boundary=D; boundary=B`, `; xboundary=B; boundary=D`,
		`; boundary=B; xboundary=D`, `; x="boundary=D"; boundary=B`, `; x="; boundary=D"; boundary=B`,
		`; x="; boundary=B"; boundary=D`, `; x="boundary=B"; boundary=D`,
		`; x="; boundary=D; boundary=B`, `; x="; boundary=B; y="; boundary=D`, `; x=boundary=D; boundary=B`,
		`; x=boundary=B; boundary=D`, `; charset="; boundary=B; x="`, `; name="a\"; boundary=D; b="; boundary=B`,
		`; x='; boundary=D; y='; boundary=B`, `; x='; boundary=B; y='; boundary=D`,
		`; boundary="B`, `; boundary=B"`, `; boundary='B'`, `; boundary=B,D`, `; boundary=D,B`, `; boundary=B, D`,
		`; boundary="B",D`, `; boundary=B D`, `; boundary=D B`, `; boundary=B\`, `; boundary="B\"`,
		`; boundary="B" x`, `; boundary="B"D`, `; boundary="\B"`, `; boundary="B;D"`, `; boundary=B;D`,
		`; boundary=B=`, `; boundary==B`, `; boundary="B "`, `; boundary=" B"`, `; boundary=--B`, `; boundary=B--`,
		` boundary=B`, `, boundary=B`, ` ; ; boundary=B`, `;; boundary=B`, `; boundary`, ``, `; boundary=`,
		`; boundary=""`, `; boundary=; boundary=B`, `; boundary=""; boundary=B`, `; boundary; boundary=B`,
		`; boundary=B; boundary`, `; boundary=B; boundary=`,
		`; bound=D; boundary=B`, `; boundary:B`, `; boundary%3dB`, `; boundary=%42`, `; boundary=B%20`,
		`; boundary=B(x)`, `; boundary=(x)B`, `; boundary=B/*`, "; boundary=B\t", "; boundary=\tB",
		"; boundary=B\x01", "; boundary=B\x7f", "; boundary=B\xa0", "; boundary=\xa0B", "; \xa0boundary=B",
		"; boundary=B\x0b", "; x=y boundary=B", `; boundary=D, multipart/form-data; boundary=B`,
		`; boundary=B, multipart/form-data; boundary=D`, `; boundary=B, image/png`,
		`; boundary="B"; boundary="D"`, `; boundary=U`, `; boundary=b`, "; boundary=B\u200b", `; boundary="B\\"`,
		`; boundary="D\"; boundary=B; x="`, `; boundary="D\"; boundary="B`, `; boundary=D"; boundary=B`,
		`; boundary="D;boundary=B"`, `; boundary="B;boundary=D"`, `; boundary=D;boundary="B;"`,
	)
	b := d.boundary
	half := len(b) / 2
	d.params = strings.NewReplacer("B", b, "D", decoy, "P", b[:half], "R", b[half:], "U", strings.ToUpper(b), "=b",
		"="+strings.ToLower(b)).Replace(strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(t, "BOUNDARY",
		"\x10"), "Boundary", "\x11"), "boundary", "\x12"))
	d.params = strings.NewReplacer("\x10", "BOUNDARY", "\x11", "Boundary", "\x12", "boundary").Replace(d.params)
}

// lift writes the type as a line of the header, where it can be changed.
func (d *draft) lift() {
	if d.types != nil || d.media == "" {
		return
	}
	d.header = append([]string{"Content-Type: " + d.media + d.params}, d.header...)
	d.types = []string{}
}

// eachType changes the lines with the type.
func (d *draft) eachType(do func(string) string) {
	d.lift()
	for i, line := range d.header {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Content-Type") {
			d.header[i] = name + ": " + do(strings.TrimSpace(value))
		}
	}
}

// retype replaces the type. "" removes it.
func (d *draft) retype(value string) {
	d.lift()
	d.header = slices.DeleteFunc(d.header, func(line string) bool {
		return strings.HasPrefix(strings.ToLower(line),
			"content-type:")
	})
	if value != "" {
		d.header = append([]string{"Content-Type: " + value}, d.header...)
	}
}

// special are the characters that parsers look for.
const special = ";,=\"'\\ \t*%:/()<>@?[]{}&+-_\x00\x01\x7f\x80\xff\x0b\x0c\r\n#.|~!$^`0aZ"

// mutate changes some bytes, but never to those of not.
func (d *draft) mutate(b []byte, not string) []byte {
	b = bytes.Clone(b)
	at := d.IntN(len(b) + 1)
	if i := bytes.Index(b, []byte(d.sentence)); i >= 0 && d.IntN(2) == 0 {
		// Changes next to the sentence matter more.
		at = min(max(0, i+d.IntN(len(d.sentence)+60)-40), len(b))
		if at > i && at < i+len(d.sentence) {
			at = i
		}
	}
	random := func() byte {
		for {
			c := special[d.IntN(len(special))]
			if d.IntN(4) == 0 {
				c = byte(d.IntN(256))
			}
			if strings.IndexByte(not, c) < 0 {
				return c
			}
		}
	}
	n := min(1+d.IntN(8), len(b)-at)
	switch d.IntN(5) {
	case 0:
		if at < len(b) {
			b[at] = random()
		}
	case 1:
		b = slices.Insert(b, at, random())
	case 2:
		b = slices.Delete(b, at, at+n)
	case 3:
		b = slices.Insert(b, at, b[at:at+n]...)
	case 4:
		from := d.IntN(len(b) + 1)
		b = slices.Insert(b, at, bytes.Clone(b[from:min(len(b), from+1+d.IntN(60))])...)
	}
	return b
}

// each formats every byte of a text.
func each(text, format string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, format, text[i])
	}
	return b.String()
}

// wide returns a text in UTF-16.
func wide(text string, big, mark bool) string {
	var order binary.AppendByteOrder = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	if mark {
		text = "\ufeff" + text
	}
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// ebcdic returns an ASCII text in code page 37, as far as the sentences need it.
func ebcdic(text []byte) []byte {
	var table [256]byte
	for i := range table {
		table[i] = 0x6f
	}
	for _, run := range []struct {
		from byte
		to   byte
		n    int
	}{{'a', 0x81, 9}, {'j', 0x91, 9}, {'s', 0xa2, 8}, {'A', 0xc1, 9}, {'J', 0xd1, 9}, {'S', 0xe2, 8}, {'0', 0xf0, 10},
		{' ', 0x40, 1}, {'.', 0x4b, 1}, {',', 0x6b, 1}} {
		for i := range run.n {
			table[int(run.from)+i] = run.to + byte(i)
		}
	}
	out := make([]byte, len(text))
	for i, c := range text {
		out[i] = table[c]
	}
	return out
}

func gzipped(b []byte, comment string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Comment = strings.Map(func(r rune) rune {
		if r == 0 || r > 0xff {
			return -1
		}
		return r
	}, comment)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zlibbed(b []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func deflated(b []byte) []byte {
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.BestCompression)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}
