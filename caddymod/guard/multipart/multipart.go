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
// file. So a part is a file only where every server says so, and what any server may take for text is returned as text:
//
//   - A file has one Content-Disposition, form-data with a name, or attachment, or file, with one filename that is not empty
//     without its directories; filename* may be there, too. Its header has no folded lines, control characters or doubtful
//     quotes, and its Content-Type is not multipart.
//   - There are no more files, and headers are returned as text as well, from the first delimiter on that is not written as
//     the first one was (another line end, white space after it, not at the start of a line, followed by something, right
//     after a header), from a header on whose end not every server sees, from a Content-Length on that a part does not keep,
//     and after the last delimiter.
//   - Text before the first delimiter is returned, too.
//   - A part with parts of its own is returned whole, and then its parts.
//   - A part with a Content-Transfer-Encoding or Content-Encoding is returned as it is, and then decoded.
//
// # What is not text
//
// An image without a filename is no file, but need not be held either. A block of 512 bytes of which one in 20 is a control
// character is let go, but for its stretches of printable UTF-8, which are returned on lines of their own together with the
// text before them. A part that declares a charset or an encoding, or is smaller than a block, is returned as it is.
package multipart

import (
	"bytes"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
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
	// Body is the text as it was sent, in whatever charset. It is the caller's. It is nil for the name of a file.
	Body []byte
	// File says that the part is a file, whose bytes are not returned. It is false where a part has a filename, but some
	// servers may take it for a field: its text is returned as well.
	File bool
	// Truncated says that the text is larger than the limit, and that Body is only its start.
	Truncated bool
	// Binary says that bytes of the part were let go because they are not text by their look; such a part is returned once,
	// without a Body, and asks for nothing. What may be text in it is returned as usual, see the package's documentation.
	Binary bool
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
	limit int64
	depth int // 1 in a part of a part

	buf  []byte  // the bytes at hand; those from at on are not decided yet
	base int64   // where buf starts in the body
	prev [2]byte // what was before buf
	at   int     // in buf: up to here the bytes may go on
	scan int     // in buf: up to here there is no delimiter that is not dealt with

	eol     string // the line end of the first delimiter; empty before it
	tainted bool   // there are no more files
	charset bool   // a field says what charset the others have
	count   int    // parts so far

	mode     mode
	part     Part
	searched int    // in buf: up to here there is no end of the header
	body     int    // in buf: where the body of the part starts; after at if the header is returned with it
	start    int64  // in the body: where the body of the part starts; -1 before it
	length   string // the Content-Length that the part declares
	block    int    // in buf: up to here the text looks like text
	encoded  bool   // looks say nothing about the text
	binary   bool   // bytes of the text were let go
	kept     []byte // text out of what was let go, not returned yet

	used     int64 // bytes of text that were returned
	unpacked int64 // and of what was in them
	parts    []Part
	err      error
}

// NewScanner returns a Scanner for a body with the boundary that its Content-Type names, see [Boundary]. The limit is how
// many bytes all texts of the body may have together, as they were sent, and once more as they are decoded. It bounds the
// memory, which is a few times that and some KiB at most, whatever the size of the body.
func NewScanner(boundary string, limit int64) *Scanner {
	s := &Scanner{delim: []byte("--" + boundary), limit: max(limit, 0), part: Part{Ambiguous: true}}
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
	if s.err == nil {
		s.flush()
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
	s.block -= s.at
	s.at = 0
}

// process works through buf. Each byte is searched for delimiters once.
func (s *Scanner) process(ended bool) {
	for s.err == nil {
		next := bytes.Index(s.buf[s.scan:], s.delim)
		known := len(s.buf)
		switch {
		case next >= 0:
			next += s.scan
			known = next
		case !ended:
			known = max(s.scan, len(s.buf)-len(s.delim)+1)
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
		s.mode = inText
		s.part.Ambiguous, s.part.File = true, false
		s.at, s.body, s.block = i, i, i
	}
}

// begin starts what comes after a delimiter.
func (s *Scanner) begin(last bool) {
	s.mode = inHeader
	s.part = Part{Ambiguous: s.tainted}
	s.encoded, s.binary = false, false
	s.body, s.searched, s.block = s.at, s.at, s.at
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
	if h.name == "_charset_" {
		s.charset = true
	}
	s.encoded = s.charset || isEncoded(h.fields)
	switch {
	case file:
		s.mode, s.part.File = inFile, true
		s.at = s.body
		return
	case !s.tainted:
		s.at = s.body
	}
	s.mode, s.block = inText, s.at
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

// text looks at the blocks of a text, and lets go of those that are none.
func (s *Scanner) text(known int) {
	outside := s.part.Header == nil
	for outside && !s.binary && s.block == s.at && s.at < known && isSpace(s.buf[s.at]) {
		s.at++
		s.block++
	}
	for !s.encoded && known-s.block > blockSize { // one byte more, for a byte order mark at the end
		if s.block <= s.body && s.body+2 <= known && isUTF16(s.buf[s.body:]) {
			s.encoded = true
			break
		}
		block := s.buf[s.block : s.block+blockSize]
		if isBinary(block) {
			s.letGo()
			lead := run(block)
			if held := s.buf[s.at : s.block+lead]; len(held) >= minRun {
				s.kept = appendLine(s.kept, held)
			}
			var open int
			s.kept, open = appendRuns(s.kept, block[lead:])
			s.at = s.block + lead + open
		}
		s.block += blockSize
	}
	// The line end before a delimiter is not of the text.
	if held := int64(len(s.kept) + known - 2 - s.at); s.used+held > s.limit {
		s.tooLarge(s.buf[s.at:known])
	}
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// letGo says once for a part that not all of its bytes are held.
func (s *Scanner) letGo() {
	if !s.binary {
		s.binary = true
		part := s.part
		part.Binary = true
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
	switch {
	case s.mode == inFile:
		return
	case s.mode == inHeader: // it was cut off
		if len(rest) > MaxHeader {
			s.err = ErrHeaderTooLarge
			return
		}
		s.part.Ambiguous = true
	case s.binary && isBinary(rest):
		var open int
		s.kept, open = appendRuns(s.kept, rest)
		rest = rest[open:]
		if len(rest) < minRun {
			rest = nil
		}
	}
	outside := s.part.Header == nil
	switch {
	case len(rest) == 0 || outside && len(bytes.TrimSpace(rest)) == 0:
		s.flush()
	case s.used+int64(len(s.kept)+len(rest)) > s.limit:
		s.tooLarge(rest)
	case len(s.kept) > 0:
		s.kept = appendLine(s.kept, rest)
		s.flush()
	default:
		part := s.part
		part.Body = bytes.Clone(rest)
		s.emit(part)
		if body := s.body - s.at; s.err == nil && !outside && !s.binary && body < len(rest) {
			s.inner(rest[max(0, body):])
		}
	}
}

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
	if s.depth > 0 {
		return
	}
	for _, contentType := range s.part.Header["Content-Type"] {
		boundary, err := Boundary(contentType)
		if err != nil || s.err != nil {
			continue
		}
		nested := NewScanner(boundary, s.limit-s.unpacked)
		nested.depth = s.depth + 1
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
		s.err = err
	}
}

// flush returns what is kept.
func (s *Scanner) flush() {
	if len(s.kept) == 0 {
		return
	}
	part := s.part
	part.Body = bytes.Clone(s.kept)
	s.kept = s.kept[:0]
	s.emit(part)
}

// emit returns a part, if there is room for it.
func (s *Scanner) emit(part Part) {
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

// tooLarge ends it all with the start of a text.
func (s *Scanner) tooLarge(rest []byte) {
	part := s.part
	part.Body = appendLine(bytes.Clone(s.kept), rest)
	s.emit(part)
}
