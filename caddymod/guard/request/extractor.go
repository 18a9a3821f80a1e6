// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package request extracts the texts of an HTTP request and hands the request on unchanged.
//
// [Fields] say where the texts stand, an [Extractor] finds them, and [Body] keeps what was read so that the app reads
// all of the body. If a body is larger than what is held in memory, its [Rest] is moderated while it flows to the app.
//
// extractor.go finds the texts of a body that is held, texts.go those of one that flows, upload.go holds that back
// until its texts are moderated, and header.go removes header fields that only the guard may set.
package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
)

// Extractor extracts the texts of requests. It is safe for concurrent use.
type Extractor struct {
	selection content.Selection
	query     []string
	header    []string
	limits    extract.Limits
	timeout   time.Duration
	key       string
	narrow    bool
}

// New checks fields and returns what extracts them. The limits have their defaults. The timeout is how long the part of
// a body that is held may take to arrive, beside a second for each KiB; 0 means that there is none.
func New(fields *Fields, limits extract.Limits, timeout time.Duration) (*Extractor, error) {
	if err := fields.check(); err != nil {
		return nil, err
	}
	pointers, err := extract.Pointers(fields.JSON)
	if err != nil {
		return nil, err
	}
	selected, err := fields.canonical()
	if err != nil {
		return nil, err
	}
	bounds, err := json.Marshal(limits)
	if err != nil {
		return nil, err
	}
	return &Extractor{
		selection: content.Selection{
			JSON: pointers, Form: fields.Form, Roles: fields.Roles, Text: fields.Text, Credentials: fields.Credentials,
		},
		query: fields.Query, header: canonicalNames(fields.Header), limits: limits, timeout: timeout,
		key: selected + string(bounds), narrow: selected != "{}",
	}, nil
}

// Key returns a string that is the same for extractors that extract the same texts.
func (e *Extractor) Key() string { return e.key }

// Narrow reports whether other texts are extracted than those of the default fields.
func (e *Extractor) Narrow() bool { return e.narrow }

// Found is what was extracted from a request.
type Found struct {
	extract.Result
	// Rest is what follows of a large upload. Nil for any other request.
	Rest *Rest
	// further is how much the body says in further readings.
	further content.Ambiguity
	// inflated is how many bytes the body has once it is decompressed.
	inflated int
}

// Extract finds the texts of a request. body is what an earlier extraction has returned for the same request; nil for
// the first one. It returns what keeps the body for the app, which is also the new body of r; nil for a request without
// a body. w may be nil.
func (e *Extractor) Extract(w http.ResponseWriter, r *http.Request, body *Body) (*Body, Found) {
	var f Found
	if len(e.query) > 0 && r.URL.RawQuery != "" {
		f.Pieces = content.ExtractQuery(f.Pieces, r.URL.RawQuery, e.query)
	}
	if len(e.header) > 0 {
		f.Pieces = content.ExtractHeader(f.Pieces, r.Header, e.header)
	}
	if extract.HasBody(r) {
		if body == nil {
			body = capture(r)
		}
		e.extractBody(w, r, body, &f)
	}
	if f.Refuse == nil {
		e.cut(&f)
	}
	return body, f
}

// extractBody finds the texts of the body. Here, and nowhere else, it is decided what passes unread and in which ways
// the rest is read:
//
//  1. A body passes unread only when its declared type is binary and it does not look like text, either.
//  2. A multipart body without a boundary that all parsers read the same is refused.
//  3. Every other body is read as what it is declared as. What it looks like, charsets that its bytes suggest, and its
//     bytes as they were sent where a Content-Encoding was undone, are read in addition.
//  4. Where further readings are many times as long as the body, it is refused: moderating them would cost more than
//     they are worth, see [content.Ambiguity].
//  5. A body that is larger than what is held is read in the same ways while it flows, see [Rest].
//
// A heuristic may add a reading. None takes one away.
func (e *Extractor) extractBody(w http.ResponseWriter, r *http.Request, b *Body, f *Found) {
	declared := content.TypeOf(r.Header["Content-Type"])
	encodings, encodingErr := coding.Parse(r.Header["Content-Encoding"])
	kind, overflow := declared.Kind, e.limits.MaxBodyOverflow
	switch {
	case e.selection.Text:
		kind = content.Text
	case kind == content.Multipart && declared.BadBoundary:
		f.Refuse = extract.ErrAmbiguous
		return
	case kind == content.Binary:
		if kind = e.sniff(w, r, b, declared, encodings, f); kind == content.Binary {
			return
		}
		if declared.Opaque && (kind == content.Text || kind == content.Markup) &&
			overflow == extract.OverflowStream && len(bytes.TrimSpace(b.held())) > 0 {
			// A large file that happens to be text is still a file. Nobody uploads a file that begins with a page of
			// spaces.
			overflow = extract.OverflowPrefix
		}
	}
	declared.Kind = kind
	if encodingErr != nil {
		// It is moderated as if it had none, which may not be what an app reads.
		f.Unreadable, f.Reason = encodingErr, extract.EncodingReason(encodingErr)
	}
	if r.ContentLength > e.limits.MaxBody && overflow == extract.OverflowReject && kind != content.Multipart {
		f.Refuse = extract.ErrTooLarge
		return
	}
	if f.Refuse = b.fill(w, r, e.limits.MaxBody, e.timeout, false); f.Refuse != nil {
		return
	}
	switch {
	case len(encodings) > 0:
		e.extractEncoded(b.held(), declared, encodings, overflow, f)
	case int64(len(b.held())) <= e.limits.MaxBody:
		e.extractWhole(b.held(), declared, f)
	case kind == content.Multipart:
		e.extractLarge(b, e.form(declared), f)
	case overflow == extract.OverflowStream:
		e.extractLarge(b, flowTexts{e.selection.Stream(declared)}, f)
	case exceed(overflow, f):
		e.extractWhole(b.held()[:e.limits.MaxBody], declared, f)
	}
	f.further.Add(f.Pieces)
	if f.Refuse == nil && f.further.Excessive(len(b.held())+f.inflated) {
		f.Refuse = extract.ErrAmbiguous
	}
	if (declared.UnknownCharset || extract.UnknownCharset(f.Pieces)) && f.Refuse == nil && f.Unreadable == nil {
		// The bytes are moderated as if they were text in a charset that is known; an app may read them in another.
		f.Unreadable, f.Reason = extract.ErrUnknownCharset, extract.ReasonUnknownCharset
	}
}

// sniffLength is how much of a body of unknown type is looked at, in bytes.
const sniffLength = 4096

// sniff returns what a body looks like that is declared as binary, or not at all: what claims to be a picture may be
// JSON for an app that ignores what it claims.
func (e *Extractor) sniff(
	w http.ResponseWriter, r *http.Request, b *Body, declared content.Type, encodings []string, f *Found,
) content.Kind {
	if f.Refuse = b.fill(w, r, min(e.limits.MaxBody, sniffLength), e.timeout, true); f.Refuse != nil {
		return content.Binary
	}
	prefix := b.held()
	if len(encodings) > 0 {
		prefix, _ = content.Decode(encodings, prefix, sniffLength)
	}
	if kind := content.Sniff(prefix, declared); kind != content.Binary || declared.Opaque || len(b.held()) == 0 {
		return kind
	}
	return content.Mixed
}

// extractEncoded finds the texts of a body under a Content-Encoding.
func (e *Extractor) extractEncoded(
	body []byte, declared content.Type, encodings []string, overflow extract.Overflow, f *Found,
) {
	limit := e.limits.MaxBody
	exceeds := int64(len(body)) > limit
	if exceeds {
		body = body[:limit]
	}
	decoded, err := content.Decode(encodings, body, limit*extract.Inflation)
	if exceeds = exceeds || errors.Is(err, coding.ErrTooLarge); exceeds && !exceed(overflow, f) {
		return
	}
	if err != nil && !exceeds {
		// What came out before the fault is moderated, too.
		f.Unreadable, f.Reason = err, extract.EncodingReason(err)
	}
	f.inflated = len(decoded)
	e.extractWhole(decoded, declared, f)
	// An app that does not look at Content-Encoding reads the bytes as what their type says.
	f.Pieces = e.selection.ExtractEncoded(f.Pieces, declared, body)
	if declared.Kind == content.Multipart && bytes.Contains(body, []byte("--"+declared.Boundary)) {
		e.extractForm(body, declared, f)
	}
}

// extractWhole finds the texts of a complete body, in all its readings.
func (e *Extractor) extractWhole(body []byte, declared content.Type, f *Found) {
	if declared.Kind == content.Multipart {
		e.extractForm(body, declared, f)
		return
	}
	f.Pieces = e.selection.Extract(f.Pieces, declared, body)
}

// extractForm finds the texts of a complete multipart body.
func (e *Extractor) extractForm(body []byte, declared content.Type, f *Found) {
	t := e.form(declared)
	pieces, err := t.Push(body)
	f.Pieces = append(f.Pieces, pieces...)
	if err == nil {
		pieces, err = t.Finish()
		f.Pieces = append(f.Pieces, pieces...)
	}
	if errors.Is(err, multipart.ErrAmbiguous) {
		f.Refuse = extract.ErrAmbiguous
		return
	}
	if err != nil || declared.Ambiguous || declared.Boundary == "" {
		// An app that understands the body in another way may find text anywhere in it.
		f.Pieces = e.selection.Extract(f.Pieces, content.Type{Kind: content.Text, Charset: declared.Charset}, body)
	}
}

// extractLarge finds the texts in the part of a large body that is held.
func (e *Extractor) extractLarge(b *Body, t texts, f *Found) {
	f.Rest = &Rest{texts: t, limits: e.limits}
	pieces, err := t.Push(b.held())
	f.Pieces = append(f.Pieces, pieces...)
	f.Coverage = extract.Partial
	f.Refuse = f.Rest.advance(err)
}

// exceed applies the overflow to a body that is larger than what is held, and cannot flow. It reports whether the
// beginning of the body is moderated.
func exceed(overflow extract.Overflow, f *Found) bool {
	switch overflow {
	case extract.OverflowPass:
		f.Coverage, f.Reason, f.Pieces = extract.Skipped, extract.ReasonTooLarge, nil
		return false
	case extract.OverflowPrefix:
		f.Coverage = extract.Partial
		return true
	}
	f.Refuse = extract.ErrTooLarge
	return false
}

// cut enforces the limit of the text.
func (e *Extractor) cut(f *Found) {
	length := e.limits.Cut(&f.Result)
	if f.Rest == nil {
		return
	}
	f.Rest.left = e.limits.MaxText - length
	overflow := e.limits.MaxTextOverflow
	if f.Rest.left < 0 && (overflow == extract.OverflowPass || overflow == extract.OverflowPrefix) {
		f.Rest = nil // it goes on unjudged
	}
}
