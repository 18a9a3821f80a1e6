// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Call is what is known of one request on its way through the service.
type Call struct {
	// ID is the id of the request, "mod_" and 24 letters and digits. It stands in the answer, in the log and in errors.
	ID string
	// Services are the app's. They are held until the outermost [Middleware] has ended the call.
	Services *app.Services
	// Who is the caller. Its account and key are empty before the request is authenticated.
	Who quota.Identity

	app       *app.App
	operation metrics.Operation
	began     time.Time
	request   *http.Request
	// writeProblem writes errors in the shape of the route, also those that happen while the answer is written.
	writeProblem ProblemWriter

	authenticated bool
	charged       int64            // what the request was charged so far; 0 before it is
	decision      quota.Decision   // the gate's last answer, whose numbers the RateLimit fields report
	earlier       []quota.Decision // its answers before, each of which admitted the request
	limitFields   [numLimitFields]string

	verdict *engine.Result
	texts   []engine.Result // the verdicts on the texts of a batch; nil when there is one text
	trouble problem.Code    // what was answered instead; empty if nothing was

	held      bool // the services are held
	open      bool // a Middleware observes the answer and ends the call
	settled   bool // the charge is settled
	uncounted bool // settling has failed, and a 503 was answered
	answer    answer
}

// callVar is the name of the request variable that carries the call from one handler to the next.
const callVar = "moderation.call"

// callOf returns the request's call, which a handler before this one may have made; nil when there is none.
func callOf(ctx context.Context) *Call {
	call, _ := caddyhttp.GetVar(ctx, callVar).(*Call)
	return call
}

// newCall makes the call of a request that has none yet, and makes it known to placeholders and to the access log.
func newCall(r *http.Request, a *app.App) *Call {
	call := &Call{ID: newID(a.Random()), app: a, operation: metrics.Other, began: a.Now(), request: r}
	ctx := r.Context()
	caddyhttp.SetVar(ctx, callVar, call)
	if replacer, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(call.placeholder)
	}
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Add(zap.Inline(call))
	}
	return call
}

// Judging returns the request by which a text of the caller's account is judged.
func (c *Call) Judging(content string) engine.Request {
	return c.app.RequestOf(&c.Who.Account, content)
}

// SetVerdict notes the verdict for the counts of flagged content, placeholders, log, metrics and events. The result
// must not change afterwards.
func (c *Call) SetVerdict(result *engine.Result) {
	c.verdict = result
}

// SetVerdicts is [Call.SetVerdict] for a call with several texts. Each of them is counted; placeholders, log and events
// report whole, which flags what any text flags.
func (c *Call) SetVerdicts(whole *engine.Result, texts []engine.Result) {
	c.verdict, c.texts = whole, texts
}

// Problem answers the call with a problem, in the shape of its route.
func (c *Call) Problem(w http.ResponseWriter, r *http.Request, p *problem.Problem) error {
	c.trouble = p.Code
	c.writeProblem(w, r, c.ID, p)
	return nil
}

// Refuse answers a request that is not admitted, and counts the refusal in metrics and events.
func (c *Call) Refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) error {
	c.CountRefusal(p.Code)
	return c.Problem(w, r, p)
}

// CountRefusal counts in metrics and events that the request is refused for a reason. It answers nothing.
func (c *Call) CountRefusal(reason problem.Code) {
	c.trouble = reason
	c.app.Metrics().Refused(string(reason))
	c.app.Emit(app.RefusedEvent, func() map[string]any {
		return map[string]any{
			"id": c.ID, "operation": string(c.operation), "reason": string(reason),
			"account": c.Who.Account.ID, "key": c.Who.Key.ID,
		}
	})
}

// Unavailable answers 503 because the store failed; doing says for the log what was tried.
func (c *Call) Unavailable(w http.ResponseWriter, r *http.Request, doing string, err error) error {
	return c.Problem(w, r, c.unavailable(w, doing, err))
}

// unavailable logs that the store failed, and returns the problem that says so.
func (c *Call) unavailable(w http.ResponseWriter, doing string, err error) *problem.Problem {
	if c.request.Context().Err() == nil { // otherwise the client left, and the store is not to blame
		c.app.Logger().Error(doing, zap.String("moderation_id", c.ID), zap.Error(err))
	}
	if errors.Is(err, storage.ErrReadOnly) {
		w.Header().Set("Retry-After", "5")
		return problem.New(problem.StorageUnavailable, readOnlyDetail)
	}
	w.Header().Set("Retry-After", "1")
	return problem.New(problem.StorageUnavailable, "The store cannot answer now. Try again.")
}

// readOnlyDetail is what a caller is told during a migration.
const readOnlyDetail = "Everything is being moved to another store, so that nothing can be counted or kept for a short " +
	"time. Try again in 5 s."

// end settles what the handler has not settled, and counts the call. returned is false when the handler panicked; err
// is what it returned.
func (c *Call) end(returned bool, err error) {
	status := c.status()
	switch {
	case !returned, err != nil:
		if status == 0 {
			status = http.StatusInternalServerError
			if failure := (caddyhttp.HandlerError{}); errors.As(err, &failure) && failure.StatusCode != 0 {
				status = failure.StatusCode
			}
		}
		if err := c.settle(true); err != nil {
			c.app.Logger().Error("the count of a request that failed could not be given back",
				zap.String("moderation_id", c.ID), zap.Error(err))
		}
	case status == 0:
		// The handler wrote nothing: net/http answers 200 when it returns, or the connection was taken over.
		if err := c.settle(false); err != nil {
			c.answerUncounted(err)
		}
		if status = c.status(); status == 0 {
			status = http.StatusOK
		}
	}
	c.app.Metrics().Request(c.operation, status, c.app.Now().Sub(c.began))
	c.count(status)
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
				"recommendation": string(c.verdict.Recommendation), "confidence": c.verdict.Confidence,
				"categories": c.flagged(),
			}
		})
	}
}

// count counts the call in the statistics of its account, if it is one that is charged or was refused.
func (c *Call) count(status int) {
	if c.Services == nil || c.Who.Account.ID == "" {
		return
	}
	account, now := c.Who.Account.ID, c.Services.Now()
	switch {
	case status >= http.StatusBadRequest:
		if reason := c.reason(status); reason != "" {
			c.Services.Statistics.Refused(now, account, string(reason))
		}
		return
	case c.charged == 0:
		return
	}
	c.Services.Statistics.Answered(now, account)
	switch {
	case c.texts != nil:
		for i := range c.texts {
			text := &c.texts[i]
			c.Services.CountText(account, text.Recommendation, appendFlagged(nil, text), &text.Categories)
		}
	case c.verdict != nil:
		c.Services.CountText(account, c.verdict.Recommendation, c.flagged(), &c.verdict.Categories)
	}
}

// reason returns why a call was not done. It is empty if the client has left.
func (c *Call) reason(status int) problem.Code {
	switch {
	case c.trouble != "":
		return c.trouble
	case status == clientGone:
		return ""
	case status < http.StatusInternalServerError:
		// The interfaces of other services have errors of their own for what is wrong with a request.
		return problem.InvalidRequest
	}
	return problem.InternalError
}

// clientGone is the status of a call whose client has left, for the access log.
const clientGone = 499

// release gives the services back.
func (c *Call) release() {
	if c.held {
		c.held = false
		c.Services.Release()
	}
}

// flagged returns the names of the categories that the verdict flags; nil when there are none.
func (c *Call) flagged() []string {
	if c.verdict == nil {
		return nil
	}
	return appendFlagged(nil, c.verdict)
}

// flaggedTexts returns the names of the categories that the verdict flags, once for each text of a batch.
func (c *Call) flaggedTexts() []string {
	if c.texts == nil {
		return c.flagged()
	}
	var names []string
	for i := range c.texts {
		names = appendFlagged(names, &c.texts[i])
	}
	return names
}

// appendFlagged appends the names of the categories that a verdict flags.
func appendFlagged(names []string, verdict *engine.Result) []string {
	for i := range verdict.Categories {
		if verdict.Categories[i].Flagged {
			names = append(names, engine.Category(i).String())
		}
	}
	return names
}
