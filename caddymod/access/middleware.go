// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package access admits requests: it authenticates them, charges them to their account's limits, and settles the charge
// when the answer is known.
//
// A [Middleware] does all of it for one handler, in this order:
//
//	middleware.go      Serve opens the call, or finds the one that a middleware before it has opened
//	authenticate.go    finds the key and the account behind it
//	charge.go          counts the request, and refuses what exceeds the account's limits
//	                   (the handler runs)
//	settle.go          makes the charge durable before the header of the answer goes out
//	call.go            counts the ended call in metrics and events
//
// The Caddy modules moderation_key_auth (keyauth.go) and moderation_rate_limit (ratelimit.go) do the two halves for any
// handler, and moderation_key (provider.go) the first half for Caddy's own authentication handler. A Middleware behind
// them does only what they have not done, so that no request is charged twice.
package access

import (
	"net/http"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// ProblemWriter answers with a problem in the shape that the clients of a route parse. [problem.Write] is the default.
type ProblemWriter func(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem)

// Handler handles a call that was admitted.
type Handler func(w http.ResponseWriter, r *http.Request, call *Call) error

// Middleware admits requests to one handler.
type Middleware struct {
	// App owns the gate. Required.
	App *app.App
	// Operation is what the handler does, for the metrics. Default: [metrics.Other].
	Operation metrics.Operation
	// Sources are the places where the key may stand beside the Authorization header. Default: none.
	Sources Sources
	// Free charges requests to no limit, and puts no RateLimit fields into the answer. Default: false.
	Free bool
	// Deferred leaves it to the handler to charge the request with [Call.Charge], when it knows how much the request
	// counts and before it does the work that the limits are for. Default: false.
	Deferred bool
	// Problem writes refusals. Default: [problem.Write].
	Problem ProblemWriter
}

// Serve admits the request and handles it, or answers why not. What another Middleware before this one has done for
// the request is not done again. Every answer carries X-Request-Id, Cache-Control: no-store and
// X-Content-Type-Options: nosniff.
//
// A charged request is settled when its final status is written: as a success below 400, otherwise with its day and
// month counts given back. A request whose handle returns an error or panics gives them back, too.
func (m *Middleware) Serve(w http.ResponseWriter, r *http.Request, handle Handler) (err error) {
	call := callOf(r.Context())
	if call == nil {
		call = newCall(r, m.App)
	}
	if m.Operation != "" {
		call.operation = m.Operation
	}
	if call.writeProblem = m.Problem; call.writeProblem == nil {
		call.writeProblem = problem.Write
	}
	if call.open {
		return m.admit(w, r, call, handle)
	}
	// This is the outermost Middleware: it observes the answer and ends the call.
	call.open = true
	call.answer.init(w, call)
	problem.SetHeaders(w.Header(), call.ID)
	returned := false
	defer func() {
		call.end(returned, err)
		call.release()
	}()
	err = m.admit(&call.answer, r, call, handle)
	returned = true
	return err
}

// endSpan ends a step that ended with a problem or, if it is nil, well.
func endSpan(span tracing.Span, p *problem.Problem) {
	if p != nil {
		span.Refuse(string(p.Code), p.Code.Status() >= http.StatusInternalServerError)
	}
	span.End()
}

// admit authenticates and charges the request, as far as m asks for it, and handles it.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request, call *Call, handle Handler) error {
	if !call.held {
		services, err := m.App.Acquire(r.Context())
		if err != nil {
			w.Header().Set("Retry-After", "1")
			return call.Refuse(w, r, problem.New(problem.Starting, ""))
		}
		call.Services, call.held = services, true
	}
	if !call.authenticated {
		_, span := tracing.Start(r.Context(), tracing.Authenticate)
		span.ID(call.ID)
		p := call.authenticate(w, r, m.Sources)
		endSpan(span, p)
		if p != nil {
			return call.Refuse(w, r, p)
		}
	}
	if !m.Free && !m.Deferred {
		if p := call.Charge(w, r, 1); p != nil {
			return call.Refuse(w, r, p)
		}
	}
	return handle(w, r, call)
}
