// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/caddymod/access"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/request"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
)

// exchange is what is known of one request and its answer. Handlers and matchers share it, so that nothing is
// extracted, classified or charged twice.
type exchange struct {
	id       string
	body     *request.Body // nil until texts were extracted from it, and where there is none
	analyses []analysis
	charged  policy.Charged
	// kept says that the texts are kept for review already, keptAnswer that those of the answer are.
	kept, keptAnswer bool
	// request is the latest verdict on the request, response the one on the answer. Nil before there is one.
	request, response *verdict
}

// analysis is what was extracted from a request in one way, and what the classifier says about it.
type analysis struct {
	key     string        // the same for all handlers and matchers that extract and classify alike
	found   request.Found // without its pieces, which share memory with the body
	results []policy.Classification
	// copied is what is kept for review, where anything is: the pieces share memory with the body.
	copied copied
	// short has the last short texts, which are classified together with those that follow in the rest of an upload.
	short policy.Joiner
}

// exchangeVar is the name of the request variable that carries the exchange from one handler or matcher to the next.
const exchangeVar = "moderation.guard"

// exchangeOf returns the request's exchange. The first time it creates one, and makes it known to placeholders and to
// the access log.
func exchangeOf(r *http.Request, a *app.App) *exchange {
	ctx := r.Context()
	if known, ok := caddyhttp.GetVar(ctx, exchangeVar).(*exchange); ok {
		return known
	}
	x := &exchange{id: access.IDOf(ctx, a)}
	caddyhttp.SetVar(ctx, exchangeVar, x)
	if replacer, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(x.placeholder)
	}
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Add(zap.Inline(x))
	}
	return x
}

// moderate returns the verdict on a request, and what it is based on: what an earlier handler or matcher has found, or
// else the texts that it extracts and classifies. The verdict is never nil. A charge that is returned must be settled
// before the request is answered. w may be nil.
func (x *exchange) moderate(w http.ResponseWriter, r *http.Request, p *pipeline) (*verdict, analysis, *policy.Charge) {
	var pieces []content.Piece
	known := analysis{key: p.key}
	index := slices.IndexFunc(x.analyses, func(earlier analysis) bool { return earlier.key == p.key })
	if index >= 0 {
		known = x.analyses[index]
	} else {
		_, span := tracing.Start(r.Context(), tracing.Extract)
		span.ID(x.id)
		x.body, known.found = p.extractor.Extract(w, r, x.body)
		span.Count("texts", int64(len(known.found.Pieces)))
		if known.found.Reason != "" {
			span.Refuse(known.found.Reason, false)
		}
		span.End()
		pieces, known.found.Pieces = known.found.Pieces, nil // they share memory with the body, which is released
	}
	began := p.app.Now()
	var v *verdict
	var charge *policy.Charge
	failed := false
	if found := &known.found; found.Refuse == nil && found.Coverage != extract.Skipped {
		decided, results, c, err := p.moderator.Moderate(r.Context(), &x.charged, pieces, &known.short, known.results)
		charge, known.results = c, results
		if err != nil {
			found.Unreadable, found.Reason, failed = err, policy.Reason(err), true
			p.logger.Error("judging a request", zap.String("moderation_id", x.id), zap.Error(err))
		} else {
			v = newVerdict(decided, results)
		}
	}
	if v == nil {
		v = new(verdict)
	}
	v.adjust(&known.found.Result)
	if index < 0 && p.app.KeepsReviews() {
		known.copied = copyOf(pieces, v.Fields())
	}
	if known.found.Rest == nil {
		known.short = policy.Joiner{}
	}
	if index < 0 {
		v.took = p.app.Now().Sub(began)
	}
	if index < 0 && !failed { // after a failure, another handler may succeed
		x.analyses = append(x.analyses, known)
	}
	x.request = v
	return v, known, charge
}

// pipeline extracts the texts of requests and moderates them, as one handler or matcher is configured.
type pipeline struct {
	app       *app.App
	logger    *zap.Logger
	extractor *request.Extractor
	moderator *policy.Moderator
	key       string // of [analysis]
}

// newPipeline returns a pipeline of an extractor and a moderator.
func newPipeline(a *app.App, logger *zap.Logger, e *request.Extractor, m *policy.Moderator) *pipeline {
	return &pipeline{app: a, logger: logger, extractor: e, moderator: m, key: e.Key() + m.Key()}
}

// placeholder returns {http.moderation.*} of the verdict on the request and {http.moderation.response.*} of the one on
// the answer. They are unknown until there is a verdict.
func (x *exchange) placeholder(key string) (any, bool) {
	name, ok := strings.CutPrefix(key, "http.moderation.")
	if !ok {
		return nil, false
	}
	if name == "id" {
		return x.id, true
	}
	if name, ok := strings.CutPrefix(name, "response."); ok {
		return x.response.placeholder(name)
	}
	return x.request.placeholder(name)
}

// MarshalLogObject adds the verdicts to a line of the access log.
func (x *exchange) MarshalLogObject(log zapcore.ObjectEncoder) error {
	if x.request == nil && x.response == nil {
		return nil
	}
	log.AddString("moderation_id", x.id)
	x.request.log(log, "moderation_")
	x.response.log(log, "moderation_response_")
	return nil
}
