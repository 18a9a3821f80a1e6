// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// admitted takes with many callers over some stores and returns how many calls were admitted.
func admittedBy(t *testing.T, tries int, c quota.Charge, stores ...*Store) int64 {
	t.Helper()
	var n atomic.Int64
	var wg sync.WaitGroup
	for i := range tries {
		wg.Go(func() {
			_, refused, err := stores[i%len(stores)].Take(context.Background(), c)
			if err != nil {
				t.Errorf("Take: got the error %v, want none", err)
			}
			if err == nil && refused == quota.NoWindow {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// TestNodesAdmitExactlyTheLimit races for the last requests over several nodes.
func TestNodesAdmitExactlyTheLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	stores := []*Store{openAt(t, server.Addr()), openAt(t, server.Addr()), openAt(t, server.Addr())}
	for name, limits := range map[string]quota.Limits{
		"minute": {RequestsPerMinute: 50}, "month": {RequestsPerMonth: 100},
		"both": {RequestsPerMinute: 50, RequestsPerMonth: 50},
	} {
		want := max(limits.RequestsPerMinute, limits.RequestsPerMonth)
		if n := admittedBy(t, 500, chargeOf(name, 1, limits), stores...); n != want {
			t.Errorf("%s: got %d admitted, want %d", name, n, want)
		}
	}
}

// TestCountsBeyondFloatingPoint admits exactly a limit that no floating point number can tell from its neighbors.
func TestCountsBeyondFloatingPoint(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	s := openAt(t, server.Addr())
	const limit = 1<<61 + 3
	limits := quota.Limits{RequestsPerMonth: limit, RequestsPerMinute: limit}
	for i, step := range []struct {
		n       int64
		want    int64
		refused quota.Window
	}{
		{1 << 61, 1 << 61, quota.NoWindow},
		{4, 1 << 61, quota.MonthWindow},
		{2, 1<<61 + 2, quota.NoWindow},
		{2, 1<<61 + 2, quota.MonthWindow},
		{1, limit, quota.NoWindow},
		{1, limit, quota.MonthWindow},
		{1<<62 - 1, limit, quota.MonthWindow},
	} {
		counts, refused, err := s.Take(ctx, chargeOf("a", step.n, limits))
		must(t, err)
		want := quota.Counts{Minute: step.want, Day: step.want, Period: step.want}
		if counts != want || refused != step.refused {
			t.Errorf("step %d: got %+v, refused by %q; want %+v, %q", i, counts, refused, want, step.refused)
		}
	}
	must(t, s.Settle(ctx, chargeOf("a", 1<<61+1, limits), quota.Outcome{Refund: true}))
	totalOf(t, s, "a").check(t, "after a refund", limit, 2, 0)
}

// TestNodesWithWrongClocks has nodes whose clocks differ by ten minutes charge the minute that the server has.
func TestNodesWithWrongClocks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	admitted := int64(0)
	begun := time.Now()
	account := quota.Account{ID: "a", Tier: "free", Status: quota.Active}
	for _, wrong := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		s := openAt(t, server.Addr(), func(o *Options) { o.ClientClock = false })
		// As if the machine's clock had been this wrong when the store was opened.
		s.link.clock.estimate.Store(&estimate{monotonic(),
			time.Duration(time.Now().Add(wrong-time.Second).UnixNano()) - monotonic(),
			time.Duration(time.Now().Add(wrong+time.Second).UnixNano()) - monotonic()})
		gate, err := quota.New(quota.Options{Store: s, Now: s.Now, Accounts: []quota.Account{account},
			Tiers: map[string]quota.Limits{"free": {RequestsPerMinute: 5}}})
		must(t, err)
		who, err := gate.Identify(ctx, "a")
		must(t, err)
		for range 4 {
			d, err := gate.Admit(ctx, who, 1)
			must(t, err)
			if d.Refused == quota.NoWindow {
				admitted++
			}
			if off := time.Until(d.Now); off.Abs() > 2*time.Second {
				t.Errorf("a node whose clock is wrong by %s: a call is %s off, want the server's time", wrong, off)
			}
		}
	}
	if time.Now().Truncate(time.Minute).Equal(begun.Truncate(time.Minute)) && admitted != 5 {
		t.Errorf("in one minute: got %d admitted, want 5", admitted)
	}
}

// TestAnotherMinuteIsRefused guards against a charge in a minute that is not the server's.
func TestAnotherMinuteIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	s := openAt(t, server.Addr(), func(o *Options) { o.ClientClock = false })
	c := chargeOf("a", 1, quota.Limits{})
	for _, now := range []time.Time{noon, time.Now().Add(2 * time.Minute), time.Now().Add(-2 * time.Minute)} {
		c.Now, c.Period = now, quota.PeriodOf(0, now)
		_, _, err := s.Take(context.Background(), c)
		if !errors.Is(err, quota.ErrOtherMinute) || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("a charge at %s: got the error %v, want %v", now, err, quota.ErrOtherMinute)
		}
	}
	totalOf(t, s, "a").check(t, "afterwards", 0, 0, 0)
	if off := time.Until(s.Now()); off.Abs() > time.Second {
		t.Errorf("the store's clock is %s off the server's, which is this machine's", off)
	}
}

// TestClockFollowsTheServer feeds an estimate with answers.
func TestClockFollowsTheServer(t *testing.T) {
	t.Parallel()
	var c serverClock
	ahead := func() time.Duration { return c.now().Sub(time.Unix(1000, 0).Add(monotonic())) }
	near := func(step string, want, by time.Duration) {
		t.Helper()
		if got := ahead(); (got - want).Abs() > by {
			t.Errorf("%s: the clock is %s ahead, want %s, give or take %s", step, got, want, by)
		}
	}
	at := func(sent, received, server time.Duration) {
		c.observe(sent, received, time.Unix(1000, 0).Add(server), time.Microsecond)
	}
	now := monotonic()
	at(now-100*time.Millisecond, now, now-10*time.Millisecond)
	near("a slow answer", 0, 100*time.Millisecond)
	at(now-2*time.Millisecond, now, now-time.Millisecond)
	near("a quick answer", 0, 2*time.Millisecond)
	at(now-100*time.Millisecond, now, now-90*time.Millisecond)
	near("a slow answer that agrees", 0, 2*time.Millisecond)
	at(now-2*time.Millisecond, now, now+time.Hour)
	near("the server's clock was set", time.Hour, 2*time.Millisecond)
}

// TestCountsStayExactWhileSlotsMove moves the slot of an account, key by key, to and fro under load.
func TestCountsStayExactWhileSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1})
	open := func() *Store {
		return openAt(t, cluster.Nodes[0].Addr(), withTimeout(5*time.Second), func(o *Options) {
			o.Topology, o.Addresses = Cluster, cluster.Addrs()
		})
	}
	stores := []*Store{open(), open()}
	var l ledger
	stop := l.load(t, 6, stores...)
	l.more(t, 50)
	slot := redistest.Slot("{a:a}")
	for round := range 4 {
		must(t, cluster.MoveSlot(slot, cluster.Nodes[round%3], func() { time.Sleep(20 * time.Millisecond) }))
		l.more(t, 50)
	}
	stop()
	for _, s := range stores {
		well(t, s)
	}
	if failed := l.failed.Load(); failed > 0 {
		t.Errorf("got %d failed calls while slots were moved, want none; the last one: %v", failed, *l.last.Load())
	}
	l.check(t, stores[0])
}

// TestPartsOfACluster checks slots against those that the cluster's package of tests computes.
func TestPartsOfACluster(t *testing.T) {
	t.Parallel()
	n := newNames("mod")
	for _, account := range []string{"a", "acme", "x-1.y_2"} {
		if got, want := slot("a:"+account), redistest.Slot(n.of(account, countsTable)); got != want {
			t.Errorf("the slot of %s: got %d, want %d", account, got, want)
		}
	}
	for i, name := range probes(n, clusterParts) {
		if got := redistest.Slot(name) * clusterParts / clusterSlots; got != i {
			t.Errorf("the probe of part %d is in part %d", i, got)
		}
	}
}

// TestNodesAreCounted opens and closes nodes.
func TestNodesAreCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	first, second := openAt(t, server.Addr()), openAt(t, server.Addr())
	eventually(t, "both know of two nodes", func() bool {
		return first.counters.live.Load() == 2 && second.counters.live.Load() == 2
	})
	must(t, second.Close())
	eventually(t, "one node is left", func() bool { return first.counters.live.Load() == 1 })
}
