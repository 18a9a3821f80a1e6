// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/request"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	responsewriter "github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

func init() {
	caddy.RegisterModule(new(Moderate))
}

// Moderate is a middleware that moderates the text that people send to the app behind it. Rejected text is refused with
// 422. A body that programs may read in more ways than can be moderated is refused with 400. Everything else reaches
// the app byte for byte as it was sent, with the verdict in header fields X-Moderation-*. Such fields are removed from
// what clients send, so that the app can trust them.
//
// The verdict is also in the placeholders {http.moderation.id}, .status, .flagged, .recommendation, .confidence,
// .categories, .field, .fields, .themes, .blocked and one for each category, in fields of the access log
// (moderation_id, moderation_status, moderation_action, moderation_recommendation, moderation_categories,
// moderation_fields, moderation_error), and in metrics. None of them holds moderated text.
//
// If handle_errors has a page for status 422, that page is the refusal. Otherwise the refusal has the format of a
// language model's API if the path is that of one, is a small page for clients that ask for HTML, and problem details
// (RFC 9457) for all others.
type Moderate struct {
	request.Fields
	policy.Policy
	extract.Limits

	// The routes to run for a verdict. Default: none.
	On *Reactions `json:"on,omitempty"`
	// Whether to moderate, log, count and set placeholders, but never to act: what would be refused goes on to the app,
	// without header fields. Default: false.
	Shadow bool `json:"shadow,omitempty"`
	// The maximum time that the part of the body that is held may take to arrive, before 408 is answered. Each KiB that
	// arrives extends it by a second. Default: 30s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// What happens to a request that cannot be moderated, because its Content-Encoding is unknown or broken, its
	// charset is unknown, the classifier fails, or the limits of the account are used up: "pass" lets it through (the
	// guard fails open), "reject" refuses it with 415, 400 or 503 (the guard fails closed). Either way it is logged,
	// and counted in caddy_moderation_guard_errors_total. Default: "pass".
	OnError string `json:"on_error,omitempty"`

	// What tells who has sent a request, such as {http.request.header.X-User} or {http.auth.user.id}: reviewers then
	// see what else the author has written. See the option review of the global option moderation. Default: it is not
	// known.
	Author string `json:"author,omitempty"`

	// The origins, such as "https://www.example.com", whose pages may read refusals; "*" stands for all origins,
	// without cookies. A page of any other origin sees a network error instead of a refusal, unless the site sets the
	// header fields itself. Answers of the app are not changed. Default: none.
	CORS cors.Origins `json:"cors,omitempty"`

	app      *app.App
	logger   *zap.Logger
	pipeline *pipeline
	counts   *metrics.Guarded
}

// CaddyModule returns the Caddy module information.
func (*Moderate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderate",
		New: func() caddy.Module { return new(Moderate) },
	}
}

// defaultTimeout is the default of [Moderate.Timeout].
const defaultTimeout = 30 * time.Second

// Provision checks the configuration and prepares the guard.
func (m *Moderate) Provision(ctx caddy.Context) (err error) {
	if m.app, err = app.Load(ctx); err != nil {
		return err
	}
	m.logger = sampled.Logger(ctx.Logger())
	if err := m.Limits.SetRequestDefaults(); err != nil {
		return err
	}
	if m.Timeout < 0 {
		return fmt.Errorf("timeout is %s; it must not be negative", time.Duration(m.Timeout))
	}
	if err := provisionOnError(&m.OnError); err != nil {
		return err
	}
	if err := m.CORS.Validate(); err != nil {
		return fmt.Errorf("cors: %w", err)
	}
	timeout := time.Duration(m.Timeout)
	switch {
	case m.Shadow:
		timeout = 0 // nothing is refused, not even a slow body
	case timeout == 0:
		timeout = defaultTimeout
	}
	extractor, err := request.New(&m.Fields, m.Limits, timeout)
	if err != nil {
		return err
	}
	failClosed := m.OnError == onErrorReject && !m.Shadow
	moderator, err := policy.New(ctx, m.app, &m.Policy, metrics.Inbound, failClosed)
	if err != nil {
		return err
	}
	m.pipeline = newPipeline(m.app, m.logger, extractor, moderator)
	m.counts = count(ctx, m.app, metrics.Inbound, m.Shadow)
	m.app.AtStart("two guards", func() { warnOfTwoGuards(ctx, m.logger) })
	return m.On.provision(ctx)
}

// Values of on_error.
const (
	onErrorPass   = "pass"
	onErrorReject = "reject"
)

// provisionOnError fills in the default of on_error and checks it.
func provisionOnError(value *string) error {
	switch *value {
	case "":
		*value = onErrorPass
	case onErrorPass, onErrorReject:
	default:
		return fmt.Errorf("on_error is %q; it must be pass or reject", *value)
	}
	return nil
}

// ServeHTTP moderates the request, and lets it go on or refuses it.
func (m *Moderate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	request.StripHeader(r.Header)
	request.StripHeader(r.Trailer)
	x := exchangeOf(r, m.app)
	if m.pipeline.moderator.HasAccount() {
		defer m.app.TryAcquire().Release() // the body may come slowly
	}
	v, known, charge := x.moderate(w, r, m.pipeline)
	m.keepForReview(r, x, v, known.copied)
	var err error
	if charge == nil {
		err = m.act(w, r, next, x, v, &known, nil)
	} else {
		settling := &settlingWriter{Writer: responsewriter.Observe(w), m: m, r: r, x: x, v: v, charge: charge}
		err = settling.serve(func(w http.ResponseWriter) error { return m.act(w, r, next, x, v, &known, charge) })
	}
	if err == nil {
		// After an error, the error routes of the server may still read the body.
		if x.body != nil {
			x.analyses = nil
		}
		x.body.Release()
	}
	return err
}

// act does what the verdict asks for. The charge, if any, is settled before the answer begins.
func (m *Moderate) act(
	w http.ResponseWriter, r *http.Request, next caddyhttp.Handler,
	x *exchange, v *verdict, known *analysis, charge *policy.Charge,
) error {
	switch {
	case m.Shadow:
		v.action = shadowed
		return m.pass(w, r, next, x, v, known, charge)
	case known.found.Refuse != nil:
		v.action = refused
		m.report(r, x, v)
		return m.refuseFor(w, r, x, known.found.Refuse)
	case v.status == Failed && m.OnError == onErrorReject:
		v.action = refused
		m.report(r, x, v)
		return m.refuseUnjudged(w, r, x, v)
	case v.Recommendation == engine.Reject:
		return m.reject(w, r, x, v)
	}
	v.action = passed
	v.setHeaders(r.Header, x.id)
	if routes := m.On.routesFor(v); routes != nil && v.status != Nothing {
		v.action = handled
		app := next
		next = routes.Compile(caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			v.action = passed
			return app.ServeHTTP(w, r)
		}))
	}
	return m.pass(w, r, next, x, v, known, charge)
}

// reject runs the routes of "on reject", or those of "on self-harm", and refuses the request if they do not answer.
func (m *Moderate) reject(w http.ResponseWriter, r *http.Request, x *exchange, v *verdict) error {
	v.action = refused
	refusal := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		v.action = refused
		x.body.Linger(w, r)
		return m.refuse(w, r, x.id, rejection(v))
	})
	routes := m.On.routesFor(v)
	if routes != nil {
		v.action = handled
	}
	m.report(r, x, v)
	v.setHeaders(r.Header, x.id) // for an upstream of the routes
	return routes.Compile(refusal).ServeHTTP(w, r)
}

// pass lets the request go on. The rest of a large upload is moderated while it flows to the app.
func (m *Moderate) pass(
	w http.ResponseWriter, r *http.Request, next caddyhttp.Handler,
	x *exchange, v *verdict, known *analysis, charge *policy.Charge,
) error {
	if known.found.Rest == nil || known.found.Refuse != nil {
		m.report(r, x, v)
		return next.ServeHTTP(w, r)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	observed := responsewriter.Observe(w)
	var failure atomic.Pointer[error]
	short := known.short.Clone()
	x.body.Moderate(&known.found, func(pieces []content.Piece, excessive bool) error {
		if excessive && !m.Shadow {
			return extract.ErrAmbiguous
		}
		return m.moderateRest(ctx, r.Host, v, charge, pieces, &short)
	}, func(err error) {
		failure.Store(&err)
		// For the app, the request ends as if the client had left. Otherwise the app would be taken for broken.
		cancel(err)
	})
	_, span := tracing.Start(ctx, tracing.Upload)
	span.ID(x.id)
	err := next.ServeHTTP(&observed, r.WithContext(ctx))
	ended := failure.Load()
	if ended != nil {
		v.action = aborted
	}
	span.Verdict(v.Flagged, v.Recommendation)
	span.End()
	m.report(r, x, v)
	if ended == nil || observed.Began() {
		return err
	}
	if errors.Is(*ended, errRejected) {
		x.body.Linger(w, r)
		return m.refuse(w, r, x.id, rejection(v))
	}
	return m.refuseFor(w, r, x, *ended)
}

// Errors that end an upload.
var (
	errRejected = errors.New("the content was rejected")
	errUnjudged = errors.New("the content could not be judged")
)

// moderateRest moderates further texts of an upload that flows to the app. What is flagged in them is counted before
// the app reads them.
func (m *Moderate) moderateRest(
	ctx context.Context, host string, v *verdict, charge *policy.Charge, pieces []content.Piece, short *policy.Joiner,
) error {
	moderator := m.pipeline.moderator
	results, err := moderator.Classify(ctx, pieces, short)
	*short = short.Clone() // the buffer that holds its texts is used again
	reason := ""
	switch {
	case err != nil:
		reason = policy.ReasonClassifier
	case extract.UnknownCharset(pieces):
		reason = extract.ReasonUnknownCharset
	}
	counted := v.Flags()
	for i := range results {
		moderator.Add(&v.Verdict, &results[i])
	}
	late := slices.DeleteFunc(v.Flags(), func(name string) bool { return slices.Contains(counted, name) })
	if err := charge.Flag(late); err != nil {
		moderator.ReportUncounted(err)
	}
	if v.Recommendation == engine.Reject && !m.Shadow {
		return errRejected
	}
	if reason == "" {
		return nil
	}
	m.app.Metrics().GuardError(metrics.Inbound, reason)
	m.counts.Error(host, reason)
	if m.OnError == onErrorReject && !m.Shadow {
		return errUnjudged
	}
	return nil
}

// report counts and logs what became of a request. It is called before the request goes on, which may take long, and
// after it only for a large upload, whose texts are not all known before.
func (m *Moderate) report(r *http.Request, x *exchange, v *verdict) {
	report(m.app, m.logger, metrics.Inbound, r, x.id, v, outcomeOf(v), m.counts)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Moderate)(nil)
	_ caddyhttp.MiddlewareHandler = (*Moderate)(nil)
)
