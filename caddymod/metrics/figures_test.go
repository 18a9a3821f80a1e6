// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestRates guards against throughput that counts what is long past, the present second, or less than there was.
func TestRates(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_800_000_000, 0)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		events     []int // their seconds
		now, start int
		want       Rate
	}{
		"nothing":                         {nil, 100, 0, Rate{}},
		"one in the present second":       {[]int{100}, 100, 0, Rate{}},
		"one a second for a long time":    {through(0, 7199), 7200, 0, Rate{1, 1}},
		"sixty an hour ago":               {through(0, 59), 3660, 0, Rate{}},
		"one that is just within an hour": {[]int{60}, 3660, 0, Rate{0, 1.0 / 3600}},
		"a start just now":                {[]int{0, 1, 1, 2}, 3, 0, Rate{4.0 / 3, 4.0 / 3}},
		"after an hour of silence":        {[]int{0, 0, 0, 3600}, 3601, 0, Rate{1.0 / 60, 1.0 / 3600}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := new(ring)
			for _, second := range test.events {
				r.add(at(second))
			}
			got := r.rate(at(test.now), at(test.start))
			if math.Abs(got.Minute-test.want.Minute) > 1e-9 || math.Abs(got.Hour-test.want.Hour) > 1e-9 {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// through returns the numbers from one to another.
func through(first, last int) (all []int) {
	for i := first; i <= last; i++ {
		all = append(all, i)
	}
	return all
}

// TestRingCountsAll guards against events that are lost when several happen at once.
func TestRingCountsAll(t *testing.T) {
	t.Parallel()
	r := new(ring)
	now := time.Unix(1_800_000_000, 0)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 1000 {
				r.add(now)
			}
		})
	}
	wait.Wait()
	if got := r.sum(now.Add(time.Second), 60); got != 8000 {
		t.Errorf("got %d events, want 8000", got)
	}
}

// TestQuantiles guards against latencies that are those of another bucket.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values []float64
		share  float64
		want   float64
		over   bool
	}{
		"nothing":            {nil, .5, 0, false},
		"all in the first":   {[]float64{.5, .5}, .5, .5, false},
		"the last of four":   {[]float64{.5, .5, .5, 3}, .99, 3.92, false},
		"beyond all buckets": {[]float64{.5, 100}, .99, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			histogram := prometheus.NewHistogram(prometheus.HistogramOpts{
				Name: "test", Help: "A test.", Buckets: []float64{1, 2, 4},
			})
			for _, value := range test.values {
				histogram.Observe(value)
			}
			var metric dto.Metric
			if err := histogram.Write(&metric); err != nil {
				t.Fatal(err)
			}
			got, over := quantile(metric.GetHistogram(), test.share)
			if math.Abs(got-test.want) > 1e-6 || over != test.over {
				t.Errorf("got %v (beyond: %t), want %v (beyond: %t)", got, over, test.want, test.over)
			}
		})
	}
}

// TestHostsAreBounded guards against clients that fill the memory with names, and against names that are one host's and
// counted apart.
func TestHostsAreBounded(t *testing.T) {
	t.Parallel()
	var sites Sites
	g := NewGuarded()
	sites.Join(g, Site{Place: "a", Hosts: []string{"Shop.example", "*.wild.example"}})
	for i := range 10 * maxHosts {
		g.Count(fmt.Sprintf("h%d.example:80", i), GuardApprove, nil)
	}
	for _, host := range []string{"shop.example", "SHOP.example:443", "shop.example."} {
		g.Count(host, GuardReject, []string{"hate"})
	}
	g.Count(strings.Repeat("a", 10_000), GuardApprove, nil)
	counts, _ := g.Counts()
	if len(counts.Hosts) > maxHosts+1 || counts.Total.Seen != 10*maxHosts+4 {
		t.Errorf("got %d hosts with %d messages", len(counts.Hosts), counts.Total.Seen)
	}
	shop := counts.Hosts[0]
	if shop.Host != "shop.example" || shop.Seen != 3 || shop.Refused() != 3 || shop.Flagged["hate"] != 3 {
		t.Errorf("got %+v, want the host that the configuration names", shop)
	}
	if last := counts.Hosts[len(counts.Hosts)-1]; last.Host != OtherHosts || last.Seen == 0 {
		t.Errorf("got %+v, want all others at the end", last)
	}
}

// TestSitesOutliveConfigurations guards against counts that begin anew with each reload, and against those of guards
// that are no more.
func TestSitesOutliveConfigurations(t *testing.T) {
	t.Parallel()
	var sites Sites
	old, fresh, later := NewGuarded(), NewGuarded(), NewGuarded()
	sites.Join(old, Site{Place: "a"})
	old.Count("x.example", GuardReject, nil)
	sites.Join(fresh, Site{Place: "a", Shadow: true})
	sites.Leave(old)
	fresh.Count("x.example", GuardShadowReject, nil)
	counts, _ := fresh.Counts()
	if counts.Total.Refused() != 1 || counts.Total.ShadowReject() != 1 || !counts.Shadow {
		t.Errorf("after a reload: got %+v", counts)
	}
	sites.Leave(fresh)
	sites.Leave(NewGuarded()) // one without a place
	sites.Join(later, Site{Place: "a"})
	if counts, _ := later.Counts(); counts.Total.Seen != 0 || len(sites.byPlace) != 1 {
		t.Errorf("after a while without the guard: got %+v", counts)
	}
	if _, ok := NewGuarded().Counts(); ok {
		t.Error("a guard without a place has counts")
	}
	(*Guarded)(nil).Count("x.example", GuardReject, nil)
}
