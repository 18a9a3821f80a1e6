// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"
)

// Kind is what a body is read as.
type Kind uint8

// The kinds.
const (
	// Binary is what is not judged: images, archives, gRPC.
	Binary Kind = iota
	// JSON is one or more JSON values, in UTF-8, UTF-16 or UTF-32.
	JSON
	// Form is application/x-www-form-urlencoded.
	Form
	// Multipart is multipart/form-data and every other multipart type. It is not read here but for its parts, see
	// [Selection.Part].
	Multipart
	// Text is plain text.
	Text
	// Markup is HTML, XML and SVG.
	Markup
	// Mixed is what has no type that is known, and does not look like text, which says little: whatever in it may be text is
	// read.
	Mixed
)

// Type is what a Content-Type header says.
type Type struct {
	// Kind is what the body is read as. It is Binary where there is no type or one that is not known, see [Sniff].
	Kind Kind
	// Opaque says that the type is declared without doubt, and is one of those that are known to be no text. Of all others
	// that are Binary whatever may be text is read, see [Mixed].
	Opaque bool
	// Charset is the charset parameter in lower case, "" where there is none.
	Charset string
	// Boundary is the boundary parameter of a multipart type.
	Boundary string
	// BadBoundary says that the type is multipart, for some parser at least, and that it has no boundary which every parser
	// reads the same.
	BadBoundary bool
	// Ambiguous says that several values differ, or that one does not parse, so that an app may understand another type.
	Ambiguous bool
	// UnknownCharset says that the charset is not known. The body is read as UTF-8 then, which may not be what an app reads.
	UnknownCharset bool
	// grpc and pdf say that the body is such if it begins so, and no text whatever it looks like.
	grpc, pdf bool
	// undeclared says that no type is known that the body is declared to have.
	undeclared bool
}

// charsets returns what charsets are declared.
func (t *Type) charsets() []string {
	if t.Charset == "" {
		return nil
	}
	return []string{t.Charset}
}

// TypeOf returns what the values of a Content-Type header say. Without any value it is the zero Type.
func TypeOf(values []string) Type {
	if len(values) == 0 {
		return Type{undeclared: true}
	}
	if len(values) == 1 {
		// What most requests say.
		switch values[0] {
		case "application/json":
			return Type{Kind: JSON}
		case "application/x-www-form-urlencoded":
			return Type{Kind: Form}
		}
	}
	t := typeOf(values[0])
	for _, value := range values[1:] {
		if value != values[0] {
			t = stronger(t, typeOf(value))
			t.Ambiguous, t.Opaque = true, false
		}
	}
	if mentionsMultipart(values) {
		// Lenient parsers take it for multipart wherever the word stands, and differ in which boundary they find.
		t.Kind = Multipart
		var plain bool
		t.Boundary, plain = plainBoundary(values)
		// With a plain one all agree, also where Go's parser minds that it has no quotes.
		t.BadBoundary, t.Ambiguous = !plain, !plain
	}
	return t
}

// stronger returns the type whose reading finds more.
func stronger(a, b Type) Type {
	if a.Kind == Binary || b.Kind == Multipart {
		return b
	}
	return a
}

func typeOf(value string) Type {
	if strings.TrimSpace(value) == "" {
		return Type{undeclared: true}
	}
	media, params, err := mime.ParseMediaType(value)
	t := Type{Ambiguous: err != nil}
	if err != nil {
		// Frameworks cut the value at the first semicolon or comma and never look at the rest.
		media, _, _ = strings.Cut(value, ";")
		media, _, _ = strings.Cut(media, ",")
		media = strings.ToLower(strings.TrimSpace(media))
		if params == nil {
			params = looseParams(value)
		}
	}
	t.Kind = kindOf(media)
	t.Charset = strings.ToLower(strings.Trim(params["charset"], " '\""))
	t.Opaque = t.Kind == Binary && !t.Ambiguous && isOpaque(media) && t.Charset == "" // no picture has a charset
	t.undeclared = t.Kind == Binary && !t.Opaque
	known, _ := lookup(t.Charset)
	t.UnknownCharset = !known
	t.grpc, t.pdf = strings.HasPrefix(media, "application/grpc"), media == "application/pdf"
	return t
}

// looseParams finds the parameters of a value that does not parse.
func looseParams(value string) map[string]string {
	params := make(map[string]string)
	for part := range strings.SplitSeq(value, ";") {
		name, text, ok := strings.Cut(part, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, has := params[name]; !ok || has {
			continue
		}
		text = strings.TrimSpace(text)
		if quoted, is := strings.CutPrefix(text, `"`); is {
			text, _, _ = strings.Cut(quoted, `"`)
		}
		params[name] = text
	}
	return params
}

// kindOf returns what a media type, in lower case, is read as.
func kindOf(media string) Kind {
	switch media {
	case "application/x-www-form-urlencoded":
		return Form
	case "application/json", "text/json", "text/x-json", "application/x-json", "application/ndjson", "application/x-ndjson",
		"application/jsonl", "application/x-jsonlines", "application/jsonlines", "application/json-seq", "application/csp-report",
		"application/json5", "application/x-json-stream", "application/stream+json", "application/json-patch", "text/x-json5":
		return JSON
	case "text/html", "application/xml", "text/xml", "text/vnd.wap.wml", "application/xhtml", "text/xsl":
		return Markup
	case "application/javascript", "application/x-javascript", "application/ecmascript", "application/yaml", "application/x-yaml",
		"application/toml", "application/graphql", "application/sql", "application/x-sh", "application/rtf", "message/rfc822":
		return Text
	}
	switch {
	case strings.HasPrefix(media, "application/grpc"):
		return Binary
	case strings.HasPrefix(media, "multipart/"):
		return Multipart
	case strings.HasSuffix(media, "+json"), strings.HasSuffix(media, "+json-seq"):
		return JSON
	case strings.HasSuffix(media, "+xml"):
		return Markup
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "+yaml"):
		return Text
	}
	return Binary
}

// isOpaque reports whether a media type is known to be no text: pictures, sound, films, fonts, archives, office documents,
// programs and messages of RPC.
func isOpaque(media string) bool {
	main, sub, _ := strings.Cut(media, "/")
	switch main {
	case "image", "audio", "video", "font", "model":
		return true
	case "application":
	default:
		return false
	}
	for _, suffix := range []string{"+zip", "+gzip", "+zstd", "+cbor", "+octet-stream", "+protobuf"} {
		if strings.HasSuffix(sub, suffix) {
			return true
		}
	}
	for _, prefix := range []string{"grpc", "vnd.openxmlformats-officedocument.", "vnd.oasis.opendocument.", "vnd.ms-", "font-", "x-font-"} {
		if strings.HasPrefix(sub, prefix) {
			return true
		}
	}
	switch sub {
	case "octet-stream", "offset+octet-stream", "pdf", "wasm", "msword", "java-archive", "epub+zip", "vnd.rar", "x-msdownload",
		"zip", "gzip", "zstd", "zlib", "x-gzip", "x-zip-compressed", "x-tar", "x-bzip", "x-bzip2", "x-7z-compressed", "x-rar-compressed", "x-xz",
		"protobuf", "x-protobuf", "vnd.google.protobuf", "vnd.android.package-archive", "x-iso9660-image", "x-apple-diskimage",
		"x-sqlite3", "vnd.sqlite3", "x-parquet", "vnd.apache.parquet", "vnd.apache.arrow.file", "vnd.apache.arrow.stream", "ogg", "dicom":
		return true
	}
	return false
}

// sniffed is how much of a body [Sniff] looks at.
const sniffed = 1024

// Sniff returns what a body looks like whose type is not known or binary: a JSON, Form, Markup or Text one where it begins
// like text, whatever type it is sent as, and Binary where it does not. White space is text. Of the prefix, which should
// have a kilobyte where the body has as much, more is not looked at. A body of a known type that is not binary is taken
// for what it is declared as, and messages of gRPC and PDF files, which may look like text, are Binary.
func Sniff(prefix []byte, declared Type) Kind {
	if declared.Kind != Binary {
		return declared.Kind
	}
	if declared.grpc && len(prefix) > 1 && prefix[0] <= 1 && prefix[1] == 0 || declared.pdf && bytes.HasPrefix(prefix, []byte("%PDF-")) {
		return Binary
	}
	if len(prefix) > sniffed {
		prefix = prefix[:sniffed]
		// A character may be cut at the end.
		for i := 0; i < utf8.UTFMax-1 && len(prefix) > 0 && !endsWhole(prefix); i++ {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return looks(prefix)
}

// endsWhole reports whether the last bytes are a whole character.
func endsWhole(b []byte) bool {
	r, size := utf8.DecodeLastRune(b)
	return r != utf8.RuneError || size != 1
}

// looks returns what bytes look like.
func looks(b []byte) Kind {
	if wide16, _ := looksWide(b); wide16 && !textual(b) {
		var found versions
		decodings(&found, nil, b)
		for _, reading := range found.all() {
			if isWritten(reading) {
				if kind := looks(reading); kind != Binary {
					return kind
				}
			}
		}
		return Binary
	}
	b = bytes.TrimPrefix(b, []byte(utf8BOM))
	if len(b) == 0 || !textual(b) {
		return Binary
	}
	trimmed := bytes.TrimLeft(b, " \t\r\n\x1e")
	if len(trimmed) == 0 {
		return Text // what follows it may be
	}
	switch c := trimmed[0]; {
	case c == '{' || c == '[' || c == '"':
		return JSON
	case c == '<' && len(trimmed) > 1 && (isLetter(trimmed[1]) || trimmed[1] == '!' || trimmed[1] == '?'):
		return Markup
	case looksForm(trimmed):
		return Form
	}
	return Text
}

// textual reports whether bytes are mostly text. An eighth of them may be something else, so that a few bytes in front of
// a text do not hide it; of pictures, archives and compressed data more than a third is.
func textual(b []byte) bool {
	odd := 0
	for i := 0; i < len(b); {
		c := b[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != '\x1b' && c != '\x1e' || c == 0x7f {
				odd++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			odd++
		}
		i += size
	}
	return odd*8 <= len(b)
}

// looksForm reports whether bytes look like the pairs of a form: name=value with nothing in the name that an encoder escapes.
func looksForm(b []byte) bool {
	name, value, ok := bytes.Cut(b, []byte("="))
	if !ok || len(name) == 0 || len(name) > 128 {
		return false
	}
	for _, c := range name {
		if c <= ' ' || c >= utf8.RuneSelf || c == '<' || c == '"' || c == '{' || c == '(' || c == ':' || c == ';' || c == ',' {
			return false
		}
	}
	first, _, _ := bytes.Cut(value, []byte("&"))
	return !bytes.ContainsAny(first, " \n\r")
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
