// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package body

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// errTrailing says that something follows the JSON object.
var errTrailing = errors.New("trailing data")

// EndJSON returns an error unless the decoder has read the whole body.
func EndJSON(decoder *jsontext.Decoder) error {
	if _, err := decoder.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// MalformedJSON describes in a sentence why a body is not one well-formed JSON object. err is an error of [EndJSON]
// or of the decoder. The sentence names a place at most, and never what stands there.
func MalformedJSON(body []byte, err error) string {
	syntax := new(jsontext.SyntacticError)
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return "The body is empty; it must be a JSON object."
	case !utf8.Valid(body):
		return "The body is not valid UTF-8."
	case errors.Is(err, errTrailing):
		return "Something follows the JSON object."
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "A member is given twice."
	case errors.As(err, &syntax):
		return fmt.Sprintf("The JSON is malformed at byte %d.", syntax.ByteOffset)
	}
	return "The JSON ends too early."
}
