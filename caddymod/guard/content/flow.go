// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// StreamExtractor reads the texts of a body that is too large to be held, while it passes on its way to an app:
//
//	flow := selection.StreamExtractor(declared)
//	for chunk := range chunks {
//		pieces := flow.Push(chunk)
//		// judge the pieces, then send on what is up to flow.Safe()
//	}
//	pieces := flow.Finish()
//
// The body is read in as many ways as [Selection.Extract] would read it, each by a lane of its own. A text that is longer than
// some tens of KiB comes in several pieces, each of which begins with the last words of the one before. Memory is bounded by
// a few hundred KiB for each lane. It is not for multipart bodies, and not safe for concurrent use.
type StreamExtractor struct {
	sel      Selection
	declared Type
	lanes    []*lane // nil before the first bytes
	unit     int     // bytes come in multiples of it: 4 where they may be UTF-16 or UTF-32
	held     []byte  // received, and in no lane yet
	received int64
}

// Sizes of what a [StreamExtractor] takes at once, in bytes.
const (
	// flowStep is how much must have come before it is read: each step looks at what the one before left undecided.
	flowStep = 8 << 10
	// flowSegment is how much is given to the lanes at most.
	flowSegment = 32 << 10
	// flowText is how long a text becomes before it is cut.
	flowText = 16 << 10
	// flowToken is how long a token of JSON becomes before it is taken for text.
	flowToken = 64 << 10
	// flowOverlap is how much of a text that was cut is read again with what follows.
	flowOverlap = 400
)

// Stream begins to read a body of a type, which is not multipart.
func (s *Selection) Stream(t Type) *StreamExtractor {
	f := &StreamExtractor{sel: *s, declared: t, unit: 1}
	f.sel.Credentials = s.Credentials || t.Kind == Text // see readAs
	return f
}

// Push takes the next bytes of the body, and returns the texts that are complete with them. The chunk is not kept, nor is
// what is returned changed later.
func (f *StreamExtractor) Push(chunk []byte) []Piece {
	var pieces []Piece
	for len(chunk) > 0 {
		n := min(len(chunk), flowSegment-len(f.held))
		f.held = append(f.held, chunk[:n]...)
		f.received += int64(n)
		chunk = chunk[n:]
		if len(f.held) >= flowStep {
			pieces = f.step(pieces, f.cut())
		}
	}
	return pieces
}

// Finish says that the body has ended, and returns the texts that were not complete.
func (f *StreamExtractor) Finish() []Piece {
	pieces := f.step(nil, len(f.held))
	for _, l := range f.lanes {
		pieces = l.read(pieces, true)
	}
	return pieces
}

// Safe returns up to which offset of the body the bytes may go on to the app once the texts that were returned are judged.
func (f *StreamExtractor) Safe() int64 {
	safe := f.received - int64(len(f.held))
	for _, l := range f.lanes {
		safe = min(safe, l.safe)
	}
	return safe
}

// cut is up to where what is held can be decoded without the bytes behind it. A byte up to the slash is a character of its
// own in every charset that is not wide.
func (f *StreamExtractor) cut() int {
	n := len(f.held)
	if f.unit > 1 {
		return n - n%f.unit
	}
	for i := n; i > n-256; i-- {
		if f.held[i-1] <= '/' {
			return i
		}
	}
	for i := n - 1; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(f.held[i]) {
			if !utf8.FullRune(f.held[i:]) {
				return i
			}
			break
		}
	}
	return n
}

// step gives the first n bytes of what is held to the lanes.
func (f *StreamExtractor) step(pieces []Piece, n int) []Piece {
	if f.lanes == nil {
		f.open()
		if f.unit > 1 && n < len(f.held) {
			n -= n % f.unit
		}
	}
	end := f.received - int64(len(f.held)-n)
	for _, l := range f.lanes {
		l.push(f.held[:n], end)
		pieces = l.read(pieces, false)
	}
	f.held = append(f.held[:0], f.held[n:]...)
	return pieces
}

// open makes the lanes, by what the body is declared as and what it begins with. What it begins with only adds lanes.
func (f *StreamExtractor) open() {
	kind := f.declared.Kind
	if f.sel.Text {
		kind = Text
	}
	prefix := f.held
	decoders := []func([]byte) []byte{nil}
	charsets := f.declared.charsets()
	if kind == Markup || isXML(view(prefix)) {
		if declared := declaredCharset(prefix); declared != "" {
			charsets = append(charsets, declared)
		}
	}
	decoders = append(decoders, decoders16(charsets, prefix)...)
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
		for _, kind := range f.kinds(kind, repair(decoded(decode, prefix))) {
			l := &lane{sel: &f.sel, declared: f.declared, kind: kind, decode: decode, number: len(f.lanes)}
			if kind == JSON {
				l.json = &scanner{sel: &f.sel, more: true}
			}
			f.lanes = append(f.lanes, l)
		}
	}
	f.likeliestFirst(prefix)
}

// likeliestFirst numbers the lanes so that the one counts first whose reading is likeliest.
func (f *StreamExtractor) likeliestFirst(prefix []byte) {
	if textual(prefix) && f.declared.Charset == "" {
		return
	}
	for i, l := range f.lanes {
		if l.decode != nil && isWritten(repair(l.decode(prefix))) {
			f.lanes[0].number, f.lanes[i].number = i, 0
			return
		}
	}
}

// kinds are what a body that begins so is read as.
func (f *StreamExtractor) kinds(kind Kind, prefix []byte) []Kind {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(prefix, []byte(utf8BOM)), " \t\r\n\x1e")
	structured := len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[' || trimmed[0] == '"')
	switch {
	case f.sel.Text:
		return []Kind{Text}
	case kind == Mixed:
		return []Kind{Mixed}
	case kind == JSON && len(trimmed) > 0 && !jsonStart(trimmed[0]) && !isLiteral(firstWord(trimmed)):
		kind = looksOrText(prefix)
	case kind == Binary || kind == Multipart:
		kind = looksOrText(prefix)
	}
	switch {
	case kind == JSON && (f.declared.Ambiguous || f.declared.undeclared):
		return []Kind{JSON, Form}
	case kind != JSON && kind != Markup && structured:
		return []Kind{kind, JSON}
	}
	return []Kind{kind}
}

// decoded is what a decoder makes of bytes.
func decoded(decode func([]byte) []byte, b []byte) []byte {
	if decode == nil {
		return b
	}
	return decode(b)
}

// lane is one way of reading a body that flows.
type lane struct {
	sel      *Selection
	declared Type
	kind     Kind
	decode   func([]byte) []byte // nil for UTF-8
	begun    bool                // the byte order mark is behind
	number   int                 // of the reading, see [Piece]
	odd      bool                // there were bytes that are no UTF-8

	rest  []byte // decoded, and not read yet; new memory with each push
	total int64  // bytes that were decoded
	marks []mark // ends of segments that are not wholly read
	safe  int64  // up to here the body is read

	entities []byte // declarations of entities of XML, so far

	json  *scanner
	quote byte // of the string of JSON that is read in parts; 0 outside of one
	inner bool // which may be JSON itself
}

// mark is where a segment ends: in the body, and in what was decoded of it.
type mark struct{ body, decoded int64 }

// push takes a segment of the body that ends at an offset.
func (l *lane) push(segment []byte, end int64) {
	text := decoded(l.decode, segment)
	if l.kind != Mixed && (l.kind != Form || l.decode != nil) { // a form has its charset under its escapes
		l.odd = l.odd || l.decode == nil && !utf8.Valid(text)
		text = repair(text)
	}
	if !l.begun && len(text) > 0 {
		text = bytes.TrimPrefix(text, []byte(utf8BOM))
		l.begun = true
	}
	// Texts that were returned share memory with what was there before.
	l.rest = slices.Concat(l.rest, text)
	l.total += int64(len(text))
	l.marks = append(l.marks, mark{end, l.total})
}

// read appends the texts that are complete, all that is left when the body has ended.
func (l *lane) read(dst []Piece, ended bool) []Piece {
	var found []Piece
	if l.json != nil {
		found = l.readJSON(nil, ended)
	} else {
		found = l.readText(nil, ended)
	}
	dst = again(dst, found, l.number)
	if l.odd {
		// Apps that decode UTF-8 may leave out what is none, which was read as windows-1252.
		for _, p := range found {
			if text := withoutLatin(p.Text); text != p.Text {
				dst = again(dst, []Piece{{Name: p.Name, Text: text}}, maxVersions-1)
			}
		}
	}
	done := l.total - int64(len(l.rest))
	n := 0
	for n < len(l.marks) && (ended || l.marks[n].decoded <= done) {
		l.safe = l.marks[n].body
		n++
	}
	l.marks = append(l.marks[:0], l.marks[n:]...)
	return dst
}

// readText cuts what is no JSON where a reader sees no harm.
func (l *lane) readText(dst []Piece, ended bool) []Piece {
	for len(l.rest) >= flowText || ended && len(l.rest) > 0 {
		cut, again := len(l.rest), []byte(nil)
		if cut > flowText {
			cut, again = l.cutText(l.rest[:flowText])
		}
		part := l.rest[:cut:cut]
		if l.kind == Form {
			if given, _ := charsetFields(part); len(given) > 0 {
				l.declared.Charset = given[0]
			}
		}
		if l.kind == Mixed {
			dst = l.sel.readMixed(dst, l.declared, part)
		} else {
			dst = l.sel.readAs(dst, l.kind, l.declared, part)
		}
		if (l.kind == Markup || l.kind == Text) && !l.sel.Text {
			dst = l.readEntities(dst, view(part))
		}
		if cut == len(l.rest) {
			l.rest = nil
			break
		}
		l.rest = slices.Concat(again, l.rest[cut:])
	}
	return dst
}

// flowEntities is how many bytes of declarations of entities are kept for what follows.
const flowEntities = 32 << 10

// readEntities reads a part of a document with the entities that are declared in a part before it.
func (l *lane) readEntities(dst []Piece, part string) []Piece {
	if len(l.entities) > 0 && strings.IndexByte(part, '&') >= 0 {
		dst = appendXML(dst, "", "<!DOCTYPE a ["+view(l.entities)+"]>"+part)
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
		// What stands behind the last declaration is none, and does no harm.
		size = end
		if len(l.entities)+size <= flowEntities {
			l.entities = append(l.entities, part[:size]...)
		}
		part = part[size:]
	}
	return dst
}

// cutText returns where to cut a text, and what of it is to be read again before what follows.
func (l *lane) cutText(text []byte) (cut int, again []byte) {
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

// wholeRunes is the length of a text without the character that is cut at its end.
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

// lastWords are the last words of a text, or its last characters where there is no break before them. They do not begin
// within a character or behind a backslash.
func lastWords(text []byte, breaks string) []byte {
	from := max(1, len(text)-flowOverlap)
	if i := bytes.IndexAny(text[from:max(from, len(text)-flowOverlap/2)], breaks); i >= 0 {
		return text[from+i+1:]
	}
	for from < len(text) && (text[from-1] == '\\' || !utf8.RuneStart(text[from])) {
		from++
	}
	return text[from:]
}

// readJSON lets the scanner of JSON go on.
func (l *lane) readJSON(dst []Piece, ended bool) []Piece {
	s := l.json
	s.dst, s.more = dst, !ended
	for {
		if l.quote != 0 && !l.readString(ended) {
			break
		}
		s.src, s.at = l.rest, 0
		s.scan()
		s.keepKeys()
		l.rest = l.rest[s.at:]
		if ended || len(l.rest) < flowToken {
			break
		}
		// No parser has a token of this length but a string.
		if c := l.rest[0]; c == '"' || c == '\'' {
			s.value()
			l.quote, l.inner, l.rest = c, looksJSON(view(l.rest[1:])), l.rest[1:]
			continue
		}
		cut := wholeRunes(l.rest[:flowToken/2])
		s.broken = true
		s.part(undoEscapes(view(l.rest[:cut])))
		l.rest = l.rest[cut:]
	}
	dst, s.dst, s.src = s.dst, nil, nil
	return dst
}

// readString reads a part of a string, and reports whether it has ended.
func (l *lane) readString(ended bool) bool {
	for i := 0; i < len(l.rest); i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case l.quote:
			l.emitPart(l.rest[:i])
			l.rest, l.quote = l.rest[i+1:], 0
			return true
		}
	}
	for len(l.rest) >= flowToken {
		cut := cutString(l.rest[:flowText])
		l.emitPart(l.rest[:cut])
		l.rest = slices.Concat(lastWords(l.rest[:cut], " "), l.rest[cut:])
	}
	if ended {
		l.json.broken = true
		l.emitPart(l.rest)
		l.rest, l.quote = nil, 0
	}
	return false
}

// emitPart reads a part of a string.
func (l *lane) emitPart(raw []byte) {
	text := undoEscapes(view(raw))
	if l.inner {
		text = undoEscapes(text)
	}
	l.json.part(text)
}

// cutString returns where to cut a string of JSON: behind a space, or not within an escape.
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

// keepKeys makes the names of members independent of what they were read from.
func (s *scanner) keepKeys() {
	for i := range s.place() {
		s.frames[i].key = strings.Clone(s.frames[i].key)
	}
}

// part appends a part of a value.
func (s *scanner) part(text string) {
	if s.wanted() {
		s.put(s.pointer(), text)
	}
}

// ready reports whether the token that begins here is complete, and what follows it tells what it is.
func (s *scanner) ready() bool {
	rest := s.src[s.at:]
	switch rest[0] {
	case ' ', '\t', '\r', '\n', '{', '[', '}', ']', ',', ':', 0x1e:
		return true
	case '"', '\'':
		end := closing(rest)
		return end > 0 && followed(rest[end:])
	case '/', '#':
		return endsComment(rest)
	}
	i := 0
	for i < len(rest) && isWordByte(rest[i]) {
		i++
	}
	return i > 0 && i < len(rest) && isLiteral(rest[:i]) && s.ends(s.at+i) && followed(rest[i:]) ||
		bytes.ContainsAny(rest[1:], "{}[]\"\n\x1e")
}

// closing is the length of the string that b begins with, 0 when it does not end in b.
func closing(b []byte) int {
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

// followed reports whether something other than white space follows, whole if it is a comment.
func followed(b []byte) bool {
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
