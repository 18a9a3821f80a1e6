// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package multipart finds the texts of a multipart body while the bytes pass by on their way to an application.
//
//	scanner := multipart.NewScanner(boundary, 1<<20)
//	for chunk := range chunks {
//		parts, err := scanner.Push(chunk)
//		// judge the parts, then send on what is up to scanner.Safe()
//	}
//	parts, err := scanner.Finish()
//
// Files are not kept, so that a body of any size needs little memory; texts are held until they are complete.
//
// # Doubt
//
// Servers read the same body differently: some take a lone line feed for the end of a line, some take a boundary in the
// middle of a line, some know filename*. A text must not get through because it stands in what only this package takes for a
// file. So a part is one of three:
//
//   - A file is one for every server. Its header has at most 1,024 bytes, no folded lines, control characters or doubtful
//     quotes, one Content-Disposition that says form-data with a name and a filename in the form in which browsers write them,
//     and one Content-Type, of a type that is not text. Its bytes are not read.
//   - A field is none for any server: it has no filename and no type that is not text. All of its bytes are returned at
//     once, whatever they are.
//   - The rest may be a file: one without a Content-Type, one of text, one with filename* only or with escaped quotes, a
//     picture without a filename. Some server hands it to an app as a text, and an app's large file may be one. Its bytes are
//     returned in pieces while they come, which are not limited, see [Part.Piece].
//
// There are no more files, and headers are returned as text as well, from the first delimiter on that is not written as the
// first one was (another line end, white space after it, not at the start of a line, followed by something, right after a
// header), from a header on whose end not every server sees, from a Content-Length on that a part does not keep, and after
// the last delimiter. Text before the first delimiter is returned, too.
//
// A boundary with characters that need quotes is looked for in two ways: as it is, and up to the first such character, where
// Starlette and Werkzeug end it.
//
// A part with parts of its own is returned whole, and then its parts, once and not those within them. A part with a
// Content-Transfer-Encoding or Content-Encoding is returned as it is, and then decoded.
//
// # Noise
//
// A picture that may be a field is noise to who reads it. In the pieces of what may be a file, blocks of 512 bytes of which
// one byte in 20 is a control character are not returned as they are but as what can be read in them: stretches of printable
// UTF-8, and what is left without the bytes that are not printable, where its characters repeat as they do in any language.
//
// # Cost
//
// Each byte is looked at a fixed number of times, whatever the shape of a body. Parts of parts count towards [MaxParts].
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
	// ErrMalformed says that the body cannot be read.
	ErrMalformed = errors.New("multipart: the body is malformed")
	// ErrHeaderTooLarge says that the header of a part is larger than [MaxHeader]. It is an [ErrMalformed], too.
	ErrHeaderTooLarge = fmt.Errorf("%w: the header of a part is larger than %d bytes", ErrMalformed, MaxHeader)
	// ErrTooManyParts says that there are more parts than [MaxParts]. It is an [ErrMalformed], too.
	ErrTooManyParts = fmt.Errorf("%w: there are more than %d parts", ErrMalformed, MaxParts)
	// ErrAmbiguous says that servers differ in where parts are, and that some may find one there whose text is encoded.
	ErrAmbiguous = errors.New("multipart: the body can be read in several ways")
	// ErrBoundary says that the boundary is empty or has characters that none may have. It is an [ErrMalformed], too.
	ErrBoundary = fmt.Errorf("%w: the boundary is not valid", ErrMalformed)
)

const (
	// MaxHeader is how large the header of a part may be, in bytes.
	MaxHeader = 16 << 10
	// MaxParts is how many parts a body may have.
	MaxParts = 10_000
)

// Part is a text to be judged: the value of a field, or the name of a file.
type Part struct {
	// Name is the field's name as Content-Disposition has it, decoded. It is empty where there is none, and for text that is
	// outside of the parts.
	Name string
	// Filename is a name of a file, decoded. A part with a Filename has no Body.
	Filename string
	// Header is the part's; nil for text outside of the parts. It must not be changed.
	Header textproto.MIMEHeader
	// Body is the text as it was sent, in whatever charset. It is the caller's. It is nil for the name of a file, and of a field
	// without a text.
	Body []byte
	// File says that the part is a file for every server, whose bytes are not returned. It is false where a part has a filename,
	// but some servers may take it for a field: its text is returned as well.
	File bool
	// Fragment says that Body is a piece of what is a file for some servers and a field for others. Each piece but the first
	// begins with the last bytes of the one before. Of a file that is noise, it is what can be read in it.
	Fragment bool
	// Charset is what the field _charset_ says of all others, for servers that know it; empty where there is none.
	Charset string
	// Truncated says that the text is larger than the limit, and that Body is only its start.
	Truncated bool
	// Ambiguous says that servers may differ in the name or the extent of the part. It is to be judged even if only other
	// fields are.
	Ambiguous bool
}

// modes of a [Scanner]: what the bytes at hand are.
type mode int

const (
	inText mode = iota
	inHeader
	inFile
)

// Scanner finds the texts of one body. It is not safe for concurrent use.
type Scanner struct {
	delim []byte
	short []byte // the start of delim that some servers take for all of it
	limit int64
	depth int // 1 in a part of a part

	buf  []byte  // the bytes at hand; those from at on are not decided yet
	base int64   // where buf starts in the body
	prev [2]byte // what was before buf
	at   int     // in buf: up to here the bytes may go on
	scan int     // in buf: up to here there is no delimiter that is not dealt with

	eol     string // the line end of the first delimiter; empty before it
	tainted bool   // there are no more files
	charset string // what a field says that the others have
	count   int    // parts so far, with those in parts

	mode     mode
	part     Part
	searched int    // in buf: up to here there is no end of the header
	body     int    // in buf: where the body of the part starts; after at if the header is returned with it
	start    int64  // in the body: where the body of the part starts; -1 before it
	length   string // the Content-Length that the part declares
	pieces   bool   // the part is returned in pieces
	named    bool   // it has a filename
	again    int    // bytes from at on that were returned, and will be again

	used     int64 // bytes of text that were returned
	unpacked int64 // and of what was in them
	parts    []Part
	err      error
}

// maxBoundary is the length of the longest boundary. RFC 2046 allows 70 characters.
const maxBoundary = 200

// NewScanner returns a Scanner for a body with the boundary that its Content-Type names. The limit is how many bytes all
// texts of the body may have together, as they were sent, and once more as they are decoded; what may be a file does not
// count. It bounds the memory, which is a few times that and some KiB at most, whatever the size of the body.
func NewScanner(boundary string, limit int64) *Scanner {
	s := &Scanner{delim: []byte("--" + boundary), limit: max(limit, 0), part: Part{Ambiguous: true}}
	s.short = s.delim
	if n := tokenSize(boundary); n > 0 { // one that begins otherwise stood in quotes, which all servers heed
		s.short = s.delim[:2+n]
	}
	if boundary == "" || len(boundary) > maxBoundary {
		s.err = ErrBoundary
	}
	return s
}

// pushSize is how many bytes are worked on at a time, so that a large chunk is not copied.
const pushSize = 32 << 10

// Push takes the next bytes of the body, and returns the parts that are complete with them. The chunk is not kept. With
// [ErrTooLarge] the parts end with the start of the text that is too large. An error stays: nothing is returned any more.
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

// Finish says that the body has ended, and returns the text that was not complete: servers take a body without its last
// delimiter.
func (s *Scanner) Finish() (parts []Part, err error) {
	s.parts = nil
	if s.err != nil {
		return nil, s.err
	}
	s.process(true)
	if s.err == nil {
		s.end(len(s.buf))
	}
	if s.err == nil {
		s.at = len(s.buf)
	}
	s.compact()
	return s.parts, s.err
}

// Safe returns up to which offset of the body the bytes may go on once the parts that were returned are judged. What is
// before it is of files, of delimiters and of texts that were returned.
func (s *Scanner) Safe() int64 { return s.base + int64(s.at) }

// compact forgets what is decided.
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
		s.content(known)
		if next < 0 || s.err != nil {
			return
		}
		d, enough := s.delimiter(next, ended)
		if !enough {
			return
		}
		if d.length == 0 {
			s.doubt(next)
			continue
		}
		s.end(next - d.before)
		if s.err != nil {
			return
		}
		s.tainted = s.tainted || d.odd || d.last
		s.at = next + d.length
		s.scan = s.at
		s.begin(d.last)
	}
}

// delimiter is a boundary in its line.
type delimiter struct {
	before int  // bytes of the line end before it
	length int  // bytes from the two hyphens to the end of the line; 0 if it is none
	odd    bool // not all servers see it
	last   bool // two hyphens follow
}

// maxPadding is how much white space may follow a boundary.
const maxPadding = 1 << 10

// delimiter looks at what is before and after a boundary, and says whether there was enough to see that.
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

// before returns the byte that is n, 1 or 2, before an index of buf; 0 before the body.
func (s *Scanner) before(i, n int) byte {
	switch {
	case i-n >= 0:
		return s.buf[i-n]
	case s.base+int64(i-n) < 0:
		return 0
	}
	return s.prev[len(s.prev)+i-n]
}

// doubt is called for a boundary that is no delimiter by the book. Some servers may take it for one.
func (s *Scanner) doubt(i int) {
	s.tainted = true
	s.scan = i + 1
	if s.mode == inFile {
		s.mode, s.pieces, s.named, s.again = inText, true, true, 0
		s.part.Ambiguous, s.part.File = true, false
		s.at, s.body = i, i
	}
}

// begin starts what comes after a delimiter.
func (s *Scanner) begin(last bool) {
	s.mode = inHeader
	s.part = Part{Ambiguous: s.tainted, Charset: s.charset}
	s.pieces, s.named, s.again = false, false, 0
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

// content deals with the bytes up to known, which have no delimiter.
func (s *Scanner) content(known int) {
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
	if h.torn || end == 0 || body-end != len(s.eol) {
		s.tainted = true // some servers do not see this empty line, or one before it
	}
	s.body = s.at + body
	s.start = s.base + int64(s.body)
	if lengths := h.fields["Content-Length"]; len(lengths) > 0 {
		s.length = strings.Join(lengths, ",")
	}
	s.part.Name, s.part.Header = h.name, h.fields
	s.part.Ambiguous = s.tainted || h.odd
	file := h.file && !s.tainted
	for _, filename := range h.filenames {
		s.emit(Part{Name: h.name, Filename: filename, Header: h.fields, File: file, Ambiguous: s.part.Ambiguous})
	}
	if s.err != nil {
		return
	}
	s.pieces, s.named = h.perhaps && !isWrapped(h.fields), len(h.filenames) > 0
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

// emptyLine finds the empty line that ends a header, where all before from is known to have none.
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

// lineBreak returns the length of the line end that b starts with; 0 for none.
func lineBreak(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte("\n")):
		return 1
	case bytes.HasPrefix(b, []byte("\r\n")):
		return 2
	}
	return 0
}

// pieceSize is how much of what may be a file is returned at a time, and pieceOverlap how much of that is returned again with
// what follows, so that no sentence is torn. Both are multiples of 4, which is the size of a character in UTF-32.
const (
	pieceSize    = 16 << 10
	pieceOverlap = 512
)

// text holds a text, or returns it in pieces.
func (s *Scanner) text(known int) {
	outside := s.part.Header == nil
	for outside && s.at < known && isSpace(s.buf[s.at]) {
		s.at++
	}
	for s.pieces && known-s.at > pieceSize {
		s.piece(s.at+pieceSize, true)
		s.at += pieceSize - pieceOverlap
		s.again = pieceOverlap
	}
	// The line end before a delimiter is not of the text.
	if held := int64(known - 2 - s.at); !s.pieces && s.used+held > s.limit {
		s.tooLarge(s.buf[s.at:known])
	}
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// piece returns what may be text up to an index of buf.
func (s *Scanner) piece(end int, more bool) {
	raw := s.buf[s.at:end]
	if len(raw) <= s.again {
		return // it was returned
	}
	part := s.part
	part.Fragment = true
	s.check(raw)
	switch {
	case isEncoded(s.part.Header), !s.named && !more && s.again == 0:
		// A small part without a filename is a field for most servers, and its bytes are those of a charset for some.
		part.Body = bytes.Clone(raw)
	default:
		part.Body = readable(raw)
	}
	if len(part.Body) > 0 {
		s.parts = append(s.parts, part)
	}
}

// end finishes what the scanner is in, at an index of buf.
func (s *Scanner) end(i int) {
	switch length := s.base + int64(i) - s.start; {
	case s.mode == inHeader, s.start >= 0 && length < 0:
		s.tainted = true // a strict server sees no delimiter right after a header, or in one
	case s.start >= 0 && s.length != "" && s.length != strconv.FormatInt(length, 10):
		s.tainted = true // a server that believes the length reads on, or ends earlier
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
	case s.pieces:
		s.piece(i, false)
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
			s.inner(body)
		}
		if s.err == nil && (outside || s.tainted) {
			s.outside(rest)
		}
	}
}

// outside returns what a text that some servers take for parts says in the charset, and without the encoding, that lines in
// it declare.
func (s *Scanner) outside(text []byte) {
	const declares = "charset transfer-encoding"
	lower := bytes.ToLower(text)
	if !slices.ContainsFunc(strings.Fields(declares), func(word string) bool { return bytes.Contains(lower, []byte(word)) }) {
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
		if !isEncoded(h.fields) && !isWrapped(h.fields) {
			continue
		}
		body, _, _ = bytes.Cut(body, []byte("\n--"))
		s.part = Part{Name: h.name, Header: h.fields, Charset: s.charset, Ambiguous: true}
		part := s.part
		part.Body = bytes.Clone(body)
		s.emit(part)
		if s.err == nil {
			s.inner(body)
		}
	}
	s.part = kept
}

// maxCharset is the length of the longest name of a charset.
const maxCharset = 40

// inner returns what is encoded or contained in a text that was returned already. It has a limit of its own, as large as the
// other.
func (s *Scanner) inner(body []byte) {
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

// check refuses a text in which some servers find a part, and in it a header that says that the part is encoded: which bytes
// that is about nobody knows.
func (s *Scanner) check(raw []byte) {
	if s.tainted && s.err == nil && mayBeEncoded(raw) {
		s.err = ErrAmbiguous
	}
}

// tooLarge ends it all with the start of a text.
func (s *Scanner) tooLarge(rest []byte) {
	part := s.part
	part.Body = bytes.Clone(rest)
	s.emit(part)
}
