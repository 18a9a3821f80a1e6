// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

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
)

// capture is the body of a request: it keeps what the guard has read of it, and gives the app all of it, byte for byte, as
// if nobody had read it before.
//
// The guard reads before the request goes on, and the app after that. An upstream's connection may still hold the body when
// the request has ended, and may even wait in a Read for a client that sends no more: nobody waits for the lock then.
type capture struct {
	mu      sync.Mutex
	src     io.ReadCloser
	trailer http.Header
	kept    *[]byte // from the pool
	err     error   // why src gives no more; io.EOF at its end
	off     int     // what the app has read of kept
	upload  *upload // when the body streams through it
	closed  atomic.Bool
}

// Errors of reading a body that the client is to blame for.
var (
	errTimeout    = errors.New("the body did not arrive in time")
	errIncomplete = errors.New("the body ended too early")
)

// keepBuffer is the capacity of the largest buffer that is used again.
const keepBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// captureOf begins to capture the body of a request, which is not nil.
func captureOf(r *http.Request) *capture {
	c := &capture{src: r.Body, trailer: r.Trailer, kept: buffers.Get().(*[]byte)}
	*c.kept = (*c.kept)[:0]
	// Announcing a length costs nothing, so that it buys only so much memory.
	*c.kept = slices.Grow(*c.kept, int(min(max(r.ContentLength, 511)+1, keepBuffer)))
	r.Body = c
	return c
}

// bytes is what was read. After the end of the request it is nothing.
func (c *capture) bytes() []byte {
	if c.kept == nil {
		return nil
	}
	return *c.kept
}

// fill reads until there are more than limit bytes or the body has ended. once makes it stop after one read that gave
// something. The body may take the timeout and another second for each KiB.
func (c *capture) fill(r *http.Request, w http.ResponseWriter, limit int64, timeout time.Duration, once bool) error {
	if c.err != nil || int64(len(*c.kept)) > limit {
		return c.failure()
	}
	deadline := deadlineOf(r, w)
	began, set := time.Now(), time.Time{}
	bounded := timeout > 0
	for c.err == nil && int64(len(*c.kept)) <= limit {
		buf := *c.kept
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, len(buf)+1)
		}
		if bounded {
			if until := began.Add(timeout + time.Duration(len(buf)>>10)*time.Second); until.Sub(set) >= time.Second {
				bounded, set = deadline(until) == nil, until
			}
		}
		// One byte over the limit is read, and no more, to see whether there is one.
		n, err := c.src.Read(buf[len(buf):min(int64(cap(buf)), limit+1)])
		*c.kept, c.err = buf[:len(buf)+n], err
		if once && n > 0 {
			break
		}
	}
	if bounded && !errors.Is(c.err, os.ErrDeadlineExceeded) {
		_ = deadline(time.Time{})
	}
	if c.err != nil {
		strip(c.trailer)
	}
	return c.failure()
}

// failure is what went wrong in reading, as a client or an operator understands it.
func (c *capture) failure() error {
	if c.err == nil || c.err == io.EOF {
		return nil
	}
	var tooMuch *http.MaxBytesError
	switch {
	case errors.Is(c.err, os.ErrDeadlineExceeded):
		return errTimeout
	case errors.As(c.err, &tooMuch):
		return c.err
	}
	return errIncomplete
}

// deadlineOf returns what sets the read deadline of a request's connection. Matchers have no response to do it through.
func deadlineOf(r *http.Request, w http.ResponseWriter) func(time.Time) error {
	if reader, _ := caddyhttp.IdleTimeoutsFromContext(r.Context()); reader != nil {
		return reader.SetReadDeadline
	}
	if w == nil {
		return func(time.Time) error { return http.ErrNotSupported }
	}
	return http.NewResponseController(w).SetReadDeadline
}

// Read gives the app what it would have read.
func (c *capture) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if c.upload != nil {
		return c.upload.read(p)
	}
	if c.off < len(*c.kept) {
		n := copy(p, (*c.kept)[c.off:])
		c.off += n
		if c.off == len(*c.kept) && c.err != nil {
			return n, c.err
		}
		return n, nil
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.src.Read(p)
	if err != nil {
		c.err = err
		strip(c.trailer)
	}
	return n, err
}

// Close closes the body, as the app's connection does when it has sent it, or wants no more of it. A Read that waits for the
// client ends.
func (c *capture) Close() error {
	c.closed.Store(true)
	return c.src.Close()
}

// release gives the buffer back when the request has ended. Nothing can be read any more.
func (c *capture) release() {
	c.closed.Store(true)
	if !c.mu.TryLock() {
		return // an upstream's connection still reads, and the buffer is its own
	}
	defer c.mu.Unlock()
	if c.kept != nil && cap(*c.kept) <= keepBuffer {
		buffers.Put(c.kept)
	}
	c.kept = nil
}
