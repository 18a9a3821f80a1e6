// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// The limits of the interface. Characters are Unicode code points, counted after JSON decoding.
const (
	maxContent         = 10_000
	maxThemes          = 10
	maxThemeCharacters = 100
	// maxBody, in bytes, is enough for the longest content and themes with every character escaped.
	maxBody = 256 << 10

	maxAuthor  = 200
	maxContext = 10_000
	// maxReviewBody, in bytes, is enough for the longest member "review", too.
	maxReviewBody = 3 << 19
)

// textRequest is the body of a moderation request.
type textRequest struct {
	content    string
	characters int
	themes     []string
	explain    bool
	// author and context are for the review queue: who wrote the content, and what it answers.
	author  string
	context []string
	// raw is the content as it was sent, quoted and escaped. It is a part of the body.
	raw []byte
}

// parser decodes bodies, one after another.
type parser struct {
	data    []byte // the body
	source  bytes.Buffer
	decoder jsontext.Decoder
	scratch []byte
	reviews bool // the member "review" is read
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

// decode reads a moderation request strictly: one JSON object without duplicate members, in valid UTF-8, with nothing
// behind it. Unknown members are ignored, and names are case-sensitive. All broken rules are reported at once. reviews
// says that there is a review queue; without one, what is meant for it is an unknown member.
func decode(data []byte, reviews bool) (textRequest, *problem.Problem) {
	p := parsers.Get().(*parser)
	defer p.release()
	p.data, p.source, p.reviews = data, *bytes.NewBuffer(data), reviews
	p.decoder.Reset(&p.source)
	request, mistakes, err := p.request()
	if err == nil {
		err = body.EndJSON(&p.decoder)
	}
	switch {
	case err != nil:
		return textRequest{}, malformed(data, err)
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
	p.data, p.source = nil, bytes.Buffer{}
	p.decoder.Reset(&p.source)
	parsers.Put(p)
}

// request decodes the object. An error means that the JSON is malformed.
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
		case "review":
			if err := p.review(&request, wrong); err != nil {
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

// name returns a member's name. It is valid until the decoder is used again.
func (p *parser) name() ([]byte, error) {
	raw, err := p.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	return p.unquote(raw)
}

// unquote returns the text of a JSON string. One without escapes is not copied.
func (p *parser) unquote(raw jsontext.Value) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	var err error
	p.scratch, err = jsontext.AppendUnquote(p.scratch[:0], raw)
	return p.scratch, err
}

// content decodes the member "content".
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
	// The decoder may overwrite raw; the body stays.
	end := p.decoder.InputOffset()
	request.raw = p.data[end-int64(len(raw)) : end]
	request.content = string(text)
	request.characters = utf8.RuneCountInString(request.content)
	switch {
	case request.characters == 0:
		wrong("/content", "content must not be empty.")
	case request.characters > maxContent:
		wrong("/content", "content has "+strconv.Itoa(request.characters)+" characters; at most "+
			strconv.Itoa(maxContent)+" are allowed.")
	case blank(request.content):
		wrong("/content", "content must not be blank.")
	}
	return nil
}

// themes decodes the member "themes".
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
		// An array that is too long is one error; its elements beyond the limit are not examined.
		report := wrong
		if n >= maxThemes {
			report = func(string, string) {}
		}
		if err := p.theme(request, n, report); err != nil {
			return err
		}
	}
	if _, err := p.decoder.ReadToken(); err != nil { // the closing bracket
		return err
	}
	if n > maxThemes {
		wrong("/themes", "themes has "+strconv.Itoa(n)+" entries; at most "+
			strconv.Itoa(maxThemes)+" are allowed.")
	}
	return nil
}

// theme decodes the n-th element of "themes".
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
	case length > maxThemeCharacters:
		wrong(pointer, "A theme has "+strconv.Itoa(length)+" characters; at most "+
			strconv.Itoa(maxThemeCharacters)+" are allowed.")
	case blank(string(text)):
		wrong(pointer, "A theme must not be empty or blank.")
	case n < maxThemes:
		request.themes = append(request.themes, string(text))
	}
	return nil
}

// explain decodes the member "explain".
func (p *parser) explain(request *textRequest, wrong func(pointer, detail string)) error {
	kind := p.decoder.PeekKind()
	request.explain = kind == 't'
	if kind != 't' && kind != 'f' {
		wrong("/explain", "explain must be true or false.")
	}
	return p.decoder.SkipValue()
}

// review decodes the member "review".
func (p *parser) review(request *textRequest, wrong func(pointer, detail string)) error {
	if !p.reviews {
		return p.decoder.SkipValue()
	}
	if p.decoder.PeekKind() != '{' {
		wrong("/review", "review must be an object.")
		return p.decoder.SkipValue()
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return err
	}
	for p.decoder.PeekKind() == '"' {
		name, err := p.name()
		if err != nil {
			return err
		}
		switch string(name) {
		case "author":
			request.author, err = p.short("/review/author", "author", maxAuthor, wrong)
		case "context":
			err = p.context(request, wrong)
		default:
			err = p.decoder.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := p.decoder.ReadToken() // the closing brace
	return err
}

// short decodes a string of so many characters at most. name is what errors call it.
func (p *parser) short(pointer, name string, most int, wrong func(pointer, detail string)) (string, error) {
	if p.decoder.PeekKind() != '"' {
		wrong(pointer, name+" must be a string.")
		return "", p.decoder.SkipValue()
	}
	raw, err := p.decoder.ReadValue()
	if err != nil {
		return "", err
	}
	text, err := p.unquote(raw)
	if err != nil {
		return "", err
	}
	if length := utf8.RuneCount(text); length > most {
		wrong(pointer, name+" has "+strconv.Itoa(length)+" characters; at most "+strconv.Itoa(most)+" are allowed.")
		return "", nil
	}
	return string(text), nil
}

// context decodes the member "context" of "review".
func (p *parser) context(request *textRequest, wrong func(pointer, detail string)) error {
	const pointer = "/review/context"
	if p.decoder.PeekKind() != '[' {
		wrong(pointer, "context must be an array of strings.")
		return p.decoder.SkipValue()
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; p.decoder.PeekKind() > 0 && p.decoder.PeekKind() != ']'; n++ {
		if n >= review.MaxContext { // one error, whatever stands there
			if err := p.decoder.SkipValue(); err != nil {
				return err
			}
			continue
		}
		text, err := p.short(pointer+"/"+strconv.Itoa(n), "A text of the context", maxContext, wrong)
		if err != nil {
			return err
		}
		if !blank(text) {
			request.context = append(request.context, text)
		}
	}
	if _, err := p.decoder.ReadToken(); err != nil { // the closing bracket
		return err
	}
	if n > review.MaxContext {
		wrong(pointer, "context has "+strconv.Itoa(n)+" entries; at most "+
			strconv.Itoa(review.MaxContext)+" are allowed.")
	}
	return nil
}

// blank reports whether text consists of white space.
func blank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}

// malformed describes broken JSON. It names the place, and nothing that stands there but names of members.
func malformed(data []byte, err error) *problem.Problem {
	p := problem.New(problem.MalformedJSON, body.MalformedJSON(data, err))
	syntax := new(jsontext.SyntacticError)
	switch {
	case !utf8.Valid(data) || !errors.As(err, &syntax):
	case errors.Is(err, jsontext.ErrDuplicateName):
		p.Errors = []problem.FieldError{{Pointer: bounded(syntax.JSONPointer), Detail: "The member is given twice."}}
	case syntax.JSONPointer != "":
		p.Errors = []problem.FieldError{{Pointer: bounded(syntax.JSONPointer), Detail: "The JSON is malformed here."}}
	}
	return p
}

// maxPointer is the length, in bytes, of the longest pointer in an error. A longer one is cut to the nearest member
// above.
const maxPointer = 200

// bounded returns pointer, or that of the nearest member above that is not too long.
func bounded(pointer jsontext.Pointer) string {
	for len(pointer) > maxPointer {
		pointer = pointer.Parent()
	}
	return string(pointer)
}
