// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
)

// downstream is where the moderated part of a stream goes.
func (a *Writer) downstream() io.Writer {
	if a.options.Shadow {
		return io.Discard
	}
	return writerFunc(func(p []byte) (int, error) {
		a.begin(a.ResponseWriter)
		return a.ResponseWriter.Write(p)
	})
}

// streamOptions returns the options of one stream.
func (a *Writer) streamOptions() stream.Options {
	o := a.options.Stream
	o.Moderate = func(text string) (bool, error) { return a.decider.Moderate(text, false) }
	o.RejectOnly = func(text string) (bool, error) { return a.decider.Moderate(text, true) }
	o.Judged = a.decider.Judged
	if !a.options.Shadow {
		o.Flush = http.NewResponseController(a.ResponseWriter).Flush
	}
	return o
}

// startFlow begins to moderate a stream.
func (a *Writer) startFlow(flow io.WriteCloser) mode {
	a.decider.BeginStream()
	encodings, err := coding.Parse(a.encodings)
	switch {
	case err != nil:
		a.decider.Unreadable(a, err)
		if a.mode == dropped {
			return dropped
		}
		return through
	case len(encodings) > 0:
		a.flow = newInflater(encodings, flow)
	default:
		a.flow = flow
	}
	if !a.options.Shadow {
		delete(a.Header(), "Content-Encoding")
		dropValidators(a.Header())
	}
	return flowing
}

// becomeStream makes a stream of what is held.
func (a *Writer) becomeStream() {
	flow := io.WriteCloser(stream.NewPlain(a.downstream(), a.streamOptions()))
	if a.detector != nil {
		flow = stream.NewLines(a.downstream(), a.streamOptions())
	}
	a.mode = a.startFlow(flow)
	switch a.mode {
	case through:
		if !a.options.Shadow {
			a.err = a.release(a.ResponseWriter)
		}
	case flowing:
		if _, err := a.flow.Write(*a.kept); err != nil && !a.options.Shadow {
			a.endFlow(err)
		}
	}
	a.dropKept()
}

// endFlow deals with the error of a stream: it ends here, unless the client has left.
func (a *Writer) endFlow(err error) {
	rejected, unjudged := errors.Is(err, stream.ErrRejected), errors.Is(err, stream.ErrUnjudged)
	if !rejected && !unjudged && !errors.Is(err, coding.ErrBroken) {
		return // nobody reads any more
	}
	a.mode = dropped
	switch {
	case !rejected && !unjudged:
		// The client sees what it would have seen: an answer that breaks off.
		a.broken = true
		a.decider.EndStream(a, Broken)
	case a.began:
		a.ended = true
		a.decider.EndStream(a, Aborted)
		a.discard()
		a.cancel(errEnded)
	case rejected:
		a.decider.EndStream(a, Rejected)
	default:
		a.decider.EndStream(a, Unjudged)
	}
}

// closeFlow ends a stream that the app has ended. gone says that the client has left.
func (a *Writer) closeFlow(gone bool) {
	if !gone {
		if err := a.flow.Close(); err != nil && !a.options.Shadow {
			a.endFlow(err)
		}
	}
	if !a.ended && !a.broken {
		a.decider.EndStream(a, Complete)
		if !gone && !a.options.Shadow {
			a.begin(a.ResponseWriter) // of an empty stream
		}
	}
	a.discard()
}

// inflater undoes the Content-Encoding of a stream as it comes. Decoders read, and a stream is written: they take
// turns, so that a write returns when everything is moderated that can be decoded by then.
type inflater struct {
	dst     io.WriteCloser
	resume  func() (struct{}, bool)
	stop    func()
	pending []byte
	closed  bool
	err     error
}

func newInflater(encodings []string, dst io.WriteCloser) *inflater {
	f := &inflater{dst: dst}
	f.resume, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		source := readerFunc(func(p []byte) (int, error) {
			for len(f.pending) == 0 {
				if f.closed {
					return 0, io.EOF
				}
				if !yield(struct{}{}) {
					return 0, io.ErrClosedPipe
				}
			}
			n := copy(p, f.pending)
			f.pending = f.pending[n:]
			return n, nil
		})
		decoder, err := coding.NewReader(encodings, source)
		if err == nil {
			_, err = io.Copy(dst, decoder)
			decoder.Close()
		}
		f.err = err
	})
	return f
}

// Write decodes p, and whatever becomes complete with it.
func (f *inflater) Write(p []byte) (int, error) {
	f.pending = p
	f.resume()
	f.pending = nil // what follows the end of the encoding
	if f.err != nil {
		return 0, f.err
	}
	return len(p), nil
}

// Close decodes the rest.
func (f *inflater) Close() error {
	f.closed = true
	f.resume()
	if err := f.dst.Close(); err != nil {
		return err
	}
	return f.err
}

type (
	writerFunc func(p []byte) (int, error)
	readerFunc func(p []byte) (int, error)
)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
func (f readerFunc) Read(p []byte) (int, error)  { return f(p) }
