// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what the service does, on Caddy's metrics endpoint.
//
// The values of labels are bounded: operations, outcomes, categories, recommendations, languages, reasons, versions.
// They never hold an account, a key, a theme or content.
//
// Caddy gives each configuration a new registry. The collectors live as long as any configuration uses them, and are
// registered with each new registry, so that a reload neither resets a counter nor registers it twice.
package metrics

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/version"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Operation is the kind of a request: a bounded label.
type Operation string

// The operations.
const (
	// Text is a text moderation.
	Text Operation = "text"
	// Usage is a usage report.
	Usage Operation = "usage"
	// SuggestScore is a correction.
	SuggestScore Operation = "suggestscore"
	// Analyze is a comment that is scored as the Perspective API does.
	Analyze Operation = "analyze"
	// Reviews is a request of the review queue.
	Reviews Operation = "reviews"
	// Stream is a request that is told of decisions about the review queue as they are made.
	Stream Operation = "stream"
	// OpenAI is a request for OpenAI's moderation endpoint.
	OpenAI Operation = "openai"
	// Other is a request that moderation_key_auth or moderation_rate_limit passes to any other handler.
	Other Operation = "other"
)

// Outcome says how a request ended: a bounded label.
type Outcome string

// The outcomes.
const (
	// OK is an answer below 400.
	OK Outcome = "ok"
	// Unauthorized means that there was no key, that the key is not valid, or that its account is not served.
	Unauthorized Outcome = "unauthorized"
	// Limited means that a quota, a rate limit or a bound is used up.
	Limited Outcome = "limited"
	// Invalid is any other answer from 400 to 499.
	Invalid Outcome = "invalid"
	// Failed is an answer of 500 or more.
	Failed Outcome = "failed"
)

// OutcomeOf returns the outcome that an HTTP status stands for.
func OutcomeOf(status int) Outcome {
	switch {
	case status < 400:
		return OK
	case status == 401 || status == 403:
		return Unauthorized
	case status == 402 || status == 429:
		return Limited
	case status < 500:
		return Invalid
	}
	return Failed
}

// Metrics are the collectors. A nil *Metrics records nothing.
type Metrics struct {
	requests        *prometheus.CounterVec
	durations       *prometheus.HistogramVec
	flagged         *prometheus.CounterVec
	themes          prometheus.Counter
	recommendations *prometheus.CounterVec
	languages       *prometheus.CounterVec
	refused         *prometheus.CounterVec
	outage          *prometheus.CounterVec
	storeUp         *storeUp
	build           *build
	room            func() StoreState
	guard           *prometheus.CounterVec
	guardFlagged    *prometheus.CounterVec
	guardErrors     *prometheus.CounterVec
	guardDurations  *prometheus.HistogramVec
	exchanges       *prometheus.CounterVec
	agreement       *prometheus.CounterVec
	differences     *prometheus.HistogramVec
	reviews         *prometheus.CounterVec
	reviewWebhooks  *prometheus.CounterVec

	// What no registry has.
	began       time.Time
	requestRate ring
	messageRate ring
	sites       Sites
}

// pool keeps the collectors while a configuration uses them. The value is a *Metrics.
var pool = caddy.NewUsagePool()

// poolKey is the pool's only key.
const poolKey = "metrics"

// State is what the collectors ask for whenever the metrics are collected.
type State struct {
	// Store reports whether the stores of the process are available, and whether one is open.
	Store func() (up, open bool)
	// Model returns the version of the classifier in force, and whether there is one.
	Model func() (version string, ok bool)
	// Room is what [RegisterStore] is given, so that [Keep] can register that, too. Default: it does not.
	Room func() StoreState
}

// Acquire returns the process's collectors, registered with registry. Each Acquire that returns no error must be
// followed by one [Release].
func Acquire(registry prometheus.Registerer, state State) (*Metrics, error) {
	fresh := newMetrics(state)
	value, loaded := pool.LoadOrStore(poolKey, fresh)
	m := fresh
	if loaded {
		m = value.(*Metrics)
	}
	if err := m.register(registry); err != nil {
		Release()
		return nil, err
	}
	return m, nil
}

// Keep registers the collectors that [Acquire] has returned, and those of [RegisterStore], with another registry, if
// there are any. Caddy's admin endpoint shows the registry of the latest configuration, even of one that could not be
// loaded and did not come to the app; without Keep the metrics of the one that goes on would be gone from it.
func Keep(registry prometheus.Registerer) error {
	var err error
	pool.Range(func(_, value any) bool {
		m := value.(*Metrics)
		if err = m.register(registry); err == nil && m.room != nil {
			c := newStoreCollector(m.room)
			c.kept = true
			err = registerStore(registry, c)
		}
		return false
	})
	return err
}

// Release gives back what [Acquire] took.
func Release() {
	// The collectors have no destructor, so there is no error.
	_, _ = pool.Delete(poolKey)
}

// newMetrics returns collectors that are not registered.
func newMetrics(state State) *Metrics {
	const namespace, subsystem = "caddy", "moderation"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
		return prometheus.NewCounterVec(opts, labels)
	}
	return &Metrics{
		began:    time.Now().UTC(),
		requests: counter("requests_total", "Requests by operation and outcome.", "operation", "outcome"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "duration_seconds",
			Help:    "Time from a request's arrival at the service to the end of its answer.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}, []string{"operation"}),
		flagged: counter("flagged_total", "Contents that were flagged, by category.", "category"),
		themes: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "theme_hits_total", Help: "Themes that hit a content.",
		}),
		recommendations: counter("recommendations_total", "Verdicts by recommendation.", "recommendation"),
		languages: counter("languages_total",
			"Judged texts, and messages that a guard judged, by language (und: unknown) and whether a model reads it.",
			"language", "supported"),
		refused: counter("refused_total", "Requests that were refused before any work, by reason.", "reason"),
		outage: counter("outage_requests_total",
			"Requests that were admitted while the server of the store could not be reached, by what that rests on.",
			"basis"),
		storeUp: &storeUp{
			desc: prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, "store_up"),
				"1 while the store keeps what it must, 0 while it cannot. Absent without a store.", nil, nil),
			ask: state.Store,
		},
		build: newBuild(prometheus.BuildFQName(namespace, subsystem, "build_info"), state.Model),
		room:  state.Room,
		guard: counter("guard_total",
			"Requests and answers that a guard saw, by what became of them.", "direction", "outcome"),
		guardFlagged: counter("guard_flagged_total",
			"Requests and answers in which a guard flagged a category.", "direction", "category"),
		guardErrors: counter("guard_errors_total",
			"Requests and answers that a guard could not judge, by reason.", "direction", "reason"),
		guardDurations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "guard_duration_seconds",
			Help:    "Time that a guard needs to read and judge the texts of a message, without waiting for its body.",
			Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1},
		}, []string{"direction"}),
		exchanges: counter("compare_exchanges_total",
			"Texts that another service has scored, by whether the scores could be compared.", "outcome"),
		agreement: counter("compare_total",
			"Scores of another service beside our own, by which of the two reach a threshold.",
			"attribute", "threshold", "above"),
		differences: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "compare_difference",
			Help:    "Distance between the scores of another service and our own.",
			Buckets: []float64{.01, .02, .05, .1, .15, .2, .3, .4, .5, .75, 1},
		}, []string{"attribute"}),
		reviews: counter("review_items_total",
			"Texts for the review queue, by why they are kept and whether they could be.", "cause", "outcome"),
		reviewWebhooks: counter("review_webhooks_total",
			"Attempts to tell an endpoint what reviewers have decided, by how they ended.", "outcome"),
	}
}

// register registers the collectors with a registry.
func (m *Metrics) register(registry prometheus.Registerer) error {
	for _, collector := range []prometheus.Collector{
		m.requests, m.durations, m.flagged, m.themes, m.recommendations, m.languages, m.refused, m.outage, m.storeUp,
		m.build, m.guard, m.guardFlagged, m.guardErrors, m.guardDurations, m.exchanges, m.agreement, m.differences,
		m.reviews, m.reviewWebhooks,
	} {
		err := registry.Register(collector)
		var already prometheus.AlreadyRegisteredError
		if errors.As(err, &already) && already.ExistingCollector == collector {
			continue
		}
		if err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// Direction is the direction of the message that a guard moderates: a bounded label.
type Direction string

// The directions.
const (
	// Inbound is the direction of a request.
	Inbound Direction = "request"
	// Outbound is the direction of an answer.
	Outbound Direction = "response"
)

// GuardOutcome says what a guard did with a request or an answer: a bounded label.
type GuardOutcome string

// The outcomes of a guard.
const (
	// GuardApprove is a verdict to approve.
	GuardApprove GuardOutcome = "approve"
	// GuardReview is a verdict to review.
	GuardReview GuardOutcome = "review"
	// GuardReject is a verdict to reject that was acted upon.
	GuardReject GuardOutcome = "reject"
	// GuardShadowReview is a verdict to review in shadow mode, which has no consequence.
	GuardShadowReview GuardOutcome = "shadow_review"
	// GuardShadowReject is a verdict to reject in shadow mode, which has no consequence.
	GuardShadowReject GuardOutcome = "shadow_reject"
	// GuardNothing is a message without text.
	GuardNothing GuardOutcome = "nothing"
	// GuardSkipped is a message that passed unmoderated because it is too large and the guard is configured to let such
	// messages pass.
	GuardSkipped GuardOutcome = "skipped"
	// GuardTooLarge is a message that was refused because it is too large.
	GuardTooLarge GuardOutcome = "too_large"
	// GuardErrorPassed is a message that could not be moderated and passed.
	GuardErrorPassed GuardOutcome = "error_passed"
	// GuardErrorRefused is a message that could not be moderated and was refused.
	GuardErrorRefused GuardOutcome = "error_refused"
)

// Guard counts a message that a guard saw, the categories that were flagged in it, and the time that moderating it
// took. A time of 0 is not counted.
func (m *Metrics) Guard(direction Direction, outcome GuardOutcome, flagged []string, took time.Duration) {
	if m == nil {
		return
	}
	for _, category := range flagged {
		m.guardFlagged.WithLabelValues(string(direction), category).Inc()
	}
	m.messageRate.add(time.Now())
	m.guard.WithLabelValues(string(direction), string(outcome)).Inc()
	if took > 0 {
		m.guardDurations.WithLabelValues(string(direction)).Observe(took.Seconds())
	}
}

// GuardError counts a message that a guard could not moderate. The reason is one of a few words.
func (m *Metrics) GuardError(direction Direction, reason string) {
	if m == nil {
		return
	}
	m.guardErrors.WithLabelValues(string(direction), reason).Inc()
}

// Review counts a text for the review queue, and whether it could be kept.
func (m *Metrics) Review(cause string, kept bool) {
	if m == nil {
		return
	}
	outcome := "kept"
	if !kept {
		outcome = "failed"
	}
	m.reviews.WithLabelValues(cause, outcome).Inc()
}

// ReviewWebhook counts an attempt to tell an endpoint of a decision.
func (m *Metrics) ReviewWebhook(outcome string) {
	if m != nil {
		m.reviewWebhooks.WithLabelValues(outcome).Inc()
	}
}

// CompareOutcome says whether an answer of another service could be compared: a bounded label.
type CompareOutcome string

// The outcomes of a comparison.
const (
	// Compared is an answer whose scores were compared.
	Compared CompareOutcome = "compared"
	// CompareUpstreamFailed is an answer without scores: an error of the other service.
	CompareUpstreamFailed CompareOutcome = "upstream_failed"
	// CompareUnread is an answer, or its request, that was not understood.
	CompareUnread CompareOutcome = "unread"
)

// Compare counts a text that another service has scored.
func (m *Metrics) Compare(outcome CompareOutcome) {
	if m == nil {
		return
	}
	m.exchanges.WithLabelValues(string(outcome)).Inc()
}

// CompareScore counts the distance between two scores of an attribute. The attribute must be one for which this service
// has a score, so that the label stays bounded.
func (m *Metrics) CompareScore(attribute string, distance float64) {
	if m == nil {
		return
	}
	m.differences.WithLabelValues(attribute).Observe(distance)
}

// CompareThreshold counts which of two scores of an attribute reach a threshold.
func (m *Metrics) CompareThreshold(attribute string, threshold float64, theirs, ours bool) {
	if m == nil {
		return
	}
	above := "neither"
	switch {
	case theirs && ours:
		above = "both"
	case theirs:
		above = "theirs"
	case ours:
		above = "ours"
	}
	m.agreement.WithLabelValues(attribute, strconv.FormatFloat(threshold, 'g', -1, 64), above).Inc()
}

// Request counts a request that has ended.
func (m *Metrics) Request(operation Operation, status int, took time.Duration) {
	if m == nil {
		return
	}
	m.requestRate.add(time.Now())
	m.requests.WithLabelValues(string(operation), string(OutcomeOf(status))).Inc()
	if operation != Stream { // that lasts as long as somebody listens
		m.durations.WithLabelValues(string(operation)).Observe(took.Seconds())
	}
}

// Verdict counts a verdict.
func (m *Metrics) Verdict(result *engine.Result) {
	if m == nil {
		return
	}
	for category, verdict := range result.Categories {
		if verdict.Flagged {
			m.flagged.WithLabelValues(engine.Category(category).String()).Inc()
		}
	}
	for i := range result.Themes {
		if result.Themes[i].Flagged {
			m.themes.Inc()
		}
	}
	m.recommendations.WithLabelValues(string(result.Recommendation)).Inc()
	m.Language(result.Language)
}

// Language counts a text by its language. The tags are those that the detector knows, so that the label stays bounded.
// A text without one is not counted.
func (m *Metrics) Language(found engine.Language) {
	if m == nil || found.Tag == "" {
		return
	}
	m.languages.WithLabelValues(found.Tag, strconv.FormatBool(found.Supported)).Inc()
}

// Refused counts a request that was refused before any work was done. The reason is a problem's code.
func (m *Metrics) Refused(reason string) {
	if m == nil {
		return
	}
	m.refused.WithLabelValues(reason).Inc()
}

// AdmittedInOutage counts n requests that were admitted by counts that are not exact. Others it does not count.
func (m *Metrics) AdmittedInOutage(basis quota.Basis, n int64) {
	if m == nil || basis == quota.ExactCounts {
		return
	}
	m.outage.WithLabelValues(string(basis)).Add(float64(n))
}

// storeUp reports whether the store is available at the moment at which it is collected.
type storeUp struct {
	desc *prometheus.Desc
	ask  func() (up, open bool)
}

// Describe implements [prometheus.Collector].
func (s *storeUp) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect implements [prometheus.Collector].
func (s *storeUp) Collect(to chan<- prometheus.Metric) {
	up, open := s.ask()
	if !open {
		return
	}
	value := 0.0
	if up {
		value = 1
	}
	to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, value)
}

// build tells which versions run at the moment at which it is collected.
type build struct {
	desc *prometheus.Desc
	ask  func() (model string, ok bool)
}

// newBuild returns the collector of a metric with the given name.
func newBuild(name string, ask func() (model string, ok bool)) *build {
	caddyVersion, _ := caddy.Version()
	return &build{
		desc: prometheus.NewDesc(name, "Always 1. The labels are the versions of caddy-moderation, of Caddy and of the "+
			"classifier in force.", []string{"model"},
			prometheus.Labels{"version": version.Version(), "caddy_version": caddyVersion}),
		ask: ask,
	}
}

// Describe implements [prometheus.Collector].
func (b *build) Describe(to chan<- *prometheus.Desc) { to <- b.desc }

// Collect implements [prometheus.Collector].
func (b *build) Collect(to chan<- prometheus.Metric) {
	model, ok := b.ask()
	if !ok {
		return
	}
	// A guest module names its version itself; Prometheus knows no text but UTF-8.
	to <- prometheus.MustNewConstMetric(b.desc, prometheus.GaugeValue, 1, strings.ToValidUTF8(model, ""))
}

// Interface guards
var (
	_ prometheus.Collector = (*storeUp)(nil)
	_ prometheus.Collector = (*build)(nil)
)
