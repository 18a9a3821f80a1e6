// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Traffic is the throughput of this process.
type Traffic struct {
	// Requests are those of accounts, and Messages the requests and answers that guards saw.
	Requests Rate `json:"requests"`
	Messages Rate `json:"messages"`
}

// Latency is how long something took: the upper ends of the middle, of 95 and of 99 in a hundred. A quantile is
// interpolated within a bucket of the histogram, and infinite beyond the last.
type Latency struct {
	Count         int64
	P50, P95, P99 time.Duration
	// Over says that the slowest took longer than the last bucket, whose end stands for them.
	Over bool
}

// Named is a count with a name.
type Named struct {
	Name  string
	Count int64
}

// OperationFigures are those of an operation.
type OperationFigures struct {
	Name     string
	Outcomes map[Outcome]int64
	Total    int64
	Latency  Latency
}

// CompareFigures say how another service and this one agree about an attribute at a threshold.
type CompareFigures struct {
	Attribute                   string
	Threshold                   float64
	Both, Theirs, Ours, Neither int64
}

// Total returns how many scores were compared.
func (c CompareFigures) Total() int64 { return c.Both + c.Theirs + c.Ours + c.Neither }

// Agreement returns the share of scores about which both say the same.
func (c CompareFigures) Agreement() float64 {
	if c.Total() == 0 {
		return 0
	}
	return float64(c.Both+c.Neither) / float64(c.Total())
}

// DistanceFigures are the distances between the scores of another service and our own for an attribute.
type DistanceFigures struct {
	Attribute string
	Count     int64
	Mean      float64
}

// Figures are what the collectors have counted since the process has them, for people.
type Figures struct {
	Since      time.Time
	Traffic    Traffic
	Operations []OperationFigures
	// Refused are the requests that were refused before any work, by reason, the most first.
	Refused   []Named
	Languages []Named
	Guards    []struct {
		Direction Direction
		Latency   Latency
	}
	// Exchanges are the texts that another service has scored, by outcome.
	Exchanges []Named
	Compared  []CompareFigures
	Distances []DistanceFigures
	Store     StoreState
	// Commands are what the server of a shared store took; its count is 0 without one.
	Commands Latency
}

// Traffic returns the throughput.
func (m *Metrics) Traffic() Traffic {
	if m == nil {
		return Traffic{}
	}
	now := time.Now()
	return Traffic{Requests: m.requestRate.rate(now, m.began), Messages: m.messageRate.rate(now, m.began)}
}

// Sites returns the counts by guard and host.
func (m *Metrics) Sites() *Sites { return &m.sites }

// Figures reads the collectors.
func (m *Metrics) Figures() (Figures, error) {
	shown := Figures{Since: m.began, Traffic: m.Traffic()}
	if m.room != nil {
		shown.Store = m.room()
	}
	registry := prometheus.NewRegistry()
	for _, collector := range []prometheus.Collector{
		m.requests, m.durations, m.languages, m.refused, m.guardDurations, m.exchanges, m.agreement, m.differences,
		commands,
	} {
		if err := registry.Register(collector); err != nil {
			return shown, err
		}
	}
	families, err := registry.Gather()
	if err != nil {
		return shown, err
	}
	gathered := map[string][]*dto.Metric{}
	for _, family := range families {
		gathered[family.GetName()] = family.GetMetric()
	}
	shown.read(gathered)
	return shown, nil
}

// read fills in what the collectors have.
func (f *Figures) read(gathered map[string][]*dto.Metric) {
	const prefix = "caddy_moderation_"
	operations := map[string]*OperationFigures{}
	for _, metric := range gathered[prefix+"requests_total"] {
		name, outcome := label(metric, "operation"), Outcome(label(metric, "outcome"))
		if operations[name] == nil {
			operations[name] = &OperationFigures{Name: name, Outcomes: map[Outcome]int64{}}
		}
		n := int64(metric.GetCounter().GetValue())
		operations[name].Outcomes[outcome] += n
		operations[name].Total += n
	}
	for _, metric := range gathered[prefix+"duration_seconds"] {
		if operation := operations[label(metric, "operation")]; operation != nil {
			operation.Latency = latencyOf(metric.GetHistogram())
		}
	}
	for _, operation := range operations {
		f.Operations = append(f.Operations, *operation)
	}
	slices.SortFunc(f.Operations, func(a, b OperationFigures) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name))
	})
	f.Refused = named(gathered[prefix+"refused_total"], "reason")
	f.Languages = named(gathered[prefix+"languages_total"], "language")
	f.Exchanges = named(gathered[prefix+"compare_exchanges_total"], "outcome")
	for _, metric := range gathered[prefix+"guard_duration_seconds"] {
		f.Guards = append(f.Guards, struct {
			Direction Direction
			Latency   Latency
		}{Direction(label(metric, "direction")), latencyOf(metric.GetHistogram())})
	}
	for _, metric := range gathered[prefix+"store_command_seconds"] {
		f.Commands = latencyOf(metric.GetHistogram())
	}
	f.readCompared(gathered[prefix+"compare_total"])
	for _, metric := range gathered[prefix+"compare_difference"] {
		if h := metric.GetHistogram(); h.GetSampleCount() > 0 {
			f.Distances = append(f.Distances, DistanceFigures{
				Attribute: label(metric, "attribute"), Count: int64(h.GetSampleCount()),
				Mean: h.GetSampleSum() / float64(h.GetSampleCount()),
			})
		}
	}
}

// readCompared fills in the comparisons with another service, by attribute and threshold.
func (f *Figures) readCompared(metrics []*dto.Metric) {
	type row struct {
		attribute string
		threshold float64
	}
	rows := map[row]*CompareFigures{}
	for _, metric := range metrics {
		threshold, err := strconv.ParseFloat(label(metric, "threshold"), 64)
		if err != nil {
			continue
		}
		at := row{label(metric, "attribute"), threshold}
		if rows[at] == nil {
			rows[at] = &CompareFigures{Attribute: at.attribute, Threshold: at.threshold}
		}
		n := int64(metric.GetCounter().GetValue())
		switch label(metric, "above") {
		case "both":
			rows[at].Both += n
		case "theirs":
			rows[at].Theirs += n
		case "ours":
			rows[at].Ours += n
		default:
			rows[at].Neither += n
		}
	}
	for _, one := range rows {
		f.Compared = append(f.Compared, *one)
	}
	slices.SortFunc(f.Compared, func(a, b CompareFigures) int {
		return cmp.Or(cmp.Compare(a.Attribute, b.Attribute), cmp.Compare(a.Threshold, b.Threshold))
	})
}

// label returns the value of a label.
func label(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// named returns the sums of counters by a label, the largest first.
func named(metrics []*dto.Metric, name string) (all []Named) {
	sums := map[string]int64{}
	for _, metric := range metrics {
		sums[label(metric, name)] += int64(metric.GetCounter().GetValue())
	}
	for name, n := range sums {
		all = append(all, Named{name, n})
	}
	slices.SortFunc(all, func(a, b Named) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// latencyOf returns the quantiles of a histogram of seconds.
func latencyOf(h *dto.Histogram) Latency {
	l := Latency{Count: int64(h.GetSampleCount())}
	for share, to := range map[float64]*time.Duration{.5: &l.P50, .95: &l.P95, .99: &l.P99} {
		seconds, over := quantile(h, share)
		*to = time.Duration(seconds * float64(time.Second))
		l.Over = l.Over || over
	}
	return l
}

// quantile returns the value below which a share of the values of a histogram lie, as Prometheus estimates it. over
// says that it is beyond the last bucket, whose end it is then.
func quantile(h *dto.Histogram, share float64) (value float64, over bool) {
	rank := share * float64(h.GetSampleCount())
	low, before := 0.0, 0.0
	if rank == 0 {
		return 0, false
	}
	for _, bucket := range h.GetBucket() {
		high, until := bucket.GetUpperBound(), float64(bucket.GetCumulativeCount())
		if math.IsInf(high, 1) {
			break
		}
		if until >= rank && until > before {
			return low + (high-low)*(rank-before)/(until-before), false
		}
		low, before = high, until
	}
	return low, true
}
