// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// conclude judges what is held, and sends what follows from that. over says that more is to come than can be held.
func (a *answer) conclude(over bool) {
	m := a.m
	f, body := a.read(over)
	a.judgeHeld(&f)
	switch routes := m.On.routes(a.v.Recommendation); {
	case m.Shadow:
		a.mode, a.v.Action = through, Shadowed
		a.note()
		a.discard()
	case a.v.Recommendation == engine.Reject:
		a.reject(routes, body)
	case a.v.Status == Failed && (f.err != nil || m.OnError == errorReject):
		a.v.Action = Refused
		a.note()
		a.replace(nil, func(w http.ResponseWriter, r *http.Request) error { return refuse(w, r, a.x.id, a.unjudged(w, f.err)) })
	case routes == nil || a.v.Status == Nothing:
		a.v.Action = Passed
		a.note()
		a.err = a.release(a.ResponseWriter)
	default:
		a.v.Action = Handled
		a.note()
		a.react(routes)
	}
}

// read finds the texts in what is held. It also returns what is held without its Content-Encoding.
func (a *answer) read(over bool) (f found, body []byte) {
	f.status = Nothing
	body = *a.kept
	if len(a.encodings) > 0 {
		var err error
		body, err = content.Decode(a.encodings, body, a.m.MaxBody)
		switch {
		case errors.Is(err, coding.ErrTooLarge):
			over = true
		case errors.Is(err, coding.ErrBroken) && over:
			// It is not all there.
		case err != nil:
			// What came out before the fault is judged, too.
			f.failed, f.reason = err, encodingReason(err)
		}
	}
	if over {
		switch a.m.PastMaxBody {
		case OverflowReject:
			f.err = errTooLarge
			return f, body
		case OverflowPass:
			f.status, f.reason = Skipped, "too_large"
			return f, body
		}
		f.status = Partial
	}
	f.pieces = a.m.reader.selection.Extract(nil, a.declared, body)
	a.m.reader.cut(&f)
	if f.err == nil && f.status != Skipped && (len(a.m.JSON) == 0 || a.declared.Kind != content.JSON) {
		// What was meant to be a stream may come at once, with its words in pieces.
		for _, text := range stream.ExtractTexts(body) {
			f.pieces = append(f.pieces, content.Piece{Text: text[:byteOf(text, a.m.MaxText)]})
		}
	}
	return f, body
}

// judgeHeld judges what was found.
func (a *answer) judgeHeld(f *found) {
	began := a.m.app.Now()
	var v *Verdict
	if f.err == nil && f.status != Skipped {
		var err error
		var c *charge
		if v, _, c, err = a.m.judge.judge(a.r.Context(), a.x, f.pieces, new(joiner), nil); err == nil {
			err = a.counted(c)
		}
		if err != nil {
			f.failed, f.reason, v = err, judgeReason(err), nil
			a.m.logger.Error("judging a response", zap.String("moderation_id", a.x.id), zap.Error(err))
		}
	}
	if v == nil {
		v = new(Verdict)
	}
	v.settle(f)
	a.v, a.x.response = v, v
	a.timed(began)
}

// reject sends something else than the answer: what the site wants, else what a language model's API says when it filters, else
// a problem. body is the answer without its Content-Encoding.
func (a *answer) reject(routes caddyhttp.RouteList, body []byte) {
	a.v.Action = Refused
	if routes != nil {
		a.v.Action = Handled
	}
	a.note()
	a.replace(routes, func(w http.ResponseWriter, r *http.Request) error {
		a.v.Action = Refused
		if a.declared.Kind == content.JSON {
			if filtered := stream.Filtered(body); filtered != nil {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", strconv.Itoa(len(filtered)))
				w.WriteHeader(a.status)
				_, err := w.Write(filtered)
				return err
			}
		}
		p := rejection(a.v)
		p.Code = problem.ResponseRejected
		return refuse(w, r, a.x.id, p)
	})
}

// unjudged is the problem of an answer that could not be judged; err says that it is too large to be.
func (a *answer) unjudged(w http.ResponseWriter, err error) *problem.Problem {
	if err != nil {
		return problem.New(problem.ResponseRejected, "The answer is larger than what can be judged.")
	}
	w.Header().Set("Retry-After", "1")
	return problem.New(problem.NotJudged, "The answer could not be judged now. Try again.")
}

// replace sends something else than the answer, and ends the request to the app. Of the app's header what is about its body
// and about keeping it goes, and the rest stays, such as cookies and what lets a page of another origin read the answer.
func (a *answer) replace(routes caddyhttp.RouteList, otherwise caddyhttp.HandlerFunc) {
	a.mode, a.ended, a.began = dropped, true, true
	header := a.Header()
	a.takeTrailers()
	dropRepresentation(header)
	for name := range header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			delete(header, name)
		}
	}
	delete(header, "Cache-Control")
	delete(header, "Expires")
	delete(header, "Age")
	a.err = routes.Compile(otherwise).ServeHTTP(a.ResponseWriter, a.r)
	a.discard()
	a.cancel(errEnded)
}

// react runs the routes for an answer that may go on. It does when they do not answer.
func (a *answer) react(routes caddyhttp.RouteList) {
	fields := dropRepresentation(a.Header())
	a.mode = dropped
	a.err = routes.Compile(caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		a.v.Action = Passed
		header := w.Header()
		for name, values := range fields {
			if _, ok := header[name]; !ok {
				header[name] = values
			}
		}
		return a.release(w)
	})).ServeHTTP(a.ResponseWriter, a.r)
	if a.mode == through {
		return
	}
	a.ended, a.began = true, true
	a.discard()
	a.cancel(errEnded)
}

// downstream is where the judged part of a stream goes.
func (a *answer) downstream() io.Writer {
	if a.m.Shadow {
		return io.Discard
	}
	return writerFunc(func(p []byte) (int, error) {
		a.begin(a.ResponseWriter)
		return a.ResponseWriter.Write(p)
	})
}

// flowOptions are the options of one stream.
func (a *answer) flowOptions() stream.Options {
	o := a.m.stream
	o.Moderate = func(text string) (bool, error) { return a.judgePart(text, false) }
	o.Strict = func(text string) (bool, error) { return a.judgePart(text, true) }
	if !a.m.Shadow {
		o.Flush = http.NewResponseController(a.ResponseWriter).Flush
	}
	return o
}

// startFlow begins to judge a stream.
func (a *answer) startFlow(flow io.WriteCloser) mode {
	a.x = exchangeOf(a.r, a.m.app)
	a.v = &Verdict{Status: Nothing, Confidence: 1}
	a.x.response = a.v
	encodings, err := coding.Parse(a.encodings)
	switch {
	case err != nil:
		a.v.Status, a.v.Reason = Failed, encodingReason(err)
		return a.passUnread()
	case len(encodings) > 0:
		a.flow = newInflater(encodings, flow)
	default:
		a.flow = flow
	}
	if !a.m.Shadow {
		delete(a.Header(), "Content-Encoding")
		dropValidators(a.Header())
	}
	return flowing
}

// flowOn makes a stream of what is held.
func (a *answer) flowOn() {
	flow := io.WriteCloser(stream.NewPlain(a.downstream(), a.flowOptions()))
	if a.growth != nil {
		flow = stream.NewLines(a.downstream(), a.flowOptions())
	}
	a.mode = a.startFlow(flow)
	switch a.mode {
	case through:
		if !a.m.Shadow {
			a.err = a.release(a.ResponseWriter)
		}
	case flowing:
		if _, err := a.flow.Write(*a.kept); err != nil && !a.m.Shadow {
			a.endFlow(err)
		}
	}
	a.dropKept()
}

// passUnread lets a stream go on that cannot be read, or not.
func (a *answer) passUnread() mode {
	switch {
	case a.m.Shadow:
		a.v.Action = Shadowed
	case a.m.OnError == errorReject:
		a.v.Action = Refused
		a.note()
		a.replace(nil, func(w http.ResponseWriter, r *http.Request) error { return refuse(w, r, a.x.id, a.unjudged(w, nil)) })
		return dropped
	default:
		a.v.Action = Passed
	}
	a.note()
	return through
}

// counted waits until a charge is settled. The error is one that the answer must not go on for.
func (a *answer) counted(c *charge) error {
	err := c.wait()
	if err == nil {
		return nil
	}
	if a.m.judge.closed {
		return fmt.Errorf("%w: %w", errUncounted, err)
	}
	a.m.judge.uncounted(err)
	return nil
}

// judgePart judges a part of a stream in its context. strict says that it counts only when it is to be rejected.
func (a *answer) judgePart(text string, strict bool) (bool, error) {
	began := a.m.app.Now()
	defer a.timed(began)
	ctx := a.r.Context()
	first := !a.charged
	if first {
		var err error
		if a.charge, err = a.m.judge.countOnce(ctx, a.x); err != nil {
			return false, a.fail(err)
		}
		a.charged = true
		a.charge.settle(nil) // what is flagged is known at the end
	}
	results, err := a.m.judge.classify(ctx, []content.Piece{{Text: text}}, new(joiner))
	if first {
		a.uncounted = a.counted(a.charge) // the text goes on next
	}
	if a.uncounted != nil {
		return false, a.fail(a.uncounted)
	}
	if err != nil {
		return false, a.fail(err)
	}
	if len(results) > 0 && a.v.Status == Nothing {
		a.v.Status, a.v.Recommendation = Judged, engine.Approve
	}
	for i := range results {
		results[i].strict = results[i].strict || strict
		a.m.judge.add(a.v, &results[i])
	}
	// One finding tells of the whole stream: the worst.
	for i := range a.v.Fields {
		if severity(a.v.Fields[i].Recommendation) > severity(a.v.Fields[0].Recommendation) {
			a.v.Fields[0] = a.v.Fields[i]
		}
	}
	a.v.Fields = a.v.Fields[:min(len(a.v.Fields), 1)]
	return a.m.judge.decide(results).Recommendation != engine.Reject, nil
}

// fail notes that a part of a stream could not be judged.
func (a *answer) fail(err error) error {
	if a.v.Reason == "" {
		a.m.logger.Error("judging a response", zap.String("moderation_id", a.x.id), zap.Error(err))
	}
	a.v.Reason = judgeReason(err)
	return err
}

// endFlow deals with the error of a stream: it ends here, unless the client has left.
func (a *answer) endFlow(err error) {
	rejected, unjudged := errors.Is(err, stream.ErrRejected), errors.Is(err, stream.ErrUnjudged)
	if !rejected && !unjudged && !errors.Is(err, coding.ErrBroken) {
		return // nobody reads any more
	}
	a.mode = dropped
	a.v.Action = Aborted
	switch {
	case !rejected && !unjudged:
		// The reader sees what it would have seen: an answer that breaks off.
		a.v.Reason, a.broken = "broken_encoding", true
		a.settleFlow()
		a.note()
	case a.began:
		a.ended = true
		a.settleFlow()
		a.note()
		a.discard()
		a.cancel(errEnded)
	case rejected:
		a.settleFlow()
		a.reject(a.m.On.routes(engine.Reject), nil)
	default:
		a.v.Action = Refused
		a.settleFlow()
		a.note()
		a.replace(nil, func(w http.ResponseWriter, r *http.Request) error { return refuse(w, r, a.x.id, a.unjudged(w, nil)) })
	}
}

// closeFlow ends a stream that the app has ended. gone says that the client has left.
func (a *answer) closeFlow(gone bool) {
	if !gone {
		if err := a.flow.Close(); err != nil && !a.m.Shadow {
			a.endFlow(err)
		}
	}
	if !a.ended && !a.broken {
		a.v.Action = Passed
		if a.m.Shadow {
			a.v.Action = Shadowed
		}
		a.settleFlow()
		a.note()
		if !gone && !a.m.Shadow {
			a.begin(a.ResponseWriter) // of an empty stream
		}
	}
	a.discard()
}

// settleFlow completes the verdict on a stream, and what it counts.
func (a *answer) settleFlow() {
	if a.v.Reason != "" && a.v.Recommendation != engine.Reject {
		a.v.Status, a.v.Recommendation = Failed, ""
	}
	// The reader does not see the end before what was flagged is counted.
	if err := a.charge.flag(a.v.flagged()); err != nil {
		a.m.judge.uncounted(err)
	}
	a.charge = nil
}

// inflater undoes the Content-Encoding of a stream as it comes. Decoders read, and a stream is written: they take turns, so
// that a write returns when everything is judged that can be decoded by then.
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
