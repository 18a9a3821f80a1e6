// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"fmt"
	"mime"
	"net/textproto"
	"net/url"
	"strings"
)

// Boundary reads the boundary of a Content-Type such as "multipart/form-data; boundary=x". The error is an [ErrMalformed]
// where there is no boundary, or none that all parsers agree upon.
func Boundary(contentType string) (string, error) {
	media, params, clean := parameters(contentType)
	if !strings.HasPrefix(media, "multipart/") {
		return "", fmt.Errorf("%w: the Content-Type is not multipart", ErrMalformed)
	}
	boundary, found := "", false
	for _, p := range params {
		switch {
		case p.key == "boundary" && !found:
			boundary, found = p.value, true
		case strings.HasPrefix(p.key, "boundary"):
			return "", fmt.Errorf("%w: the Content-Type has more than one boundary", ErrMalformed)
		}
	}
	// Some clients forget the quotes, but nothing else of what is unclean reads the same everywhere.
	if !clean && strings.ContainsAny(contentType, "\"'\\") {
		return "", fmt.Errorf("%w: the Content-Type cannot be read", ErrMalformed)
	}
	if !validBoundary(boundary) {
		return "", fmt.Errorf("%w: the Content-Type has no valid boundary", ErrMalformed)
	}
	return boundary, nil
}

// maxBoundary is the length of the longest boundary. RFC 2046 allows 70 characters, but many parsers do not mind.
const maxBoundary = 200

// validBoundary reports whether a boundary has only the characters of RFC 2046, section 5.1.1. Some parsers end it at a
// comma, and some take a space away, so these are not valid here.
func validBoundary(boundary string) bool {
	if boundary == "" || len(boundary) > maxBoundary {
		return false
	}
	for i := range len(boundary) {
		if c := boundary[i]; !alphanumeric(c) && !strings.ContainsRune("'()+_-./:=?", rune(c)) {
			return false
		}
	}
	return true
}

// head is what the header of a part says.
type head struct {
	fields textproto.MIMEHeader
	name   string
	// filenames are all names of a file that a server may take.
	filenames []string
	// file says that every server takes the part for a file.
	file bool
	// odd says that servers may differ in the name, or in whether it is a field at all.
	odd bool
	// torn says that servers may differ in where the header ends.
	torn bool
}

// parseHeader reads a header block without the empty line at its end. The line end is "\r\n" or "\n".
func parseHeader(block []byte, eol string) head {
	fields, clean := parseFields(block, eol)
	h := head{fields: fields, torn: !clean, odd: !clean}
	dispositions := fields["Content-Disposition"]
	h.odd = h.odd || len(dispositions) != 1
	file := !h.odd && !isMultipart(fields)
	for _, disposition := range dispositions {
		d := parseDisposition(disposition)
		if h.name == "" {
			h.name = d.name
		}
		h.filenames = append(h.filenames, d.filenames...)
		h.odd = h.odd || d.odd
		file = file && d.file
	}
	h.file = file
	return h
}

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
	file      bool
	odd       bool
}

func parseDisposition(value string) disposition {
	kind, params, clean := parameters(value)
	d := disposition{odd: !clean}
	seen := make(map[string]bool, len(params))
	usual := ""
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
			if p.key == base {
				usual = p.value
			} else {
				extended.WriteString(decoded)
			}
			d.addFilename(decoded)
		}
	}
	d.addFilename(extended.String()) // of several pieces, RFC 2231
	known := kind == "form-data" && seen["name"] || kind == "attachment" || kind == "file"
	// A server that does not know filename* sees a field where there is nothing else.
	named := seen["filename"] && hasBase(usual) && hasBase(decode(usual, false)) && (!seen["filename*"] || hasBase(extended.String()))
	d.file = known && named && !d.odd
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
func parameters(value string) (kind string, params []parameter, clean bool) {
	kind, rest, more := strings.Cut(value, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	clean = kind != ""
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
	return kind, params, clean
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

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
