// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what the service does, on Caddy's own metrics endpoint.
//
// Labels are bounded: operations, outcomes, categories, recommendations and reasons. There is never an account, a key, a
// theme or any content in them.
//
// Caddy gives each configuration a new registry. The collectors live as long as any configuration uses them, and are
// registered with each registry anew, so that a reload neither resets a counter nor registers it twice.
package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Operation names what was asked for: a bounded label.
type Operation string

// The operations.
const (
	Text         Operation = "text"
	Usage        Operation = "usage"
	Suggestscore Operation = "suggestscore"
	// Other is a request that passes through moderation_key_auth or moderation_rate_limit to something else.
	Other Operation = "other"
)

// Outcome is how a request ended: a bounded label.
type Outcome string

// The outcomes.
const (
	// OK is an answer below 400.
	OK Outcome = "ok"
	// Unauthorized is no key, a key that is not valid or an account that is not served.
	Unauthorized Outcome = "unauthorized"
	// Limited is a used-up quota, rate limit or bound.
	Limited Outcome = "limited"
	// Invalid is any other answer from 400 to 499.
	Invalid Outcome = "invalid"
	// Failed is an answer from 500 on.
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
	refused         *prometheus.CounterVec
	storeUp         prometheus.Gauge
}

// pool keeps the collectors while a configuration uses them; the value is *Metrics.
var pool = caddy.NewUsagePool()

// poolKey is the pool's only key.
const poolKey = "metrics"

// Acquire returns the process's collectors, registered with registry. Every Acquire that returns no error is followed
// by one [Release].
func Acquire(registry prometheus.Registerer) (*Metrics, error) {
	fresh := newMetrics()
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

// Release gives back what [Acquire] took.
func Release() {
	// The collectors need no destructor, so there is no error to expect.
	_, _ = pool.Delete(poolKey)
}

func newMetrics() *Metrics {
	const namespace, subsystem = "caddy", "moderation"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	return &Metrics{
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
		refused:         counter("refused_total", "Requests that were refused before any work, by reason.", "reason"),
		storeUp: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "store_up", Help: "1 while the store answers, 0 after it failed to.",
		}),
	}
}

func (m *Metrics) register(registry prometheus.Registerer) error {
	for _, collector := range []prometheus.Collector{
		m.requests, m.durations, m.flagged, m.themes, m.recommendations, m.refused, m.storeUp,
	} {
		err := registry.Register(collector)
		if already := (prometheus.AlreadyRegisteredError{}); errors.As(err, &already) && already.ExistingCollector == collector {
			continue
		}
		if err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// Request counts a request that ended.
func (m *Metrics) Request(operation Operation, status int, took time.Duration) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(string(operation), string(OutcomeOf(status))).Inc()
	m.durations.WithLabelValues(string(operation)).Observe(took.Seconds())
}

// Verdict counts what the judge said.
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
}

// Refused counts a request that was refused before any work was done. The reason is a problem's code.
func (m *Metrics) Refused(reason string) {
	if m == nil {
		return
	}
	m.refused.WithLabelValues(reason).Inc()
}

// StoreUp says whether the store answered.
func (m *Metrics) StoreUp(up bool) {
	if m == nil {
		return
	}
	if up {
		m.storeUp.Set(1)
		return
	}
	m.storeUp.Set(0)
}
