// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
)

// Body is the body of a request. It keeps what the guard has read, so that the app reads all of the body, byte for
// byte.
//
// The guard reads before the request goes on, and the app after that. An upstream's connection may still hold the body
// when the request has ended, and may even wait in Read for a client that sends no more. Therefore [Body.Release] does
// not wait for the lock.
type Body struct {
	mu      sync.Mutex
	src     io.ReadCloser
	trailer http.Header
	kept    *[]byte // from the pool
	err     error   // why src gives no more; io.EOF at its end
	off     int     // how much of kept the app has read
	upload  *upload // when the body streams through it
	closed  atomic.Bool
}

// capture replaces the body of a request, which it must have, by one that keeps what is read.
func capture(r *http.Request) *Body {
	b := &Body{src: r.Body, trailer: r.Trailer, kept: extract.NewBuffer(max(r.ContentLength, 511) + 1)}
	r.Body = b
	return b
}

// held returns what was read and is still kept; nothing after the end of the request.
func (b *Body) held() []byte {
	if b.kept == nil {
		return nil
	}
	return *b.kept
}

// fill reads until more than limit bytes are held or the body has ended; with once, until one read gave something. The
// body may take the timeout, and another second for each KiB.
func (b *Body) fill(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration, once bool) error {
	if b.err != nil || int64(len(*b.kept)) > limit {
		return b.failure()
	}
	setDeadline := deadlineOf(w, r)
	began, set := time.Now(), time.Time{}
	bounded := timeout > 0
	for b.err == nil && int64(len(*b.kept)) <= limit {
		buf := *b.kept
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, len(buf)+1)
		}
		if bounded {
			if until := began.Add(timeout + time.Duration(len(buf)>>10)*time.Second); until.Sub(set) >= time.Second {
				bounded, set = setDeadline(until) == nil, until
			}
		}
		// One byte over the limit is read, and no more, to see whether there is one.
		n, err := b.src.Read(buf[len(buf):min(int64(cap(buf)), limit+1)])
		*b.kept, b.err = buf[:len(buf)+n], err
		if once && n > 0 {
			break
		}
	}
	if bounded && !errors.Is(b.err, os.ErrDeadlineExceeded) {
		_ = setDeadline(time.Time{})
	}
	if b.err != nil {
		StripHeader(b.trailer)
	}
	return b.failure()
}

// failure returns the error of reading as one of package extract, or as [http.MaxBytesError].
func (b *Body) failure() error {
	if b.err == nil || b.err == io.EOF {
		return nil
	}
	var exceeded *http.MaxBytesError
	switch {
	case errors.Is(b.err, os.ErrDeadlineExceeded):
		return extract.ErrTimeout
	case errors.As(b.err, &exceeded):
		return b.err
	}
	return extract.ErrIncomplete
}

// deadlineOf returns what sets the read deadline of a request's connection. Matchers have no response to do it through.
func deadlineOf(w http.ResponseWriter, r *http.Request) func(time.Time) error {
	if reader, _ := caddyhttp.IdleTimeoutsFromContext(r.Context()); reader != nil {
		return reader.SetReadDeadline
	}
	if w == nil {
		return func(time.Time) error { return http.ErrNotSupported }
	}
	return http.NewResponseController(w).SetReadDeadline
}

// Read reads what the app would have read without the guard.
func (b *Body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.upload != nil {
		return b.upload.read(p)
	}
	if b.off < len(*b.kept) {
		n := copy(p, (*b.kept)[b.off:])
		b.off += n
		if b.off == len(*b.kept) && b.err != nil {
			return n, b.err
		}
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.src.Read(p)
	if err != nil {
		b.err = err
		StripHeader(b.trailer)
	}
	return n, err
}

// Close closes the body, as the connection to the app does when it needs no more of it. A Read that waits for the
// client ends.
func (b *Body) Close() error {
	b.closed.Store(true)
	return b.src.Close()
}

// Release returns the buffer to the pool when the request has ended. Nothing can be read afterwards. b may be nil.
func (b *Body) Release() {
	if b == nil {
		return
	}
	b.closed.Store(true)
	if !b.mu.TryLock() {
		return // an upstream's connection still reads, and the buffer belongs to it
	}
	defer b.mu.Unlock()
	extract.FreeBuffer(b.kept)
	b.kept = nil
}

// Linger lets a client that still sends its body see the answer that follows. b may be nil.
func (b *Body) Linger(w http.ResponseWriter, r *http.Request) {
	if b == nil || b.err != nil {
		return
	}
	body.Linger(w, r, b.src, len(b.held()) > 0)
}
