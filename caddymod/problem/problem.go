// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package problem describes what can go wrong with a request, and writes it as problem details (RFC 9457).
//
// It is the only writer of such bodies. Routes whose clients expect another format write the same [Problem] in that
// format.
package problem

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
)

// Problem is an error answer, independent of the shape in which it is written. It never carries a key or content.
type Problem struct {
	// Code says what happened. It determines the status and the title.
	Code Code
	// Detail says in a sentence what is wrong with this request, and what would be right. Default: the title.
	Detail string
	// Errors are the members of the request that break rules.
	Errors []FieldError
	// Categories are the names of the categories for which content was rejected, in the order of the interface.
	Categories []string
	// Fields are the places of the text that was rejected.
	Fields []Field
	// Violated are the names of the windows or bounds that are used up, for the quota codes.
	Violated []string
	// Quota describes the window that is used up, for shapes that have members for it.
	Quota *Quota
}

// Quota is a limit that is used up.
type Quota struct {
	// Limit is the number of requests that the window allows.
	Limit int64
	// RetryAfter is the time, in seconds, until the next window begins, at least 1; 0 when no window has room for the
	// request.
	RetryAfter int64
	// Account is the id of the account whose limit it is.
	Account string
}

// FieldError is one broken rule.
type FieldError struct {
	// Pointer is the JSON Pointer (RFC 6901) of the member in the request's body; empty for the body itself.
	Pointer string `json:"pointer"`
	// Detail says what is wrong with the member and what is allowed.
	Detail string `json:"detail"`
}

// Field is a place in a message whose text was rejected.
type Field struct {
	// Name is a JSON Pointer ("/comment") in a JSON body, the name of a form's field ("comment"), "photo.filename"
	// for the name of a file, "query:q", "header:Subject", or empty for a body of plain text.
	Name string `json:"name"`
	// Categories are the names of the categories for which the text there was rejected. They are absent when a theme
	// or a blocked word was found.
	Categories []string `json:"categories,omitempty"`
}

// Error returns the detail, or the title when there is none.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Code.Title()
	}
	return p.Detail
}

// New returns a problem with a detail.
func New(code Code, detail string) *Problem {
	return &Problem{Code: code, Detail: detail}
}

// FromError returns a problem whose detail is the text of an error, made into a sentence. The text must begin with an
// ASCII letter, and hold nothing that is not meant for the client.
func FromError(code Code, err error) *Problem {
	text := err.Error()
	return New(code, string(text[0]&^0x20)+text[1:]+".")
}

// body is the wire form, in the order of RFC 9457.
type body struct {
	Type       string       `json:"type"`
	Title      string       `json:"title"`
	Status     int          `json:"status"`
	Detail     string       `json:"detail"`
	Instance   string       `json:"instance"`
	Code       Code         `json:"code"`
	Errors     []FieldError `json:"errors,omitempty"`
	Categories []string     `json:"categories,omitempty"`
	Fields     []Field      `json:"fields,omitempty"`
	Violated   []string     `json:"violated-policies,omitempty"`
}

// Append appends the problem's JSON to dst; id is the id of the request.
func (p *Problem) Append(dst []byte, id string) []byte {
	encoded, err := json.Marshal(body{
		Type: p.Code.Type(), Title: p.Code.Title(), Status: p.Code.Status(), Detail: p.Error(),
		Instance: id, Code: p.Code, Errors: p.Errors, Categories: p.Categories, Fields: p.Fields, Violated: p.Violated,
	}, jsontext.AllowInvalidUTF8(true)) // a detail may repeat a header that the client sent
	if err != nil {
		return append(dst, `{"status":500}`...)
	}
	return append(dst, encoded...)
}

// Write answers with the problem as application/problem+json; id is the id of the request. The caller sets the header
// fields that belong to the code (Allow, Retry-After, WWW-Authenticate) before.
func Write(w http.ResponseWriter, r *http.Request, id string, p *Problem) {
	SetHeaders(w.Header(), id)
	response.Send(w, r, p.Code.Status(), "application/problem+json", p.Append(nil, id))
}

// SetHeaders sets the header fields that every answer of the service carries: the request's id, and that caches must
// not store the answer nor clients guess its type.
func SetHeaders(header http.Header, id string) {
	header["X-Request-Id"] = []string{id}
	header["Cache-Control"] = noStore
	header["X-Content-Type-Options"] = noSniff
}

// Shared values of header fields; nobody appends to them.
var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
)

// Interface guard
var _ error = (*Problem)(nil)
