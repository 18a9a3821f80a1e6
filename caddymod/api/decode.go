// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// The limits of the interface. Characters are Unicode code points, counted after JSON decoding.
const (
	maxContent     = 10_000
	maxThemes      = 10
	maxThemeLength = 100
	// maxBody is room enough for the longest content and themes, every character of them escaped.
	maxBody = 256 << 10
)

// textRequest is the body of a moderation request.
type textRequest struct {
	content    string
	characters int
	themes     []string
	explain    bool
	// raw is the content as it was sent, quoted and escaped. It aliases the body.
	raw []byte
}

// parser reads bodies; it is kept for the next one.
type parser struct {
	body    []byte
	source  bytes.Buffer
	decoder jsontext.Decoder
	scratch []byte
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

// decode reads a moderation request strictly: one JSON object without duplicate members, in valid UTF-8, with nothing
// behind it. Unknown members are ignored, names are case-sensitive. It reports all broken rules at once.
func decode(body []byte) (textRequest, *problem.Problem) {
	p := parsers.Get().(*parser)
	defer p.release()
	p.body, p.source = body, *bytes.NewBuffer(body)
	p.decoder.Reset(&p.source)
	request, mistakes, err := p.request()
	if err == nil {
		err = p.end()
	}
	switch {
	case err != nil:
		return textRequest{}, malformed(body, err)
	case mistakes != nil:
		invalid := problem.New(problem.InvalidRequest, mistakes[0].Detail)
		if len(mistakes) > 1 {
			invalid.Detail = strconv.Itoa(len(mistakes)) + " members break rules."
		}
		invalid.Errors = mistakes
		return textRequest{}, invalid
	}
	return request, nil
}

// release forgets the body and keeps the parser for the next one.
func (p *parser) release() {
	p.body, p.source = nil, bytes.Buffer{}
	p.decoder.Reset(&p.source)
	parsers.Put(p)
}

// request reads the object. An error says that the JSON is malformed.
func (p *parser) request() (request textRequest, mistakes []problem.FieldError, err error) {
	wrong := func(pointer, detail string) {
		mistakes = append(mistakes, problem.FieldError{Pointer: pointer, Detail: detail})
	}
	if p.decoder.PeekKind() != '{' {
		err := p.decoder.SkipValue()
		wrong("", "The body must be a JSON object.")
		return request, mistakes, err
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return request, nil, err
	}
	hasContent := false
	for p.decoder.PeekKind() == '"' {
		name, err := p.name()
		if err != nil {
			return request, nil, err
		}
		switch string(name) {
		case "content":
			hasContent = true
			if err := p.content(&request, wrong); err != nil {
				return request, nil, err
			}
		case "themes":
			if err := p.themes(&request, wrong); err != nil {
				return request, nil, err
			}
		case "explain":
			if err := p.explain(&request, wrong); err != nil {
				return request, nil, err
			}
		default:
			if err := p.decoder.SkipValue(); err != nil {
				return request, nil, err
			}
		}
	}
	if _, err := p.decoder.ReadToken(); err != nil { // the closing brace
		return request, nil, err
	}
	if !hasContent {
		wrong("/content", "content is required.")
	}
	return request, mistakes, nil
}

// end checks that nothing follows the object.
func (p *parser) end() error {
	if _, err := p.decoder.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// name reads a member's name. It is valid until the next read.
func (p *parser) name() ([]byte, error) {
	raw, err := p.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	return p.unquote(raw)
}

// unquote returns the text of a JSON string, without copying it where it has no escapes.
func (p *parser) unquote(raw jsontext.Value) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	var err error
	p.scratch, err = jsontext.AppendUnquote(p.scratch[:0], raw)
	return p.scratch, err
}

// content reads the member "content".
func (p *parser) content(request *textRequest, wrong func(pointer, detail string)) error {
	if p.decoder.PeekKind() != '"' {
		wrong("/content", "content must be a string.")
		return p.decoder.SkipValue()
	}
	raw, err := p.decoder.ReadValue()
	if err != nil {
		return err
	}
	text, err := p.unquote(raw)
	if err != nil {
		return err
	}
	// The decoder may use its buffer again; the body stays.
	end := p.decoder.InputOffset()
	request.raw = p.body[end-int64(len(raw)) : end]
	request.content = string(text)
	request.characters = utf8.RuneCountInString(request.content)
	switch {
	case request.characters == 0:
		wrong("/content", "content must not be empty.")
	case request.characters > maxContent:
		wrong("/content", "content has "+strconv.Itoa(request.characters)+" characters; at most "+strconv.Itoa(maxContent)+" are allowed.")
	case blank(request.content):
		wrong("/content", "content must not be blank.")
	}
	return nil
}

// themes reads the member "themes".
func (p *parser) themes(request *textRequest, wrong func(pointer, detail string)) error {
	if p.decoder.PeekKind() != '[' {
		wrong("/themes", "themes must be an array of strings.")
		return p.decoder.SkipValue()
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; p.decoder.PeekKind() > 0 && p.decoder.PeekKind() != ']'; n++ {
		// A long array is an error as a whole; naming each of its elements would help nobody.
		complain := wrong
		if n >= maxThemes {
			complain = func(string, string) {}
		}
		if err := p.theme(request, n, complain); err != nil {
			return err
		}
	}
	if _, err := p.decoder.ReadToken(); err != nil { // the closing bracket
		return err
	}
	if n > maxThemes {
		wrong("/themes", "themes has "+strconv.Itoa(n)+" entries; at most "+strconv.Itoa(maxThemes)+" are allowed.")
	}
	return nil
}

// theme reads the n-th element of "themes".
func (p *parser) theme(request *textRequest, n int, wrong func(pointer, detail string)) error {
	pointer := "/themes/" + strconv.Itoa(n)
	if p.decoder.PeekKind() != '"' {
		wrong(pointer, "A theme must be a string.")
		return p.decoder.SkipValue()
	}
	raw, err := p.decoder.ReadValue()
	if err != nil {
		return err
	}
	text, err := p.unquote(raw)
	if err != nil {
		return err
	}
	switch length := utf8.RuneCount(text); {
	case length > maxThemeLength:
		wrong(pointer, "A theme has "+strconv.Itoa(length)+" characters; at most "+strconv.Itoa(maxThemeLength)+" are allowed.")
	case blank(string(text)):
		wrong(pointer, "A theme must not be empty or blank.")
	case n < maxThemes:
		request.themes = append(request.themes, string(text))
	}
	return nil
}

// explain reads the member "explain".
func (p *parser) explain(request *textRequest, wrong func(pointer, detail string)) error {
	kind := p.decoder.PeekKind()
	request.explain = kind == 't'
	if kind != 't' && kind != 'f' {
		wrong("/explain", "explain must be true or false.")
	}
	return p.decoder.SkipValue()
}

// blank reports whether text is nothing but white space.
func blank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}

// errTrailing says that something follows the JSON object.
var errTrailing = errors.New("trailing data")

// malformed describes broken JSON. It names the place, and nothing of what stands there but names of members.
func malformed(body []byte, err error) *problem.Problem {
	p := problem.New(problem.MalformedJSON, "")
	syntax := new(jsontext.SyntacticError)
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		p.Detail = "The body is empty; it must be a JSON object."
	case !utf8.Valid(body):
		p.Detail = "The body is not valid UTF-8."
	case errors.Is(err, errTrailing):
		p.Detail = "Something follows the JSON object."
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		p.Detail = "A member is given twice."
		p.Errors = []problem.FieldError{{Pointer: bounded(syntax.JSONPointer), Detail: "The member is given twice."}}
	case errors.As(err, &syntax):
		p.Detail = "The JSON is malformed at byte " + strconv.FormatInt(syntax.ByteOffset, 10) + "."
		if syntax.JSONPointer != "" {
			p.Errors = []problem.FieldError{{Pointer: bounded(syntax.JSONPointer), Detail: "The JSON is malformed here."}}
		}
	default:
		p.Detail = "The JSON ends too early."
	}
	return p
}

// maxPointer is the length of the longest pointer in an error. Longer ones are cut to the nearest member above.
const maxPointer = 200

// bounded returns pointer, or the pointer of a member above that is not too long.
func bounded(pointer jsontext.Pointer) string {
	for len(pointer) > maxPointer {
		pointer = pointer.Parent()
	}
	return string(pointer)
}
