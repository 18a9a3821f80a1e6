// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

// upload is a multipart body that is larger than what is held in memory. Its files flow through to the app; each text
// that comes later is held back until it is judged, and ends the request when it is rejected, so that the app never reads
// it.
type upload struct {
	capture *capture
	source  *openSource
	scanner *multipart.Scanner
	// received is how much has come from the client, given how much has gone to the app. What is between is in
	// capture.kept, whose first byte is at offset base of the body.
	received, given, base int64
	// cleared is up to which offset the body may go on to the app: its texts are judged.
	cleared int64
	// judge judges texts that have come. An error ends the body.
	judge func(parts []multipart.Part) error
	// ended is told when the body ends by the guard's will.
	ended func(error)
	// loose says that the rest goes on unjudged.
	loose bool
	// past is what happens to a text that is larger than what can be held.
	past Past
	err  error
}

// openSource is what the client sends. It stays open after the guard has ended the body, whose reader closes it then: a
// client that still sends must be read from, or it sees a broken connection and no answer.
type openSource struct {
	io.ReadCloser
	open atomic.Bool
}

// Close closes the source, or leaves that to the server.
func (s *openSource) Close() error {
	if s.open.Load() {
		return nil
	}
	return s.ReadCloser.Close()
}

// errRejected ends a body whose text is rejected.
var errRejected = errors.New("the content was rejected")

// chunk is how much is read at a time.
const chunk = 32 << 10

// readMultipart finds the texts of a multipart body: all of them when it is small, else those in its first part. The rest
// is read by the upload that it leaves in f.
func (rd *reader) readMultipart(r *http.Request, w http.ResponseWriter, x *exchange, declared content.Type, f *found) {
	if f.err = x.body.fill(r, w, rd.limits.MaxBody, rd.timeout, false); f.err != nil {
		return
	}
	if x.body.whole() {
		rd.readDecoded(x.body.bytes(), declared, f)
		return
	}
	if declared.Ambiguous || declared.Boundary == "" {
		// Without a boundary that all agree on there is no telling files from texts.
		f.err = errTooLarge
		return
	}
	source := &openSource{ReadCloser: x.body.src}
	x.body.src = source
	u := &upload{
		source: source, capture: x.body, scanner: multipart.NewScanner(declared.Boundary, rd.limits.MaxBody),
		received: int64(len(x.body.bytes())), past: rd.limits.PastMaxBody,
	}
	parts, err := u.scanner.Push(x.body.bytes())
	f.pieces = rd.parts(f.pieces, parts)
	f.status, f.upload = Partial, u
	u.cleared = u.scanner.Safe()
	if err = u.overflow(err); err != nil {
		f.err = err
	}
}

// overflow decides what an error of the scanner means.
func (u *upload) overflow(err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, multipart.ErrTooLarge):
		return errIncomplete
	case u.past == PastReject:
		return errTooLarge
	}
	u.loose = true
	return nil
}

// read gives the app what may go on. The capture is locked.
func (u *upload) read(p []byte) (int, error) {
	for {
		if free := u.free(); free > u.given {
			kept := (*u.capture.kept)[u.given-u.base:]
			n := copy(p, kept[:min(int64(len(kept)), free-u.given)])
			u.given += int64(n)
			return n, nil
		}
		if u.err != nil {
			return 0, u.err
		}
		u.receive()
	}
}

// free is the offset up to which the body may go on to the app.
func (u *upload) free() int64 {
	if u.loose {
		return u.received
	}
	return u.cleared
}

// receive reads a chunk from the client.
func (u *upload) receive() {
	buf := *u.capture.kept
	if held := u.given - u.base; held > 0 {
		buf = buf[:copy(buf, buf[held:])]
		u.base = u.given
	}
	if cap(buf)-len(buf) < chunk {
		grown := make([]byte, len(buf), max(2*cap(buf), len(buf)+chunk))
		copy(grown, buf)
		buf = grown
	}
	n, err := u.capture.src.Read(buf[len(buf) : len(buf)+chunk])
	fresh := buf[len(buf) : len(buf)+n]
	*u.capture.kept = buf[:len(buf)+n]
	u.received += int64(n)
	if err != nil {
		strip(u.capture.trailer)
	}
	if u.loose {
		u.err = err
		return
	}
	parts, failure := u.scanner.Push(fresh)
	if failure = u.step(parts, failure); failure == nil && err == io.EOF && !u.loose {
		parts, failure = u.scanner.Finish()
		if failure = u.step(parts, failure); failure == nil {
			u.loose = true // all of it is judged
		}
	}
	if u.err = err; failure != nil {
		u.err = failure
		u.source.open.Store(true)
		u.ended(failure)
	}
}

// step judges the parts that a chunk has completed.
func (u *upload) step(parts []multipart.Part, err error) error {
	if len(parts) > 0 {
		if failure := u.judge(parts); failure != nil {
			return failure
		}
	}
	if err = u.overflow(err); err == nil {
		u.cleared = u.scanner.Safe()
	}
	return err
}
