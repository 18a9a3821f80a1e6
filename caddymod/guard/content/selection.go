// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Selection says which texts of a body are read. The zero value reads all of them. JSON and Form narrow bodies of their own
// kind only: a body of another kind is read whole, so that sending another Content-Type is no way around.
type Selection struct {
	// JSON are the places in JSON bodies; none means all. What stands behind an error that no lenient parser
	// accepts is read whatever its place.
	JSON []Pointer
	// Form are the fields of urlencoded and multipart forms, in any case; none means all. "tag" means tag[] and
	// tag[x], too.
	Form []string
	// Text says that every body is read as one plain text, whatever its type, and that nothing of it is left out.
	Text bool
	// Credentials says that fields and members whose names stand for passwords, tokens and the like are read, too.
	Credentials bool
	// Roles are those whose texts are read of a chat, such as "user": of JSON whose messages have roles as those that language
	// models are asked with, see [roles]. None means all.
	Roles []string
	// Charset is that of the parts of a form that say none, see [Selection.Part].
	Charset string
	// Trusted says that the body comes from an app of one's own and not from somebody who has something to hide. Its type
	// is believed, and of markup only what is visible is read.
	Trusted bool
}

// Extract appends the texts of a body to dst. It never fails: what is not what its type says is read as what it looks like. A
// body of a type that is known to be no text (see [Type.Opaque]) is left out, unless it looks like one. A body in a charset
// that is not known (see [Type]) is read as if it were UTF-8. Multipart bodies are read as plain text; they are for a
// parser of their own and for [Selection.ExtractPart].
func (s *Selection) Extract(dst []Piece, t Type, body []byte) []Piece {
	if len(body) == 0 {
		return dst
	}
	kind := t.Kind
	if kind == Binary {
		if kind = Sniff(body, t); kind == Binary && !t.Opaque && !s.Trusted {
			kind = Mixed
		}
	}
	switch {
	case s.Text:
		kind = Text
	case kind == Binary:
		return dst
	case kind == Mixed:
		return s.readMixed(dst, t, body)
	case kind == Multipart:
		kind = looksOrText(body)
	case kind == Form:
		return s.readForm(dst, t, body)
	}
	charsets := t.charsets()
	if kind == Markup || isXML(view(body)) {
		// Parsers of XML differ in whether they believe the header or the document.
		if declared := declaredCharset(body); declared != "" {
			charsets = append(charsets, declared)
		}
	}
	versions := readings(charsets, body)
	dst = s.readAs(dst, kind, t, versions.list[0])
	for i, reading := range versions.all()[1:] {
		dst = again(dst, s.readAs(nil, kind, t, reading), i+1)
	}
	return dst
}

// readAs reads a body in UTF-8.
func (s *Selection) readAs(dst []Piece, kind Kind, t Type, body []byte) []Piece {
	if s.Text {
		if mayRead(view(body)) {
			dst = add(dst, Piece{Text: view(body)})
		}
		return dst
	}
	start := len(body) - len(bytes.TrimLeft(body, " \t\r\n\x1e"))
	if start == len(body) {
		return dst
	}
	first := body[start]
	if kind == JSON && !jsonStart(first) && !isLiteral(firstWord(body[start:])) {
		// Whatever reads this body, it is no JSON parser.
		kind = looksOrText(body)
		body = bytesOf(undoEscapes(view(body)))
	}
	if kind == Text && !s.Trusted && (first == '{' || first == '[' || first == '"') {
		if found, clean := s.of(t).readJSON(nil, body); clean {
			return again(dst, found, 0)
		}
		// Ordinary text may begin with a bracket.
		body = bytesOf(undoEscapes(view(body)))
	}
	switch kind {
	case JSON:
		var clean bool
		if dst, clean = s.readChat(dst, body); (!clean || t.Ambiguous || t.undeclared) && !s.Trusted && maybeForm(body) {
			dst = again(dst, s.readPairs(nil, nil, body), asPairs)
		}
		return dst
	case Form:
		return s.readForm(dst, t, body)
	case Markup:
		dst = s.readMarkup(dst, body)
		if !s.Trusted && (t.Ambiguous || t.undeclared) {
			dst = again(dst, appendText(nil, "", view(body)), asText)
			if maybeForm(body) {
				dst = again(dst, s.readPairs(nil, nil, body), asPairs)
			}
		}
		return dst
	}
	if begin := body[start:min(len(body), start+sniffed)]; !s.Trusted && kind == Text && looksForm(begin) && looks(begin) == Form {
		return s.of(t).readForm(dst, t, body)
	}
	dst = s.appendAll(dst, "", view(body))
	if !s.Trusted && maybeForm(body) {
		dst = again(dst, s.of(t).readPairs(nil, nil, body), asPairs)
	}
	return dst
}

// of is the selection for what is found in a body of a type. An app for plain text shows all of it, whatever it looks like, so that
// nothing is left out.
func (s *Selection) of(t Type) *Selection {
	if t.Kind != Text || s.Credentials || s.Trusted {
		return s
	}
	whole := *s
	whole.Credentials = true
	return &whole
}

// maybeForm reports whether there may be something in a body that only a parser of forms shows.
func maybeForm(body []byte) bool {
	return bytes.IndexByte(body, '=') >= 0 && bytes.ContainsAny(body, "%+")
}

// looksOrText returns what a body looks like that is to be read.
func looksOrText(body []byte) Kind {
	body = bytes.TrimLeft(body, " \t\r\n")
	kind := looks(body[:min(len(body), sniffed)])
	if kind == Binary {
		return Text
	}
	return kind
}

// firstWord returns the word that b begins with.
func firstWord(b []byte) []byte {
	i := 0
	for i < len(b) && isWordByte(b[i]) {
		i++
	}
	return b[:i]
}

// jsonStart reports whether a JSON text, also one of a lenient parser, may begin with c.
func jsonStart(c byte) bool {
	switch c {
	case '{', '[', '"', '\'', '/', '#', 0x1e:
		return true
	}
	return false
}

// ExtractPart appends the texts of one text part of a multipart body to dst: of its body, in the charset, the type and the
// Content-Transfer-Encoding that its header says, and of the file's name, whose place is "name.filename". For a file whose
// content is not judged body is nil. Form selects by the name of the part.
func (s *Selection) ExtractPart(dst []Piece, name, filename string, header textproto.MIMEHeader, body []byte) []Piece {
	if !s.WantsField(name) {
		return dst
	}
	sent := name
	name, filename = view(repair(bytesOf(name))), view(repair(bytesOf(filename)))
	if name != sent {
		whole := *s
		whole.Credentials = true
		s = &whole // apps may differ in what the name is
	}
	if HasLetters(filename) {
		dst = appendText(dst, place(name, ".filename"), words(filename))
	}
	if isText(name) {
		dst = appendText(dst, place(name, "#name"), name)
	}
	if len(body) == 0 {
		return dst
	}
	plain, whole := transferred(header.Get("Content-Transfer-Encoding"), body)
	dst = s.readPart(dst, name, header, plain)
	if !whole {
		dst = s.readPart(dst, name, header, body)
	}
	return dst
}

// readPart reads the decoded body of a part.
func (s *Selection) readPart(dst []Piece, name string, header textproto.MIMEHeader, body []byte) []Piece {
	t := TypeOf(header["Content-Type"])
	if name == "_charset_" {
		// The field says in which charset the others are.
		known, _ := lookup(strings.ToLower(strings.TrimSpace(view(body))))
		t.UnknownCharset = t.UnknownCharset || !known
	}
	if t.Charset == "" {
		t.Charset = s.Charset
	}
	known, _ := lookup(t.Charset)
	t.UnknownCharset = t.UnknownCharset || !known
	from := len(dst)
	if t.Kind == Binary || t.Kind == Multipart || t.Kind == Text || t.Kind == Form {
		versions := readings(t.charsets(), body)
		if !s.leavesOutPair([][]byte{bytesOf(name)}, versions.all()) {
			dst = s.appendReadings(dst, name, &versions)
		}
	} else {
		whole := Selection{Trusted: s.Trusted, Text: s.Text, Credentials: s.Credentials}
		for _, p := range whole.Extract(nil, t, body) {
			p.Name = place(name, p.Name)
			dst = add(dst, p)
		}
	}
	return markUnknown(dst, from, name, t.UnknownCharset)
}

// markUnknown says of the texts from an index on that their charset is not known, if so. There is one at least.
func markUnknown(dst []Piece, from int, name string, unknown bool) []Piece {
	if !unknown {
		return dst
	}
	if len(dst) <= from {
		return append(dst, Piece{Name: place(name, ""), UnknownCharset: true})
	}
	for i := from; i < len(dst); i++ {
		dst[i].UnknownCharset = true
	}
	return dst
}

// appendReadings appends all that the value of a field may say.
func (s *Selection) appendReadings(dst []Piece, name string, versions *versions) []Piece {
	dst = s.appendValue(dst, name, view(versions.list[0]))
	for i, reading := range versions.all()[1:] {
		dst = again(dst, s.appendValue(nil, name, view(reading)), i+1)
	}
	return dst
}

// transferred undoes a Content-Transfer-Encoding. It reports whether all of the body was encoded so, which is never sure.
func transferred(encoding string, body []byte) ([]byte, bool) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		plain, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
		return plain, err == nil
	case "base64":
		plain, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(body)))
		return plain, err == nil && textual(plain)
	}
	return body, true
}

// WantsField reports whether a form's field of that name is read.
func (s *Selection) WantsField(name string) bool {
	if len(s.Form) == 0 {
		return true
	}
	for _, wanted := range s.Form {
		if sameField(wanted, name) {
			return true
		}
	}
	return false
}

// maxName is the length in bytes at which the names of places are cut.
const maxName = 256

// place returns the name of a place of which a user chose a part.
func place(name, suffix string) string {
	if len(name) > maxName {
		name = name[:maxName]
		for !utf8.ValidString(name) && len(name) > maxName-utf8.UTFMax {
			name = name[:len(name)-1]
		}
		name += "…"
	}
	return printable(name + suffix)
}

// printable returns a name without control characters, which could break a log or a header.
func printable(name string) string {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c < ' ' || c == 0x7f {
			return strings.Map(func(r rune) rune {
				if unicode.IsControl(r) {
					return utf8.RuneError
				}
				return r
			}, name)
		}
	}
	return name
}

// appendText appends a text if it is one.
func appendText(dst []Piece, name, text string) []Piece {
	if !mayRead(text) || isIdentifier(text) {
		return dst
	}
	if len(text) >= blob {
		return appendLong(dst, name, text)
	}
	return add(dst, Piece{Name: name, Text: text})
}

// appendAll appends a text if it is one, and what parsers of XML, calendars, YAML and mail make of it.
func (s *Selection) appendAll(dst []Piece, name, text string) []Piece {
	dst = appendText(dst, name, text)
	if s.Trusted {
		return dst
	}
	if mayBeXML(text) {
		dst = appendXML(dst, name, text)
	}
	return appendUnfolded(dst, name, text)
}

// appendValue appends the text of a form's field, which may be JSON itself.
func (s *Selection) appendValue(dst []Piece, name, text string) []Piece {
	if !mayRead(text) {
		return dst
	}
	name = place(name, "")
	if s.Text {
		return add(dst, Piece{Name: name, Text: text})
	}
	if c := text[0]; c == '{' || c == '[' {
		inner := scanner{sel: s.whole(), dst: dst, src: bytesOf(text), prefix: name, opened: 1}
		if inner.scan(); inner.clean() {
			return inner.dst
		}
		text = undoEscapes(text)
	}
	return s.appendAll(dst, name, text)
}
