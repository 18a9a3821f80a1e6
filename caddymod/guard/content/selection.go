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

// Selection says which texts of a body are extracted. The zero value selects all of them. JSON and Form only narrow
// bodies of their own kind: a body of another kind is extracted whole, so that another Content-Type is no way around
// the selection.
type Selection struct {
	// JSON lists the places to extract from JSON bodies. None means all. What follows an error that no lenient parser
	// accepts is extracted whatever its place.
	JSON []Pointer
	// Form lists the fields to extract from urlencoded and multipart forms, in any case. None means all. "tag" also
	// selects tag[] and tag[x].
	Form []string
	// Text says that every body is taken for one plain text, whatever its type, and that nothing of it is left out.
	Text bool
	// Credentials says that fields and members named like passwords, tokens and other credentials are extracted, too.
	Credentials bool
	// Roles lists the roles, such as "user", whose messages are extracted from a chat: from JSON in the shapes in
	// which language models are queried, see [roleFilter]. None means all.
	Roles []string
	// Charset is the charset of those parts of a form that declare none, see [Selection.ExtractPart].
	Charset string
	// Trusted says that the body comes from one's own app and not from somebody with something to hide. Its type is
	// believed, and only what is visible is extracted from markup.
	Trusted bool
}

// Extract appends the texts of a body to dst. It never fails: a body that is not what its type says is taken for what
// it looks like. A body of a type that is known to hold no text (see [Type.Opaque]) is left out unless it looks like
// text. A body in an unknown charset (see [Type]) is read as UTF-8. A multipart body is read as plain text; to parse
// it, use package multipart and [Selection.ExtractPart].
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
		return s.extractMixed(dst, t, body)
	case kind == Multipart:
		kind = sniffOrText(body)
	case kind == Form:
		return s.extractForm(dst, t, body)
	}
	charsets := t.charsets()
	if kind == Markup || isXML(stringOf(body)) {
		// XML parsers differ in whether they believe the header or the document.
		if declared := declaredCharset(body); declared != "" {
			charsets = append(charsets, declared)
		}
	}
	versions := readingsOf(charsets, body)
	dst = s.extractAs(dst, kind, t, versions.list[0])
	for i, reading := range versions.all()[1:] {
		dst = appendReading(dst, s.extractAs(nil, kind, t, reading), i+1)
	}
	return dst
}

// extractAs extracts from a body in UTF-8, which is parsed as a kind.
func (s *Selection) extractAs(dst []Piece, kind Kind, t Type, body []byte) []Piece {
	if s.Text {
		if mayHaveText(stringOf(body)) {
			dst = appendPiece(dst, Piece{Text: stringOf(body)})
		}
		return dst
	}
	start := len(body) - len(bytes.TrimLeft(body, " \t\r\n\x1e"))
	if start == len(body) {
		return dst
	}
	first := body[start]
	if kind == JSON && !jsonStart(first) && !isLiteral(firstWord(body[start:])) {
		// Whatever parses this body, it is no JSON parser.
		kind = sniffOrText(body)
		body = bytesOf(undoEscapes(stringOf(body)))
	}
	if kind == Text && !s.Trusted && (first == '{' || first == '[' || first == '"') {
		if found, clean := s.forType(t).extractJSON(nil, body); clean {
			return appendReading(dst, found, 0)
		}
		// Ordinary text may begin with a bracket.
		body = bytesOf(undoEscapes(stringOf(body)))
	}
	switch kind {
	case JSON:
		var clean bool
		dst, clean = s.extractChat(dst, body)
		if (!clean || t.Ambiguous || t.undeclared) && !s.Trusted && mayBeForm(body) {
			dst = appendReading(dst, s.extractPairs(nil, nil, body), readingAsForm)
		}
		return dst
	case Form:
		return s.extractForm(dst, t, body)
	case Markup:
		dst = s.extractMarkup(dst, body)
		if !s.Trusted && (t.Ambiguous || t.undeclared) {
			dst = appendReading(dst, appendText(nil, "", stringOf(body)), readingAsText)
			if mayBeForm(body) {
				dst = appendReading(dst, s.extractPairs(nil, nil, body), readingAsForm)
			}
		}
		return dst
	}
	begin := body[start:min(len(body), start+sniffSize)]
	if !s.Trusted && kind == Text && looksForm(begin) && sniffText(begin) == Form {
		return s.forType(t).extractForm(dst, t, body)
	}
	dst = s.appendAll(dst, "", stringOf(body))
	if !s.Trusted && mayBeForm(body) {
		dst = appendReading(dst, s.forType(t).extractPairs(nil, nil, body), readingAsForm)
	}
	return dst
}

// forType returns the selection for what is found in a body of a type. An app for plain text shows all of it,
// whatever it looks like, so nothing may be left out.
func (s *Selection) forType(t Type) *Selection {
	if t.Kind != Text || s.Credentials || s.Trusted {
		return s
	}
	whole := *s
	whole.Credentials = true
	return &whole
}

// mayBeForm reports whether there may be text in a body that only a form parser reveals.
func mayBeForm(body []byte) bool {
	return bytes.IndexByte(body, '=') >= 0 && bytes.ContainsAny(body, "%+")
}

// sniffOrText returns what a body that must be extracted looks like: Text where [sniffText] says Binary.
func sniffOrText(body []byte) Kind {
	body = bytes.TrimLeft(body, " \t\r\n")
	kind := sniffText(body[:min(len(body), sniffSize)])
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

// jsonStart reports whether a JSON text, or one for a lenient parser, may begin with c.
func jsonStart(c byte) bool {
	switch c {
	case '{', '[', '"', '\'', '/', '#', 0x1e:
		return true
	}
	return false
}

// ExtractPart appends the texts of one part of a multipart body to dst: the text of its body, in the charset, type
// and Content-Transfer-Encoding that its header declares, and the name of its file, at the place "name.filename". The
// body of a file that is not moderated is nil. The selection's Form selects by the name of the part.
func (s *Selection) ExtractPart(dst []Piece, name, filename string, header textproto.MIMEHeader, body []byte) []Piece {
	if !s.WantsField(name) {
		return dst
	}
	sent := name
	name, filename = stringOf(toValidUTF8(bytesOf(name))), stringOf(toValidUTF8(bytesOf(filename)))
	if name != sent {
		whole := *s
		whole.Credentials = true
		s = &whole // apps may differ in what the name is
	}
	if HasLetters(filename) {
		dst = appendText(dst, placeName(name, ".filename"), decodeWords(filename))
	}
	if nameSpeaks(name) {
		dst = appendText(dst, placeName(name, "#name"), name)
	}
	if len(body) == 0 {
		return dst
	}
	plain, whole := transferred(header.Get("Content-Transfer-Encoding"), body)
	dst = s.extractPart(dst, name, header, plain)
	if !whole {
		dst = s.extractPart(dst, name, header, body)
	}
	return dst
}

// extractPart extracts from the decoded body of a part.
func (s *Selection) extractPart(dst []Piece, name string, header textproto.MIMEHeader, body []byte) []Piece {
	t := TypeOf(header["Content-Type"])
	if name == "_charset_" {
		// This field says in which charset the others are.
		known, _ := lookup(strings.ToLower(strings.TrimSpace(stringOf(body))))
		t.UnknownCharset = t.UnknownCharset || !known
	}
	if t.Charset == "" {
		t.Charset = s.Charset
	}
	known, _ := lookup(t.Charset)
	t.UnknownCharset = t.UnknownCharset || !known
	from := len(dst)
	if t.Kind == Binary || t.Kind == Multipart || t.Kind == Text || t.Kind == Form {
		versions := readingsOf(t.charsets(), body)
		if !s.leavesOutPair([][]byte{bytesOf(name)}, versions.all()) {
			dst = s.appendReadings(dst, name, &versions)
		}
	} else {
		whole := Selection{Trusted: s.Trusted, Text: s.Text, Credentials: s.Credentials}
		for _, p := range whole.Extract(nil, t, body) {
			p.Name = placeName(name, p.Name)
			dst = appendPiece(dst, p)
		}
	}
	return markUnknown(dst, from, name, t.UnknownCharset)
}

// markUnknown marks the pieces from an index on as being in an unknown charset, if they are. It adds a piece if there
// is none.
func markUnknown(dst []Piece, from int, name string, unknown bool) []Piece {
	if !unknown {
		return dst
	}
	if len(dst) <= from {
		return append(dst, Piece{Name: placeName(name, ""), UnknownCharset: true})
	}
	for i := from; i < len(dst); i++ {
		dst[i].UnknownCharset = true
	}
	return dst
}

// appendReadings appends the value of a field, in each of its readings.
func (s *Selection) appendReadings(dst []Piece, name string, versions *readings) []Piece {
	dst = s.appendValue(dst, name, stringOf(versions.list[0]))
	for i, reading := range versions.all()[1:] {
		dst = appendReading(dst, s.appendValue(nil, name, stringOf(reading)), i+1)
	}
	return dst
}

// transferred undoes a Content-Transfer-Encoding. It also reports whether it could decode the whole body.
func transferred(encoding string, body []byte) ([]byte, bool) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		plain, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
		return plain, err == nil
	case "base64":
		plain, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(body)))
		return plain, err == nil && isMostlyText(plain)
	}
	return body, true
}

// WantsField reports whether the form field of this name is selected.
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

// maxName is the length, in bytes, at which names of places are cut.
const maxName = 256

// placeName returns the name of a place that contains a name which the sender chose.
func placeName(name, suffix string) string {
	if len(name) > maxName {
		name = name[:maxName]
		for !utf8.ValidString(name) && len(name) > maxName-utf8.UTFMax {
			name = name[:len(name)-1]
		}
		name += "…"
	}
	return printable(name + suffix)
}

// printable replaces the control characters of a name, which could break a log or a header.
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

// appendText appends a text if it may be language.
func appendText(dst []Piece, name, text string) []Piece {
	if !mayHaveText(text) || isIdentifier(text) {
		return dst
	}
	if len(text) >= minBlob {
		return appendLong(dst, name, text)
	}
	return appendPiece(dst, Piece{Name: name, Text: text})
}

// appendAll appends a text if it may be language, and what parsers of XML, calendars, YAML and mail make of it.
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

// appendValue appends the text of a form field, which may be JSON itself.
func (s *Selection) appendValue(dst []Piece, name, text string) []Piece {
	if !mayHaveText(text) {
		return dst
	}
	name = placeName(name, "")
	if s.Text {
		return appendPiece(dst, Piece{Name: name, Text: text})
	}
	if c := text[0]; c == '{' || c == '[' {
		inner := jsonScanner{sel: s.whole(), dst: dst, src: bytesOf(text), prefix: name, opened: 1}
		if inner.scan(); inner.clean() {
			return inner.dst
		}
		text = undoEscapes(text)
	}
	return s.appendAll(dst, name, text)
}
