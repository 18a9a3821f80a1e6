// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
)

const (
	// defaultModel is what the interface calls its current model. This service answers with its own model, whichever
	// one a request names.
	defaultModel = "omni-moderation-latest"
	// maxModel is the length in bytes of the longest name of a model. The answer repeats the name.
	maxModel = 256
)

// limits are the maximum number of inputs in a request, and of characters in an input.
type limits struct {
	inputs, characters int64
}

// request is the decoded body.
type request struct {
	model string
	// texts are the inputs, one for each result.
	texts []string
}

// parser decodes one body.
type parser struct {
	*jsontext.Decoder
	limits limits
	request
}

// decode reads a request: one JSON object without duplicate members, in UTF-8, with nothing behind it. Unknown
// members are ignored. Half a surrogate pair, which programs produce that cut texts by UTF-16 code units, becomes
// U+FFFD. Errors name members and places, and never what stands there.
func decode(data []byte, l limits) (request, *failure) {
	if !utf8.Valid(data) {
		return request{}, malformed(body.MalformedJSON(data, nil))
	}
	p := parser{
		Decoder: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true)),
		limits:  l,
		request: request{model: defaultModel},
	}
	failed, err := p.object(map[string]func() (*failure, error){"input": p.input, "model": p.modelName}, "")
	if err == nil && failed == nil {
		err = body.EndJSON(p.Decoder)
	}
	switch {
	case err != nil:
		return request{}, malformed(body.MalformedJSON(data, err))
	case failed != nil:
		return request{}, failed
	case p.texts == nil:
		return request{}, invalid("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	}
	return p.request, nil
}

// object decodes an object; members holds the function that decodes the value of each member. An error means that the
// JSON is malformed.
func (p *parser) object(members map[string]func() (*failure, error), param string) (*failure, error) {
	if p.PeekKind() != '{' {
		if err := p.SkipValue(); err != nil {
			return nil, err
		}
		if param == "" {
			return invalid("", "invalid_type", "Invalid type: the body must be a JSON object."), nil
		}
		return invalid(param, "invalid_type",
			fmt.Sprintf("Invalid type for '%s': expected an object with type and text.", param)), nil
	}
	if _, err := p.ReadToken(); err != nil {
		return nil, err
	}
	for p.PeekKind() == '"' {
		name, err := p.ReadToken()
		if err != nil {
			return nil, err
		}
		decode := members[name.String()]
		if decode == nil {
			if err := p.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		if failed, err := decode(); failed != nil || err != nil {
			return failed, err
		}
	}
	_, err := p.ReadToken() // the closing brace
	return nil, err
}

// modelName decodes the member "model"; null and the empty string stand for the default.
func (p *parser) modelName() (*failure, error) {
	kind := p.PeekKind()
	if kind == 'n' {
		return nil, p.SkipValue()
	}
	if kind != '"' {
		return wrongType("model", "a string"), p.SkipValue()
	}
	token, err := p.ReadToken()
	if err != nil {
		return nil, err
	}
	switch name := token.String(); {
	case len(name) > maxModel:
		return invalid("model", "string_above_max_length",
			fmt.Sprintf("Invalid 'model': string too long. It may have %d bytes.", maxModel)), nil
	case name != "":
		p.model = name
	}
	return nil, nil
}

// input decodes the member "input": a text, an array of texts, or an array of parts that are one input together.
func (p *parser) input() (*failure, error) {
	switch p.PeekKind() {
	case 'n':
		return nil, p.SkipValue() // missing
	case '"':
		return p.text("input")
	case '[':
	default:
		return wrongType("input", "a string, an array of strings or an array of parts"), p.SkipValue()
	}
	if _, err := p.ReadToken(); err != nil {
		return nil, err
	}
	var failed *failure
	var err error
	switch p.PeekKind() {
	case ']':
		return invalid("input", "empty_array", "Invalid 'input': empty array. Send one text or more."), nil
	case '{':
		failed, err = p.parts()
	default:
		failed, err = p.list()
	}
	if failed != nil || err != nil {
		return failed, err
	}
	_, err = p.ReadToken() // the closing bracket
	return nil, err
}

// list decodes the texts of an array.
func (p *parser) list() (*failure, error) {
	for n := int64(0); p.more(); n++ {
		if n == p.limits.inputs {
			return p.tooMany("texts"), nil
		}
		if failed, err := p.text(fmt.Sprintf("input[%d]", n)); failed != nil || err != nil {
			return failed, err
		}
	}
	return nil, nil
}

// more reports whether the array has another element. It is also true for broken JSON, which the next call finds.
func (p *parser) more() bool { return p.PeekKind() != ']' }

// tooMany returns the error of an array that is too long.
func (p *parser) tooMany(what string) *failure {
	return invalid("input", "array_above_max_length",
		fmt.Sprintf("Invalid 'input': array too long. It may have %d %s.", p.limits.inputs, what))
}

// text decodes one input that is a string.
func (p *parser) text(param string) (*failure, error) {
	if p.PeekKind() != '"' {
		return wrongType(param, "a string"), p.SkipValue()
	}
	token, err := p.ReadToken()
	if err != nil {
		return nil, err
	}
	return p.add(param, token.String()), nil
}

// add checks an input and keeps it.
func (p *parser) add(param, text string) *failure {
	if text == "" {
		return invalid(param, "empty_string",
			fmt.Sprintf("Invalid '%s': empty string. Send a text of one character or more.", param))
	}
	if n := int64(utf8.RuneCountInString(text)); n > p.limits.characters {
		return invalid(param, "string_above_max_length",
			fmt.Sprintf("Invalid '%s': string too long. It may have %d characters and has %d.",
				param, p.limits.characters, n))
	}
	p.texts = append(p.texts, text)
	return nil
}

// parts decodes the parts of one input. Their texts are moderated as one, each on its own line.
func (p *parser) parts() (*failure, error) {
	var texts []string
	for n := int64(0); p.more(); n++ {
		if n == p.limits.inputs {
			return p.tooMany("parts"), nil
		}
		text, failed, err := p.part(fmt.Sprintf("input[%d]", n))
		if failed != nil || err != nil {
			return failed, err
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return p.add("input", strings.Join(texts, "\n")), nil
}

// part decodes one part of an input.
func (p *parser) part(param string) (text string, failed *failure, err error) {
	var partType, content *string
	decode := func(dst **string, param string) func() (*failure, error) {
		return func() (*failure, error) {
			if p.PeekKind() != '"' {
				return wrongType(param, "a string"), p.SkipValue()
			}
			token, err := p.ReadToken()
			if err != nil {
				return nil, err
			}
			value := token.String()
			*dst = &value
			return nil, nil
		}
	}
	failed, err = p.object(map[string]func() (*failure, error){
		"type": decode(&partType, param+".type"),
		"text": decode(&content, param+".text"),
	}, param)
	switch {
	case failed != nil || err != nil:
		return "", failed, err
	case partType == nil:
		return "", invalid(param+".type", "missing_required_parameter",
			fmt.Sprintf("Missing required parameter: '%s.type'.", param)), nil
	case *partType == "image_url":
		return "", invalid(param, "unsupported_value",
			fmt.Sprintf("Unsupported value: '%s' is an image. This service judges text only; leave images out.", param)), nil
	case *partType != "text":
		return "", invalid(param+".type", "invalid_value",
			fmt.Sprintf("Invalid value for '%s.type': it must be text.", param)), nil
	case content == nil:
		return "", invalid(param+".text", "missing_required_parameter",
			fmt.Sprintf("Missing required parameter: '%s.text'.", param)), nil
	}
	return *content, nil, nil
}

// wrongType is the error of a member of another type than expected.
func wrongType(param, expected string) *failure {
	return invalid(param, "invalid_type", fmt.Sprintf("Invalid type for '%s': expected %s.", param, expected))
}

// malformed is the error of a body that is not one JSON object.
func malformed(message string) *failure { return invalid("", "malformed_json", message) }
