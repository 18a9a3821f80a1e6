// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/multipart"
)

// upload is a body that is larger than what is held in memory. Its files flow to the app. Each further text is held
// back until it is moderated. If it is rejected the request ends, so that the app never reads it.
type upload struct {
	body   *Body
	source *openSource
	rests  []*Rest // at least one
	// received is how much has come from the client, given how much has gone to the app. What lies between is in
	// Body.kept, whose first byte is at offset base of the body.
	received, given, base int64
	err                   error
}

// Rest is the rest of a large upload, behind what is held: the texts in it, as one handler extracts them, or several
// that extract the same.
type Rest struct {
	texts texts
	// moderate moderates texts that have come. An error ends the body.
	moderate func(pieces []content.Piece) error
	// ended is called with the error with which the guard ends the body.
	ended func(error)
	// cleared is the offset up to which the body may go on to the app: its texts are moderated.
	cleared int64
	// released says that the rest goes on without being moderated.
	released bool
	// limits bound the text, of which left characters may still come. What flows has no known end, so that only some of
	// the overflows can be held.
	limits extract.Limits
	left   int
}

// Moderate lets the app read only what is cleared of a large upload: texts go on after moderate has returned nil for
// them. excessive says that the body so far says too much in further readings, see [content.Ambiguity]. An error of
// moderate ends the body for the app, and is then given to ended, as is any other error of the rest. f.Rest is not nil.
func (b *Body) Moderate(f *Found, moderate func(pieces []content.Piece, excessive bool) error, ended func(error)) {
	if b.upload == nil {
		source := &openSource{ReadCloser: b.src}
		b.src = source
		b.upload = &upload{body: b, source: source, received: int64(len(b.held()))}
	}
	u, further := b.upload, f.further
	u.addRest(f.Rest, func(pieces []content.Piece) error {
		further.Add(pieces)
		return moderate(pieces, further.Excessive(int(u.received)))
	}, ended)
}

// addRest adds a handler to those that moderate the rest.
func (u *upload) addRest(rest *Rest, moderate func(pieces []content.Piece) error, ended func(error)) {
	if !slices.Contains(u.rests, rest) {
		rest.moderate, rest.ended = moderate, ended
		u.rests = append(u.rests, rest)
		return
	}
	// Another handler moderates the same texts, by another policy.
	first, told := rest.moderate, rest.ended
	second := false
	rest.moderate = func(pieces []content.Piece) error {
		if err := first(pieces); err != nil {
			return err
		}
		err := moderate(pieces)
		second = err != nil
		return err
	}
	rest.ended = func(err error) {
		if second {
			told = ended
		}
		told(err)
	}
}

// openSource is the body that the client sends. It stays open after the guard has ended the body, although the app
// closes it then: the server must read on while the client sends, or the client sees a broken connection and no answer.
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

// chunk is how much is read at a time, in bytes.
const chunk = 32 << 10

// read reads what the app may have. The body is locked.
func (u *upload) read(p []byte) (int, error) {
	for {
		if cleared := u.cleared(); cleared > u.given {
			kept := (*u.body.kept)[u.given-u.base:]
			n := copy(p, kept[:min(int64(len(kept)), cleared-u.given)])
			u.given += int64(n)
			return n, nil
		}
		if u.err != nil {
			return 0, u.err
		}
		u.receive()
	}
}

// cleared is the offset up to which the body may go on to the app.
func (u *upload) cleared() int64 {
	cleared := u.received
	for _, rest := range u.rests {
		if !rest.released {
			cleared = min(cleared, rest.cleared)
		}
	}
	return cleared
}

// receive reads a chunk from the client.
func (u *upload) receive() {
	buf := *u.body.kept
	if held := u.given - u.base; held > 0 {
		buf = buf[:copy(buf, buf[held:])]
		u.base = u.given
	}
	if cap(buf)-len(buf) < chunk {
		grown := make([]byte, len(buf), max(2*cap(buf), len(buf)+chunk))
		copy(grown, buf)
		buf = grown
	}
	n, err := u.body.src.Read(buf[len(buf) : len(buf)+chunk])
	fresh := buf[len(buf) : len(buf)+n]
	*u.body.kept = buf[:len(buf)+n]
	u.received += int64(n)
	if err != nil {
		StripHeader(u.body.trailer)
	}
	u.err = err
	for _, rest := range u.rests {
		if failure := rest.push(fresh, err == io.EOF); failure != nil {
			u.err = failure
			u.source.open.Store(true)
			rest.ended(failure)
			return
		}
	}
}

// push takes the next bytes of the body, and its end.
func (rest *Rest) push(fresh []byte, ended bool) error {
	if rest.released {
		return nil
	}
	pieces, err := rest.texts.Push(fresh)
	if err = rest.step(pieces, err); err != nil || !ended || rest.released {
		return err
	}
	pieces, err = rest.texts.Finish()
	if err = rest.step(pieces, err); err == nil {
		rest.released = true // all of it is moderated
	}
	return err
}

// step moderates the texts that a chunk has completed.
func (rest *Rest) step(pieces []content.Piece, err error) error {
	if limit := rest.limits.MaxText; limit > 0 && len(pieces) > 0 {
		rest.left -= extract.Length(pieces, max(rest.left, 0))
		switch overflow := rest.limits.MaxTextOverflow; {
		case rest.left >= 0:
		case overflow == extract.OverflowReject:
			return extract.ErrTooLong
		case overflow == extract.OverflowPass, overflow == extract.OverflowPrefix:
			rest.released = true
			return nil
		}
	}
	if len(pieces) > 0 {
		if failure := rest.moderate(pieces); failure != nil {
			return failure
		}
	}
	return rest.advance(err)
}

// advance clears what is moderated, and decides what an error of the texts means.
func (rest *Rest) advance(err error) error {
	overflow := rest.limits.MaxBodyOverflow
	switch {
	case err == nil:
		rest.cleared = rest.texts.Safe()
		return nil
	case errors.Is(err, multipart.ErrAmbiguous):
		return extract.ErrAmbiguous
	case !errors.Is(err, multipart.ErrTooLarge):
		return extract.ErrIncomplete
	case overflow == extract.OverflowReject, overflow == extract.OverflowStream:
		return extract.ErrTooLarge
	}
	rest.released = true
	return nil
}
