// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package multipart extracts the texts of a multipart body while its bytes pass by on their way to an app.
//
//	scanner := multipart.NewScanner(boundary, 1<<20)
//	for chunk := range chunks {
//		parts, err := scanner.Push(chunk)
//		// moderate the parts, then forward the bytes up to scanner.Safe()
//	}
//	parts, err := scanner.Finish()
//
// Files are not kept, so that a body of any size needs little memory. Texts are held until they are complete.
//
// multipart.go has the scanner, header.go parses the headers of parts, encoding.go undoes their encodings, and
// printable.go finds text in what may be a file.
//
// # Ambiguity
//
// Servers read the same body differently: some take a lone line feed for the end of a line, some take a boundary in
// the middle of a line, some know filename*. A text must not get through because it stands in what only this package
// takes for a file. So each part is one of three:
//
//   - A file is a file for every server. Its header has at most 1,024 bytes, no folded lines, control characters or
//     doubtful quotes, one Content-Disposition that says form-data with a name and a filename in the form in which
//     browsers write them, and one Content-Type, which is not text. Its bytes are not looked at.
//   - A field is a file for no server: it has no filename and no type other than text. All of its bytes are returned
//     at once, whatever they are.
//   - Anything else may be a file: a part without a Content-Type, one of text, one with only a filename* or with
//     escaped quotes, an image without a filename. Some server hands it to an app as a text, and another app's large
//     file may look the same. Its bytes are returned in fragments as they come, without a limit, see [Part.Fragment].
//
// Servers may disagree about everything that follows an ambiguity. From there on no part is a file, and headers are
// returned as text as well. It begins with a delimiter that is not written like the first one (another line end,
// white space after it, not at the start of a line, something behind it, right after a header), with a header whose
// end not every server sees, with a Content-Length that the part does not keep, and with the last delimiter. Text
// before the first delimiter is returned, too.
//
// A boundary with characters that need quotes is searched for in two ways: as it is, and up to the first such
// character, where Starlette and Werkzeug end it.
//
// A part that contains parts is returned whole, and then its parts are, but not the parts within those. A part with a
// Content-Transfer-Encoding or Content-Encoding is returned as it is, and then decoded.
//
// # Binary data
//
// In the fragments of what may be a file, blocks of 512 bytes of which one byte in 20 is a control character are not
// returned as they are. Of these only the printable is returned: runs of printable UTF-8, and what is left without
// the bytes that are not printable, where its characters repeat as they do in any language.
//
// # Cost
//
// Each byte is looked at a fixed number of times, whatever the shape of a body. Parts within parts count towards
// [MaxParts].
package multipart

import (
	"bytes"
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// Errors of [Scanner]. They are matched with errors.Is, and none of them carries content.
var (
	// ErrTooLarge says that there is more text than the limit.
	ErrTooLarge = errors.New("multipart: there is too much text")
	// ErrMalformed says that the body cannot be parsed.
	ErrMalformed = errors.New("multipart: the body is malformed")
	// ErrHeaderTooLarge says that the header of a part is larger than [MaxHeader]. It is an [ErrMalformed], too.
	ErrHeaderTooLarge = fmt.Errorf("%w: the header of a part is larger than %d bytes", ErrMalformed, MaxHeader)
	// ErrTooManyParts says that there are more parts than [MaxParts]. It is an [ErrMalformed], too.
	ErrTooManyParts = fmt.Errorf("%w: there are more than %d parts", ErrMalformed, MaxParts)
	// ErrAmbiguous says that servers disagree about where parts are, and that some may find a part whose text is
	// encoded.
	ErrAmbiguous = errors.New("multipart: the body can be read in several ways")
	// ErrBoundary says that the boundary is empty or too long. It is an [ErrMalformed], too.
	ErrBoundary = fmt.Errorf("%w: the boundary is not valid", ErrMalformed)
)

const (
	// MaxHeader is the maximum size of a part's header, in bytes.
	MaxHeader = 16 << 10
	// MaxParts is the maximum number of parts of a body.
	MaxParts = 10_000
)

// Part is a text to be moderated: the value of a field, or the name of a file.
type Part struct {
	// Name is the field's name, decoded from Content-Disposition. It is empty if there is none, and for text outside
	// of the parts.
	Name string
	// Filename is a name of a file, decoded. A part with a Filename has no Body.
	Filename string
	// Header is the part's header, nil for text outside of the parts. It must not be changed.
	Header textproto.MIMEHeader
	// Body is the text as it was sent, in any charset. It belongs to the caller. It is nil for the name of a file and
	// for a field without text.
	Body []byte
	// File says that the part is a file for every server, so that its bytes are not returned. It is false if some
	// servers may take the part for a field although it has a filename: then its text is returned as well.
	File bool
	// Fragment says that Body is a fragment of what some servers take for a file and some for a field. Each fragment
	// but the first begins with the last bytes of the one before. Of binary data, it has only what is printable.
	Fragment bool
	// Charset is the charset that the field _charset_ declares for all other fields, for servers that know it. It is
	// empty if there is none.
	Charset string
	// Truncated says that the text exceeds the limit, and that Body is only its beginning.
	Truncated bool
	// Ambiguous says that servers may disagree about the name or the extent of the part. It is to be moderated even
	// if only other fields are selected.
	Ambiguous bool
}

// mode says what a [Scanner] is in.
type mode int

const (
	inText mode = iota
	inHeader
	inFile
)

// Scanner extracts the texts of one body. It is not safe for concurrent use.
type Scanner struct {
	delim []byte
	short []byte // the prefix of delim that some servers take for all of it
	limit int64
	depth int // 1 in a part within a part

	buf  []byte  // bytes at hand; those from at on are not decided yet
	base int64   // where buf starts in the body
	prev [2]byte // the bytes before buf
	at   int     // in buf: up to here the bytes may be forwarded
	scan int     // in buf: up to here all delimiters have been handled

	eol     string // the line end of the first delimiter, "" before it
	tainted bool   // servers may disagree from here on: no part is a file
	charset string // the charset that the field _charset_ declares
	count   int    // parts so far, including those within parts

	mode      mode
	part      Part
	searched  int    // in buf: up to here the header has no end
	body      int    // in buf: where the body of the part starts, behind at if the header is returned, too
	start     int64  // in the whole body: where that of the part starts, -1 before it
	length    string // the Content-Length that the part declares
	fragments bool   // the part is returned in fragments
	named     bool   // the part has a filename
	repeated  int    // bytes from at on that were returned and will be repeated

	used     int64 // bytes of text that were returned as sent
	unpacked int64 // bytes of text that were returned decoded or from within parts
	parts    []Part
	err      error
}

// maxBoundary is the maximum length of a boundary. RFC 2046 allows 70 characters.
const maxBoundary = 200

// NewScanner returns a Scanner for a body with the boundary that its Content-Type declares. The limit is the maximum
// size of all texts of the body together, in bytes, as they were sent, and once more as they are decoded. What may be
// a file does not count. It bounds the memory to a few times the limit and some KiB, whatever the size of the body.
func NewScanner(boundary string, limit int64) *Scanner {
	s := &Scanner{delim: []byte("--" + boundary), limit: max(limit, 0), part: Part{Ambiguous: true}}
	s.short = s.delim
	if n := tokenSize(boundary); n > 0 { // any other was in quotes, which all servers understand
		s.short = s.delim[:2+n]
	}
	if boundary == "" || len(boundary) > maxBoundary {
		s.err = ErrBoundary
	}
	return s
}

// pushSize is how many bytes are processed at a time, so that a large chunk is not copied.
const pushSize = 32 << 10

// Push takes the next bytes of the body, and returns the parts that they complete. It does not keep the chunk. With
// [ErrTooLarge], the parts end with the beginning of the text that exceeds the limit. After an error, nothing more is
// returned but the same error.
func (s *Scanner) Push(chunk []byte) (parts []Part, err error) {
	s.parts = nil
	for len(chunk) > 0 && s.err == nil {
		n := min(len(chunk), pushSize)
		s.buf = append(s.buf, chunk[:n]...)
		chunk = chunk[n:]
		s.process(false)
		s.compact()
	}
	return s.parts, s.err
}

// Finish ends the body, and returns the text that was not complete: servers accept a body without its last delimiter.
func (s *Scanner) Finish() (parts []Part, err error) {
	s.parts = nil
	if s.err != nil {
		return nil, s.err
	}
	s.process(true)
	if s.err == nil {
		s.endPart(len(s.buf))
	}
	if s.err == nil {
		s.at = len(s.buf)
	}
	s.compact()
	return s.parts, s.err
}

// Safe returns the offset in the body up to which the bytes may be forwarded once the returned parts are moderated.
// What is before it belongs to files, to delimiters and to returned texts.
func (s *Scanner) Safe() int64 { return s.base + int64(s.at) }

// compact drops the bytes that are decided.
func (s *Scanner) compact() {
	if s.at == 0 || s.err != nil {
		return
	}
	for i := max(0, s.at-len(s.prev)); i < s.at; i++ {
		s.prev[0], s.prev[1] = s.prev[1], s.buf[i]
	}
	n := copy(s.buf, s.buf[s.at:])
	s.buf = s.buf[:n]
	s.base += int64(s.at)
	s.scan -= s.at
	s.body -= s.at
	s.searched -= s.at
	s.at = 0
}

// process works through buf. Each byte is searched for delimiters once.
func (s *Scanner) process(ended bool) {
	for s.err == nil {
		next := bytes.Index(s.buf[s.scan:], s.short)
		known := len(s.buf)
		switch {
		case next >= 0:
			next += s.scan
			known = next
		case !ended:
			known = max(s.scan, len(s.buf)-len(s.short)+1)
		}
		s.scan = known
		s.consume(known)
		if next < 0 || s.err != nil {
			return
		}
		d, enough := s.delimiter(next, ended)
		if !enough {
			return
		}
		if d.length == 0 {
			s.ambiguousBoundary(next)
			continue
		}
		s.endPart(next - d.before)
		if s.err != nil {
			return
		}
		s.tainted = s.tainted || d.odd || d.last
		s.at = next + d.length
		s.scan = s.at
		s.beginPart(d.last)
	}
}

// delimiter is a line with a boundary.
type delimiter struct {
	before int  // bytes of the line end before it
	length int  // bytes from the two hyphens to the end of the line; 0 if it is none
	odd    bool // not all servers see it
	last   bool // two hyphens follow
}

// maxPadding is the maximum amount of white space behind a boundary.
const maxPadding = 1 << 10

// delimiter examines what is before and after a boundary, and reports whether there was enough to decide.
func (s *Scanner) delimiter(i int, ended bool) (d delimiter, enough bool) {
	if here := s.buf[i:min(len(s.buf), i+len(s.delim))]; len(here) < len(s.delim) && bytes.HasPrefix(s.delim, here) {
		return d, ended
	} else if !bytes.Equal(here, s.delim) {
		return d, true // a server that knows only the start of the boundary may take it for one
	}
	before, lineStart := s.lineEnd(i)
	if !lineStart {
		return d, true
	}
	d.before = len(before)
	rest := s.buf[i+len(s.delim):]
	padding := 0
	for padding < len(rest) && padding <= maxPadding && (rest[padding] == ' ' || rest[padding] == '\t') {
		padding++
	}
	rest = rest[padding:]
	after := 0
	switch {
	case bytes.HasPrefix(rest, []byte("--")) && padding == 0:
		d.last, after = true, 2
	case bytes.HasPrefix(rest, []byte("\r\n")):
		after = 2
	case bytes.HasPrefix(rest, []byte("\n")):
		after = 1
	case len(rest) == 0 && ended:
	case len(rest) == 0, len(rest) == 1 && (rest[0] == '\r' || rest[0] == '-') && !ended:
		return d, false
	default:
		return d, true
	}
	d.length = len(s.delim) + padding + after
	end := string(rest[:after])
	if !d.last && s.eol == "" {
		s.eol = end
	}
	first := s.base+int64(i) == 0
	d.odd = padding > 0 || !first && before != s.eol || !d.last && end != s.eol
	return d, true
}

// lineEnd returns the line end before an index of buf, and whether a line starts there at all.
func (s *Scanner) lineEnd(i int) (eol string, lineStart bool) {
	if s.base+int64(i) == 0 {
		return "", true
	}
	switch {
	case s.before(i, 1) != '\n':
		return "", false
	case s.before(i, 2) == '\r':
		return "\r\n", true
	}
	return "\n", true
}

// before returns the byte that is n (1 or 2) before an index of buf, 0 before the body.
func (s *Scanner) before(i, n int) byte {
	switch {
	case i-n >= 0:
		return s.buf[i-n]
	case s.base+int64(i-n) < 0:
		return 0
	}
	return s.prev[len(s.prev)+i-n]
}

// ambiguousBoundary handles a boundary that is no delimiter by the standard, which some servers may still take for
// one.
func (s *Scanner) ambiguousBoundary(i int) {
	s.tainted = true
	s.scan = i + 1
	if s.mode == inFile {
		s.mode, s.fragments, s.named, s.repeated = inText, true, true, 0
		s.part.Ambiguous, s.part.File = true, false
		s.at, s.body = i, i
	}
}

// beginPart starts what follows a delimiter.
func (s *Scanner) beginPart(last bool) {
	s.mode = inHeader
	s.part = Part{Ambiguous: s.tainted, Charset: s.charset}
	s.fragments, s.named, s.repeated = false, false, 0
	s.body, s.searched = s.at, s.at
	s.start, s.length = -1, ""
	if s.eol == "" {
		s.eol = "\r\n"
	}
	if last {
		s.mode = inText
		return
	}
	if s.count++; s.count > MaxParts {
		s.err = ErrTooManyParts
	}
}

// consume handles the bytes up to known, in which there is no delimiter.
func (s *Scanner) consume(known int) {
	if s.mode == inHeader {
		s.header(known)
	}
	switch s.mode {
	case inFile:
		s.at = max(s.at, known)
	case inText:
		s.text(known)
	}
}

// header looks for the end of the header, and starts the body there.
func (s *Scanner) header(known int) {
	end, body := emptyLine(s.buf[s.at:known], s.searched-s.at)
	if end < 0 {
		s.searched = max(s.at, known-2)
		if known-s.at > MaxHeader {
			s.err = ErrHeaderTooLarge
		}
		return
	}
	if end > MaxHeader {
		s.err = ErrHeaderTooLarge
		return
	}
	h := parseHeader(s.buf[s.at:s.at+end], s.eol)
	if h.endUnclear || end == 0 || body-end != len(s.eol) {
		s.tainted = true // some servers do not see this empty line, or one before it
	}
	s.body = s.at + body
	s.start = s.base + int64(s.body)
	if lengths := h.fields["Content-Length"]; len(lengths) > 0 {
		s.length = strings.Join(lengths, ",")
	}
	s.part.Name, s.part.Header = h.name, h.fields
	s.part.Ambiguous = s.tainted || h.odd
	file := h.certainFile && !s.tainted
	for _, filename := range h.filenames {
		s.emit(Part{Name: h.name, Filename: filename, Header: h.fields, File: file, Ambiguous: s.part.Ambiguous})
	}
	if s.err != nil {
		return
	}
	s.fragments, s.named = h.maybeFile && !needsWhole(h.fields), len(h.filenames) > 0
	switch {
	case file:
		s.mode, s.part.File = inFile, true
		s.at = s.body
		return
	case !s.tainted:
		s.at = s.body
	}
	s.mode = inText
}

// emptyLine finds the empty line that ends a header. Before from there is known to be none.
func emptyLine(b []byte, from int) (end, body int) {
	if from == 0 {
		if n := lineBreak(b); n > 0 {
			return 0, n
		}
	}
	for i := from; i < len(b); i++ {
		next := bytes.IndexByte(b[i:], '\n')
		if next < 0 {
			break
		}
		i += next
		if n := lineBreak(b[i+1:]); n > 0 {
			return i + 1, i + 1 + n
		}
	}
	return -1, -1
}

// lineBreak returns the length of the line end that b starts with, 0 if there is none.
func lineBreak(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte("\n")):
		return 1
	case bytes.HasPrefix(b, []byte("\r\n")):
		return 2
	}
	return 0
}

// fragmentSize is how much of what may be a file is returned at a time. fragmentOverlap is how much of it is repeated
// with what follows, so that no sentence is torn. Both are multiples of 4, the size of a character in UTF-32.
const (
	fragmentSize    = 16 << 10
	fragmentOverlap = 512
)

// text holds a text, or returns it in fragments.
func (s *Scanner) text(known int) {
	outside := s.part.Header == nil
	for outside && s.at < known && isSpace(s.buf[s.at]) {
		s.at++
	}
	for s.fragments && known-s.at > fragmentSize {
		s.emitFragment(s.at+fragmentSize, true)
		s.at += fragmentSize - fragmentOverlap
		s.repeated = fragmentOverlap
	}
	// The line end before a delimiter is not part of the text.
	if held := int64(known - 2 - s.at); !s.fragments && s.used+held > s.limit {
		s.tooLarge(s.buf[s.at:known])
	}
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// emitFragment returns what may be text up to an index of buf.
func (s *Scanner) emitFragment(end int, more bool) {
	raw := s.buf[s.at:end]
	if len(raw) <= s.repeated {
		return // it was returned
	}
	part := s.part
	part.Fragment = true
	s.check(raw)
	switch {
	case declaresCharset(s.part.Header), !s.named && !more && s.repeated == 0:
		// Most servers take a small part without a filename for a field, and some decode its bytes from a charset.
		part.Body = bytes.Clone(raw)
	default:
		part.Body = readableText(raw)
	}
	if len(part.Body) > 0 {
		s.parts = append(s.parts, part)
	}
}

// endPart ends the current part or header at an index of buf.
func (s *Scanner) endPart(i int) {
	switch length := s.base + int64(i) - s.start; {
	case s.mode == inHeader, s.start >= 0 && length < 0:
		s.tainted = true // a strict server sees no delimiter right after a header, or in one
	case s.start >= 0 && s.length != "" && s.length != strconv.FormatInt(length, 10):
		s.tainted = true // a server that believes the length ends the part elsewhere
	}
	i = max(i, s.at)
	rest := s.buf[s.at:i]
	outside := s.part.Header == nil
	switch {
	case s.mode == inFile:
		return
	case s.mode == inHeader: // it was cut off
		if len(rest) > MaxHeader {
			s.err = ErrHeaderTooLarge
			return
		}
		s.part.Ambiguous = true
	case s.fragments:
		s.emitFragment(i, false)
		return
	}
	switch {
	case len(rest) == 0 && s.part.Name != "":
		s.emit(s.part) // the name may be a text
	case len(rest) == 0 || outside && len(bytes.TrimSpace(rest)) == 0:
	case s.used+int64(len(rest)) > s.limit:
		s.tooLarge(rest)
	default:
		part := s.part
		part.Body = bytes.Clone(rest)
		s.emit(part)
		body := rest[min(len(rest), max(0, s.body-s.at)):]
		if part.Name == "_charset_" && len(body) <= maxCharset {
			s.charset = string(bytes.TrimSpace(body))
		}
		if s.err == nil && !outside && len(body) > 0 {
			s.emitNested(body)
		}
		if s.err == nil && (outside || s.tainted) {
			s.emitDeclared(rest)
		}
	}
}

// emitDeclared returns a text that some servers take for parts once more, decoded as lines in it declare.
func (s *Scanner) emitDeclared(text []byte) {
	const declares = "charset transfer-encoding"
	lower := bytes.ToLower(text)
	if !slices.ContainsFunc(strings.Fields(declares), func(word string) bool {
		return bytes.Contains(lower,
			[]byte(word))
	}) {
		return
	}
	lines := bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	kept := s.part
	for s.err == nil {
		header, body, found := bytes.Cut(lines, []byte("\n\n"))
		if !found {
			break
		}
		lines = body
		h := parseHeader(header[max(0, len(header)-MaxHeader):], "\n")
		if !declaresCharset(h.fields) && !needsWhole(h.fields) {
			continue
		}
		body, _, _ = bytes.Cut(body, []byte("\n--"))
		s.part = Part{Name: h.name, Header: h.fields, Charset: s.charset, Ambiguous: true}
		part := s.part
		part.Body = bytes.Clone(body)
		s.emit(part)
		if s.err == nil {
			s.emitNested(body)
		}
	}
	s.part = kept
}

// maxCharset is the maximum length of the name of a charset.
const maxCharset = 40

// emitNested returns what is encoded or contained in a text that was returned already. It has a limit of its own, of
// the same size.
func (s *Scanner) emitNested(body []byte) {
	room := s.limit - s.unpacked
	if text := decoded(s.part.Header, body, room+1); len(text) > 0 && !bytes.Equal(text, body) {
		part := s.part
		part.Body = text
		if int64(len(text)) > room {
			part.Body, part.Truncated, s.err = text[:room], true, ErrTooLarge
		}
		s.parts = append(s.parts, part)
		s.unpacked += int64(len(part.Body))
		body = text
	}
	if s.depth > 0 || s.err != nil {
		return
	}
	contentTypes := s.part.Header["Content-Type"]
	if len(contentTypes) == 0 {
		return
	}
	declared := content.TypeOf(contentTypes[:1])
	if declared.Kind != content.Multipart || declared.BadBoundary {
		return // the whole is returned already
	}
	nested := NewScanner(declared.Boundary, s.limit-s.unpacked)
	nested.depth, nested.count = s.depth+1, s.count
	parts, err := nested.Push(body)
	if err == nil {
		var last []Part
		last, err = nested.Finish()
		parts = append(parts, last...)
	}
	for _, part := range parts {
		if part.Header == nil {
			continue // it was returned with the whole
		}
		if part.Name == "" {
			part.Name = s.part.Name
		}
		part.Ambiguous = true // it has two names
		s.parts = append(s.parts, part)
	}
	s.unpacked += nested.used + nested.unpacked
	s.count, s.err = nested.count, err
}

// emit returns a part, if there is room for it.
func (s *Scanner) emit(part Part) {
	s.check(part.Body)
	size := int64(len(part.Body) + len(part.Filename))
	if s.used+size > s.limit {
		s.err = ErrTooLarge
		part.Truncated = true
		room := s.limit - s.used
		if part.Body != nil {
			part.Body = part.Body[:room]
		} else {
			part.Filename = part.Filename[:room]
		}
	}
	s.used += size
	s.parts = append(s.parts, part)
}

// check refuses a text in which some servers find a part whose header says that it is encoded: nobody knows which
// bytes that applies to.
func (s *Scanner) check(raw []byte) {
	if s.tainted && s.err == nil && mayBeEncoded(raw) {
		s.err = ErrAmbiguous
	}
}

// tooLarge returns the beginning of a text that exceeds the limit, and ends the scan.
func (s *Scanner) tooLarge(rest []byte) {
	part := s.part
	part.Body = bytes.Clone(rest)
	s.emit(part)
}
