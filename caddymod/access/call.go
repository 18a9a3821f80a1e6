// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package access decides who gets in: it authenticates requests, charges them to their account's limits and settles
// the charge when the answer is known.
//
// A [Middleware] does all of it for one handler. The middleware moderation_key_auth and moderation_rate_limit do the two halves
// for whatever stands behind them; a handler with a door behind them does only what they have not done, so that no
// request is charged twice.
package access

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Call is what is known of one request on its way through the service.
type Call struct {
	// ID is the id of the request, "mod_" and 24 letters and digits. It stands in the answer, in the log and in errors.
	ID string
	// Services are the app's.
	Services *app.Services
	// Who calls. Its account and key are empty before the request is authenticated.
	Who quota.Identity

	app       *app.App
	operation metrics.Operation
	began     time.Time

	authenticated bool
	charged       int64            // what the request was admitted for so far, 0: it was not
	decision      quota.Decision   // the gate's last answer, whose numbers the RateLimit fields tell
	earlier       []quota.Decision // its answers before, each of them admitted
	verdict       *engine.Result
	texts         []engine.Result // the verdicts on the texts of a batch, nil when there is one text

	held    bool // the services are held until the outermost door has ended the call
	owned   bool // a door watches the answer
	answer  answer
	write   ProblemWriter // the shape of errors that happen while the answer is written
	request *http.Request
	fields  [numFields]string // values of the RateLimit header fields
}

// callVar is the name of the request variable that carries the call from one handler to the next.
const callVar = "moderation.call"

// callOf returns the request's call, which a handler before this one may have begun.
func callOf(ctx context.Context) *Call {
	call, _ := caddyhttp.GetVar(ctx, callVar).(*Call)
	return call
}

// begin makes the call of a request that has none yet, and makes it known to placeholders and to the access log.
func begin(r *http.Request, a *app.App) *Call {
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

// SetVerdict notes what the judge said, for the counts of flagged content, placeholders, log, metrics and events. The
// result must not change any more.
func (c *Call) SetVerdict(result *engine.Result) {
	c.verdict = result
}

// Policy is what the caller's account changes of the engine's policy; nil when it changes nothing.
func (c *Call) Policy() *engine.Policy {
	thresholds := c.Who.Account.Overrides.Thresholds
	if len(thresholds) == 0 {
		return nil
	}
	own := new(engine.Policy)
	for i := range own.Thresholds {
		own.Thresholds[i] = thresholds[engine.Category(i).String()]
	}
	return own
}

// SetVerdicts is [Call.SetVerdict] for a call with several texts: each of them is counted, whole is what placeholders, log and
// events tell. whole flags what any text flags.
func (c *Call) SetVerdicts(whole *engine.Result, texts []engine.Result) {
	c.verdict, c.texts = whole, texts
}

// String is the call's id, so that nothing else of a call is ever printed.
func (c *Call) String() string { return c.ID }

// MarshalLogObject adds the call's fields to a line of the access log.
func (c *Call) MarshalLogObject(log zapcore.ObjectEncoder) error {
	log.AddString("moderation_id", c.ID)
	if c.Who.Account.ID != "" {
		log.AddString("moderation_account", c.Who.Account.ID)
		log.AddString("moderation_key", c.Who.Key.ID)
	}
	if c.verdict != nil {
		log.AddString("moderation_recommendation", string(c.verdict.Recommendation))
	}
	return nil
}

// placeholder yields {http.auth.user.id} and {http.moderation.*}. The placeholders of the verdict are unknown until there
// is one.
func (c *Call) placeholder(key string) (any, bool) {
	if key == "http.auth.user.id" {
		return c.Who.Account.ID, c.authenticated
	}
	name, ok := strings.CutPrefix(key, "http.moderation.")
	if !ok {
		return nil, false
	}
	switch name {
	case "id":
		return c.ID, true
	case "account":
		return c.Who.Account.ID, true
	case "key":
		return c.Who.Key.ID, true
	case "tier":
		return c.Who.Account.Tier, true
	}
	if c.verdict == nil {
		return nil, false
	}
	switch name {
	case "flagged":
		return c.verdict.Flagged, true
	case "recommendation":
		return string(c.verdict.Recommendation), true
	case "confidence":
		return c.verdict.Confidence, true
	case "categories":
		return strings.Join(c.flagged(), ","), true
	}
	for i := range c.verdict.Categories {
		if engine.Category(i).String() == name {
			return c.verdict.Categories[i].Probability, true
		}
	}
	return nil, false
}

// flagged names the categories that the verdict flags; nil when there is none.
func (c *Call) flagged() []string {
	if c.verdict == nil {
		return nil
	}
	return appendFlagged(nil, c.verdict)
}

// flaggedTexts names the categories that the verdict flags, once for each text of a batch.
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

// Interface guards
var _ zapcore.ObjectMarshaler = (*Call)(nil)
