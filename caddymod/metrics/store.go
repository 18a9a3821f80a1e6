// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StoreState is what the metrics say about the open store, beside its health.
type StoreState struct {
	// Open says that a store is open. Nothing else holds without it.
	Open bool
	// ReadOnly says that the store takes no changes because it is being moved.
	ReadOnly bool
	// Mode is how the store works now, one of [Modes], if several nodes share it; otherwise it is empty.
	Mode string
	// Failures is how often the store has failed and recovered by itself since it was opened.
	Failures uint64
	// RoomKnown says that Used and Free hold: in bytes, what the store takes on its disk, and what is left there.
	RoomKnown  bool
	Used, Free uint64
}

// Modes are the modes of a store that several nodes share: a bounded label.
var Modes = []string{"normal", "local", "deny", "allow"}

// commands are the times that the server of a shared store took. They live as long as the process, like the store.
var commands = prometheus.NewHistogram(prometheus.HistogramOpts{
	Namespace: "caddy", Subsystem: "moderation", Name: "store_command_seconds",
	Help:    "Time from sending a command to the server of the store to its answer. Absent without such a server.",
	Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
})

// StoreCommand counts a command that the server of a shared store has answered.
func StoreCommand(took time.Duration) { commands.Observe(took.Seconds()) }

// lastBackup is when the last whole backup was taken from this process, in Unix nanoseconds; 0 without one.
var lastBackup atomic.Int64

// BackedUp notes that a whole backup was taken.
func BackedUp(at time.Time) { lastBackup.Store(at.UnixNano()) }

// RegisterStore registers the metrics about the store's room and failures, the last backup, and the server's clock.
// state is called whenever they are collected, and must not wait for a disk.
func RegisterStore(registry prometheus.Registerer, state func() StoreState) error {
	return registerStore(registry, newStoreCollector(state))
}

// registerStore registers a collector unless there is one.
func registerStore(registry prometheus.Registerer, c *storeCollector) error {
	err := registry.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if _, ours := already.ExistingCollector.(*storeCollector); ours {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// storeCollector collects what [RegisterStore] says. It holds nothing: all of it lives longer than a configuration.
type storeCollector struct {
	state func() StoreState
	// kept says that [Keep] has registered it, with a registry whose configuration may be one without the app: then
	// nothing is collected once no configuration uses the app.
	kept                                               bool
	failures, used, free, mode, backup, time, readOnly *prometheus.Desc
}

func newStoreCollector(state func() StoreState) *storeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("caddy", "moderation", name), help, labels, nil)
	}
	return &storeCollector{
		state: state,
		failures: desc("store_failures_total",
			"Times that the store failed and had to recover: its process died, its disk did not answer or refused."),
		readOnly: desc("store_read_only",
			"1 while the store takes no changes because everything is moved to another one, otherwise 0."),
		used: desc("store_bytes", "Bytes that the store takes on its disk. Absent while the disk does not answer."),
		free: desc("store_free_bytes",
			"Bytes that are free on the store's file system. Absent while the disk does not answer."),
		mode: desc("store_mode",
			"1 for the mode in which a store that several nodes share works now, 0 for the others. "+
				"Absent without such a store.", "mode"),
		backup: desc("backup_last_success_timestamp_seconds",
			"Unix time of the last whole backup taken from this process. Absent before the first."),
		time: desc("time_seconds", "Unix time by the server's clock, by which limits and bills are counted."),
	}
}

// Describe implements [prometheus.Collector].
func (c *storeCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.failures, c.used, c.free, c.mode, c.backup, c.time, c.readOnly} {
		to <- desc
	}
	commands.Describe(to)
}

// Collect implements [prometheus.Collector].
func (c *storeCollector) Collect(to chan<- prometheus.Metric) {
	if _, used := pool.References(poolKey); c.kept && !used {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	gauge(c.time, float64(time.Now().UnixMilli())/1000)
	if at := lastBackup.Load(); at != 0 {
		gauge(c.backup, float64(time.Unix(0, at).UnixMilli())/1000)
	}
	state := c.state()
	if !state.Open {
		return
	}
	to <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(state.Failures))
	readOnly := 0.0
	if state.ReadOnly {
		readOnly = 1
	}
	gauge(c.readOnly, readOnly)
	if state.RoomKnown {
		gauge(c.used, float64(state.Used))
		gauge(c.free, float64(state.Free))
	}
	if state.Mode == "" {
		return
	}
	for _, mode := range Modes {
		value := 0.0
		if mode == state.Mode {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(c.mode, prometheus.GaugeValue, value, mode)
	}
	commands.Collect(to)
}

// Interface guard
var _ prometheus.Collector = (*storeCollector)(nil)
