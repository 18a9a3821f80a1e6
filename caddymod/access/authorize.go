// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// ProblemWriter answers with a problem in the shape that the clients of a route parse. [problem.Write] is the default.
type ProblemWriter func(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem)

// Handler handles a call that was let in.
type Handler func(w http.ResponseWriter, r *http.Request, call *Call) error

// Middleware lets requests in to one handler.
type Middleware struct {
	// App owns the gate. Required.
	App *app.App
	// Operation is what the handler does, for the metrics. Default: [metrics.Other].
	Operation metrics.Operation
	// Sources says where the key may stand beside the Authorization header.
	Sources Sources
	// Free charges requests to no limit, and puts no RateLimit fields into the answer.
	Free bool
	// Deferred leaves it to the handler to charge the request, with [Call.Charge], when it knows what the request counts and
	// before it does the work that the limits are for.
	Deferred bool
	// Problem writes refusals. Default: [problem.Write].
	Problem ProblemWriter
}

// Serve lets the request in and handles it, or answers why not. What another door before this one has done for the
// request is not done again. Every answer carries X-Request-Id, Cache-Control: no-store and X-Content-Type-Options: nosniff.
//
// A charged request is settled when its final status is written: as a success below 400, else with its day and month
// counts given back, as also when handle returns an error or panics.
func (d *Middleware) Serve(w http.ResponseWriter, r *http.Request, handle Handler) (err error) {
	call := callOf(r.Context())
	if call == nil {
		call = begin(r, d.App)
	}
	if d.Operation != "" {
		call.operation = d.Operation
	}
	if call.write = d.Problem; call.write == nil {
		call.write = problem.Write
	}
	if call.owned {
		return d.enter(w, r, call, handle)
	}
	// This door is the outermost one: it watches the answer.
	call.owned = true
	call.answer = answer{call: call, ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
	problem.SetHeaders(w.Header(), call.ID)
	returned := false
	defer func() {
		call.end(returned, err)
		if call.held {
			call.held = false
			call.Services.Release()
		}
	}()
	err = d.enter(&call.answer, r, call, handle)
	returned = true
	return err
}

// enter authenticates and admits the request, as far as this door asks for it, and handles it.
func (d *Middleware) enter(w http.ResponseWriter, r *http.Request, call *Call, handle Handler) error {
	if !call.held {
		services, err := d.App.Acquire(r.Context())
		if err != nil {
			w.Header().Set("Retry-After", "1")
			return call.Refuse(w, r, problem.New(problem.Starting, ""))
		}
		call.Services, call.held = services, true
	}
	if !call.authenticated {
		if p := d.authenticate(w, r, call); p != nil {
			return call.Refuse(w, r, p)
		}
	}
	if !d.Free && !d.Deferred {
		if p := call.Charge(w, r, 1); p != nil {
			return call.Refuse(w, r, p)
		}
	}
	return handle(w, r, call)
}

// authenticate finds out who calls. The challenge is that of RFC 6750, section 3.
func (d *Middleware) authenticate(w http.ResponseWriter, r *http.Request, call *Call) *problem.Problem {
	key, err := Credentials(r, d.Sources)
	if errors.Is(err, ErrNoCredentials) {
		challenge(w, "")
		return problem.New(problem.MissingKey, "Send the key in the header Authorization: Bearer <API key>.")
	}
	if err != nil {
		challenge(w, "invalid_request")
		return problem.New(problem.MalformedCredentials, sentence(err))
	}
	who, err := call.Services.Gate.Authenticate(r.Context(), key)
	switch {
	case err == nil:
		call.Who, call.authenticated = who, true
		return nil
	case errors.Is(err, quota.ErrUnauthorized):
		return unknownKey(w)
	case errors.Is(err, quota.ErrInactive):
		call.Who = who
		return problem.New(problem.AccountInactive, "The account's subscription status is not one that is served.")
	case errors.Is(err, quota.ErrUnknownTier):
		call.Who = who
		call.app.Logger().Error("an account is on a tier that is not configured",
			zap.String("account", who.Account.ID), zap.String("tier", who.Account.Tier))
		return problem.New(problem.TierNotConfigured, "The account is on a tier that this server does not have. Its operator can put it on another one.")
	}
	return call.unavailable(w, "authenticating a request", err)
}

// unknownKey challenges and says that nobody is known to hold the key.
func unknownKey(w http.ResponseWriter) *problem.Problem {
	challenge(w, "invalid_token")
	return problem.New(problem.InvalidKey, "The API key is unknown, revoked or expired.")
}

// Charge makes the request count n, 1 or more, in its account's limits: all of it or, when a problem says why not, no more
// than before. What was charged for the request already is part of n, so that a handler charges what the whole request
// counts, whether or not moderation_rate_limit stands before it. A request is charged before its answer begins; the handler
// answers a problem with [Call.Refuse].
//
// Retry-After says when the minute is over that has no room for n. A request that counts more than a whole minute has room
// for has no such time.
func (c *Call) Charge(w http.ResponseWriter, r *http.Request, n int64) *problem.Problem {
	if n <= c.charged {
		return nil
	}
	decision, err := c.Services.Gate.Admit(r.Context(), c.Who, n-c.charged)
	if errors.Is(err, quota.ErrNotFound) {
		return unknownKey(w) // the account was deleted, and the key with it, since the request was authenticated
	}
	if err != nil {
		return c.unavailable(w, "admitting a request", err)
	}
	if c.charged > 0 {
		c.earlier = append(c.earlier, c.decision)
	}
	c.decision = decision
	setLimits(w.Header(), &c.fields, &c.decision)
	if decision.Refused == quota.NoWindow {
		c.charged = n
		return nil
	}
	p := limited(&decision, n)
	p.Quota.Account = c.Who.Account.ID
	if decision.Refused == quota.MinuteWindow && p.Quota.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(p.Quota.RetryAfter, 10))
	}
	return p
}

// limited describes the limit that refuses a request that counts n.
func limited(d *quota.Decision, n int64) *problem.Problem {
	code, limit, window, wait := problem.RateLimitExceeded, d.Limits.RequestsPerMinute, "minute", max(1, secondsUntil(d.Now, d.MinuteReset))
	left, next := max(0, limit-d.Counts.Minute), fmt.Sprintf("Try again in %d s.", wait)
	if d.Refused == quota.MonthWindow {
		code, limit, window, wait = problem.MonthlyQuotaExhausted, d.Limits.RequestsPerMonth, "billing period", max(1, secondsUntil(d.Now, d.Period.End))
		left, next = max(0, limit-d.Counts.Period), "The next one starts at "+d.Period.End.UTC().Format("2006-01-02T15:04:05Z")+"."
	}
	if n > limit {
		wait, next = 0, "Send fewer texts at once."
	}
	detail := fmt.Sprintf("The account may make %d requests a %s. %s", limit, window, next)
	if n > 1 {
		detail = fmt.Sprintf("The request counts %d. The account may make %d requests a %s, of which %d are left. %s", n, limit, window, left, next)
	}
	p := problem.New(code, detail)
	p.Violated = []string{string(d.Refused)}
	p.Quota = &problem.Quota{Limit: limit, RetryAfter: wait}
	return p
}

// SetUsage makes the answer's RateLimit fields tell the numbers of a usage report that was made for the call.
func (c *Call) SetUsage(w http.ResponseWriter, usage *quota.Usage) {
	c.decision.Limits, c.decision.Counts = usage.Limits, usage.Counts
	c.decision.Now, c.decision.MinuteReset, c.decision.Period = usage.Now, usage.MinuteReset, usage.Period
	setLimits(w.Header(), &c.fields, &c.decision)
}

// Problem answers the call with a problem, in the shape of its route.
func (c *Call) Problem(w http.ResponseWriter, r *http.Request, p *problem.Problem) error {
	c.write(w, r, c.ID, p)
	return nil
}

// Unavailable answers 503 because the store failed; doing says for the log what was tried.
func (c *Call) Unavailable(w http.ResponseWriter, r *http.Request, doing string, err error) error {
	return c.Problem(w, r, c.unavailable(w, doing, err))
}

func (c *Call) unavailable(w http.ResponseWriter, doing string, err error) *problem.Problem {
	if c.request.Context().Err() == nil { // else the client left, and the store is not to blame
		c.app.Logger().Error(doing, zap.String("moderation_id", c.ID), zap.Error(err))
	}
	w.Header().Set("Retry-After", "1")
	return problem.New(problem.StorageUnavailable, "The store cannot answer now. Try again.")
}

// Refuse answers a request that is not let in, and makes that known.
func (c *Call) Refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) error {
	c.refused(p)
	return c.Problem(w, r, p)
}

// refused makes it known that a request was not let in.
func (c *Call) refused(p *problem.Problem) {
	c.app.Metrics().Refused(string(p.Code))
	c.app.Emit(app.RefusedEvent, func() map[string]any {
		return map[string]any{
			"id": c.ID, "operation": string(c.operation), "reason": string(p.Code),
			"account": c.Who.Account.ID, "key": c.Who.Key.ID,
		}
	})
}

// end settles what the handler has not, and counts the request. returned is false when the handler panicked.
func (c *Call) end(returned bool, err error) {
	status := c.answer.status
	switch {
	case !returned, err != nil:
		if status == 0 {
			status = http.StatusInternalServerError
			if failure := (caddyhttp.HandlerError{}); errors.As(err, &failure) && failure.StatusCode != 0 {
				status = failure.StatusCode
			}
		}
		if err := c.answer.settle(true); err != nil {
			c.app.Logger().Error("the count of a request that failed could not be given back", zap.String("moderation_id", c.ID), zap.Error(err))
		}
	case status == 0:
		// The handler wrote nothing: net/http answers 200 when it returns, or the connection was taken over.
		if err := c.answer.settle(false); err != nil {
			c.answer.fail(err)
		}
		if status = c.answer.status; status == 0 {
			status = http.StatusOK
		}
	default:
		status = c.answer.status
	}
	c.app.Metrics().Request(c.operation, status, c.app.Now().Sub(c.began))
	if c.verdict == nil || status >= http.StatusBadRequest {
		return
	}
	if c.texts == nil {
		c.app.Metrics().Verdict(c.verdict)
	}
	for i := range c.texts {
		c.app.Metrics().Verdict(&c.texts[i])
	}
	if c.verdict.Flagged {
		c.app.Emit(app.FlaggedEvent, func() map[string]any {
			return map[string]any{
				"id": c.ID, "account": c.Who.Account.ID, "key": c.Who.Key.ID,
				"recommendation": string(c.verdict.Recommendation), "confidence": c.verdict.Confidence, "categories": c.flagged(),
			}
		})
	}
}

// challenge sets the header WWW-Authenticate; reason is an error code of RFC 6750 or empty.
func challenge(w http.ResponseWriter, reason string) {
	value := `Bearer realm="moderation"`
	if reason != "" {
		value += `, error="` + reason + `"`
	}
	w.Header().Set("WWW-Authenticate", value)
}

// sentence makes a sentence of an error of this package.
func sentence(err error) string {
	text := err.Error()
	return string(text[0]&^0x20) + text[1:] + "."
}
