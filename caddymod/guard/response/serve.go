// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package response holds the answer of an app until it is moderated, or moderates it as it flows.
//
// [Serve] lets the app answer through a [Writer], which knows HTTP: media types, streams, encodings, trailers, ranges.
// A [Decider] moderates the texts, and decides what becomes of the answer.
//
//	serve.go     lets the app answer, and again if it answers a part of a text
//	writer.go    chooses by the header whether an answer passes, is held or flows (media.go)
//	held.go      extracts the texts of an answer that is held
//	flow.go      gives an answer that flows to package stream
//	shadow.go    moderates an answer that is sent at the same time
//	outcome.go   sends what the Decider has decided (header.go)
package response

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
)

// Options say which texts of answers are moderated, and how.
type Options struct {
	// Selection says which texts of a body are moderated.
	Selection content.Selection
	// Limits bound what is held of an answer. Streams have no limits.
	Limits extract.Limits
	// Stream says how streams are moderated. The writer sets its functions.
	Stream stream.Options
	// Shadow moderates, but changes nothing and holds nothing back.
	Shadow bool
	// Counted says that answers are charged to an account. In shadow mode one is moderated before its last byte goes
	// out then, where its length is announced.
	Counted bool
}

// Decider moderates an answer and decides what becomes of it. Its methods are called by the goroutine that writes the
// answer.
type Decider interface {
	// Skip is told of an answer that passes without being moderated, because it is announced as larger than the limit.
	Skip()
	// Decide moderates what was extracted from an answer that is held, and then calls one of the writer's Pass,
	// Release, Replace and Offer.
	Decide(w *Writer, found *extract.Result)

	// BeginStream is told of an answer that is moderated as it flows.
	BeginStream()
	// Unreadable is told that a stream cannot be moderated because of its Content-Encoding. It calls the writer's
	// Replace, or else the stream goes on as it is.
	Unreadable(w *Writer, err error)
	// Moderate moderates a part of a stream in its context, and reports whether it may go on. rejectOnly says that the
	// text counts only when it is rejected. An error says that the text could not be moderated.
	Moderate(text string, rejectOnly bool) (ok bool, err error)
	// Judged is told of each part of a stream once, when it is decided about, without its context and without other
	// views of what it says. It must not keep a reference to the text.
	Judged(text []byte)
	// EndStream is told once how a stream ends. For Rejected and Unjudged it calls the writer's Replace.
	EndStream(w *Writer, ending Ending)

	// SetHeader adds fields to the header of an answer, just before it goes out.
	SetHeader(header http.Header)
}

// Ending is how a stream ends.
type Ending uint8

// The endings of a stream.
const (
	Complete Ending = iota // the app has ended it, or the client has left
	Broken                 // the Content-Encoding is broken: the stream breaks off
	Aborted                // a part was rejected or could not be moderated, after something was sent
	Rejected               // a part was rejected before anything was sent
	Unjudged               // a part could not be moderated before anything was sent
)

// errEnded is the error of writing to an answer that the guard has ended.
var errEnded = errors.New("the guard has ended the answer")

// errBroken says that the answer of the app broke off before any of it was sent.
var errBroken = errors.New("the answer of the app broke off")

// Serve lets a handler answer, and sends what the decider decides. A handler that cannot finish its answer panics with
// [http.ErrAbortHandler], as reverse_proxy does when the app or the client leaves. Serve panics with it, too, if the
// client must see that the answer is incomplete.
func Serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, o *Options, d Decider) error {
	again := retry(w, r, o.Shadow)
	a, broken, err := call(w, r, next, o, d, again != nil)
	if a.partial {
		a, broken, err = call(w, again(), next, o, d, false)
	}
	if err = a.finish(broken, err); (broken || a.broken) && !a.ended && err == nil {
		// The client must see that the answer is incomplete, as the guard has.
		panic(http.ErrAbortHandler)
	}
	return err
}

// retry prepares for calling the app again, for all of a text of which the client wants a range. The function that it
// returns restores the state before the first call and returns the request for all of the text. It is nil for a request
// that has no range or cannot be sent again.
func retry(w http.ResponseWriter, r *http.Request, shadow bool) func() *http.Request {
	if r.Header["Range"] == nil || r.Method != http.MethodGet || shadow || extract.HasBody(r) {
		return nil
	}
	header, address := w.Header().Clone(), *r.URL
	groups, _ := r.Context().Value(routeGroups).(map[string]struct{})
	groups = maps.Clone(groups)
	return func() *http.Request {
		clear(w.Header())
		maps.Copy(w.Header(), header)
		// Handlers that rewrite the address, and routes of which only one is taken, begin anew.
		*r.URL = address
		whole := r.WithContext(r.Context())
		if groups != nil {
			whole = r.WithContext(context.WithValue(r.Context(), routeGroups, groups))
		}
		whole.Header = maps.Clone(r.Header)
		delete(whole.Header, "Range")
		delete(whole.Header, "If-Range")
		return whole
	}
}

// routeGroups is where Caddy notes which of several routes was taken.
const routeGroups caddy.CtxKey = "route_group"

// call lets the app answer once. mayRetry says that it can be called again if it answers a part of a text. broken says
// that the answer is incomplete.
func call(
	w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, o *Options, d Decider, mayRetry bool,
) (a *Writer, broken bool, err error) {
	inner, cancel := innerRequest(r, o.Shadow)
	defer cancel(nil)
	a = &Writer{
		ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w},
		options:               o, decider: d, r: r, cancel: cancel, mayRetry: mayRetry,
	}
	broken, err = a.receive(next, inner)
	return a, broken, err
}

// innerRequest returns the request as the app gets it. It can be cancelled when the answer has ended.
func innerRequest(r *http.Request, shadow bool) (*http.Request, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	inner := r.WithContext(ctx)
	if !shadow && r.Header["Upgrade"] == nil {
		// The header is also that of handlers outside, and of the access log.
		inner.Header = maps.Clone(r.Header)
		inner.Header["Accept-Encoding"] = identity
	}
	return inner, cancel
}

// identity is an Accept-Encoding without any encoding. It is shared and must not be appended to.
var identity = []string{"identity"}

// receive lets the app write its answer to a.
func (a *Writer) receive(next caddyhttp.Handler, r *http.Request) (broken bool, err error) {
	defer func() {
		switch reason := recover(); reason {
		case nil:
		case http.ErrAbortHandler:
			broken = true
		default:
			a.discard()
			panic(reason)
		}
	}()
	return false, next.ServeHTTP(a, r)
}

// Forward lets a handler answer as [Serve] does, but sends the answer as it is.
func Forward(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, shadow bool) error {
	inner, cancel := innerRequest(r, shadow)
	defer cancel(nil)
	return next.ServeHTTP(w, inner)
}
