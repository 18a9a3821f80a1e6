// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// answer is the writer of an answer that is judged. Until the header is written it is not known whether it will be.
type answer struct {
	caddyhttp.ResponseWriterWrapper
	m      *ModerateResponse
	r      *http.Request
	cancel context.CancelCauseFunc

	mode   mode
	status int
	x      *exchange
	v      *Verdict
	noted  bool

	declared  content.Type
	encodings []string
	sniff     bool           // there is no Content-Type, so that the body tells what it is
	trailers  []string       // names of fields that come behind the body
	kept      *[]byte        // from the pool
	mayFlow   bool           // what is held becomes a stream when it is flushed
	growth    *stream.Detector // tells whether held JSON is one
	mayRetry  bool           // the app can be asked for the whole
	partial   bool           // the app must be asked for the whole

	flow      io.WriteCloser // judges a stream
	events    bool           // it is one of server-sent events
	charged   bool           // the stream was to be counted
	charge    *charge        // what it counts; nil for nothing
	uncounted error          // why the stream must not go on
	began     bool           // the header was sent
	length    int64          // of the body, where it is announced; 0 where it is not
	sent      int64          // of the body, in shadow mode
	ended     bool           // the guard has answered in place of the app, or ended what it answered
	broken    bool           // what the app sent cannot go on
	err       error          // of a reaction
}

// mode is what is done with an answer.
type mode uint8

const (
	undecided mode = iota
	through        // it goes on as it comes
	held           // it is held until it is judged
	flowing        // it is judged as it flows
	dropped        // the guard has answered in its place
)

// errEnded is what a handler gets that writes more of an answer which the guard has ended.
var errEnded = errors.New("the guard has ended the answer")

// WriteHeader decides what is done with the answer.
func (a *answer) WriteHeader(status int) {
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
	a.mode = a.decide(status, a.Header())
	if a.partial {
		return
	}
	if a.mode == through || a.m.Shadow {
		a.began = true
		a.length, _ = strconv.ParseInt(a.Header().Get("Content-Length"), 10, 64)
		a.ResponseWriter.WriteHeader(status)
	}
}

// decide says what is done with an answer, by its status and header, and prepares it.
func (a *answer) decide(status int, header http.Header) mode {
	if !hasText(a.r, status, header) {
		return through
	}
	a.declared = content.TypeOf(header["Content-Type"])
	a.encodings = header["Content-Encoding"]
	a.sniff = len(header["Content-Type"]) == 0
	media := mediaType(header)
	if status == http.StatusPartialContent && a.declared.Kind == content.Multipart {
		a.declared = content.Type{Kind: content.Text} // several ranges
	}
	if status == http.StatusPartialContent && a.mayRetry && !a.sniff && isRead(a.declared.Kind) && !isCode(media) {
		a.partial = true
		return dropped
	}
	switch {
	case a.sniff:
	case media == "text/event-stream":
		a.events = true
		return a.startFlow(stream.NewEvents(a.downstream(), a.flowOptions()))
	case isCode(media):
		return through
	case isLines(media) && isUnicode(a.declared.Charset):
		return a.startFlow(stream.NewLines(a.downstream(), a.flowOptions()))
	case !isRead(a.declared.Kind):
		return through
	}
	// Text that its app sends bit by bit is not waited for. Whether it does that is known when it flushes.
	if header["Content-Length"] == nil && isUnicode(a.declared.Charset) {
		a.mayFlow = media == "text/plain"
		if a.declared.Kind == content.JSON && len(a.encodings) == 0 {
			a.growth = new(stream.Detector)
		}
	}
	a.x = exchangeOf(a.r, a.m.app)
	length, _ := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if length > a.m.MaxBody && a.m.PastMaxBody == OverflowPass {
		a.v = &Verdict{Status: Skipped, Reason: "too_large", Action: Passed}
		a.x.response = a.v
		a.note()
		return through
	}
	a.trailers = trailersOf(header)
	a.kept = buffers.Get().(*[]byte)
	// Announcing a length costs nothing, so that it buys only so much memory.
	*a.kept = slices.Grow((*a.kept)[:0], int(min(max(length, 512), keepBuffer)))
	return held
}

// hasText reports whether an answer has a body that is there to be read.
func hasText(r *http.Request, status int, header http.Header) bool {
	switch status {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return false
	}
	if r.Method == http.MethodConnect && r.ProtoMajor >= 2 && status < 300 {
		return false // a WebSocket over HTTP/2 or 3 (RFC 8441)
	}
	disposition := header["Content-Disposition"]
	attached := len(disposition) > 0 && len(disposition[0]) >= len("attachment") && strings.EqualFold(disposition[0][:len("attachment")], "attachment")
	return !attached
}

// isRead reports whether answers of the kind are judged.
func isRead(kind content.Kind) bool {
	return kind == content.JSON || kind == content.Markup || kind == content.Text
}

// isLines reports whether a media type is one of JSON in lines, or of values that follow each other.
func isLines(media string) bool {
	switch media {
	case "application/x-ndjson", "application/ndjson", "application/x-jsonl", "application/jsonl", "application/jsonlines",
		"application/x-jsonlines", "application/json-lines", "application/json-seq", "application/stream+json",
		"application/x-json-stream", "application/json-stream", "application/jsonstream", "text/x-ndjson", "text/ndjson",
		"text/jsonl", "text/x-jsonl", "application/ld+ndjson", "application/x-ldjson",
		"multipart/mixed": // results of GraphQL that come bit by bit, each in lines of its own
		return true
	}
	return strings.HasSuffix(media, "+json-seq") || strings.HasSuffix(media, "+ndjson") || strings.HasSuffix(media, "+jsonl")
}

// mediaType is the media type without its parameters, in lower case.
func mediaType(header http.Header) string {
	if len(header["Content-Type"]) == 0 {
		return ""
	}
	media, _, _ := strings.Cut(header["Content-Type"][0], ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// isCode reports whether a text is there for machines only.
func isCode(media string) bool {
	switch media {
	case "text/css", "text/javascript", "text/ecmascript", "application/javascript", "application/ecmascript",
		"application/x-javascript", "image/svg+xml", "text/cache-manifest", "application/manifest+json", "application/wasm":
		return true
	}
	return strings.HasPrefix(media, "font/")
}

// isUnicode reports whether text in the charset can be judged without being decoded.
func isUnicode(charset string) bool {
	return charset == "" || charset == "utf-8" || charset == "utf8" || charset == "us-ascii"
}

// Write takes a part of the body.
func (a *answer) Write(p []byte) (int, error) {
	if a.mode == undecided {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case a.mode == through:
		return a.ResponseWriter.Write(p)
	case a.mode == dropped:
		return 0, errEnded
	case a.m.Shadow && a.completes(p):
		a.watch(p)
		a.judgeRest()
		return a.ResponseWriter.Write(p)
	case a.m.Shadow:
		n, err := a.ResponseWriter.Write(p)
		a.watch(p[:n])
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

// ReadFrom takes the body from a reader. What is not judged takes the fast way.
func (a *answer) ReadFrom(r io.Reader) (n int64, err error) {
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

// FlushError sends what may be sent.
func (a *answer) FlushError() error {
	if a.mode == undecided {
		a.WriteHeader(http.StatusOK)
	}
	if a.mode == held && (a.mayFlow || a.growth != nil && a.growth.Streams()) {
		a.flowOn()
	}
	switch {
	case a.m.Shadow || a.mode == through:
	case a.mode == held:
		return nil
	case a.mode == flowing && a.events:
		a.begin(a.ResponseWriter) // clients wait for it before they wait for events
	case !a.began:
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// begin sends the header to w.
func (a *answer) begin(w http.ResponseWriter) {
	if a.began {
		return
	}
	a.began = true
	if a.v != nil && a.v.Recommendation == engine.Review {
		w.Header()["X-Moderation-Recommendation"] = []string{string(engine.Review)}
	}
	w.WriteHeader(a.status)
}

// hold keeps a part of an answer until all of it is there, or more than can be held.
func (a *answer) hold(p []byte) (int, error) {
	if a.sniff && len(p) > 0 {
		a.sniff = false
		if a.declared.Kind = content.Sniff(p, a.declared); a.declared.Kind == content.Binary {
			if err := a.release(a.ResponseWriter); err != nil {
				return 0, err
			}
			return a.ResponseWriter.Write(p)
		}
		if a.mayRetry && a.status == http.StatusPartialContent {
			a.partial, a.mode = true, dropped
			a.dropKept()
			return 0, errEnded
		}
	}
	if a.growth != nil {
		a.growth.Add(p)
	}
	room := a.m.MaxBody - int64(len(*a.kept))
	if int64(len(p)) <= room {
		*a.kept = append(*a.kept, p...)
		return len(p), nil
	}
	*a.kept = append(*a.kept, p[:room]...)
	a.conclude(true)
	switch {
	case a.mode != through:
		return 0, errEnded
	case a.err != nil:
		return 0, a.err
	}
	n, err := a.ResponseWriter.Write(p[room:])
	return int(room) + n, err
}

// watch judges, in shadow mode, what has already been sent.
func (a *answer) watch(p []byte) {
	if a.mode == flowing {
		_, _ = a.flow.Write(p) // once the text is rejected, no more of it is judged
		return
	}
	if a.sniff && len(p) > 0 {
		a.sniff = false
		a.declared.Kind = content.Sniff(p, a.declared)
	}
	if a.declared.Kind == content.Binary {
		a.mode = through
		a.discard()
		return
	}
	room := a.m.MaxBody - int64(len(*a.kept))
	*a.kept = append(*a.kept, p[:min(room, int64(len(p)))]...)
	if int64(len(p)) > room {
		a.conclude(true)
	}
}

// completes reports whether, with p, all of an answer is sent that counts for an account. Of an answer of unknown length the end
// is sent when the handler has returned.
func (a *answer) completes(p []byte) bool {
	a.sent += int64(len(p))
	return a.length > 0 && a.sent >= a.length && a.m.judge.account != ""
}

// judgeRest judges in shadow mode what is not judged yet, before the client can take the answer for whole.
func (a *answer) judgeRest() {
	switch a.mode {
	case held:
		a.conclude(false)
	case flowing:
		a.closeFlow(false)
		a.mode = through
	}
}

// finish does what is left to do when the handler has returned. broken says that the answer is not whole.
func (a *answer) finish(broken bool, err error) error {
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
		case a.m.Shadow:
			a.conclude(false)
			return err
		case gone:
			a.discard()
			return err
		case err != nil || broken:
			// Nothing was sent, so that the client can be told.
			a.discard()
			dropRepresentation(a.Header())
			if broken {
				return caddyhttp.Error(http.StatusBadGateway, errBroken)
			}
			return err
		}
		a.conclude(false)
	}
	return a.err
}

// discard gives back what is held.
func (a *answer) discard() {
	if stopper, ok := a.flow.(*inflater); ok {
		stopper.stop()
	}
	a.dropKept()
}

// dropKept gives back the buffer.
func (a *answer) dropKept() {
	if a.kept == nil {
		return
	}
	if cap(*a.kept) <= keepBuffer {
		buffers.Put(a.kept)
	}
	a.kept = nil
}

// release sends what is held to w as it came, and lets the rest go on.
func (a *answer) release(w http.ResponseWriter) error {
	a.mode = through
	late := a.takeTrailers()
	a.begin(w)
	var err error
	if len(*a.kept) > 0 {
		_, err = w.Write(*a.kept)
	}
	maps.Copy(w.Header(), late)
	a.discard()
	return err
}

// trailersOf returns the names of the trailers that a header announces.
func trailersOf(header http.Header) (names []string) {
	for _, announced := range header["Trailer"] {
		for name := range strings.SplitSeq(announced, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if _, already := header[name]; !already {
				names = append(names, name)
			}
		}
	}
	return names
}

// takeTrailers takes trailers that have come by now out of the header, which would be sent with them in it.
func (a *answer) takeTrailers() http.Header {
	late := http.Header{}
	for _, name := range a.trailers {
		if values, ok := a.Header()[name]; ok {
			late[name] = values
			delete(a.Header(), name)
		}
	}
	return late
}

// representation are the header fields that are about one body and no other.
var representation = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Content-Location", "Content-Disposition",
	"Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Last-Modified", "Accept-Ranges", "Trailer",
}

// dropRepresentation removes the fields of the app's body, and returns them. Another body follows.
func dropRepresentation(header http.Header) http.Header {
	dropped := http.Header{}
	for _, name := range representation {
		if values, ok := header[name]; ok {
			dropped[name] = values
			delete(header, name)
		}
	}
	return dropped
}

// dropValidators removes the fields that would be wrong if the stream ended early.
func dropValidators(header http.Header) {
	for _, name := range []string{"Content-Length", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Etag", "Accept-Ranges"} {
		delete(header, name)
	}
}

// copyBuffers hold parts of bodies that are copied.
var copyBuffers = sync.Pool{New: func() any {
	part := make([]byte, chunk)
	return &part
}}

// Interface guards
var (
	_ http.ResponseWriter = (*answer)(nil)
	_ io.ReaderFrom       = (*answer)(nil)
)
