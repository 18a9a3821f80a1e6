// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Charge makes the request count n, 1 or more, in its account's limits. It charges all of it or, when the returned
// problem says why not, no more than before. What was charged for the request already is part of n, so that a handler
// charges what the whole request counts, whether or not moderation_rate_limit stands before it. A request is charged
// before its answer begins; the handler answers a problem with [Call.Refuse].
//
// Retry-After says when the minute that has no room for n is over. A request that counts more than a whole minute has
// room for has no such time.
func (c *Call) Charge(w http.ResponseWriter, r *http.Request, n int64) *problem.Problem {
	if n <= c.charged {
		return nil
	}
	_, span := tracing.Start(r.Context(), tracing.Charge)
	span.Count("requests", n)
	p := c.charge(w, r, n)
	endSpan(span, p)
	return p
}

// charge is [Call.Charge] for a request that counts more than before.
func (c *Call) charge(w http.ResponseWriter, r *http.Request, n int64) *problem.Problem {
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
	setLimits(w.Header(), &c.limitFields, &c.decision)
	if decision.Refused == quota.NoWindow {
		c.app.Metrics().AdmittedInOutage(decision.Counts.Basis, n-c.charged)
		c.charged = n
		return nil
	}
	p := limitReached(&decision, n)
	p.Quota.Account = c.Who.Account.ID
	if p.Code == problem.RateLimitExceeded && p.Quota.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(p.Quota.RetryAfter, 10))
	}
	return p
}

// limitReached describes the limit that refuses a request that counts n.
func limitReached(d *quota.Decision, n int64) *problem.Problem {
	if p := neverFits(d, n); p != nil {
		return p
	}
	code, limit, window := problem.RateLimitExceeded, d.Limits.RequestsPerMinute, "minute"
	wait := max(1, secondsUntil(d.Now, d.MinuteReset))
	left, next := max(0, limit-d.Counts.Minute), fmt.Sprintf("Try again in %d s.", wait)
	if d.Refused == quota.MonthWindow {
		code, limit, window = problem.MonthlyQuotaExhausted, d.Limits.RequestsPerMonth, "billing period"
		wait = max(1, secondsUntil(d.Now, d.Period.End))
		left = max(0, limit-d.Counts.Period)
		next = "The next one starts at " + d.Period.End.UTC().Format("2006-01-02T15:04:05Z") + "."
	}
	detail := fmt.Sprintf("The account may make %s a %s. %s", requests(limit), window, next)
	if n > 1 {
		detail = fmt.Sprintf("The request counts %d. The account may make %s a %s, of which %d are left. %s",
			n, requests(limit), window, left, next)
	}
	p := problem.New(code, detail)
	p.Violated = []string{string(d.Refused)}
	p.Quota = &problem.Quota{Limit: limit, RetryAfter: wait}
	return p
}

// requests is a number of requests in words.
func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// neverFits describes the limit that a request that counts n exceeds even when nothing of it is used, the lower one if
// it exceeds both; nil when it exceeds none.
func neverFits(d *quota.Decision, n int64) *problem.Problem {
	var p *problem.Problem
	for _, window := range []struct {
		name  quota.Window
		text  string
		code  problem.Code
		limit int64
	}{
		{quota.MinuteWindow, "minute", problem.RateLimitExceeded, d.Limits.RequestsPerMinute},
		{quota.MonthWindow, "billing period", problem.MonthlyQuotaExhausted, d.Limits.RequestsPerMonth},
	} {
		if window.limit == 0 || n <= window.limit || p != nil && p.Quota.Limit <= window.limit {
			continue
		}
		p = problem.New(window.code, fmt.Sprintf("The request has %d texts, each of which counts as one request, "+
			"and the account may make %s a %s. It is never admitted, so that waiting does not help: "+
			"send at most %d at once.", n, requests(window.limit), window.text, window.limit))
		p.Violated = []string{string(window.name)}
		p.Quota = &problem.Quota{Limit: window.limit}
	}
	return p
}

// SetUsage makes the RateLimit fields of the answer report the numbers of a usage report that was made for the call.
func (c *Call) SetUsage(w http.ResponseWriter, usage *quota.Usage) {
	c.decision.Limits, c.decision.Counts = usage.Limits, usage.Counts
	c.decision.Now, c.decision.MinuteReset, c.decision.Period = usage.Now, usage.MinuteReset, usage.Period
	setLimits(w.Header(), &c.limitFields, &c.decision)
}
