// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package body reads whole request bodies, bounded in size and in time and compressed with gzip or not, and says
// exactly why one could not be read.
package body

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
)

// Errors of [Read] and [CheckJSON]. They are matched with errors.Is, and none of them carries content.
var (
	// ErrTooLarge says that the body, decoded or not, is larger than the limit.
	ErrTooLarge = errors.New("the body is too large")
	// ErrTimeout says that the body did not arrive in time.
	ErrTimeout = errors.New("the body did not arrive in time")
	// ErrIncomplete says that the body ended too early, or that its gzip stream is broken.
	ErrIncomplete = errors.New("the body is incomplete")
	// ErrUnsupportedEncoding says that Content-Encoding is neither identity nor gzip.
	ErrUnsupportedEncoding = errors.New("the Content-Encoding must be gzip or absent")
	// ErrUnsupportedType says that Content-Type is not application/json in UTF-8.
	ErrUnsupportedType = errors.New("the Content-Type must be application/json")
	// ErrMissingType says that there is no Content-Type. It wraps [ErrUnsupportedType].
	ErrMissingType = fmt.Errorf("%w; none was sent", ErrUnsupportedType)
)

// CheckJSON returns nil for a request whose Content-Type is application/json, in UTF-8 where it names a charset,
// [ErrMissingType] for one without a type and [ErrUnsupportedType] for any other.
func CheckJSON(r *http.Request) error {
	values := r.Header.Values("Content-Type")
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return ErrMissingType
	case len(values) == 1 && values[0] == "application/json":
		return nil
	case len(values) > 1:
		return ErrUnsupportedType
	}
	media, params, err := mime.ParseMediaType(values[0])
	if err != nil || media != "application/json" {
		return ErrUnsupportedType
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return ErrUnsupportedType
	}
	return nil
}

// Read reads the whole body of r. The limit, in bytes, holds for the body as it is sent and as it is decoded; nothing
// is kept of a larger one. The timeout is the time that the whole body may take. It replaces a read timeout of the
// server, and does nothing on a connection without deadlines. The caller releases the buffer.
func Read(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) (*Buffer, error) {
	_, span := tracing.Start(r.Context(), tracing.Read)
	defer span.End()
	buffer, err := read(w, r, limit, timeout)
	if err != nil {
		span.Refuse(string(codeOf(err)), false)
		return nil, err
	}
	span.Count("bytes", int64(len(buffer.data)))
	return buffer, nil
}

// read is [Read] without its span.
func read(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) (*Buffer, error) {
	compressed, err := isGzip(r.Header)
	if err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, tooLarge(w, r, limit)
	}
	control := http.NewResponseController(w)
	// Only connections of tests and of wrappers have no deadlines; the request's context bounds their bodies.
	bounded := timeout > 0 && control.SetReadDeadline(time.Now().Add(timeout)) == nil
	buffer := buffers.Get().(*Buffer)
	buffer.reserve(r.ContentLength)
	if compressed {
		err = buffer.fillGzip(r.Body, limit)
	} else {
		err = buffer.fill(r.Body, limit)
	}
	if err == nil {
		if bounded {
			// The deadline would also end net/http's watch for a client that leaves, and with it the request's context.
			_ = control.SetReadDeadline(time.Time{})
		}
		return buffer, nil
	}
	buffer.Release()
	var tooMuch *http.MaxBytesError
	switch {
	case errors.Is(err, ErrTooLarge), errors.As(err, &tooMuch):
		return nil, tooLarge(w, r, limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, ErrTimeout
	}
	return nil, ErrIncomplete
}

// Many clients write a whole body before they look for an answer. When the connection is closed before that, they see
// only that it broke. The rest of a body that is refused is therefore discarded, within these bounds.
const (
	lingerBytes = 64 << 20         // of the body
	lingerPause = 2 * time.Second  // without a byte
	lingerTime  = 20 * time.Second // in all
)

// tooLarge returns the error, and lets the client see the answer that follows.
func tooLarge(w http.ResponseWriter, r *http.Request, limit int64) error {
	Linger(w, r, r.Body, false)
	return fmt.Errorf("%w; it may have %d bytes", ErrTooLarge, limit)
}

// Linger discards the rest of a body, within bounds, so that its sender sees the answer that follows and not a broken
// connection. An HTTP/1 connection is closed after the answer. HTTP/2 and HTTP/3 could end the stream at once, but
// clients that are told so while they send miss the answer: curl 7.88 ends in a stream error, Chromium 148 waits
// forever over HTTP/3. begun says that a part of the body was read.
func Linger(w http.ResponseWriter, r *http.Request, rest io.Reader, begun bool) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	// A client that expects "100 Continue" has sent nothing yet, and reading would tell it to.
	if !begun && r.Header.Get("Expect") != "" {
		return
	}
	control := http.NewResponseController(w)
	end := time.Now().Add(lingerTime)
	part := parts.Get().(*[]byte)
	defer parts.Put(part)
	for left := lingerBytes; left > 0; {
		until := time.Now().Add(lingerPause)
		if until.After(end) {
			until = end
		}
		if control.SetReadDeadline(until) != nil {
			return // nothing would bound the time
		}
		n, err := rest.Read(*part)
		if left -= n; err != nil {
			return
		}
	}
}

// parts hold what is discarded.
var parts = sync.Pool{New: func() any {
	part := make([]byte, 32<<10)
	return &part
}}

// isGzip reports whether the body is a gzip stream. Every other coding is an error, and so is more than one.
func isGzip(header http.Header) (bool, error) {
	encodings := header.Values("Content-Encoding")
	if len(encodings) == 0 {
		return false, nil
	}
	switch strings.ToLower(strings.TrimSpace(strings.Join(encodings, ","))) {
	case "", coding.Identity:
		return false, nil
	case coding.Gzip, coding.XGzip:
		return true, nil
	}
	return false, ErrUnsupportedEncoding
}

// Buffer holds a body.
type Buffer struct {
	data []byte
}

// Bytes returns the body. It is valid until [Buffer.Release].
func (b *Buffer) Bytes() []byte { return b.data }

// Release gives the buffer back. The bytes must not be used afterwards.
func (b *Buffer) Release() {
	if cap(b.data) > maxKept {
		return
	}
	b.data = b.data[:0]
	buffers.Put(b)
}

// maxKept is the capacity, in bytes, of the largest buffer that is used again. Larger bodies are rare and would only
// hold memory.
const maxKept = 64 << 10

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// reserve makes room for an announced body. Announcing a length costs a client nothing, so at most maxKept bytes are
// reserved; more are allocated as the body arrives.
func (b *Buffer) reserve(announced int64) {
	// One byte more lets the last Read see the end of the body without growing the buffer.
	b.data = slices.Grow(b.data[:0], int(min(max(announced, 511)+1, maxKept)))
}

// fill appends src to the buffer.
func (b *Buffer) fill(src io.Reader, limit int64) error {
	for {
		if len(b.data) == cap(b.data) {
			b.data = slices.Grow(b.data, len(b.data)+1)
		}
		// One byte over the limit is read, and no more, to see whether there is one.
		room := b.data[len(b.data):min(int64(cap(b.data)), limit+1)]
		n, err := src.Read(room)
		b.data = b.data[:len(b.data)+n]
		switch {
		case int64(len(b.data)) > limit:
			return ErrTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// fillGzip appends what the gzip stream src holds to the buffer.
func (b *Buffer) fillGzip(src io.Reader, limit int64) error {
	sent := &boundedReader{src: src, left: limit}
	decoded, err := coding.NewReader([]string{coding.Gzip}, sent)
	if err != nil {
		return err
	}
	defer func() { _ = decoded.Close() }()
	err = b.fill(decoded, limit)
	if err == nil && sent.left == limit {
		return io.ErrUnexpectedEOF // no bytes are no gzip stream
	}
	return err
}

// boundedReader returns ErrTooLarge when more than left bytes are read: a stream of empty gzip members decodes to
// nothing and would otherwise be read forever.
type boundedReader struct {
	src  io.Reader
	left int64
}

// Read reads from the source.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	n, err := b.src.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	if b.left < 0 {
		return n, ErrTooLarge
	}
	return n, err
}

// Interface guard
var _ io.Reader = (*boundedReader)(nil)
