// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package guard stands in front of an app: the handler moderate judges what people send to it, moderate_response what
// it answers, and the matcher moderation lets other directives ask for the verdict.
//
// # The way of a message
//
// The packages below each do one step, and know nothing of the next:
//
//   - [request] finds the texts of a request, and keeps its body for the app;
//   - [response] holds the answer of an app, or lets it flow, and finds its texts;
//   - [extract] is what these two have in common: limits, and what was found;
//   - content, multipart and stream know the formats: what is text in JSON, forms, markup and streams;
//   - [policy] classifies the texts, decides, and charges the account.
//
// This package puts them together: it has the Caddy modules, their JSON and Caddyfile, and acts on a [verdict] by
// letting the message pass, running the site's routes, or refusing it. A request has one [exchange], which handlers and
// matchers share, so that nothing is extracted, classified or charged twice.
//
// # Adding an option
//
// An option belongs to the package whose work it changes. It takes four steps:
//
//  1. Add a field with a JSON tag and a doc comment to the struct of that package: [policy.Policy] (what is let
//     through), [request.Fields] (where texts stand), [extract.Limits] (how much), [Stream] (how streams are
//     moderated), or to [Moderate] or [ModerateResponse] themselves (what happens then).
//  2. Add a line to the Caddyfile options of that struct, in the method Options beside it, or in caddyfile.go here. It
//     parses the value and refuses a bad one. The syntax is listed in the comments of UnmarshalCaddyfile.
//  3. Use it: policy.New, request.New and the methods Provision make of a struct what does the work. They check what
//     comes from JSON, too.
//  4. Add a case to a table beside that code, such as TestModerate of package policy or TestExtract of package request.
//
// The rest follows by itself: the keys by which results are shared are made of whole structs, so that a new field takes
// part in them. docs/modules.md and the lists of options in the golden files of errors are written by
//
//	go test ./caddymod -run 'TestModulesPage|TestAdapt' -update
//
// A sentence in docs/guard.md tells people about the option.
package guard

import (
	"net/http"
	"slices"
	"strings"
	"time"

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
)

// exchange is what is known of one request and its answer.
type exchange struct {
	id      string
	body    *request.Body // nil until texts were extracted from it, and where there is none
	known   []moderated
	charged policy.Charged
	// request is the latest verdict on the request, response the one on the answer. Nil before there is one.
	request, response *verdict
}

// moderated is what was extracted from a request in one way, and what the classifier says about it.
type moderated struct {
	key     string
	found   request.Found // without its pieces, which share memory with the body
	results []policy.Classification
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

// judge moderates a request by what is known of it already, or extracts its texts and classifies them. The verdict is
// never nil. A charge that is returned must be waited for before the request is answered. w may be nil.
func (x *exchange) judge(w http.ResponseWriter, r *http.Request, p *pipeline) (*verdict, moderated, *policy.Charge) {
	var pieces []content.Piece
	index := slices.IndexFunc(x.known, func(known moderated) bool { return known.key == p.key })
	of := moderated{key: p.key}
	if index >= 0 {
		of = x.known[index]
	} else {
		x.body, of.found = p.extractor.Extract(w, r, x.body)
		pieces, of.found.Pieces = of.found.Pieces, nil // they share memory with the body, which does not live as long
	}
	began := p.app.Now()
	var v *verdict
	var charge *policy.Charge
	failed := false
	if found := &of.found; found.Refuse == nil && found.Coverage != extract.Skipped {
		decided, results, c, err := p.moderator.Moderate(r.Context(), &x.charged, pieces, &of.short, of.results)
		charge, of.results = c, results
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
	v.settle(&of.found.Result)
	if of.found.Rest == nil {
		of.short = policy.Joiner{}
	}
	if index < 0 {
		v.took = p.app.Now().Sub(began)
	}
	if index < 0 && !failed { // another handler may be able to do what this one could not
		x.known = append(x.known, of)
	}
	x.request = v
	return v, of, charge
}

// pipeline is what moderates requests.
type pipeline struct {
	app       *app.App
	logger    *zap.Logger
	extractor *request.Extractor
	moderator *policy.Moderator
	key       string // the same for all that extract and classify alike
}

// newPipeline puts together what moderates requests.
func newPipeline(a *app.App, logger *zap.Logger, e *request.Extractor, m *policy.Moderator) *pipeline {
	return &pipeline{app: a, logger: logger, extractor: e, moderator: m, key: e.Key() + m.Key()}
}

// defaultTimeout is how long the part of a body that is held may take to arrive.
const defaultTimeout = 30 * time.Second
