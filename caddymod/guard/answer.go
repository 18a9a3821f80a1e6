// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/tracing"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// answer moderates one answer of the app and decides what becomes of it. It implements [response.Decider].
type answer struct {
	m        *ModerateResponse
	r        *http.Request
	x        *exchange
	path     string   // of the request, which handlers behind may rewrite
	v        *verdict // nil before there is one
	reported bool

	// Of a stream:
	charged   bool           // it is charged, if there is an account
	charge    *policy.Charge // nil for none
	uncounted error          // the charge failed, and the stream must not go on
	span      tracing.Span
	said      said // empty unless texts are kept for review
}

// Skip implements [response.Decider].
func (a *answer) Skip() {
	a.v = &verdict{status: Skipped, reason: extract.ReasonTooLarge, action: passed}
	a.x.response = a.v
	a.report()
}

// Decide implements [response.Decider].
func (a *answer) Decide(w *response.Writer, found *extract.Result) {
	a.moderateHeld(found)
	a.keepForReview(func() copied { return copyOf(found.Pieces, a.v.Fields()) })
	switch routes := a.m.On.routes(a.v.Recommendation); {
	case a.m.Shadow:
		a.v.action = shadowed
		a.report()
		w.Pass()
	case a.v.Recommendation == engine.Reject:
		a.reject(w, routes)
	case a.v.status == Failed && (found.Refuse != nil || a.m.OnError == onErrorReject):
		a.refuseUnjudged(w, found.Refuse)
	case routes == nil || a.v.status == Nothing:
		a.v.action = passed
		a.report()
		w.Release()
	default:
		a.v.action = handled
		a.report()
		w.Offer(routes, func() { a.v.action = passed })
	}
}

// moderateHeld moderates what was extracted.
func (a *answer) moderateHeld(found *extract.Result) {
	began := a.m.app.Now()
	var v *verdict
	if found.Refuse == nil && found.Coverage != extract.Skipped {
		decided, results, charge, err := a.m.moderator.Moderate(
			a.r.Context(), &a.x.charged, found.Pieces, new(policy.Joiner), nil)
		if err == nil {
			err = a.wait(charge)
		}
		if err != nil {
			found.Unreadable, found.Reason = err, policy.Reason(err)
			a.logError(err)
		} else {
			v = newVerdict(decided, results)
		}
	}
	if v == nil {
		v = new(verdict)
	}
	v.adjust(found)
	a.v, a.x.response = v, v
	a.addTime(began)
}

// wait waits until a charge is durable. After an error the answer must not go on.
func (a *answer) wait(charge *policy.Charge) error {
	err := charge.WaitIn(a.r.Context())
	if err == nil {
		return nil
	}
	if a.m.moderator.FailClosed() {
		return fmt.Errorf("%w: %w", policy.ErrUncounted, err)
	}
	a.m.moderator.ReportUncounted(err)
	return nil
}

// reject replaces the answer: by that of the site's routes, by a filtered one in the format of a language model's API,
// or by a problem.
func (a *answer) reject(w *response.Writer, routes caddyhttp.RouteList) {
	a.v.action = refused
	if routes != nil {
		a.v.action = handled
	}
	a.report()
	w.Replace(routes.Compile(caddyhttp.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) error {
		a.v.action = refused
		if sent, err := w.SendFiltered(rw); sent {
			return err
		}
		p := rejection(a.v)
		p.Code = problem.ResponseRejected
		return refuse(rw, r, a.x.id, p)
	})))
}

// refuseUnjudged replaces an answer that could not be moderated by a problem. cause is not nil if the answer is too
// large, and nil for all other reasons.
func (a *answer) refuseUnjudged(w *response.Writer, cause error) {
	a.v.action = refused
	a.report()
	w.Replace(caddyhttp.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) error {
		p := problem.New(problem.ResponseRejected, "The answer is larger than what can be judged.")
		if cause == nil {
			rw.Header().Set("Retry-After", "1")
			p = problem.New(problem.NotJudged, "The answer could not be judged now. Try again.")
		}
		return refuse(rw, r, a.x.id, p)
	}))
}

// BeginStream implements [response.Decider].
func (a *answer) BeginStream() {
	a.v = &verdict{Verdict: policy.Verdict{Confidence: 1}, status: Nothing}
	a.x.response = a.v
	_, a.span = tracing.Start(a.r.Context(), tracing.Stream)
	a.span.ID(a.x.id)
}

// Unreadable implements [response.Decider].
func (a *answer) Unreadable(w *response.Writer, err error) {
	a.v.status, a.v.reason = Failed, extract.EncodingReason(err)
	switch {
	case a.m.Shadow:
		a.v.action = shadowed
	case a.m.OnError == onErrorReject:
		a.refuseUnjudged(w, nil)
		return
	default:
		a.v.action = passed
	}
	a.report()
}

// Moderate implements [response.Decider].
func (a *answer) Moderate(text string, rejectOnly bool) (bool, error) {
	defer a.addTime(a.m.app.Now())
	ctx, moderator := a.r.Context(), a.m.moderator
	first := !a.charged
	if first {
		var err error
		if a.charge, err = moderator.Charge(ctx, &a.x.charged); err != nil {
			return false, a.fail(err)
		}
		a.charged = true
		a.charge.Settle(nil) // flagged categories are added at the end
	}
	results, err := moderator.Classify(ctx, []content.Piece{{Text: text}}, new(policy.Joiner))
	if first {
		a.uncounted = a.wait(a.charge) // the text goes on next
	}
	if a.uncounted != nil {
		return false, a.fail(a.uncounted)
	}
	if err != nil {
		return false, a.fail(err)
	}
	if len(results) > 0 && a.v.status == Nothing {
		a.v.status, a.v.Recommendation = Judged, engine.Approve
	}
	before := a.v.Recommendation
	for i := range results {
		results[i].RejectOnly = results[i].RejectOnly || rejectOnly
		moderator.Add(&a.v.Verdict, &results[i])
	}
	a.v.KeepMostSevere() // a stream has one finding
	if a.v.Recommendation != before && a.v.Recommendation != engine.Approve && a.m.app.KeepsReviews() {
		a.said.worst = strings.Clone(text)
	}
	decided := moderator.Decide(results)
	return decided.Recommendation != engine.Reject, nil
}

// Judged implements [response.Decider].
func (a *answer) Judged(text []byte) {
	if a.m.app.KeepsReviews() {
		a.said.add(text)
	}
}

// fail notes that a part of a stream could not be moderated.
func (a *answer) fail(err error) error {
	if a.v.reason == "" {
		a.logError(err)
	}
	a.v.reason = policy.Reason(err)
	return err
}

// EndStream implements [response.Decider].
func (a *answer) EndStream(w *response.Writer, ending response.Ending) {
	switch ending {
	case response.Complete:
		a.v.action = passed
		if a.m.Shadow {
			a.v.action = shadowed
		}
	case response.Broken:
		a.v.action, a.v.reason = aborted, extract.ReasonBrokenEncoding
	default:
		a.v.action = aborted
	}
	if a.v.reason != "" && a.v.Recommendation != engine.Reject {
		a.v.status, a.v.Recommendation = Failed, ""
	}
	a.span.Verdict(a.v.Flagged, a.v.Recommendation)
	if a.v.reason != "" {
		a.span.Refuse(a.v.reason, a.v.status == Failed)
	}
	a.span.End()
	// The flagged categories are counted before the client sees the end.
	if err := a.charge.Flag(a.v.Flags()); err != nil {
		a.m.moderator.ReportUncounted(err)
	}
	a.charge.Judged(&a.v.Verdict)
	a.charge = nil
	a.keepForReview(a.said.copied)
	switch ending {
	case response.Rejected:
		a.reject(w, a.m.On.routes(engine.Reject))
	case response.Unjudged:
		a.refuseUnjudged(w, nil)
	default:
		a.report()
	}
}

// SetHeader implements [response.Decider].
func (a *answer) SetHeader(header http.Header) {
	if a.v != nil && a.v.Recommendation == engine.Review {
		header["X-Moderation-Recommendation"] = []string{string(engine.Review)}
	}
}

// report counts and logs, once, what became of the answer.
func (a *answer) report() {
	if a.reported {
		return
	}
	a.reported = true
	outcome := outcomeOf(a.v)
	if a.v.action == aborted && outcome == metrics.GuardErrorPassed {
		outcome = metrics.GuardErrorRefused // a stream of which a part could not be moderated
	}
	report(a.m.app, a.m.logger, metrics.Outbound, a.r, a.x.id, a.v, outcome, a.m.counts)
}

func (a *answer) logError(err error) {
	a.m.logger.Error("judging a response", zap.String("moderation_id", a.x.id), zap.Error(err))
}

// addTime adds the time since a moment to what moderating took.
func (a *answer) addTime(began time.Time) { a.v.took += a.m.app.Now().Sub(began) }

// Interface guard
var _ response.Decider = (*answer)(nil)
