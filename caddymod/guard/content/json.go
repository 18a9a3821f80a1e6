// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxOpened is the maximum depth of strings of JSON within strings of JSON that are parsed.
const maxOpened = 2

// extractChat is [Selection.extractJSON] for the roles of the selection.
func (s *Selection) extractChat(dst []Piece, body []byte) ([]Piece, bool) {
	if len(s.Roles) > 0 {
		r := roleFilter{wanted: s.Roles}
		in := jsonScanner{sel: s, src: body, roles: &r}
		if in.scan(); in.clean() && !r.many {
			r.leaveOut(&in)
			return appendReading(dst, in.dst, 0), true
		}
	}
	return s.extractJSON(dst, body)
}

// extractJSON appends the texts of a JSON body. It also reports whether the body was one or more correct JSON values.
func (s *Selection) extractJSON(dst []Piece, body []byte) ([]Piece, bool) {
	in := jsonScanner{sel: s, dst: dst, src: body}
	in.scan()
	return in.dst, !in.broken && !in.odd && in.depth == in.base
}

// frame is an open container, with the current member or element.
type frame struct {
	key    string // of an object's member
	index  int    // of an array's element
	object bool
	keyed  bool // the member's name has been scanned
}

// jsonScanner finds the strings of JSON and of what resembles it. It accepts everything: whatever stands where it
// must not is text.
type jsonScanner struct {
	sel     *Selection
	dst     []Piece
	src     []byte
	at      int
	prefix  string      // place of the string whose content is src
	opened  int         // depth of strings within strings
	inNoise bool        // src is no text, see [Selection.extractMixed]
	roles   *roleFilter // nil if all roles are wanted

	depth  int
	base   int  // depth outside of all values: that of the string whose content is src
	values int  // values at that depth
	more   bool // more of src is to come: a token that may be incomplete is left
	odd    bool // there was something that only lenient parsers accept
	broken bool // there was something that no parser accepts: places now mean nothing
	frames [maxDepth]frame
	blocks []textBlock // of rich text
	deep   string      // what pointer returns below maxDepth, "" if not known
}

// clean reports whether src was exactly one correct value.
func (s *jsonScanner) clean() bool { return !s.broken && !s.odd && s.depth == s.base && s.values == 1 }

// place returns the frames that have names.
func (s *jsonScanner) place() []frame { return s.frames[:min(s.depth, maxDepth)] }

// top returns the innermost container, nil outside of all containers and below maxDepth.
func (s *jsonScanner) top() *frame {
	if s.depth == s.base || s.depth > maxDepth {
		return nil
	}
	return &s.frames[s.depth-1]
}

func (s *jsonScanner) scan() {
	for s.at < len(s.src) {
		if s.more && !s.tokenComplete() {
			return
		}
		switch c := s.src[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		case '{', '[':
			s.open(c == '{')
		case '}', ']':
			s.close(c == '}')
		case ',':
			s.at++
			s.next()
		case ':':
			s.at++
			s.broken = true
		case 0x1e: // separates the values of a JSON text sequence
			s.at++
			s.broken = s.broken || s.depth > s.base
			s.depth = s.base
		case '"', '\'':
			s.text(c)
		case '/', '#':
			s.comment()
		default:
			s.bareword()
		}
	}
	s.endBlocks(0)
}

func (s *jsonScanner) open(object bool) {
	s.at++
	s.value()
	if s.depth < maxDepth {
		s.frames[s.depth] = frame{object: object}
	}
	s.depth++
	if s.roles != nil {
		s.roles.opened(s)
	}
}

func (s *jsonScanner) close(object bool) {
	s.at++
	if s.depth == s.base {
		s.broken = true
		return
	}
	if f := s.top(); f != nil && f.object != object {
		s.broken = true
	}
	if s.depth--; s.depth <= maxDepth {
		s.deep = ""
	}
	s.endBlocks(s.depth)
	if s.roles != nil {
		s.roles.closed(s)
	}
}

// value notes that a value begins.
func (s *jsonScanner) value() {
	if s.depth == s.base {
		s.values++
		return
	}
	if f := s.top(); f != nil && f.object && !f.keyed {
		s.broken = true
	}
}

// next moves on to the next member or element.
func (s *jsonScanner) next() {
	f := s.top()
	switch {
	case f == nil:
		s.odd = s.odd || s.depth == s.base
	case f.object:
		f.key, f.keyed = "", false
	default:
		f.index++
	}
}

// text scans a string: the name of a member, or a value.
func (s *jsonScanner) text(quote byte) {
	body, escaped := s.quoted(quote)
	if quote != '"' {
		s.odd = true
		// If this is no quotation mark, what it quotes has members.
		s.broken = s.broken || bytes.IndexByte(body, '"') >= 0
	}
	if s.colon() {
		name := s.decoded(body, escaped)
		if s.roles != nil {
			s.roles.named(s, name, !escaped)
		}
		s.name(name)
		return
	}
	s.value()
	text := s.decoded(body, escaped)
	if s.roles != nil {
		s.roles.value(s, text, !escaped)
	}
	s.emit(text)
}

// quoted returns what stands between the quotation mark here and its counterpart, and whether it has escapes.
func (s *jsonScanner) quoted(quote byte) (body []byte, escaped bool) {
	rest := s.src[s.at+1:]
	end := bytes.IndexByte(rest, quote)
	if end >= 0 && bytes.IndexByte(rest[:end], '\\') < 0 {
		s.at += end + 2
		return rest[:end], false
	}
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			s.at += i + 2
			return rest[:i], true
		}
	}
	s.at = len(s.src)
	s.broken = true
	return rest, true
}

func (s *jsonScanner) decoded(body []byte, escaped bool) string {
	if !escaped {
		return stringOf(body)
	}
	return undoEscapes(stringOf(body))
}

// colon reports whether a colon follows in an object, and skips it.
func (s *jsonScanner) colon() bool {
	f := s.top()
	if f != nil && (!f.object || f.keyed) || s.depth == s.base {
		return false
	}
	for i := s.at; i < len(s.src); i++ {
		switch s.src[i] {
		case ' ', '\t', '\r', '\n':
		case ':':
			s.at = i + 1
			return true
		case '/', '#':
			s.at = i
			s.comment()
			i = s.at - 1
		default:
			return false
		}
	}
	return false
}

// name notes the name of a member.
func (s *jsonScanner) name(name string) {
	f := s.top()
	if f == nil {
		if s.wanted() && nameSpeaks(name) {
			s.put(s.pointer(), name)
		}
		return
	}
	f.key, f.keyed = name, true
	if nameSpeaks(name) && s.wanted() {
		s.put(s.pointer()+"#name", name)
	}
}

// comment scans a comment. It is extracted, because parsers differ in what they take for a comment.
func (s *jsonScanner) comment() {
	rest := s.src[s.at:]
	length := len(rest)
	if bytes.HasPrefix(rest, []byte("/*")) {
		if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
			length = end + 4
		}
	} else if end := bytes.IndexByte(rest, '\n'); end >= 0 {
		length = end + 1
	}
	s.at += length
	s.odd = true
	if rest[0] == '/' && (len(rest) < 2 || rest[1] != '*' && rest[1] != '/') {
		s.broken = true
	}
	s.put(s.prefix, undoEscapes(stringOf(rest[:length])))
}

// bareword scans what has no quotation marks: a number or a literal, the name of a member in JSON5, and everything
// that should not be there.
func (s *jsonScanner) bareword() {
	start := s.at
	i := start
	for i < len(s.src) && isWordByte(s.src[i]) {
		i++
	}
	if s.ends(i) && isLiteral(s.src[start:i]) {
		s.at = i
		if f := s.top(); f == nil || !f.object || f.keyed {
			s.value()
			return
		}
		if s.at = i; s.colon() {
			s.odd = true
			s.name(stringOf(s.src[start:i]))
			return
		}
		s.broken = true
		return
	}
	if f := s.top(); s.depth > s.base && (f == nil || f.object && !f.keyed) {
		if end := bytes.IndexAny(s.src[start:], ":,{}[]\"\n"); end > 0 && s.src[start+end] == ':' {
			s.at = start + end + 1
			s.odd = true
			s.name(undoEscapes(strings.TrimSpace(stringOf(s.src[start : start+end]))))
			return
		}
	}
	// At least one byte is consumed, whatever it is.
	end := bytes.IndexAny(s.src[start+1:], "{}[]\"\n\x1e")
	if end < 0 {
		end = len(s.src) - start - 1
	}
	s.at = start + 1 + end
	text := s.src[start:s.at]
	if len(bytes.TrimSpace(text)) == 0 {
		// Unicode white space that JSON does not allow.
		s.odd = true
		return
	}
	s.broken = true
	s.emit(undoEscapes(stringOf(text)))
}

// ends reports whether a bareword may end at i.
func (s *jsonScanner) ends(i int) bool {
	if i == len(s.src) {
		return true
	}
	switch s.src[i] {
	case ' ', '\t', '\r', '\n', ',', '}', ']', ':', '/', 0x1e:
		return true
	}
	return false
}

func isWordByte(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '-' || c == '+' || c == '.' || c == '_' || c == '$'
}

// isLiteral reports whether a word is a number or a word that parsers know.
func isLiteral(word []byte) bool {
	switch string(word) {
	case "true", "false", "null", "NaN", "Infinity", "-Infinity", "+Infinity", "undefined", "None", "True", "False":
		return true
	case "":
		return false
	}
	letters := 0
	for _, c := range word {
		if isLetter(c) {
			letters++
		}
	}
	// 1e5, 0x1F
	return isDigit(word[len(word)-1]) && letters <= 1 || letters <= 8 && len(word) > 2 && word[0] == '0' &&
		word[1]|0x20 == 'x'
}

// wanted reports whether the current place is selected.
func (s *jsonScanner) wanted() bool {
	if len(s.sel.JSON) == 0 || s.broken {
		return true
	}
	place := s.place()
	for i := range s.sel.JSON {
		if s.sel.JSON[i].covers(place) {
			return true
		}
	}
	return false
}

// put appends a text if it may be language.
func (s *jsonScanner) put(name, text string) {
	if s.inNoise {
		s.dst = appendIfText(s.dst, strings.ToValidUTF8(name, "?"), text)
		return
	}
	if s.roles != nil {
		s.roles.many = s.roles.many || len(s.dst) >= manyPieces-1
	}
	s.dst = s.sel.appendAll(s.dst, name, text)
}

// emit appends the text of a value.
func (s *jsonScanner) emit(text string) {
	if s.inNoise {
		s.put("", text)
		return
	}
	s.addToBlock(text)
	if !mayHaveText(text) || s.isNodeName(text) {
		return
	}
	if s.opened < maxOpened && looksJSON(text) && s.inner(text) {
		return
	}
	if !s.wanted() || s.leavesOut(text) {
		return
	}
	if s.opened < maxOpened && looksJSON(text) {
		text = undoEscapes(text)
	}
	if s.roles != nil {
		s.roles.many = s.roles.many || len(s.dst) >= manyPieces-1
	}
	if len(text) < minBlob && !isIdentifier(text) && !mayBeXML(text) && strings.IndexByte(text, '\n') < 0 {
		s.dst = appendPiece(s.dst, Piece{Name: s.pointer(), Text: text})
		return
	}
	s.dst = s.sel.appendAll(s.dst, s.pointer(), text)
}

// looksJSON reports whether a string may itself be JSON.
func looksJSON(text string) bool {
	c := text[0]
	if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
		text = strings.TrimLeft(text, " \t\r\n")
		c = text[0]
	}
	return c == '{' || c == '['
}

// inner extracts from a string that is itself JSON. It reports false, and extracts nothing, for any other string.
func (s *jsonScanner) inner(text string) bool {
	// Pointers continue into the string.
	inner := &jsonScanner{sel: s.sel, dst: s.dst, src: bytesOf(text), prefix: s.prefix, opened: s.opened + 1,
		depth: s.depth, base: s.depth, broken: s.broken, frames: s.frames}
	inner.scan()
	if inner.broken != s.broken || inner.odd || inner.depth != inner.base || inner.values != 1 {
		return false
	}
	s.dst = inner.dst
	return true
}

// undoEscapes undoes the backslash escapes of JSON, JavaScript and their relatives.
func undoEscapes(s string) string {
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for {
		out = append(out, s[:i]...)
		s = s[i+1:]
		if s == "" {
			return stringOf(append(out, '\\'))
		}
		c := s[0]
		s = s[1:]
		switch c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'v':
			out = append(out, '\v')
		case '0':
			out = append(out, 0)
		case '\n', '\r': // the string continues in the next line
		case 'u':
			r, size := hexEscape(s, 4)
			if size == 0 {
				out = append(out, '\\', 'u')
				break
			}
			s = s[size:]
			if utf16High(r) && strings.HasPrefix(s, `\u`) {
				if low, more := hexEscape(s[2:], 4); more > 0 && utf16Low(low) {
					r = utf16.DecodeRune(r, low)
					s = s[2+more:]
				}
			}
			out = utf8.AppendRune(out, r)
		case 'x':
			r, size := hexEscape(s, 2)
			if size == 0 {
				out = append(out, '\\', 'x')
				break
			}
			s = s[size:]
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
		if i = strings.IndexByte(s, '\\'); i < 0 {
			return stringOf(append(out, s...))
		}
	}
}

func utf16High(r rune) bool { return r >= 0xd800 && r < 0xdc00 }
func utf16Low(r rune) bool  { return r >= 0xdc00 && r < 0xe000 }

// hexEscape parses the digits of an escape, or those in braces. The size is 0 if there are none.
func hexEscape(s string, digits int) (r rune, size int) {
	if strings.HasPrefix(s, "{") {
		end := strings.IndexByte(s[:min(len(s), 12)], '}')
		if end < 2 {
			return 0, 0
		}
		n, err := strconv.ParseUint(s[1:end], 16, 32)
		if err != nil || n > unicode.MaxRune {
			return 0, 0
		}
		return rune(n), end + 1
	}
	if len(s) < digits {
		return 0, 0
	}
	for i := range digits {
		v, ok := hexValue(s[i])
		if !ok {
			return 0, 0
		}
		r = r<<4 | rune(v)
	}
	return r, digits
}

func hexValue(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// pointer returns the name of the current place.
func (s *jsonScanner) pointer() string {
	if s.depth <= maxDepth {
		return s.pointTo()
	}
	if s.deep == "" { // containers have no names here, so that it stays the same
		s.deep = s.pointTo()
	}
	return s.deep
}

// pointTo builds the name of the current place.
func (s *jsonScanner) pointTo() string {
	var buf [maxName]byte
	const room = len(buf)
	b := append(buf[:0], s.prefix...)
	for i := range s.place() {
		f := &s.frames[i]
		b = append(b, '/')
		switch {
		case !f.object:
			b = strconv.AppendInt(b, int64(f.index), 10)
		case len(f.key) > room-len(b):
			b = append(b, "…"...)
		case strings.IndexByte(f.key, '/') >= 0 || strings.IndexByte(f.key, '~') >= 0:
			b = append(b, escapeToken(f.key)...)
		default:
			b = append(b, f.key...)
		}
		if len(b) > room-16 {
			b = append(b, "/…"...)
			break
		}
	}
	return printable(string(b))
}

func escapeToken(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
