// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
)

// gathered returns the values of the metrics of a registry, by name.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if n := len(family.GetMetric()); n != 1 {
			t.Errorf("%s: got %d series, want 1", family.GetName(), n)
		}
		m := family.GetMetric()[0]
		values[family.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return values
}

// TestStoreMetrics guards against series that stand for nothing: a store that does not exist, or room that nobody
// knows.
func TestStoreMetrics(t *testing.T) {
	t.Parallel()
	const failures, used, free = "caddy_moderation_store_failures_total", "caddy_moderation_store_bytes",
		"caddy_moderation_store_free_bytes"
	for name, test := range map[string]struct {
		state metrics.StoreState
		want  map[string]float64
	}{
		"no store": {metrics.StoreState{Failures: 3, RoomKnown: true, Used: 1, Free: 1}, nil},
		"a store whose disk does not answer": {
			metrics.StoreState{Open: true, Failures: 3}, map[string]float64{failures: 3},
		},
		"a store on a full disk": {
			metrics.StoreState{Open: true, RoomKnown: true, Used: 5 << 20},
			map[string]float64{failures: 0, used: 5 << 20, free: 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewPedanticRegistry()
			if err := metrics.RegisterStore(registry, func() metrics.StoreState { return test.state }); err != nil {
				t.Fatal(err)
			}
			got := gathered(t, registry)
			for _, name := range []string{failures, used, free} {
				value, ok := got[name]
				if want, wanted := test.want[name]; ok != wanted || value != want {
					t.Errorf("%s: got %v (there: %t), want %v (there: %t)", name, value, ok, want, wanted)
				}
			}
			if now := float64(time.Now().Unix()); got["caddy_moderation_time_seconds"] > now+1 ||
				got["caddy_moderation_time_seconds"] < now-3600 {
				t.Errorf("the clock: got %v, want about %v", got["caddy_moderation_time_seconds"], now)
			}
		})
	}
}

// TestStoreMetricsAreRegisteredOnce guards against a configuration that cannot start because two apps share a registry.
func TestStoreMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	none := func() metrics.StoreState { return metrics.StoreState{} }
	for range 2 {
		if err := metrics.RegisterStore(registry, none); err != nil {
			t.Errorf("registering: got error %v, want none", err)
		}
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "caddy_moderation_time_seconds", Help: "Unix time by the server's clock, by which limits and bills are counted.",
	}))
	if err := metrics.RegisterStore(taken, none); err == nil {
		t.Error("registering a name that somebody else has: got no error")
	}
}
