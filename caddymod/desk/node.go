// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/version"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/nodes"
)

// nodeBody is what the page of this node shows.
type nodeBody struct {
	metrics.Figures
	Ready  bool
	Mode   app.Mode
	Reason string
	// Kind is the storage module, empty without a store, and Outage what happens while its server is gone.
	Kind, Outage           string
	Program, Caddy, Engine string
	Go                     string
	Reads                  []string // languages
	CPUs, Goroutines       int64
	Memory                 string
	Failures               int64 // of the store
	Uptime                 string
	Stream                 string
	Rows                   []operationRow
	Guarded                []latencyRow
	StoreCommands          latencyRow
	Distances              map[string]metrics.DistanceFigures
	// Nodes are the processes that use the store, nil when they cannot be read.
	Nodes []nodeRow
}

// nodeRow is a process that uses the store.
type nodeRow struct {
	nodes.Node
	// This is the process that answers, and Gone one that has not been seen for a while.
	This, Gone bool
	// Other says that its versions are not those of this process.
	Other bool
}

// nodesOf returns the processes that use the store.
func (c *call) nodesOf(ctx context.Context) (rows []nodeRow) {
	services := c.desk.app.TryAcquire()
	if services == nil {
		return nil
	}
	defer services.Release()
	all, err := services.Nodes(ctx)
	if err != nil {
		return nil // the page is about why
	}
	for _, node := range all {
		rows = append(rows, nodeRow{
			Node: node, This: node.ID == services.Node(), Gone: node.Gone(services.Now()),
			Other: node.Program != version.Version() || node.Model != services.Engine.Version(),
		})
	}
	return rows
}

// latencyRow is the latency of something, as people read it.
type latencyRow struct {
	Name          string
	Count         int64
	P50, P95, P99 string
}

// operationRow is an operation with its outcomes.
type operationRow struct {
	latencyRow
	OK, Unauthorized, Limited, Invalid, Failed int64
}

// showNode shows what this process does: how much, how fast, with which store and which versions.
func showNode(c *call) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), readyTimeout)
	defer cancel()
	readiness, err := c.desk.app.Ready(ctx)
	shown := nodeBody{Ready: err == nil, Mode: readiness.Mode, Stream: c.url("node", "traffic")}
	if err = errors.Join(err, readiness.Trouble); err != nil {
		shown.Reason = err.Error()
	}
	if shown.Figures, err = c.desk.app.Metrics().Figures(); err != nil {
		return fmt.Errorf("reading the metrics: %w", err)
	}
	shown.Failures = int64(min(shown.Store.Failures, math.MaxInt64))
	shown.Kind, shown.Outage = c.desk.app.StoreKind()
	shown.Program, shown.Engine, shown.Go = version.Version(), c.desk.app.Engine().Version(), runtime.Version()
	shown.Caddy, _ = caddy.Version()
	shown.Reads = c.desk.app.Engine().Languages()
	shown.CPUs, shown.Goroutines = int64(runtime.GOMAXPROCS(0)), int64(runtime.NumGoroutine())
	shown.Memory = c.words.bytes(memory())
	shown.Uptime = uptime(c.desk.now().Sub(shown.Since))
	for i := range shown.Operations {
		operation := &shown.Operations[i]
		shown.Rows = append(shown.Rows, operationRow{
			latencyRow: c.latency(operation.Name, operation.Latency),
			OK:         operation.Outcomes[metrics.OK], Unauthorized: operation.Outcomes[metrics.Unauthorized],
			Limited: operation.Outcomes[metrics.Limited], Invalid: operation.Outcomes[metrics.Invalid],
			Failed: operation.Outcomes[metrics.Failed],
		})
	}
	for _, guard := range shown.Guards {
		name := "moderate"
		if guard.Direction == metrics.Outbound {
			name = "moderate_response"
		}
		shown.Guarded = append(shown.Guarded, c.latency(name, guard.Latency))
	}
	shown.StoreCommands = c.latency("", shown.Commands)
	shown.Distances = map[string]metrics.DistanceFigures{}
	for _, distance := range shown.Figures.Distances {
		shown.Distances[distance.Attribute] = distance
	}
	shown.Nodes = c.nodesOf(ctx)
	c.render(http.StatusOK, page{
		Template: "node.html", Title: "node.title", Scripts: []string{"live.mjs"}, Body: &shown,
	})
	return nil
}

// streamTraffic answers with the throughput as server-sent events.
func streamTraffic(c *call) error {
	return c.stream(func(context.Context) []byte {
		data, err := json.Marshal(c.desk.app.Metrics().Traffic())
		if err != nil {
			return []byte("event: unknown\ndata: {}\n\n")
		}
		return append(append([]byte("data: "), data...), '\n', '\n')
	})
}

// latency returns a latency as people read it.
func (c *call) latency(name string, l metrics.Latency) latencyRow {
	row := latencyRow{Name: name, Count: l.Count, P50: "–", P95: "–", P99: "–"}
	if l.Count == 0 {
		return row
	}
	row.P50, row.P95, row.P99 = c.words.took(l.P50), c.words.took(l.P95), c.words.took(l.P99)
	if l.Over {
		row.P99 = "≥ " + row.P99
	}
	return row
}

// Rate returns a rate with one digit behind the point.
func (p *page) Rate(perSecond float64) string { return p.call.words.decimal(perSecond, 1) }

// Bytes returns a size.
func (p *page) Bytes(n uint64) string { return p.call.words.bytes(n) }

// Distance returns a distance of scores.
func (p *page) Distance(distance float64) string { return p.call.words.decimal(distance, 3) }

// decimal returns a number with digits behind the point.
func (w words) decimal(n float64, digits int) string {
	text := strconv.FormatFloat(n, 'f', digits, 64)
	if w.tag == "en" {
		return text
	}
	return strings.Replace(text, ".", ",", 1)
}

// took returns a duration in milliseconds.
func (w words) took(d time.Duration) string {
	ms := d.Seconds() * 1000
	digits := 2
	if ms >= 10 {
		digits = 0
	}
	return w.decimal(ms, digits) + "\u00a0ms"
}

// bytes returns a size.
func (w words) bytes(n uint64) string {
	text := strings.Replace(humanize.IBytes(n), " ", "\u00a0", 1)
	if w.tag == "en" {
		return text
	}
	return strings.Replace(text, ".", ",", 1)
}

// uptime returns how long something runs: days, hours, minutes.
func uptime(d time.Duration) string {
	minutes := int64(max(0, d).Minutes())
	return fmt.Sprintf("%d d %d h %d min", minutes/(24*60), minutes/60%24, minutes%60)
}

// memory returns how many bytes the process has from the system, without those that it has given back.
func memory() uint64 {
	samples := []runtimemetrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	runtimemetrics.Read(samples)
	for _, sample := range samples {
		if sample.Value.Kind() != runtimemetrics.KindUint64 {
			return 0
		}
	}
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
