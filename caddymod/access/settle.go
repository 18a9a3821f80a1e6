// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// answer is the writer of the answer to a call. It settles the call's charge just before the status goes out, so that
// nothing is acknowledged that could be forgotten: if settling fails, the answer becomes a 503, and what the handler
// writes is dropped.
type answer struct {
	response.Writer
	call *Call
}

// init makes a the writer of the answer to call, over w.
func (a *answer) init(w http.ResponseWriter, call *Call) {
	a.Writer, a.call = response.Observe(w), call
	a.Hook, a.Discard = a, true
}

// errUncounted is the error of a handler that takes over a connection on which a 503 is answered.
var errUncounted = errors.New("the request could not be counted durably")

// BeforeHeader settles the charge. It implements [response.Hook].
func (a *answer) BeforeHeader(status int) error {
	if err := a.call.settle(status >= http.StatusBadRequest); err != nil {
		a.call.answerUncounted(err)
		return errUncounted
	}
	return nil
}

// status returns the final status of the call; 0 before there is one.
func (c *Call) status() int {
	if c.uncounted {
		return problem.StorageUnavailable.Status()
	}
	return c.answer.Status()
}

// settle records how a charged call ended, once. refund gives its day and month counts back.
func (c *Call) settle(refund bool) error {
	if c.settled || c.charged == 0 {
		return nil
	}
	c.settled = true
	outcome := quota.Outcome{Refund: refund}
	if refund {
		// The fields report what /v1/usage would report after this answer.
		c.decision.Counts.Day -= c.charged
		c.decision.Counts.Period -= c.charged
		setLimits(c.answer.Header(), &c.limitFields, &c.decision)
	} else {
		outcome.Flagged = c.flaggedTexts()
	}
	ctx, span := tracing.Start(c.request.Context(), tracing.Settle)
	defer span.End()
	// A client that has left does not undo what was done for it.
	ctx = context.WithoutCancel(ctx)
	err := c.Services.Gate.Settle(ctx, c.decision, outcome)
	for _, decision := range c.earlier {
		err = errors.Join(err, c.Services.Gate.Settle(ctx, decision, quota.Outcome{Refund: refund || err != nil}))
	}
	if err != nil {
		span.Refuse(string(problem.StorageUnavailable), true)
	}
	return err
}

// answerUncounted answers 503 instead of what the handler has prepared, because settling has failed with err.
func (c *Call) answerUncounted(err error) {
	c.app.Logger().Error("a request could not be counted and was answered 503",
		zap.String("moderation_id", c.ID), zap.Error(err))
	c.uncounted = true
	c.verdict, c.texts, c.trouble = nil, nil, problem.StorageUnavailable
	header := c.answer.Header()
	for _, name := range []string{
		"Content-Encoding", "Content-Length", "Content-Type", "Etag", "Last-Modified", "Location",
	} {
		header.Del(name)
	}
	header.Set("Retry-After", "1")
	p := problem.New(problem.StorageUnavailable, "The request could not be counted durably. Try again.")
	if errors.Is(err, storage.ErrReadOnly) {
		header.Set("Retry-After", "5")
		p.Detail = readOnlyDetail
	}
	c.writeProblem(c.answer.ResponseWriter, c.request, c.ID, p)
}

// Interface guards
var (
	_ http.ResponseWriter = (*answer)(nil)
	_ response.Hook       = (*answer)(nil)
)
