// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package extract holds what the extraction of texts from requests and from answers has in common: its limits, its
// result, and the reasons why it can fail.
package extract

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
)

// Coverage says how much of a message is extracted.
type Coverage uint8

// The coverages.
const (
	Whole   Coverage = iota // all of its text, which may be none
	Partial                 // the part that the limits allow; the rest of an upload may follow as it flows
	Skipped                 // nothing, because of its size
)

// Result is what was extracted from a message.
type Result struct {
	// Pieces are the texts. They may share memory with the message.
	Pieces []content.Piece
	// Coverage is how much of the message they are.
	Coverage Coverage
	// Refuse is the reason why the message must be refused, whatever on_error says: it exceeds a limit, is broken, or
	// is ambiguous. Nil for any other message.
	Refuse error
	// Unreadable is the reason why the message may hold other texts than the pieces: it has a form that the guard
	// cannot read. on_error says what follows. Nil for any other message.
	Unreadable error
	// Reason is the word for a message that is Skipped or Unreadable, one of the Reason constants.
	Reason string
}

// Errors in [Result.Refuse].
var (
	// ErrTooLarge says that the body exceeds the limit.
	ErrTooLarge = errors.New("the body is larger than the limit")
	// ErrTooLong says that the text exceeds the limit.
	ErrTooLong = errors.New("the text is longer than the limit")
	// ErrAmbiguous says that programs divide the body differently, or that its further readings are too long.
	ErrAmbiguous = errors.New("the body can be read in several ways")
	// ErrTimeout says that the body did not arrive in time.
	ErrTimeout = errors.New("the body did not arrive in time")
	// ErrIncomplete says that the body ended too early, or is broken.
	ErrIncomplete = errors.New("the body ended too early")
)

// ErrUnknownCharset is a [Result.Unreadable]: the charset of a body is not known.
var ErrUnknownCharset = errors.New("the charset of the body is not known")

// Reasons why a message was not moderated. They are values in logs, metrics and placeholders.
const (
	ReasonTooLarge        = "too_large"
	ReasonTooLong         = "too_long"
	ReasonTimeout         = "timeout"
	ReasonAmbiguous       = "ambiguous_body"
	ReasonIncomplete      = "incomplete"
	ReasonUnknownCharset  = "unknown_charset"
	ReasonUnknownEncoding = "unknown_encoding"
	ReasonBrokenEncoding  = "broken_encoding"
)

// RefuseReason returns the word for a [Result.Refuse].
func RefuseReason(err error) string {
	var exceeded *http.MaxBytesError
	switch {
	case errors.Is(err, ErrTooLarge), errors.As(err, &exceeded):
		return ReasonTooLarge
	case errors.Is(err, ErrTooLong):
		return ReasonTooLong
	case errors.Is(err, ErrTimeout):
		return ReasonTimeout
	case errors.Is(err, ErrAmbiguous):
		return ReasonAmbiguous
	}
	return ReasonIncomplete
}

// EncodingReason returns the word for why a Content-Encoding could not be undone.
func EncodingReason(err error) string {
	if errors.Is(err, coding.ErrUnknown) {
		return ReasonUnknownEncoding
	}
	return ReasonBrokenEncoding
}

// UnknownCharset reports whether the charset of one of the texts is not known.
func UnknownCharset(pieces []content.Piece) bool {
	return slices.ContainsFunc(pieces, func(p content.Piece) bool { return p.UnknownCharset })
}

// Pointers parses JSON Pointers.
func Pointers(texts []string) ([]content.Pointer, error) {
	var pointers []content.Pointer
	for _, text := range texts {
		pointer, err := content.ParsePointer(text)
		if err != nil {
			return nil, fmt.Errorf("json %s: %w", text, err)
		}
		pointers = append(pointers, pointer)
	}
	return pointers, nil
}

// PooledBuffer is the initial capacity of a buffer for a large body, and the capacity of the largest buffer that is
// used again, in bytes.
const PooledBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// NewBuffer returns an empty buffer for a body of an announced length. At most [PooledBuffer] is allocated, because
// announcing a length costs a sender nothing.
func NewBuffer(announced int64) *[]byte {
	buffer := buffers.Get().(*[]byte)
	*buffer = slices.Grow((*buffer)[:0], int(min(announced, PooledBuffer)))
	return buffer
}

// FreeBuffer returns a buffer, which may be nil, to the pool. It must not be used afterwards.
func FreeBuffer(buffer *[]byte) {
	if buffer != nil && cap(*buffer) <= PooledBuffer {
		buffers.Put(buffer)
	}
}

// HasBody reports whether a request has a body that may hold text. What follows the header of a WebSocket over HTTP/2
// or HTTP/3 (extended CONNECT, RFC 8441 and RFC 9220) is the connection. Any other CONNECT has a body as every request
// may.
func HasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 && !isWebSocket(r)
}

// isWebSocket reports whether a request is an extended CONNECT for a WebSocket, as a reverse proxy tells it.
func isWebSocket(r *http.Request) bool {
	return r.Method == http.MethodConnect &&
		(r.ProtoMajor == 2 && r.Header.Get(":protocol") == "websocket" || r.ProtoMajor == 3 && r.Proto == "websocket")
}
