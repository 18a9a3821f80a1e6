// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
)

// Writer is the writer of the app's answer. It chooses by status and header whether the answer passes, is held or
// flows. A writer is used by one goroutine, as every [http.ResponseWriter] is.
type Writer struct {
	caddyhttp.ResponseWriterWrapper
	options *Options
	decider Decider
	r       *http.Request
	cancel  context.CancelCauseFunc // ends the request to the app

	mode   mode
	status int
	length int64 // of the body, where it is announced; 0 where it is not
	began  bool  // the header was sent, or the guard has answered
	ended  bool  // the guard has answered in place of the app, or ended what it answered
	broken bool  // what the app sent cannot go on
	err    error // of sending the answer, or of what is sent in its place

	declared  content.Type
	encodings []string
	sniff     bool     // there is no Content-Type, so that the body tells what it is
	trailers  []string // names of fields that come behind the body
	mayRetry  bool     // the app can be asked for the whole
	partial   bool     // the app must be asked for the whole

	kept     *[]byte          // what is held, from the pool
	decoded  []byte           // what is held, without its Content-Encoding, once it was extracted
	mayFlow  bool             // what is held becomes a stream when it is flushed
	detector *stream.Detector // tells whether held JSON is a stream

	flow   io.WriteCloser // moderates a stream
	events bool           // the stream is one of server-sent events
	sent   int64          // how much of the body was sent in shadow mode
}

// mode is what is done with an answer.
type mode uint8

const (
	undecided mode = iota
	through        // it goes on as it comes
	held           // it is held until it is moderated
	flowing        // it is moderated as it flows
	dropped        // the guard has answered in its place
)

// WriteHeader chooses what is done with the answer.
func (a *Writer) WriteHeader(status int) {
	if a.mode != undecided {
		if a.mode == through {
			a.ResponseWriter.WriteHeader(status)
		}
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.status = status
	a.mode = a.choose(status, a.Header())
	if a.partial {
		return
	}
	if a.mode == through || a.options.Shadow {
		a.began = true
		a.length, _ = strconv.ParseInt(a.Header().Get("Content-Length"), 10, 64)
		a.ResponseWriter.WriteHeader(status)
	}
}

// choose says what is done with the answer, by its status and header, and prepares it.
func (a *Writer) choose(status int, header http.Header) mode {
	if !mayHoldText(a.r, status, header) {
		return through
	}
	a.declared = content.TypeOf(header["Content-Type"])
	a.encodings = header["Content-Encoding"]
	a.sniff = len(header["Content-Type"]) == 0
	media := mediaType(header)
	if status == http.StatusPartialContent && a.declared.Kind == content.Multipart {
		a.declared = content.Type{Kind: content.Text} // several ranges
	}
	if status == http.StatusPartialContent && a.mayRetry && !a.sniff && isText(a.declared.Kind) && !isCode(media) {
		a.partial = true
		return dropped
	}
	switch {
	case a.sniff:
	case media == "text/event-stream":
		a.events = true
		return a.startFlow(stream.NewEvents(a.downstream(), a.streamOptions()))
	case isCode(media):
		return through
	case isLines(media) && isUnicode(a.declared.Charset):
		return a.startFlow(stream.NewLines(a.downstream(), a.streamOptions()))
	case !isText(a.declared.Kind):
		return through
	}
	// Text that its app sends bit by bit is not waited for. Whether it does that is known when it flushes.
	if header["Content-Length"] == nil && isUnicode(a.declared.Charset) {
		a.mayFlow = media == "text/plain"
		if a.declared.Kind == content.JSON && len(a.encodings) == 0 {
			a.detector = new(stream.Detector)
		}
	}
	length, _ := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if length > a.options.Limits.MaxBody && a.options.Limits.MaxBodyOverflow == extract.OverflowPass {
		a.decider.Skip()
		return through
	}
	a.trailers = trailersOf(header)
	a.kept = extract.NewBuffer(max(length, 512))
	return held
}

// Write writes a part of the body.
func (a *Writer) Write(p []byte) (int, error) {
	if a.mode == undecided {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case a.mode == through:
		return a.ResponseWriter.Write(p)
	case a.mode == dropped:
		return 0, errEnded
	case a.options.Shadow && a.completes(p):
		a.observe(p)
		a.moderateRest()
		return a.ResponseWriter.Write(p)
	case a.options.Shadow:
		n, err := a.ResponseWriter.Write(p)
		a.observe(p[:n])
		return n, err
	case a.mode == held:
		return a.hold(p)
	}
	n, err := a.flow.Write(p)
	if err != nil {
		a.endFlow(err)
	}
	return n, err
}

// ReadFrom writes the body from a reader. An answer that passes uses the fast path of the connection.
func (a *Writer) ReadFrom(r io.Reader) (n int64, err error) {
	if a.mode == undecided {
		a.WriteHeader(http.StatusOK)
	}
	if a.mode != through {
		part := copyBuffers.Get().(*[]byte)
		defer copyBuffers.Put(part)
		for a.mode != through {
			read, readErr := r.Read(*part)
			written, writeErr := a.Write((*part)[:read])
			n += int64(written)
			switch {
			case writeErr != nil:
				return n, writeErr
			case readErr == io.EOF:
				return n, nil
			case readErr != nil:
				return n, readErr
			}
		}
	}
	rest, err := a.ResponseWriterWrapper.ReadFrom(r)
	return n + rest, err
}

// copyBuffers hold parts of bodies that are copied.
var copyBuffers = sync.Pool{New: func() any {
	part := make([]byte, 32<<10)
	return &part
}}

// FlushError sends what may be sent.
func (a *Writer) FlushError() error {
	if a.mode == undecided {
		a.WriteHeader(http.StatusOK)
	}
	if a.mode == held && (a.mayFlow || a.detector != nil && a.detector.Streams()) {
		a.becomeStream()
	}
	switch {
	case a.options.Shadow || a.mode == through:
	case a.mode == held:
		return nil
	case a.mode == flowing && a.events:
		a.begin(a.ResponseWriter) // clients wait for it before they wait for events
	case !a.began:
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// finish ends the answer when the handler has returned. broken says that the answer is incomplete.
func (a *Writer) finish(broken bool, err error) error {
	gone := a.r.Context().Err() != nil
	switch a.mode {
	case undecided, through:
		return err
	case flowing:
		a.closeFlow(gone)
		if !a.ended {
			return err
		}
	case held:
		switch {
		case a.options.Shadow:
			a.conclude(false)
			return err
		case gone:
			a.discard()
			return err
		case err != nil || broken:
			// Nothing was sent, so that the client can be told.
			a.discard()
			DropRepresentation(a.Header())
			if broken {
				return caddyhttp.Error(http.StatusBadGateway, errBroken)
			}
			return err
		}
		a.conclude(false)
	}
	return a.err
}

// Interface guards
var (
	_ http.ResponseWriter = (*Writer)(nil)
	_ io.ReaderFrom       = (*Writer)(nil)
)
