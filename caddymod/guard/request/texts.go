// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"strings"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

// texts finds the texts of a body while it flows. Once those that were returned are moderated, the body may go on to
// the app up to the offset Safe.
type texts interface {
	Push(chunk []byte) ([]content.Piece, error)
	Finish() ([]content.Piece, error)
	Safe() int64
}

// form returns what finds the texts of a multipart form.
func (e *Extractor) form(declared content.Type) *formTexts {
	return &formTexts{e, multipart.NewScanner(declared.Boundary, e.limits.MaxBody)}
}

// formTexts finds the texts of a multipart form.
type formTexts struct {
	extractor *Extractor
	*multipart.Scanner
}

// Push takes the next bytes.
func (t *formTexts) Push(chunk []byte) ([]content.Piece, error) {
	parts, err := t.Scanner.Push(chunk)
	return t.pieces(parts), err
}

// Finish takes the end.
func (t *formTexts) Finish() ([]content.Piece, error) {
	parts, err := t.Scanner.Finish()
	return t.pieces(parts), err
}

// pieces returns the texts of parts.
func (t *formTexts) pieces(parts []multipart.Part) (pieces []content.Piece) {
	for i := range parts {
		part := &parts[i]
		selection := t.extractor.selection
		selection.Charset = strings.ToLower(part.Charset)
		if part.Ambiguous {
			selection.Form, selection.Credentials = nil, true // some servers may take it for any field
		}
		pieces = selection.ExtractPart(pieces, part.Name, part.Filename, part.Header, part.Body)
	}
	return pieces
}

// flowTexts finds the texts of every other body.
type flowTexts struct{ *content.StreamExtractor }

// Push takes the next bytes.
func (t flowTexts) Push(chunk []byte) ([]content.Piece, error) {
	return t.StreamExtractor.Push(chunk), nil
}

// Finish takes the end.
func (t flowTexts) Finish() ([]content.Piece, error) { return t.StreamExtractor.Finish(), nil }
