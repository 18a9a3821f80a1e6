// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

func init() {
	caddy.RegisterModule(new(Moderate))
}

// Moderate is a middleware that judges the text that people send to the app behind it. What is to be rejected is refused
// with 422, and what programs may read in several ways that cannot all be judged with 400; everything else reaches the app byte for byte as it was sent, with the verdict in header fields X-Moderation-*.
// Such fields of the client's own are removed, so that the app can trust them.
//
// The verdict is also in the placeholders {http.moderation.id}, .status, .flagged, .recommendation, .confidence,
// .categories, .field, .fields, .themes, .blocked and one for each category, in fields of the access log
// (moderation_id, moderation_status, moderation_action, moderation_recommendation, moderation_categories,
// moderation_fields, moderation_error), and in metrics. None of them holds text that was judged.
//
// A refusal is the site's own error page where handle_errors has one for status 422, what clients of language models know where
// the path is that of such an interface, a small page for clients that ask for HTML, and problem details (RFC 9457) for all
// others.
type Moderate struct {
	Reading
	Policy
	Limits

	// On holds what to do with a verdict.
	On *Reactions `json:"on,omitempty"`
	// Shadow judges, logs, counts and sets placeholders, but never acts: what would be refused goes on to the app, without
	// header fields. Default false.
	Shadow bool `json:"shadow,omitempty"`
	// Timeout is how long the part of the body that is held may take to arrive before 408 is answered. Each KiB that arrives
	// extends it by a second. Default 30s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// OnError says what happens to a request that cannot be judged, because its Content-Encoding is unknown or broken, its
	// charset is unknown, the classifier fails, or the limits of the account are used up: "pass" lets it through (the guard
	// fails open), "reject" refuses it with 415, 400 or 503 (the guard fails closed). Either way it is logged, and counted in
	// caddy_moderation_guard_errors_total. Default "pass".
	OnError string `json:"on_error,omitempty"`

	// CORS are origins, such as "https://www.example.com", whose pages may read refusals; "*" stands for all of them, without
	// their cookies. Without any, a page of another origin sees an error of the network instead of a refusal, unless the
	// site sets the header fields itself. What the app answers is the app's concern. Default: none.
	CORS cors.Origins `json:"cors,omitempty"`

	app    *app.App
	logger *zap.Logger
	reader *reader
	judge  *judge
	key    string
}

// Reactions are routes that are run for a verdict. Inside them the placeholders {http.moderation.*} tell the verdict.
type Reactions struct {
	// Reject is run for what is to be rejected, instead of the refusal. When its handlers do not answer, the refusal follows:
	// what is rejected never goes on by itself.
	Reject caddyhttp.RouteList `json:"reject,omitempty"`
	// Review is run for what a person should look at. When its handlers do not answer, the request goes on.
	Review caddyhttp.RouteList `json:"review,omitempty"`
	// Approve is run for everything else that was judged. When its handlers do not answer, the request goes on.
	Approve caddyhttp.RouteList `json:"approve,omitempty"`
	// SelfHarm is run, instead of the others, when self-harm is flagged and nothing is rejected for anything else: for the page
	// that helps a person in a crisis. When its handlers do not answer, a rejected request is refused, and any other goes on.
	SelfHarm caddyhttp.RouteList `json:"self_harm,omitempty"`
}

func (on *Reactions) provision(ctx caddy.Context) error {
	if on == nil {
		return nil
	}
	for name, routes := range map[string]caddyhttp.RouteList{"reject": on.Reject, "review": on.Review, "approve": on.Approve, selfHarm: on.SelfHarm} {
		if err := routes.Provision(ctx); err != nil {
			return fmt.Errorf("on %s: %w", name, err)
		}
	}
	return nil
}

// routesFor are the routes for a verdict on a request; nil where there are none.
func (on *Reactions) routesFor(v *Verdict) caddyhttp.RouteList {
	if on != nil && on.SelfHarm != nil && v.crisis() {
		return on.SelfHarm
	}
	return on.routes(v.Recommendation)
}

// routes are those for a recommendation; nil where there are none.
func (on *Reactions) routes(r engine.Recommendation) caddyhttp.RouteList {
	switch {
	case on == nil:
		return nil
	case r == engine.Reject:
		return on.Reject
	case r == engine.Review:
		return on.Review
	case r == engine.Approve:
		return on.Approve
	}
	return nil
}

// selfHarm is the word for [Reactions.SelfHarm] behind "on".
const selfHarm = "self-harm"

// Values of on_error.
const (
	errorPass   = "pass"
	errorReject = "reject"
)

// provisionOnError fills in the default of on_error and checks it.
func provisionOnError(value *string) error {
	switch *value {
	case "":
		*value = errorPass
	case errorPass, errorReject:
	default:
		return fmt.Errorf("on_error is %q; it must be pass or reject", *value)
	}
	return nil
}

// CaddyModule returns the Caddy module information.
func (*Moderate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderate",
		New: func() caddy.Module { return new(Moderate) },
	}
}

// Provision prepares the guard.
func (m *Moderate) Provision(ctx caddy.Context) (err error) {
	if m.app, err = app.Load(ctx); err != nil {
		return err
	}
	m.logger = sampled.Logger(ctx.Logger())
	if err := m.Limits.provision(); err != nil {
		return err
	}
	if err := m.Reading.check(); err != nil {
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
	if m.reader, err = newReader(&m.Reading, m.Limits, durationOr(m.Timeout, defaultTimeout)); err != nil {
		return err
	}
	if m.Shadow {
		// Nothing may be refused, a slow body no more than any other.
		m.reader.timeout = 0
	}
	if m.judge, err = m.Policy.provision(ctx, m.app, metrics.Inbound); err != nil {
		return err
	}
	m.judge.closed = m.OnError == errorReject && !m.Shadow
	m.key = m.reader.key + m.Policy.key()
	m.app.AtStart("two guards", func() { warnOfTwo(ctx, m.logger) })
	return m.On.provision(ctx)
}

// defaultTimeout is how long a body may take to arrive.
const defaultTimeout = 30 * time.Second

// ServeHTTP judges the request and lets it go on, or not.
func (m *Moderate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	strip(r.Header)
	strip(r.Trailer)
	x := exchangeOf(r, m.app)
	if m.judge.account != "" {
		defer m.app.TryAcquire().Release() // the body may come slowly
	}
	v, f, c := evaluate(r, w, x, m.reader, m.judge, m.key)
	var err error
	if c == nil {
		err = m.act(w, r, next, x, v, &f, nil)
	} else {
		answer := &counted{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, m: m, r: r, x: x, v: v, charge: c}
		err = answer.serve(func(w http.ResponseWriter) error { return m.act(w, r, next, x, v, &f, c) })
	}
	if err == nil && x.body != nil {
		// The error routes of the server may still want the body of a request that failed.
		x.readings = nil
		x.body.release()
	}
	return err
}

// act does what the verdict asks for. The charge, if any, is settled before the answer begins.
func (m *Moderate) act(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, x *exchange, v *Verdict, f *found, c *charge) error {
	switch {
	case m.Shadow:
		v.Action = Shadowed
		return m.pass(w, r, next, x, v, f, c)
	case f.err != nil:
		v.Action = Refused
		m.note(r, x, v)
		return m.refuseUnread(w, r, x, f)
	case v.Status == Failed && m.OnError == errorReject:
		v.Action = Refused
		m.note(r, x, v)
		return m.refuseUnjudged(w, r, x, v)
	case v.Recommendation == engine.Reject:
		return m.reject(w, r, x, v)
	}
	v.Action = Passed
	v.setHeaders(r.Header, x.id)
	if routes := m.On.routesFor(v); routes != nil && v.Status != Nothing {
		v.Action = Handled
		app := next
		next = routes.Compile(caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			v.Action = Passed
			return app.ServeHTTP(w, r)
		}))
	}
	return m.pass(w, r, next, x, v, f, c)
}

// reject runs the routes of on reject, and refuses the request when they do not answer.
func (m *Moderate) reject(w http.ResponseWriter, r *http.Request, x *exchange, v *Verdict) error {
	v.Action = Refused
	refusal := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		v.Action = Refused
		drain(w, r, x)
		return m.refuse(w, r, x.id, rejection(v))
	})
	routes := m.On.routesFor(v)
	if routes != nil {
		v.Action = Handled
	}
	m.note(r, x, v)
	v.setHeaders(r.Header, x.id) // for an upstream of the routes
	return routes.Compile(refusal).ServeHTTP(w, r)
}

// pass lets the request go on. The texts that come later in a large upload are judged on their way.
func (m *Moderate) pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, x *exchange, v *Verdict, f *found, c *charge) error {
	if f.watch == nil || f.err != nil {
		m.note(r, x, v)
		return next.ServeHTTP(w, r)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	watched := &watchedWriter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
	var failure atomic.Pointer[error]
	short := f.short.clone()
	further := f.further
	x.body.stream(f.watch, func(pieces []content.Piece) error {
		if further.Add(pieces); further.Excessive(int(x.body.upload.received)) && !m.Shadow {
			return errAmbiguous
		}
		return m.judgeLater(ctx, v, c, pieces, &short)
	}, func(err error) {
		failure.Store(&err)
		// The request to the app ends as if the client had gone, so that the app is not taken for broken.
		cancel(err)
	})
	err := next.ServeHTTP(watched, r.WithContext(ctx))
	ended := failure.Load()
	if ended != nil {
		v.Action = Aborted
	}
	m.note(r, x, v)
	if ended == nil || watched.wrote {
		return err
	}
	drain(w, r, x)
	if errors.Is(*ended, errRejected) {
		return m.refuse(w, r, x.id, rejection(v))
	}
	return m.refuseUnread(w, r, x, &found{err: *ended})
}

// judgeLater judges texts of an upload that is on its way. What is flagged in them is counted before the app reads them.
func (m *Moderate) judgeLater(ctx context.Context, v *Verdict, c *charge, pieces []content.Piece, short *joiner) error {
	results, err := m.judge.classify(ctx, pieces, short)
	*short = short.clone() // what they were read from is used again
	reason := ""
	switch {
	case err != nil:
		reason = "classifier"
	case unknownCharset(pieces):
		reason = "unknown_charset"
	}
	counted := v.flagged()
	for i := range results {
		m.judge.add(v, &results[i])
	}
	late := slices.DeleteFunc(v.flagged(), func(name string) bool { return slices.Contains(counted, name) })
	if err := c.flag(late); err != nil {
		m.judge.uncounted(err)
	}
	if v.Recommendation == engine.Reject && !m.Shadow {
		return errRejected
	}
	if reason == "" {
		return nil
	}
	m.app.Metrics().GuardError(metrics.Inbound, reason)
	if m.OnError == errorReject && !m.Shadow {
		return errNotJudged
	}
	return nil
}

// errNotJudged says that the classifier failed.
var errNotJudged = errors.New("the content could not be judged")

// watchedWriter knows whether the answer has begun.
type watchedWriter struct {
	caddyhttp.ResponseWriterWrapper
	wrote bool
}

// WriteHeader notes that the answer has begun.
func (w *watchedWriter) WriteHeader(status int) {
	w.wrote = w.wrote || status >= 200 || status == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(status)
}

// Write notes that the answer has begun.
func (w *watchedWriter) Write(p []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(p)
}

// ReadFrom notes that the answer has begun.
func (w *watchedWriter) ReadFrom(r io.Reader) (int64, error) {
	w.wrote = true
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// note counts and logs what became of a request. It is called before the request goes on, which may take long; only the
// texts of a large upload are not all known then.
func (m *Moderate) note(r *http.Request, x *exchange, v *Verdict) {
	m.app.Metrics().Guard(metrics.Inbound, outcome(v), v.flagged(), v.took)
	if v.Status == Failed {
		m.app.Metrics().GuardError(metrics.Inbound, v.Reason)
	}
	emit(m.app, x, v)
	logVerdict(m.logger, "request", r, x.id, v)
}

// outcome is what became of a message, for the metrics.
func outcome(v *Verdict) metrics.GuardOutcome {
	shadow := v.Action == Shadowed
	switch {
	case v.Recommendation == engine.Reject && shadow:
		return metrics.GuardShadowReject
	case v.Recommendation == engine.Reject:
		return metrics.GuardReject
	case v.Status == Failed && v.Action == Refused && (v.Reason == "too_large" || v.Reason == "too_long"):
		return metrics.GuardTooLarge
	case v.Status == Failed && v.Action == Refused:
		return metrics.GuardErrorRefused
	case v.Status == Failed:
		return metrics.GuardErrorPassed
	case v.Status == Skipped:
		return metrics.GuardSkipped
	case v.Status == Nothing:
		return metrics.GuardNothing
	case v.Recommendation == engine.Review && shadow:
		return metrics.GuardShadowReview
	case v.Recommendation == engine.Review:
		return metrics.GuardReview
	}
	return metrics.GuardApprove
}

// emit tells Caddy's events of what was flagged.
func emit(a *app.App, x *exchange, v *Verdict) {
	if !v.Flagged {
		return
	}
	a.Emit(app.FlaggedEvent, func() map[string]any {
		return map[string]any{
			"id": x.id, "recommendation": string(v.Recommendation), "confidence": v.Confidence,
			"categories": v.flagged(), "action": string(v.Action),
		}
	})
}

// logVerdict logs what is not simply approved. It never logs text, nor the query of an address, which may hold text.
func logVerdict(logger *zap.Logger, what string, r *http.Request, id string, v *Verdict) {
	level, message := zapcore.InfoLevel, ""
	switch {
	case v.Status == Failed:
		level, message = zapcore.WarnLevel, "could not judge a "+what
	case v.Recommendation == engine.Reject && v.Action == Shadowed:
		message = "would reject a " + what
	case v.Recommendation == engine.Reject:
		message = "rejected a " + what
	case v.Recommendation == engine.Review && v.Action == Shadowed:
		message = "would have a " + what + " reviewed"
	case v.Recommendation == engine.Review:
		message = "a " + what + " should be reviewed"
	default:
		return
	}
	entry := logger.Check(level, message)
	if entry == nil {
		return
	}
	entry.Write(zap.String("moderation_id", id), zap.String("method", r.Method), zap.String("host", r.Host), zap.String("path", r.URL.Path),
		zap.Inline(zapcore.ObjectMarshalerFunc(func(log zapcore.ObjectEncoder) error {
			v.log(log, "moderation_")
			return nil
		})))
}

// evaluate reads and judges a request, or takes what is known of it already. The verdict is never nil; where the request
// could not be read, found tells why. A charge that is returned must be waited for before the request is answered.
func evaluate(r *http.Request, w http.ResponseWriter, x *exchange, rd *reader, j *judge, key string) (*Verdict, found, *charge) {
	var f found
	var pieces []content.Piece
	var results []judged
	known := slices.IndexFunc(x.readings, func(r reading) bool { return r.key == key })
	if known >= 0 {
		f, results = x.readings[known].found, x.readings[known].results
	} else {
		f = rd.read(r, w, x)
		pieces, f.pieces = f.pieces, nil // they share memory with the body, which does not live as long
	}
	began := j.app.Now()
	var v *Verdict
	var c *charge
	failed := false
	if f.err == nil && f.status != Skipped {
		var err error
		if v, results, c, err = j.judge(r.Context(), x, pieces, &f.short, results); err != nil {
			f.failed, f.reason, v, failed = err, judgeReason(err), nil, true
			j.logger.Error("judging a request", zap.String("moderation_id", x.id), zap.Error(err))
		}
	}
	if v == nil {
		v = new(Verdict)
	}
	v.settle(&f)
	if f.watch == nil {
		f.short = joiner{}
	}
	if known < 0 {
		v.took = j.app.Now().Sub(began)
	}
	if known < 0 && !failed { // another handler may be able to do what this one could not
		x.readings = append(x.readings, reading{key: key, found: f, results: results})
	}
	x.request = v
	return v, f, c
}

// settle makes the status of a verdict that of the reading.
func (v *Verdict) settle(f *found) {
	v.Reason = f.reason
	switch {
	case f.err != nil:
		*v = Verdict{Status: Failed, Reason: readReason(f.err)}
	case f.failed != nil && v.Recommendation != engine.Reject:
		// What could be read of it is fine; what could not is unknown.
		*v = Verdict{Status: Failed, Reason: f.reason}
	case f.status == Skipped:
		*v = Verdict{Status: Skipped, Reason: f.reason}
	case f.status == Partial:
		v.Status = Partial
	}
}

// readReason says in a word why a request could not be read.
func readReason(err error) string {
	var tooMuch *http.MaxBytesError
	switch {
	case errors.Is(err, errTooLarge), errors.As(err, &tooMuch):
		return "too_large"
	case errors.Is(err, errTooLong):
		return "too_long"
	case errors.Is(err, errTimeout):
		return "timeout"
	case errors.Is(err, errAmbiguous):
		return "ambiguous_body"
	}
	return "incomplete"
}

// judgeReason says in a word why a request could not be judged.
func judgeReason(err error) string {
	switch {
	case errors.Is(err, errQuota):
		return "quota"
	case errors.Is(err, errUncounted):
		return reasonAccount
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "classifier"
}

// drain lets a client that still sends its body see the answer that follows.
func drain(w http.ResponseWriter, r *http.Request, x *exchange) {
	if x.body == nil || x.body.err != nil {
		return
	}
	body.Linger(w, r, x.body.src, len(x.body.bytes()) > 0)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Moderate)(nil)
	_ caddyhttp.MiddlewareHandler = (*Moderate)(nil)
	_ http.ResponseWriter         = (*watchedWriter)(nil)
)
