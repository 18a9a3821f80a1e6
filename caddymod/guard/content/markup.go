// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"html"
	"strings"
)

// extractMarkup appends the texts of HTML, XML and SVG to dst: one for each block of text, and the values of the
// attributes that are shown. In XML, texts are named after their elements. What is not visible is extracted, too,
// unless the body is trusted.
func (s *Selection) extractMarkup(dst []Piece, body []byte) []Piece {
	m := markup{dst: dst, all: !s.Trusted, xml: !isHTML(stringOf(body)), size: len(body)}
	m.scan(stringOf(body))
	if s.Trusted {
		return m.dst
	}
	text, different, full := expand(stringOf(body), false)
	dst = m.dst
	if full {
		dst = appendPiece(dst, Piece{Reading: readingExpanded, Excess: true})
	}
	if text == "" {
		return dst
	}
	dst = appendReading(dst, extractExpanded(text), readingExpanded)
	if different {
		text, _, _ = expand(stringOf(body), true)
		dst = appendReading(dst, extractExpanded(text), readingExpandedLast)
	}
	return dst
}

// extractExpanded returns the texts of markup whose entities are expanded.
func extractExpanded(text string) []Piece {
	m := markup{all: true, xml: true, size: len(text)}
	m.scan(text)
	return m.dst
}

// isHTML reports whether markup is HTML and not another kind of XML.
func isHTML(s string) bool {
	xml := strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "<?xml")
	s = s[:min(len(s), 4*sniffSize)]
	in := newTagParser(s)
	for {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			return !xml
		}
		s = s[i:]
		if inside, size, _ := declaration(s); size > 0 {
			if doctype, is := cutPrefixFold(inside, "doctype"); is {
				_, isHTML := cutPrefixFold(strings.TrimLeft(doctype, " \t\r\n"), "html")
				return isHTML
			}
			s = s[size:]
			continue
		}
		t, size := in.parse(s)
		if size == 0 {
			s = s[1:]
			continue
		}
		// Feeds have <title> and <link> elements, too, but never as the first.
		return t.class != unknown && (!xml || strings.EqualFold(t.name, "html"))
	}
}

// markup collects the texts of a document.
type markup struct {
	dst []Piece
	all bool // what is not visible is extracted, too
	xml bool
	// nested says that this is the inside of a CDATA section, where further sections are ignored: each would be
	// searched to its end.
	nested bool

	name  string // of the element, in XML
	size  int    // about the maximum size of all texts together
	arena []byte // holds the texts that differ from the document
	run   string // the text of the block so far, if it is in one piece
	from  int    // where it begins in arena, if it is not
	mixed bool   // the text of the block is in arena
}

func (m *markup) scan(s string) {
	in := newTagParser(s)
	for s != "" {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			m.text(s)
			break
		}
		m.text(s[:i])
		s = s[i:]
		if inside, size, cdata := declaration(s); size > 0 {
			s = s[size:]
			if cdata {
				m.section(inside)
			} else if m.all && !isPreamble(inside) {
				m.hidden(inside)
			}
			continue
		}
		t, length := in.parse(s)
		if length == 0 {
			m.text("<")
			s = s[1:]
			continue
		}
		if s = s[length:]; t.end {
			if m.divides(&t) {
				m.flush()
			}
			continue
		}
		s = m.element(&t, s)
	}
	m.flush()
}

// section scans a CDATA section: text, or markup as in feeds.
func (m *markup) section(inside string) {
	if m.nested || !hasElement(inside) {
		m.text(inside)
		return
	}
	m.flush()
	inner := markup{dst: m.dst, all: m.all, name: m.name, size: len(inside), nested: true}
	inner.scan(inside)
	m.dst = inner.dst
}

// hasElement reports whether there is an HTML element.
func hasElement(s string) bool {
	in := newTagParser(s)
	for {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			return false
		}
		s = s[i:]
		t, size := in.parse(s)
		if size > 0 && t.class != unknown {
			return true
		}
		s = s[max(size, 1):]
	}
}

// isPreamble reports whether a declaration is a usual beginning of a document and declares no entities: a few words,
// and quoted identifiers.
func isPreamble(inside string) bool {
	known := false
	for _, prefix := range []string{"doctype", "xml", "[if ", "[endif]"} {
		_, is := cutPrefixFold(inside, prefix)
		known = known || is
	}
	if !known || len(inside) >= 512 || strings.IndexByte(inside, '"') >= 0 && strings.Contains(inside, "<!") {
		return false
	}
	words := 0
	for i, part := range strings.Split(strings.ReplaceAll(inside, "'", `"`), `"`) {
		switch quoted := i%2 == 1; {
		case quoted && strings.ContainsAny(part, " <") && !strings.HasPrefix(part, "-//"):
			return false
		case !quoted:
			words += len(strings.Fields(part))
		}
	}
	return words <= 4
}

// divides reports whether the text ends at a tag.
func (m *markup) divides(t *tag) bool {
	switch t.class {
	case inline:
		return false
	case unknown:
		return m.xml
	}
	return true
}

// element handles a start tag, and its content if that is no markup. It returns what follows.
func (m *markup) element(t *tag, s string) string {
	if m.divides(t) {
		m.flush()
		if m.xml {
			m.name = placeName(t.name, "")
		}
	}
	if t.attrs != "" {
		m.attributes(t)
	}
	switch t.class {
	case raw, hiding:
		if t.class == hiding && m.all || m.xml {
			return s
		}
		end := endOf(s, t.name)
		if m.all {
			m.hidden(s[:end])
		}
		return s[end:]
	case literal:
		if !m.xml {
			end := endOf(s, t.name)
			m.text(s[:end])
			m.flush()
			return s[end:]
		}
	}
	return s
}

// attributes extracts the values of attributes that are shown, and those that may be texts in XML or in an app that
// shows the source.
func (m *markup) attributes(t *tag) {
	bare := 0 // names without a value
	for rest := t.attrs; ; {
		name, value, next, ok := attribute(rest)
		if !ok {
			break
		}
		rest = next
		if value == "" {
			bare++
			continue
		}
		if isShownAttribute(name) || m.all && (m.xml && !isNamespace(name) || manyWords(value)) {
			m.hidden(value)
		}
	}
	if m.all && (bare >= minBareAttributes || strings.IndexByte(t.attrs, '=') < 0 && manyWords(t.attrs)) {
		m.hidden(t.attrs) // these are no attributes
	}
}

// minBareAttributes is a number of attributes without a value that no real element has.
const minBareAttributes = 4

func isNamespace(name string) bool {
	_, is := cutPrefixFold(name, "xmlns")
	if !is {
		_, is = cutPrefixFold(name, "xsi:")
	}
	return is
}

// hidden appends a text that is not part of the block's text.
func (m *markup) hidden(text string) {
	text = strings.TrimSpace(text)
	if !HasLetters(text) {
		return
	}
	m.dst = appendText(m.dst, m.name, html.UnescapeString(text))
}

// text adds to the text of the block.
func (m *markup) text(s string) {
	if s == "" {
		return
	}
	if m.run == "" && !m.mixed {
		m.run = s
		return
	}
	if !m.mixed {
		m.mix(m.run)
	}
	m.add(s)
}

// mix begins a text that is not in one piece in the document.
func (m *markup) mix(s string) {
	if m.arena == nil {
		m.arena = make([]byte, 0, m.size/2)
	}
	m.mixed, m.from = true, len(m.arena)
	m.add(s)
}

// add appends a text as it is shown: with white space collapsed, entities decoded, and without control characters.
func (m *markup) add(s string) {
	if strings.IndexByte(s, '&') >= 0 {
		s = html.UnescapeString(s)
	}
	for s != "" {
		i := 0
		for i < len(s) && s[i] > ' ' {
			i++
		}
		m.arena = append(m.arena, s[:i]...)
		for s = s[i:]; s != "" && s[0] <= ' '; s = s[1:] {
			if s[0] != ' ' && (s[0] < '\t' || s[0] > '\r') {
				continue
			}
			if n := len(m.arena); n > m.from && m.arena[n-1] != ' ' {
				m.arena = append(m.arena, ' ')
			}
		}
	}
}

// flush ends the text of the block.
func (m *markup) flush() {
	text := m.run
	m.run = ""
	if !m.mixed {
		if text = strings.TrimSpace(text); text == "" {
			return
		}
		if strings.IndexByte(text, '&') >= 0 || strings.IndexByte(text, '\n') >= 0 {
			m.mix(text)
		}
	}
	if m.mixed {
		text = stringOf(m.arena[m.from:])
		m.mixed = false
	}
	m.dst = appendText(m.dst, m.name, text)
}

// declaredCharset returns the charset that markup declares in its XML declaration or a meta element, in lower case.
func declaredCharset(body []byte) string {
	s := stringOf(body[:min(len(body), sniffSize)])
	if isXML(s) {
		_, s, _ = strings.Cut(s, "encoding")
	} else {
		before, behind, found := strings.Cut(s, "charset")
		if !found || !strings.Contains(before, "<meta") {
			return ""
		}
		s = behind
	}
	s, is := strings.CutPrefix(strings.TrimLeft(s, blank), "=")
	if !is {
		return ""
	}
	s = strings.TrimLeft(s, blank+"\"'")
	if end := strings.IndexAny(s, "\"' ;?>/"); end >= 0 {
		s = s[:end]
	}
	return strings.ToLower(s)
}

// isXML reports whether a text begins with an XML declaration.
func isXML(s string) bool { return strings.HasPrefix(strings.TrimLeft(s, blank), "<?xml") }

// mayBeXML reports whether an XML parser may read another text than the one that stands there, because of what it
// declares.
func mayBeXML(s string) bool { return isXML(s) || strings.Contains(s, "<!") }

// appendXML appends what an XML parser reads in a text that an app may give to one: in the charset that the text
// declares, and with the entities that it declares.
func appendXML(dst []Piece, name, text string) []Piece {
	if isXML(text) {
		if _, decode := lookup(declaredCharset(bytesOf(text))); decode != nil {
			text = stringOf(toValidUTF8(decode(bytesOf(text))))
			m := markup{dst: nil, all: true, xml: true, size: len(text)}
			m.scan(text)
			dst = appendNamed(dst, name, m.dst, readingExpanded)
		}
	}
	for _, last := range []bool{false, true} {
		expansion, different, full := expand(text, last)
		if full {
			dst = appendPiece(dst, Piece{Reading: readingExpanded, Excess: true})
		}
		if expansion == "" {
			break
		}
		dst = appendNamed(dst, name, extractExpanded(expansion), readingExpanded)
		if !different {
			break
		}
	}
	return dst
}

// appendNamed appends the texts of a further reading of one place.
func appendNamed(dst []Piece, name string, found []Piece, reading int) []Piece {
	for i := range found {
		found[i].Name = name
	}
	return appendReading(dst, found, reading)
}
