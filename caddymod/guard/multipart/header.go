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

// head is what the header of a part says.
type head struct {
	fields textproto.MIMEHeader
	name   string
	// filenames are all names of a file that a server may take.
	filenames []string
	// file says that every server takes the part for a file, perhaps that some servers do.
	file, perhaps bool
	// odd says that servers may differ in the name.
	odd bool
	// torn says that servers may differ in where the header ends.
	torn bool
}

// maxFileHeader is how long the header of a file is at most. Rack does not read a Content-Disposition of 1,536 bytes or more,
// and takes the part for a field; old versions of Django do not find the end of a longer header.
const maxFileHeader = 1024

// parseHeader reads a header block without the empty line at its end. The line end is "\r\n" or "\n".
func parseHeader(block []byte, eol string) head {
	fields, clean := parseFields(block, eol)
	h := head{fields: fields, torn: !clean}
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
	h.perhaps = len(h.filenames) > 0 || binary
	h.file = binary && !h.odd && len(block) <= maxFileHeader && isFile(dispositions[0]) && hasLine(block, "Content-Disposition:")
	return h
}

// hasLine reports whether a line of a header starts with a name in the usual case: old versions of python-multipart know no
// other.
func hasLine(block []byte, name string) bool {
	return bytes.HasPrefix(block, []byte(name)) || bytes.Contains(block, []byte("\n"+name))
}

// isBinaryType reports whether the Content-Type of a part is one type that is no text. Formidable takes a part without any for
// a field, whatever its filename, and hapi gives an app the text of a file that is declared as text, JSON or a form.
func isBinaryType(values []string) bool {
	if len(values) != 1 {
		return false
	}
	media, _, _ := strings.Cut(values[0], ";")
	kind, subtype, _ := strings.Cut(strings.TrimRight(media, " "), "/")
	return isToken(kind) && isToken(subtype) && content.TypeOf([]string{media}).Kind == content.Binary
}

// isFile reports whether a Content-Disposition is of the form that every server takes for a file's:
//
//	form-data; name="a"; filename="b.png"; filename*=UTF-8''b.png
//
// in any order and with or without the last. Anything else is another thing to one of them: without the blank behind a
// semicolon hapi sees no filename, with one before it aiohttp does not, in upper case hapi and Rack do not, and a filename*
// alone PHP does not know.
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

// plainValue takes a value off the start of s: a token, or quoted without anything in it at which some parser ends it.
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

// maxLine is how long a line of a header may be without doubt: PHP cuts one at 5,120 bytes, and what follows is another line
// to it, or the end of the header.
const maxLine = 4096

// parseFields reads the lines of a header. It is clean if every server finds the same fields in it: without folding, bare
// line ends, control characters and odd names.
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

// isMultipart reports whether the body of a part may be read as parts.
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
		// Parsers that look for the word, and not for the parameter, find it in a value, too.
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

// addFilename remembers a name, but not twice in a row.
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

// decode undoes what clients do to names: RFC 5987, RFC 2047, percent signs.
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

// parameter is one of a header field's.
type parameter struct{ key, value string }

// parameters reads a header field's value that is followed by parameters, as leniently as can be. It is clean if parsers
// agree on what was read.
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

// unquote reads a quoted string. It is sure of where the string ends if there is no backslash before a quote: browsers do
// not escape with backslashes, and servers differ.
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

// tokenSize is the length of the token that s begins with.
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
