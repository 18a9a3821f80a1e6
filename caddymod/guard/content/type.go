// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"
)

// Kind is how a body is parsed.
type Kind uint8

// The kinds of bodies.
const (
	// Binary is a body without text that matters: images, archives, gRPC.
	Binary Kind = iota
	// JSON is one or more JSON values in UTF-8, UTF-16 or UTF-32.
	JSON
	// Form is application/x-www-form-urlencoded.
	Form
	// Multipart is multipart/form-data or any other multipart type. This package only extracts from its parts, see
	// [Selection.ExtractPart].
	Multipart
	// Text is plain text.
	Text
	// Markup is HTML, XML and SVG.
	Markup
	// Mixed is a body of no known type that does not look like text, which proves little: whatever in it may be text
	// is extracted.
	Mixed
)

// Type is what a Content-Type header says.
type Type struct {
	// Kind is how the body is to be parsed. It is Binary if no type is declared or the type is not known, see
	// [Sniff].
	Kind Kind
	// Opaque says that the type is declared unambiguously and is known to hold no text. From every other Binary body,
	// whatever may be text is extracted, see [Mixed].
	Opaque bool
	// Charset is the charset parameter in lower case, "" if there is none.
	Charset string
	// Boundary is the boundary parameter of a multipart type.
	Boundary string
	// BadBoundary says that some parser takes the type for multipart, and that it has no boundary which every parser
	// reads the same way.
	BadBoundary bool
	// Ambiguous says that several values differ, or that a value does not parse, so that an app may see another type.
	Ambiguous bool
	// UnknownCharset says that the charset is not known. The body is then read as UTF-8, which an app may not do.
	UnknownCharset bool
	// grpc and pdf say that a body which begins like one of these is binary, even if it looks like text.
	grpc, pdf bool
	// undeclared says that no known type is declared.
	undeclared bool
}

// charsets returns the declared charsets.
func (t *Type) charsets() []string {
	if t.Charset == "" {
		return nil
	}
	return []string{t.Charset}
}

// TypeOf returns what the values of a Content-Type header declare. Without values it returns a type that declares
// nothing.
func TypeOf(values []string) Type {
	if len(values) == 0 {
		return Type{undeclared: true}
	}
	if len(values) == 1 {
		// The types of most requests.
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
			t = broader(t, typeOf(value))
			t.Ambiguous, t.Opaque = true, false
		}
	}
	if mentionsMultipart(values) {
		// Lenient parsers take the type for multipart wherever the word appears, and differ in which boundary they
		// find.
		t.Kind = Multipart
		var plain bool
		t.Boundary, plain = plainBoundary(values)
		// All parsers agree on a plain boundary, even where Go's parser rejects it for lack of quotes.
		t.BadBoundary, t.Ambiguous = !plain, !plain
	}
	return t
}

// broader returns the type that yields more texts.
func broader(a, b Type) Type {
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
		// Frameworks cut the value at the first semicolon or comma and ignore the rest.
		media, _, _ = strings.Cut(value, ";")
		media, _, _ = strings.Cut(media, ",")
		media = strings.ToLower(strings.TrimSpace(media))
		if params == nil {
			params = lenientParams(value)
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

// lenientParams returns the parameters of a value that does not parse.
func lenientParams(value string) map[string]string {
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

// kindOf returns how a media type, in lower case, is parsed.
func kindOf(media string) Kind {
	switch media {
	case "application/x-www-form-urlencoded":
		return Form
	case "application/json", "text/json", "text/x-json", "application/x-json", "application/ndjson",
		"application/x-ndjson",
		"application/jsonl", "application/x-jsonlines", "application/jsonlines", "application/json-seq",
		"application/csp-report",
		"application/json5", "application/x-json-stream", "application/stream+json", "application/json-patch",
		"text/x-json5":
		return JSON
	case "text/html", "application/xml", "text/xml", "text/vnd.wap.wml", "application/xhtml", "text/xsl":
		return Markup
	case "application/javascript", "application/x-javascript", "application/ecmascript", "application/yaml",
		"application/x-yaml",
		"application/toml", "application/graphql", "application/sql", "application/x-sh", "application/rtf",
		"message/rfc822":
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

// isOpaque reports whether a media type is known to hold no text: images, audio, video, fonts, archives, office
// documents, executables and RPC messages.
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
	for _, prefix := range []string{"grpc", "vnd.openxmlformats-officedocument.", "vnd.oasis.opendocument.",
		"vnd.ms-", "font-", "x-font-"} {
		if strings.HasPrefix(sub, prefix) {
			return true
		}
	}
	switch sub {
	case "octet-stream", "offset+octet-stream", "pdf", "wasm", "msword", "java-archive", "epub+zip", "vnd.rar",
		"x-msdownload",
		"zip", "gzip", "zstd", "zlib", "x-gzip", "x-zip-compressed", "x-tar", "x-bzip", "x-bzip2", "x-7z-compressed",
		"x-rar-compressed", "x-xz",
		"protobuf", "x-protobuf", "vnd.google.protobuf", "vnd.android.package-archive", "x-iso9660-image",
		"x-apple-diskimage",
		"x-sqlite3", "vnd.sqlite3", "x-parquet", "vnd.apache.parquet", "vnd.apache.arrow.file",
		"vnd.apache.arrow.stream", "ogg", "dicom":
		return true
	}
	return false
}

// sniffSize is how much of a body [Sniff] looks at, in bytes.
const sniffSize = 1024

// Sniff returns what a body looks like if its type is not known or is binary: JSON, Form, Markup or Text if it begins
// like text, whatever its declared type, and Binary otherwise. White space is text. It looks at the first kilobyte of
// the prefix. A body of a known type that is not binary is what it is declared to be. gRPC messages and PDF files,
// which may look like text, are Binary.
func Sniff(prefix []byte, declared Type) Kind {
	if declared.Kind != Binary {
		return declared.Kind
	}
	if declared.grpc && len(prefix) > 1 && prefix[0] <= 1 && prefix[1] == 0 ||
		declared.pdf && bytes.HasPrefix(prefix, []byte("%PDF-")) {
		return Binary
	}
	if len(prefix) > sniffSize {
		prefix = prefix[:sniffSize]
		// The last character may be cut.
		for i := 0; i < utf8.UTFMax-1 && len(prefix) > 0 && !endsWhole(prefix); i++ {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return sniffText(prefix)
}

// endsWhole reports whether b ends with a whole character.
func endsWhole(b []byte) bool {
	r, size := utf8.DecodeLastRune(b)
	return r != utf8.RuneError || size != 1
}

// sniffText returns what b looks like.
func sniffText(b []byte) Kind {
	if wide16, _ := looksWide(b); wide16 && !isMostlyText(b) {
		var found readings
		decodings(&found, nil, b)
		for _, reading := range found.all() {
			if isPrintable(reading) {
				if kind := sniffText(reading); kind != Binary {
					return kind
				}
			}
		}
		return Binary
	}
	b = bytes.TrimPrefix(b, []byte(utf8BOM))
	if len(b) == 0 || !isMostlyText(b) {
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

// isMostlyText reports whether bytes are mostly text. An eighth of them may be something else, so that a few bytes in
// front of a text do not hide it. Of images, archives and compressed data, more than a third is something else.
func isMostlyText(b []byte) bool {
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

// looksForm reports whether b looks like the pairs of a form: name=value, with nothing in the name that an encoder
// would escape.
func looksForm(b []byte) bool {
	name, value, ok := bytes.Cut(b, []byte("="))
	if !ok || len(name) == 0 || len(name) > 128 {
		return false
	}
	for _, c := range name {
		if c <= ' ' || c >= utf8.RuneSelf || c == '<' || c == '"' || c == '{' || c == '(' || c == ':' || c == ';' ||
			c == ',' {
			return false
		}
	}
	first, _, _ := bytes.Cut(value, []byte("&"))
	return !bytes.ContainsAny(first, " \n\r")
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
