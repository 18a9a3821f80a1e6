// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// StreamExtractor extracts the texts of a body that is too large to be held in memory, while it passes on its way to
// an app:
//
//	extractor := selection.Stream(declared)
//	for chunk := range chunks {
//		pieces := extractor.Push(chunk)
//		// moderate the pieces, then forward the bytes up to extractor.Safe()
//	}
//	pieces := extractor.Finish()
//
// It takes the same readings of the body as [Selection.Extract]. A text that is longer than some tens of KiB comes in
// several pieces, each of which begins with the last words of the one before. It holds a few hundred KiB at most for
// each reading. It is not for multipart bodies, and not safe for concurrent use.
type StreamExtractor struct {
	sel      Selection
	declared Type
	readings []*streamReading // nil before the first bytes
	unit     int              // bytes are taken in multiples of it: 4 if they may be UTF-16 or UTF-32
	pending  []byte           // received, and in no reading yet
	received int64
}

// Sizes of a [StreamExtractor], in bytes.
const (
	// streamStep is the minimum that is parsed at once: each step parses again what the one before left undecided.
	streamStep = 8 << 10
	// streamSegment is the maximum that is given to the readings at once.
	streamSegment = 32 << 10
	// streamTextSize is the length at which a text is cut.
	streamTextSize = 16 << 10
	// maxStreamToken is the maximum length of a JSON token. A longer one is taken for text.
	maxStreamToken = 64 << 10
	// streamOverlap is how much of a text that was cut is repeated with what follows.
	streamOverlap = 400
)

// Stream returns an extractor for a body of a type other than multipart.
func (s *Selection) Stream(t Type) *StreamExtractor {
	f := &StreamExtractor{sel: *s, declared: t, unit: 1}
	f.sel.Credentials = s.Credentials || t.Kind == Text // see readAs
	return f
}

// Push takes the next bytes of the body, and returns the texts that they complete. It does not keep the chunk, and
// does not change what it returned before.
func (f *StreamExtractor) Push(chunk []byte) []Piece {
	var pieces []Piece
	for len(chunk) > 0 {
		n := min(len(chunk), streamSegment-len(f.pending))
		f.pending = append(f.pending, chunk[:n]...)
		f.received += int64(n)
		chunk = chunk[n:]
		if len(f.pending) >= streamStep {
			pieces = f.step(pieces, f.cut())
		}
	}
	return pieces
}

// Finish ends the body, and returns the texts that were not complete.
func (f *StreamExtractor) Finish() []Piece {
	pieces := f.step(nil, len(f.pending))
	for _, l := range f.readings {
		pieces = l.extract(pieces, true)
	}
	return pieces
}

// Safe returns the offset in the body up to which the bytes may be forwarded to the app once the returned texts are
// moderated.
func (f *StreamExtractor) Safe() int64 {
	safe := f.received - int64(len(f.pending))
	for _, l := range f.readings {
		safe = min(safe, l.safe)
	}
	return safe
}

// cut returns how many of the pending bytes can be decoded without those behind them. A byte up to the slash is a
// character of its own in every charset except UTF-16 and UTF-32.
func (f *StreamExtractor) cut() int {
	n := len(f.pending)
	if f.unit > 1 {
		return n - n%f.unit
	}
	for i := n; i > n-256; i-- {
		if f.pending[i-1] <= '/' {
			return i
		}
	}
	for i := n - 1; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(f.pending[i]) {
			if !utf8.FullRune(f.pending[i:]) {
				return i
			}
			break
		}
	}
	return n
}

// step gives the first n pending bytes to the readings.
func (f *StreamExtractor) step(pieces []Piece, n int) []Piece {
	if f.readings == nil {
		f.open()
		if f.unit > 1 && n < len(f.pending) {
			n -= n % f.unit
		}
	}
	end := f.received - int64(len(f.pending)-n)
	for _, l := range f.readings {
		l.push(f.pending[:n], end)
		pieces = l.extract(pieces, false)
	}
	f.pending = append(f.pending[:0], f.pending[n:]...)
	return pieces
}

// open sets up the readings, by the declared type and the beginning of the body. The beginning can only add readings.
func (f *StreamExtractor) open() {
	kind := f.declared.Kind
	if f.sel.Text {
		kind = Text
	}
	prefix := f.pending
	decoders := []func([]byte) []byte{nil}
	charsets := f.declared.charsets()
	if kind == Markup || isXML(stringOf(prefix)) {
		if declared := declaredCharset(prefix); declared != "" {
			charsets = append(charsets, declared)
		}
	}
	decoders = append(decoders, wideDecoders(charsets, prefix)...)
	if len(decoders) > 1 {
		f.unit = 4
	}
	for _, charset := range charsets {
		if _, decode := lookup(charset); decode != nil {
			decoders = append(decoders, decode)
			f.unit = 4
		}
	}
	for _, decode := range decoders {
		for _, kind := range f.kinds(kind, toValidUTF8(decodeWithFunc(decode, prefix))) {
			l := &streamReading{sel: &f.sel, declared: f.declared, kind: kind, decode: decode, reading: len(f.readings)}
			if kind == JSON {
				l.json = &jsonScanner{sel: &f.sel, more: true}
			}
			f.readings = append(f.readings, l)
		}
	}
	f.likeliestFirst(prefix)
}

// likeliestFirst gives the number 0 to the likeliest reading.
func (f *StreamExtractor) likeliestFirst(prefix []byte) {
	if isMostlyText(prefix) && f.declared.Charset == "" {
		return
	}
	for i, l := range f.readings {
		if l.decode != nil && isPrintable(toValidUTF8(l.decode(prefix))) {
			f.readings[0].reading, f.readings[i].reading = i, 0
			return
		}
	}
}

// kinds returns what a body with this beginning is parsed as.
func (f *StreamExtractor) kinds(kind Kind, prefix []byte) []Kind {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(prefix, []byte(utf8BOM)), " \t\r\n\x1e")
	structured := len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[' || trimmed[0] == '"')
	switch {
	case f.sel.Text:
		return []Kind{Text}
	case kind == Mixed:
		return []Kind{Mixed}
	case kind == JSON && len(trimmed) > 0 && !jsonStart(trimmed[0]) && !isLiteral(firstWord(trimmed)):
		kind = sniffOrText(prefix)
	case kind == Binary || kind == Multipart:
		kind = sniffOrText(prefix)
	}
	switch {
	case kind == JSON && (f.declared.Ambiguous || f.declared.undeclared):
		return []Kind{JSON, Form}
	case kind != JSON && kind != Markup && structured:
		return []Kind{kind, JSON}
	}
	return []Kind{kind}
}

// decodeWithFunc decodes b. A nil decoder leaves it as it is.
func decodeWithFunc(decode func([]byte) []byte, b []byte) []byte {
	if decode == nil {
		return b
	}
	return decode(b)
}

// streamReading is one reading of a body that is streamed.
type streamReading struct {
	sel      *Selection
	declared Type
	kind     Kind
	decode   func([]byte) []byte // nil for UTF-8
	begun    bool                // past the byte order mark
	reading  int                 // its number, see [Piece]
	odd      bool                // there were bytes that are not UTF-8

	rest  []byte       // decoded, and not extracted from yet; new memory with each push
	total int64        // bytes that were decoded
	ends  []segmentEnd // ends of segments that are not done
	safe  int64        // up to here the body has been extracted from

	entities []byte // XML entity declarations so far

	json  *jsonScanner
	quote byte // of the JSON string that is extracted in parts, 0 outside of one
	inner bool // the string may be JSON itself
}

// segmentEnd is the offset at which a segment ends: in the body, and in the decoded text.
type segmentEnd struct{ body, decoded int64 }

// push takes a segment of the body that ends at this offset.
func (l *streamReading) push(segment []byte, end int64) {
	text := decodeWithFunc(l.decode, segment)
	if l.kind != Mixed && (l.kind != Form || l.decode != nil) { // a form's charset applies under its escapes
		l.odd = l.odd || l.decode == nil && !utf8.Valid(text)
		text = toValidUTF8(text)
	}
	if !l.begun && len(text) > 0 {
		text = bytes.TrimPrefix(text, []byte(utf8BOM))
		l.begun = true
	}
	// Texts that were returned share memory with the old bytes.
	l.rest = slices.Concat(l.rest, text)
	l.total += int64(len(text))
	l.ends = append(l.ends, segmentEnd{end, l.total})
}

// extract appends the complete texts, and the rest as well when the body has ended.
func (l *streamReading) extract(dst []Piece, ended bool) []Piece {
	var found []Piece
	if l.json != nil {
		found = l.extractJSON(nil, ended)
	} else {
		found = l.extractText(nil, ended)
	}
	dst = appendReading(dst, found, l.reading)
	if l.odd {
		// Apps that decode UTF-8 may drop bytes that are not UTF-8, which were read as windows-1252 here.
		for _, p := range found {
			if text := withoutWindows1252(p.Text); text != p.Text {
				dst = appendReading(dst, []Piece{{Name: p.Name, Text: text}}, maxReadings-1)
			}
		}
	}
	done := l.total - int64(len(l.rest))
	n := 0
	for n < len(l.ends) && (ended || l.ends[n].decoded <= done) {
		l.safe = l.ends[n].body
		n++
	}
	l.ends = append(l.ends[:0], l.ends[n:]...)
	return dst
}

// extractText extracts from text that is not JSON, which it cuts where that breaks no word or field.
func (l *streamReading) extractText(dst []Piece, ended bool) []Piece {
	for len(l.rest) >= streamTextSize || ended && len(l.rest) > 0 {
		cut, again := len(l.rest), []byte(nil)
		if cut > streamTextSize {
			cut, again = l.cutText(l.rest[:streamTextSize])
		}
		part := l.rest[:cut:cut]
		if l.kind == Form {
			if given, _ := charsetFields(part); len(given) > 0 {
				l.declared.Charset = given[0]
			}
		}
		if l.kind == Mixed {
			dst = l.sel.extractMixed(dst, l.declared, part)
		} else {
			dst = l.sel.extractAs(dst, l.kind, l.declared, part)
		}
		if (l.kind == Markup || l.kind == Text) && !l.sel.Text {
			dst = l.extractEntities(dst, stringOf(part))
		}
		if cut == len(l.rest) {
			l.rest = nil
			break
		}
		l.rest = slices.Concat(again, l.rest[cut:])
	}
	return dst
}

// maxStreamEntities is how many bytes of entity declarations are kept for the rest of the document.
const maxStreamEntities = 32 << 10

// extractEntities extracts from a part of a document with the entities that earlier parts declared.
func (l *streamReading) extractEntities(dst []Piece, part string) []Piece {
	if len(l.entities) > 0 && strings.IndexByte(part, '&') >= 0 {
		dst = appendXML(dst, "", "<!DOCTYPE a ["+stringOf(l.entities)+"]>"+part)
	}
	const word = "<!entity"
	for i := indexFold(part, word); i >= 0; i = indexFold(part, word) {
		part = part[i:]
		size := len(word)
		end := len(part)
		for _, next := range []string{"<!", "]>"} {
			if i := strings.Index(part[size:end], next); i >= 0 {
				end = size + i
			}
		}
		// What follows the last declaration is harmless.
		size = end
		if len(l.entities)+size <= maxStreamEntities {
			l.entities = append(l.entities, part[:size]...)
		}
		part = part[size:]
	}
	return dst
}

// cutText returns where to cut a text, and what of it is to be repeated before the rest.
func (l *streamReading) cutText(text []byte) (cut int, again []byte) {
	half := len(text) / 2
	if l.kind == Form {
		if i := bytes.LastIndexByte(text[half:], '&'); i >= 0 {
			return half + i + 1, nil
		}
		pair := text[bytes.LastIndexByte(text, '&')+1:]
		name, _, _ := bytes.Cut(pair, []byte("="))
		name = name[:min(len(name), maxName)]
		cut = len(text)
		if i := bytes.LastIndexAny(text[half:], "+ "); i >= 0 {
			cut = half + i + 1
		} else if i := bytes.LastIndexByte(text[cut-len("%u0000"):], '%'); i >= 0 {
			cut += i - len("%u0000") // not within an escape
		}
		return cut, slices.Concat(name, []byte("="), lastWords(text[:cut], "+ "))
	}
	breaks := "\n"
	if l.kind == Markup {
		breaks = ">"
	}
	i := bytes.LastIndexAny(text[half:], breaks)
	if i < 0 {
		i = bytes.LastIndexAny(text[half:], " \t")
	}
	cut = half + i + 1
	if i < 0 {
		cut = wholeRunes(text)
	}
	return cut, lastWords(text[:cut], " \n>")
}

// wholeRunes returns the length of a text without a character that is cut at its end.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// lastWords returns the last words of a text, or its last characters if there is no break before them. They do not
// begin within a character or behind a backslash.
func lastWords(text []byte, breaks string) []byte {
	from := max(1, len(text)-streamOverlap)
	if i := bytes.IndexAny(text[from:max(from, len(text)-streamOverlap/2)], breaks); i >= 0 {
		return text[from+i+1:]
	}
	for from < len(text) && (text[from-1] == '\\' || !utf8.RuneStart(text[from])) {
		from++
	}
	return text[from:]
}

// extractJSON lets the JSON scanner go on.
func (l *streamReading) extractJSON(dst []Piece, ended bool) []Piece {
	s := l.json
	s.dst, s.more = dst, !ended
	for {
		if l.quote != 0 && !l.extractString(ended) {
			break
		}
		s.src, s.at = l.rest, 0
		s.scan()
		s.keepKeys()
		l.rest = l.rest[s.at:]
		if ended || len(l.rest) < maxStreamToken {
			break
		}
		// Only a string can be a token of this length.
		if c := l.rest[0]; c == '"' || c == '\'' {
			s.value()
			l.quote, l.inner, l.rest = c, looksJSON(stringOf(l.rest[1:])), l.rest[1:]
			continue
		}
		cut := wholeRunes(l.rest[:maxStreamToken/2])
		s.broken = true
		s.emitPart(undoEscapes(stringOf(l.rest[:cut])))
		l.rest = l.rest[cut:]
	}
	dst, s.dst, s.src = s.dst, nil, nil
	return dst
}

// extractString extracts the next part of a long string, and reports whether the string has ended.
func (l *streamReading) extractString(ended bool) bool {
	for i := 0; i < len(l.rest); i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case l.quote:
			l.extractStringPart(l.rest[:i])
			l.rest, l.quote = l.rest[i+1:], 0
			return true
		}
	}
	for len(l.rest) >= maxStreamToken {
		cut := cutString(l.rest[:streamTextSize])
		l.extractStringPart(l.rest[:cut])
		l.rest = slices.Concat(lastWords(l.rest[:cut], " "), l.rest[cut:])
	}
	if ended {
		l.json.broken = true
		l.extractStringPart(l.rest)
		l.rest, l.quote = nil, 0
	}
	return false
}

// extractStringPart extracts a part of a long string.
func (l *streamReading) extractStringPart(raw []byte) {
	text := undoEscapes(stringOf(raw))
	if l.inner {
		text = undoEscapes(text)
	}
	l.json.emitPart(text)
}

// cutString returns where to cut a JSON string: behind a space, or outside of an escape.
func cutString(text []byte) int {
	half := len(text) / 2
	if i := bytes.LastIndexByte(text[half:], ' '); i >= 0 {
		return half + i + 1
	}
	const pair = len(`\ud83d\ude00`)
	cut := wholeRunes(text)
	if i := bytes.IndexByte(text[cut-pair:cut], '\\'); i >= 0 {
		cut += i - pair
		for cut > half && text[cut-1] == '\\' {
			cut--
		}
	}
	return cut
}

// keepKeys copies the names of members out of the bytes that they were read from.
func (s *jsonScanner) keepKeys() {
	for i := range s.place() {
		s.frames[i].key = strings.Clone(s.frames[i].key)
	}
}

// emitPart appends a part of a value.
func (s *jsonScanner) emitPart(text string) {
	if s.wanted() {
		s.put(s.pointer(), text)
	}
}

// tokenComplete reports whether the token at the current position is complete, and what follows tells what it is.
func (s *jsonScanner) tokenComplete() bool {
	rest := s.src[s.at:]
	switch rest[0] {
	case ' ', '\t', '\r', '\n', '{', '[', '}', ']', ',', ':', 0x1e:
		return true
	case '"', '\'':
		end := stringSize(rest)
		return end > 0 && isFollowed(rest[end:])
	case '/', '#':
		return endsComment(rest)
	}
	i := 0
	for i < len(rest) && isWordByte(rest[i]) {
		i++
	}
	return i > 0 && i < len(rest) && isLiteral(rest[:i]) && s.ends(s.at+i) && isFollowed(rest[i:]) ||
		bytes.ContainsAny(rest[1:], "{}[]\"\n\x1e")
}

// stringSize returns the length of the string that b begins with, 0 if it does not end in b.
func stringSize(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case b[0]:
			return i + 1
		}
	}
	return 0
}

// isFollowed reports whether b has something other than white space. A comment counts when it is complete.
func isFollowed(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && (b[0] != '/' && b[0] != '#' || endsComment(b))
}

// endsComment reports whether the comment that b begins with ends in b.
func endsComment(b []byte) bool {
	if len(b) > 1 && b[0] == '/' && b[1] == '*' {
		return bytes.Contains(b[2:], []byte("*/"))
	}
	return bytes.IndexByte(b, '\n') >= 0
}
