// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"mime"
	"net/textproto"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// partHeader is what the header of a part says.
type partHeader struct {
	fields textproto.MIMEHeader
	name   string
	// filenames are all names of a file that a server may take.
	filenames []string
	// certainFile says that every server takes the part for a file, maybeFile that some servers do.
	certainFile, maybeFile bool
	// odd says that servers may disagree about the name.
	odd bool
	// endUnclear says that servers may disagree about where the header ends.
	endUnclear bool
}

// maxFileHeader is the maximum size of a file's header, in bytes. Rack ignores a Content-Disposition of 1,536 bytes
// or more, and takes the part for a field. Old versions of Django do not find the end of a longer header.
const maxFileHeader = 1024

// parseHeader parses a header block without the empty line at its end. The line end is "\r\n" or "\n".
func parseHeader(block []byte, eol string) partHeader {
	fields, clean := parseFields(block, eol)
	h := partHeader{fields: fields, endUnclear: !clean}
	dispositions := fields["Content-Disposition"]
	h.odd = !clean || len(dispositions) != 1
	for _, value := range dispositions {
		d := parseDisposition(value)
		if h.name == "" {
			h.name = d.name
		}
		h.filenames = append(h.filenames, d.filenames...)
		h.odd = h.odd || d.odd
	}
	binary := isBinaryType(fields["Content-Type"])
	h.maybeFile = len(h.filenames) > 0 || binary
	h.certainFile = binary && !h.odd && len(block) <= maxFileHeader && isFile(dispositions[0]) &&
		hasLine(block, "Content-Disposition:")
	return h
}

// hasLine reports whether a line of a header starts with a name in its usual case. Old versions of python-multipart
// know no other.
func hasLine(block []byte, name string) bool {
	return bytes.HasPrefix(block, []byte(name)) || bytes.Contains(block, []byte("\n"+name))
}

// isBinaryType reports whether a part has exactly one Content-Type, which is not text. Formidable takes a part
// without a type for a field, whatever its filename, and hapi gives an app the text of a file that is declared as
// text, JSON or a form.
func isBinaryType(values []string) bool {
	if len(values) != 1 {
		return false
	}
	media, _, _ := strings.Cut(values[0], ";")
	kind, subtype, _ := strings.Cut(strings.TrimRight(media, " "), "/")
	return isToken(kind) && isToken(subtype) && content.TypeOf([]string{media}).Kind == content.Binary
}

// isFile reports whether a Content-Disposition has the form that every server takes for a file's:
//
//	form-data; name="a"; filename="b.png"; filename*=UTF-8''b.png
//
// in any order and with or without the last. Some server takes anything else for something else: without a blank
// behind a semicolon, hapi sees no filename; with a blank before one, aiohttp sees none; in upper case, hapi and Rack
// see none; and PHP ignores a filename* on its own.
func isFile(disposition string) bool {
	rest, ok := strings.CutPrefix(disposition, "form-data")
	if !ok || !utf8.ValidString(disposition) {
		return false
	}
	var name, filename, extended bool
	for rest != "" {
		if rest, ok = strings.CutPrefix(rest, "; "); !ok {
			return false
		}
		var key, value string
		if key, rest, ok = strings.Cut(rest, "="); !ok {
			return false
		}
		if value, rest, ok = plainValue(rest); !ok {
			return false
		}
		switch {
		case key == "name" && !name:
			name, ok = true, !strings.ContainsAny(value, "=")
		case key == "filename" && !filename:
			filename, ok = true, hasBase(value) && hasBase(decode(value, false))
		case key == "filename*" && !extended:
			extended, ok = true, isExtended(value) && hasBase(decode(value, true))
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return name && filename
}

// plainValue cuts a value off the start of s: a token, or a quoted string with nothing in it at which some parser
// ends it.
func plainValue(s string) (value, rest string, ok bool) {
	if quoted, is := strings.CutPrefix(s, `"`); is {
		value, rest, ok = strings.Cut(quoted, `"`)
		return value, rest, ok && value != "" && !strings.ContainsAny(value, "\\;\t")
	}
	end := strings.IndexByte(s, ';')
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:], isToken(s[:end])
}

// isExtended reports whether a value is one of RFC 8187 that every parser can decode.
func isExtended(value string) bool {
	charset, rest, _ := strings.Cut(value, "'")
	language, text, ok := strings.Cut(rest, "'")
	if _, err := url.PathUnescape(text); err != nil {
		return false
	}
	return ok && language == "" && strings.EqualFold(charset, "utf-8")
}

// maxLine is the maximum length of a header line that is not ambiguous, in bytes. PHP cuts a line at 5,120 bytes, and
// takes what follows for another line or the end of the header.
const maxLine = 4096

// parseFields parses the lines of a header. It is clean if every server finds the same fields in it: there are no
// folded lines, bare line ends, control characters or odd names.
func parseFields(block []byte, eol string) (fields textproto.MIMEHeader, clean bool) {
	fields, clean = make(textproto.MIMEHeader, 2), true
	last := ""
	var folds []byte // of the field before, put together at once: a header may have thousands
	unfold := func() {
		if values := fields[last]; len(folds) > 0 && len(values) > 0 {
			values[len(values)-1] += string(folds)
		}
		folds = folds[:0]
	}
	for len(block) > 0 {
		line, rest, _ := bytes.Cut(block, []byte("\n"))
		if len(line) > maxLine {
			clean = false
		}
		if len(rest) > 0 || block[len(block)-1] == '\n' {
			if trimmed, found := bytes.CutSuffix(line, []byte("\r")); found {
				line, clean = trimmed, clean && eol == "\r\n"
			} else {
				clean = clean && eol == "\n"
			}
		}
		block = rest
		if bytes.ContainsFunc(line, isControl) {
			clean = false
		}
		if folded := len(line) > 0 && (line[0] == ' ' || line[0] == '\t'); folded {
			clean = false
			folds = append(append(folds, ' '), bytes.TrimSpace(line)...)
			continue
		}
		unfold()
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			clean = false
			continue
		}
		clean = clean && isToken(string(name))
		last = textproto.CanonicalMIMEHeaderKey(string(bytes.TrimSpace(name)))
		fields[last] = append(fields[last], string(bytes.TrimSpace(value)))
	}
	unfold()
	return fields, clean
}

// isMultipart reports whether the body of a part may itself be parsed as parts.
func isMultipart(fields textproto.MIMEHeader) bool {
	for _, value := range fields["Content-Type"] {
		if strings.Contains(strings.ToLower(value), "multipart/") {
			return true
		}
	}
	return false
}

// disposition is what one Content-Disposition says.
type disposition struct {
	name      string
	filenames []string
	odd       bool
}

func parseDisposition(value string) disposition {
	params, clean := parameters(value)
	d := disposition{odd: !clean}
	seen := make(map[string]bool, len(params))
	var extended strings.Builder
	for _, p := range params {
		if seen[p.key] {
			d.odd = true
		}
		seen[p.key] = true
		// Parsers that look for the word, and not for the parameter, also find it in a value.
		if strings.Contains(strings.ToLower(p.value), "filename") && strings.ContainsAny(p.value, ";=\\") {
			d.odd = true
		}
		base, star, _ := strings.Cut(p.key, "*")
		decoded := decode(p.value, strings.HasSuffix(p.key, "*"))
		switch base {
		case "name":
			d.odd = d.odd || decoded != p.value || p.key != base
			if d.name == "" || seen[base+"*"] && p.key == base {
				d.name = decoded
			}
		case "filename":
			d.odd = d.odd || star != ""
			if p.key != base {
				extended.WriteString(decoded)
			}
			d.addFilename(decoded)
		}
	}
	d.addFilename(extended.String()) // of several pieces, RFC 2231
	return d
}

// addFilename adds a name, but not twice in a row.
func (d *disposition) addFilename(name string) {
	if name != "" && (len(d.filenames) == 0 || d.filenames[len(d.filenames)-1] != name) {
		d.filenames = append(d.filenames, name)
	}
}

// hasBase reports whether something remains of a file's name without its directories.
func hasBase(name string) bool {
	if cut := strings.LastIndexAny(name, `/\`); cut >= 0 {
		name = name[cut+1:]
	}
	return strings.Trim(name, " \t.'\"") != ""
}

// decode undoes the encodings of names: RFC 5987, RFC 2047, percent-escapes.
func decode(value string, extended bool) string {
	if extended {
		if _, rest, found := strings.Cut(value, "'"); found {
			if _, text, found := strings.Cut(rest, "'"); found {
				value = text
			}
		}
	}
	if strings.Contains(value, "=?") {
		if decoded, err := new(mime.WordDecoder).DecodeHeader(value); err == nil {
			value = decoded
		}
	}
	if strings.Contains(value, "%") {
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		}
	}
	return value
}

// parameter is a parameter of a header field.
type parameter struct{ key, value string }

// parameters parses a header field's value with its parameters, as leniently as possible. It is clean if parsers
// agree on the result.
func parameters(value string) (params []parameter, clean bool) {
	kind, rest, more := strings.Cut(value, ";")
	clean = strings.TrimSpace(kind) != ""
	for more {
		var key, text string
		rest = strings.TrimLeft(rest, " \t")
		end := strings.IndexAny(rest, "=;")
		if end < 0 || rest[end] == ';' { // no value, or a semicolon too many
			clean = false
			_, rest, more = strings.Cut(rest, ";")
			continue
		}
		key, rest = rest[:end], rest[end+1:]
		clean = clean && isToken(key)
		key = strings.ToLower(strings.TrimSpace(key))
		if trimmed := strings.TrimLeft(rest, " \t"); len(trimmed) < len(rest) {
			rest, clean = trimmed, false
		}
		if quoted := rest != "" && (rest[0] == '"' || rest[0] == '\''); quoted {
			var sure bool
			text, rest, sure = unquote(rest)
			clean = clean && sure
			var junk string
			junk, rest, more = strings.Cut(rest, ";")
			clean = clean && strings.Trim(junk, " \t") == ""
		} else {
			text, rest, more = strings.Cut(rest, ";")
			text = strings.TrimRight(text, " \t")
			clean = clean && isToken(text)
			if !strings.HasSuffix(key, "*") {
				clean = clean && !strings.Contains(text, "'")
			}
		}
		params = append(params, parameter{key, text})
	}
	return params, clean
}

// unquote parses a quoted string. It is sure where the string ends unless there is a backslash before a quote:
// browsers do not escape with backslashes, and servers disagree.
func unquote(s string) (text, rest string, sure bool) {
	quote := s[0]
	sure = quote == '"'
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return b.String(), s[i+1:], sure
		case c == '\\' && i+1 < len(s) && (s[i+1] == quote || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
			sure = sure && s[i] != quote && (i+1 == len(s) || s[i+1] != quote)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", false
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// tokenSize returns the length of the token that s begins with.
func tokenSize(s string) int {
	n := 0
	for n < len(s) && isToken(s[n:n+1]) {
		n++
	}
	return n
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
