// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

// texts finds the texts of a body while it flows. Once those that were returned are judged, the body may go on to the app up
// to the offset Safe.
type texts interface {
	Push(chunk []byte) ([]content.Piece, error)
	Finish() ([]content.Piece, error)
	Safe() int64
}

// formTexts finds the texts of a multipart form.
type formTexts struct {
	rd *reader
	*multipart.Scanner
}

// Push takes the next bytes.
func (t *formTexts) Push(chunk []byte) ([]content.Piece, error) {
	parts, err := t.Scanner.Push(chunk)
	return t.rd.parts(nil, parts), err
}

// Finish takes the end.
func (t *formTexts) Finish() ([]content.Piece, error) {
	parts, err := t.Scanner.Finish()
	return t.rd.parts(nil, parts), err
}

// flowTexts finds the texts of every other body.
type flowTexts struct{ *content.StreamExtractor }

// Push takes the next bytes.
func (t flowTexts) Push(chunk []byte) ([]content.Piece, error) { return t.StreamExtractor.Push(chunk), nil }

// Finish takes the end.
func (t flowTexts) Finish() ([]content.Piece, error) { return t.StreamExtractor.Finish(), nil }

// upload is a body that is larger than what is held in memory. Its files flow through to the app; each text
// that comes later is held back until it is judged, and ends the request when it is rejected, so that the app never reads
// it.
type upload struct {
	capture *capture
	source  *openSource
	watches []*watch // at least one
	// received is how much has come from the client, given how much has gone to the app. What is between is in
	// capture.kept, whose first byte is at offset base of the body.
	received, given, base int64
	err                   error
}

// watch reads the texts of an upload for a handler, or for several that read it in the same way.
type watch struct {
	texts texts
	// judge judges texts that have come. An error ends the body.
	judge func(pieces []content.Piece) error
	// ended is told when the body ends by the guard's will.
	ended func(error)
	// cleared is up to which offset the body may go on to the app: its texts are judged.
	cleared int64
	// loose says that the rest goes on unjudged.
	loose bool
	// limits bound the text, of which so many characters are left, as far as they can: of what flows the end is not known.
	limits Limits
	left   int
}

// stream makes the capture give the app only what a watch has cleared. judge and ended are as in [watch].
func (c *capture) stream(w *watch, judge func(pieces []content.Piece) error, ended func(error)) {
	if c.upload == nil {
		source := &openSource{ReadCloser: c.src}
		c.src = source
		c.upload = &upload{capture: c, source: source, received: int64(len(c.bytes()))}
	}
	if !slices.Contains(c.upload.watches, w) {
		w.judge, w.ended = judge, ended
		c.upload.watches = append(c.upload.watches, w)
		return
	}
	// Another handler reads the same texts, by another policy.
	first, told := w.judge, w.ended
	second := false
	w.judge = func(pieces []content.Piece) error {
		if err := first(pieces); err != nil {
			return err
		}
		err := judge(pieces)
		second = err != nil
		return err
	}
	w.ended = func(err error) {
		if second {
			told = ended
		}
		told(err)
	}
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

// readLarge finds the texts in what is held of a large body. The rest is for the watch that it leaves in f.
func (rd *reader) readLarge(c *capture, t texts, f *found) {
	f.watch = &watch{texts: t, limits: rd.limits}
	pieces, err := t.Push(c.bytes())
	f.pieces = append(f.pieces, pieces...)
	f.status = Partial
	f.err = f.watch.proceed(err)
}

// proceed clears what is judged, and decides what an error of the reader means.
func (w *watch) proceed(err error) error {
	past := w.limits.PastMaxBody
	switch {
	case err == nil:
		w.cleared = w.texts.Safe()
		return nil
	case errors.Is(err, multipart.ErrAmbiguous):
		return errAmbiguous
	case !errors.Is(err, multipart.ErrTooLarge):
		return errIncomplete
	case past == OverflowReject, past == OverflowStream:
		return errTooLarge
	}
	w.loose = true
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
	free := u.received
	for _, w := range u.watches {
		if !w.loose {
			free = min(free, w.cleared)
		}
	}
	return free
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
	u.err = err
	for _, w := range u.watches {
		if failure := w.see(fresh, err == io.EOF); failure != nil {
			u.err = failure
			u.source.open.Store(true)
			w.ended(failure)
			return
		}
	}
}

// see takes the next bytes of the body, and its end.
func (w *watch) see(fresh []byte, ended bool) error {
	if w.loose {
		return nil
	}
	pieces, err := w.texts.Push(fresh)
	if err = w.step(pieces, err); err != nil || !ended || w.loose {
		return err
	}
	pieces, err = w.texts.Finish()
	if err = w.step(pieces, err); err == nil {
		w.loose = true // all of it is judged
	}
	return err
}

// step judges the texts that a chunk has completed.
func (w *watch) step(pieces []content.Piece, err error) error {
	if limit := w.limits.MaxText; limit > 0 && len(pieces) > 0 {
		w.left -= lengthOf(pieces, max(w.left, 0))
		switch past := w.limits.PastMaxText; {
		case w.left >= 0:
		case past == OverflowReject:
			return errTooLong
		case past == OverflowPass, past == OverflowPrefix:
			w.loose = true
			return nil
		}
	}
	if len(pieces) > 0 {
		if failure := w.judge(pieces); failure != nil {
			return failure
		}
	}
	return w.proceed(err)
}
