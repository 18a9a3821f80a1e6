// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestBreaker moves a clock by hand.
func TestBreaker(t *testing.T) {
	t.Parallel()
	now := time.Duration(0)
	failure := fmt.Errorf("%w: of the test", storage.ErrUnavailable)
	c := newCircuit(func() time.Duration { return now }, 1)
	state := func(step string, open, failing bool) {
		t.Helper()
		err := c.allow()
		if (err != nil) != open || open && (!errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, errOpen)) {
			t.Errorf("%s: got %v from allow, want an error: %t", step, err, open)
		}
		if err := c.health(); (err != nil) != failing {
			t.Errorf("%s: got %v from health, want an error: %t", step, err, failing)
		}
	}
	state("at first", false, false)
	for range breaksAfter - 1 {
		c.report(failure)
		state("some failures", false, true)
	}
	c.report(nil)
	c.report(failure)
	state("failures, but not in a row", false, true)
	for range 10 * breaksAfter {
		c.report(failure)
		state("many failures at once", false, true)
	}
	now += breaksIn
	c.report(failure)
	state("failures in a row", true, true)
	select {
	case <-c.failed:
	default:
		t.Error("nobody was woken")
	}
	if got := c.wait(); got != 0 {
		t.Errorf("the first probe is due after %s, want at once", got)
	}
	for _, want := range []time.Duration{2 * firstProbe, 4 * firstProbe, 8 * firstProbe} {
		c.probedAt(0, failure)
		c.probed(failure, c.failures())
		state("a failed probe", true, true)
		if got := c.wait(); got != want {
			t.Errorf("the next probe is due after %s, want %s", got, want)
		}
		now += want
		if got := c.wait(); got != 0 {
			t.Errorf("%s later the next probe is due after %s, want now", want, got)
		}
	}
	for range 20 {
		c.probed(failure, c.failures())
	}
	if got := c.wait(); got != lastProbe {
		t.Errorf("after many probes the next one is due after %s, want %s", got, lastProbe)
	}
	before := c.failures()
	c.report(failure)
	c.probedAt(0, nil)
	c.probed(nil, before)
	state("a probe that succeeded while a command failed", false, true)
	c.probed(nil, c.failures())
	state("a probe that succeeded", false, false)
}

// TestBreakerOfACluster guards against the failure of one master that stops the calls to the others.
func TestBreakerOfACluster(t *testing.T) {
	t.Parallel()
	failure := fmt.Errorf("%w: of the test", storage.ErrUnavailable)
	now := time.Duration(0)
	c := newCircuit(func() time.Duration { return now }, 4)
	for range 3 * breaksAfter {
		now += breaksIn
		c.report(failure)
		c.reportAt(2, failure)
	}
	for i := range 4 {
		if err := c.allowAt(i); (err != nil) != (i == 2) {
			t.Errorf("part %d: got %v from allowAt, want an error of part 2 only", i, err)
		}
	}
	if err := c.allow(); err != nil {
		t.Errorf("one of four parts is open: got %v from allow, want none", err)
	}
	for i := range 4 {
		c.open(i)
	}
	if err := c.allow(); err == nil {
		t.Error("all parts are open: got no error from allow, want one")
	}
	for i := range 4 {
		c.probedAt(i, nil)
	}
	if err := c.allow(); err != nil {
		t.Errorf("all parts are closed: got %v from allow, want none", err)
	}
}

// cutOff returns a store whose server is away, after some calls: three nodes live, and 40 of 100 are used.
func cutOff(t *testing.T, policy Outage) (s *Store, proxy *redistest.Proxy, c quota.Charge) {
	t.Helper()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	proxy = redistest.RunProxy(t, server.Addr())
	s = openAt(t, proxy.Addr(), withPolicy(policy), withTimeout(500*time.Millisecond))
	for range 2 {
		openAt(t, server.Addr())
	}
	eventually(t, "three nodes live", func() bool { return s.counters.live.Load() == 3 })
	c = chargeOf("a", 1, quota.Limits{RequestsPerMonth: 100, RequestsPerMinute: 1000})
	for range 40 {
		_, _, err := s.Take(ctx, c)
		must(t, err)
	}
	proxy.Refuse()
	eventually(t, "the store does not ask", func() bool { return s.counters.circuit.allow() != nil })
	return s, proxy, c
}

// TestLocalAdmitsAShare admits a third of what is left, and counts what was acknowledged when the server is back.
func TestLocalAdmitsAShare(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, proxy, c := cutOff(t, Local)
	if mode := s.Mode(); mode != "local" {
		t.Errorf("mode: got %q, want local", mode)
	}
	if err := s.Health(); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("health: got %v, want %v", err, storage.ErrUnavailable)
	}
	// Three calls that began before end now: one is given back.
	for i := range 3 {
		must(t, s.Settle(ctx, c, quota.Outcome{Refund: i == 0, Flagged: []string{"hate"}}))
	}
	admitted := 0
	for i := range 30 {
		counts, refused, err := s.Take(ctx, c)
		must(t, err)
		if counts.Basis != quota.LocalCounts {
			t.Errorf("call %d: got the basis %q, want %q", i, counts.Basis, quota.LocalCounts)
		}
		if refused != quota.NoWindow {
			if refused != quota.MonthWindow {
				t.Errorf("call %d: refused by %q, want %q", i, refused, quota.MonthWindow)
			}
			continue
		}
		admitted++
		if want := int64(40 + admitted); counts.Period != want {
			t.Errorf("call %d: got %d in the period, want %d", i, counts.Period, want)
		}
		must(t, s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}}))
	}
	if admitted != 20 {
		t.Errorf("60 of 100 are left and there are 3 nodes: got %d admitted, want 20", admitted)
	}
	// What is given back is there again.
	must(t, s.Settle(ctx, c, quota.Outcome{Refund: true}))
	if _, refused, err := s.Take(ctx, c); err != nil || refused != quota.NoWindow {
		t.Errorf("after a refund: refused by %q, %v; want admitted", refused, err)
	}
	if _, err := s.Counts(ctx, "a", noon, march); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("reading counts: got the error %v, want %v", err, storage.ErrUnavailable)
	}
	must(t, proxy.Heal())
	well(t, s)
	// The minute keeps what is given back.
	totalOf(t, s, "a").check(t, "after healing", 40+21, 40-1+20, 3+20)
	if counts, _, err := s.Take(ctx, c); err != nil || counts != (quota.Counts{Minute: 62, Day: 60, Period: 60}) {
		t.Errorf("the first call afterwards: got %+v, %v; want 62 in the minute, 60 else, exact", counts, err)
	}
}

// TestLocalKnowsWindows guards against a share of a minute or a month that is over.
func TestLocalKnowsWindows(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, _, c := cutOff(t, Local)
	c.Limits = quota.Limits{RequestsPerMinute: 30, RequestsPerMonth: 60}
	take := func(now time.Time, want quota.Window) {
		t.Helper()
		c.Now, c.Period = now, quota.PeriodOf(0, now)
		if _, refused, err := s.Take(ctx, c); err != nil || refused != want {
			t.Errorf("at %s: refused by %q, %v; want %q", now, refused, err, want)
		}
	}
	take(noon, quota.MinuteWindow) // 40 of 30 are used
	for range 6 {
		take(noon.Add(time.Minute), quota.NoWindow)
	}
	take(noon.Add(time.Minute), quota.MonthWindow) // 20 were left in the month
	for range 10 {
		take(march.End, quota.NoWindow)
	}
	take(march.End, quota.MinuteWindow)
	// Another account is not known, and has its share of everything.
	c.Account = "b"
	for range 10 {
		take(noon, quota.NoWindow)
	}
	take(noon, quota.MinuteWindow)
	// At least one is a share while anything is left.
	c.Account, c.Limits = "c", quota.Limits{RequestsPerMonth: 2}
	take(noon, quota.NoWindow)
	take(noon, quota.MonthWindow)
}

// TestAllowAdmitsAll admits without limits, says so, and counts afterwards.
func TestAllowAdmitsAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, proxy, c := cutOff(t, Allow)
	c.Limits = quota.Limits{RequestsPerMonth: 41}
	for range 200 {
		counts, refused, err := s.Take(ctx, c)
		must(t, err)
		if refused != quota.NoWindow || counts.Basis != quota.UnknownCounts {
			t.Fatalf("got %+v, refused by %q; want admitted, of the basis %q", counts, refused, quota.UnknownCounts)
		}
		must(t, s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}}))
	}
	if mode := s.Mode(); mode != "allow" {
		t.Errorf("mode: got %q, want allow", mode)
	}
	must(t, proxy.Heal())
	well(t, s)
	totalOf(t, s, "a").check(t, "after healing", 240, 240, 200)
	if _, refused, err := s.Take(ctx, c); err != nil || refused != quota.MonthWindow {
		t.Errorf("afterwards: refused by %q, %v; want %q", refused, err, quota.MonthWindow)
	}
}

// TestDenyRefuses refuses at once while the server is away.
func TestDenyRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, proxy, c := cutOff(t, Deny)
	for range 1000 {
		if _, _, err := s.Take(ctx, c); !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("got the error %v, want %v", err, storage.ErrUnavailable)
		}
	}
	if mode := s.Mode(); mode != "deny" {
		t.Errorf("mode: got %q, want deny", mode)
	}
	must(t, proxy.Heal())
	well(t, s)
	totalOf(t, s, "a").check(t, "after healing", 40, 40, 0)
}

// TestAFailingWriterOpensTheBreaker guards against a server that refuses to write while it answers to those who read.
func TestAFailingWriterOpensTheBreaker(t *testing.T) {
	t.Parallel()
	failure := fmt.Errorf("%w: of the test", storage.ErrUnavailable)
	now := time.Duration(0)
	c := newCircuit(func() time.Duration { return now }, 1)
	for range breaksAfter {
		now += breaksIn
		c.report(failure)
		c.reportCall(0, failure)
		c.report(nil) // a reader
		c.reportAt(0, nil)
	}
	if c.allow() == nil {
		t.Error("got no error from allow, want one")
	}
}

// TestOpenWithoutAServer opens a store whose server is away, and counts when it comes.
func TestOpenWithoutAServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for policy, basis := range map[Outage]quota.Basis{
		Local: quota.LocalCounts, Allow: quota.UnknownCounts, Deny: quota.ExactCounts,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			server := redistest.Run(t, redistest.Options{})
			proxy := redistest.RunProxy(t, server.Addr())
			proxy.Refuse()
			s := openAt(t, proxy.Addr(), withPolicy(policy))
			if mode := s.Mode(); mode != string(policy) {
				t.Errorf("mode: got %q, want %q", mode, policy)
			}
			counts, _, err := s.Take(ctx, chargeOf("a", 1, quota.Limits{RequestsPerMonth: 10}))
			if (err != nil) != (policy == Deny) || counts.Basis != basis {
				t.Errorf("a call: got the basis %q, %v; want %q", counts.Basis, err, basis)
			}
			must(t, proxy.Heal())
			well(t, s)
			want := int64(1)
			if policy == Deny {
				want = 0
			}
			totalOf(t, s, "a").check(t, "when the server is there", want, want, 0)
		})
	}
}

// TestAnEmptiedServerIsAnOutage guards against calls that begin with nothing because the database was emptied.
func TestAnEmptiedServerIsAnOutage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	s := openAt(t, server.Addr(), withPolicy(Local))
	c := chargeOf("a", 1, quota.Limits{RequestsPerMonth: 100})
	for range 50 {
		_, _, err := s.Take(ctx, c)
		must(t, err)
	}
	_, err := server.Do("FLUSHALL")
	must(t, err)
	eventually(t, "the store says so", func() bool { return s.Health() != nil && s.Mode() == "local" })
	counts, _, err := s.Take(ctx, c)
	must(t, err)
	if counts.Basis != quota.LocalCounts || counts.Period != 51 {
		t.Errorf("a call: got %+v, want 51 in the period, of the basis %q", counts, quota.LocalCounts)
	}
	time.Sleep(3 * flushEvery)
	if n, err := server.Int("EXISTS", s.names.of("a", countsTable)); err != nil || n != 0 {
		t.Errorf("the emptied database has counts: %d, %v; want none", n, err)
	}
}

// TestManyKeysOfAnOutage gathers more than one change has.
func TestManyKeysOfAnOutage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, proxy, c := cutOff(t, Allow)
	want := map[string]int64{"key_a": 40}
	for i := range 3 * itemsAtOnce {
		c.Key = fmt.Sprint("key_", i%(2*itemsAtOnce))
		_, _, err := s.Take(ctx, c)
		must(t, err)
		want[c.Key]++
	}
	must(t, proxy.Heal())
	well(t, s)
	got, err := s.KeyRequests(ctx, "a", march)
	must(t, err)
	if len(got) != len(want) || got["key_0"] != want["key_0"] || got["key_150"] != want["key_150"] {
		t.Errorf("requests by key: got %v, want %v", got, want)
	}
	if counts, err := s.Counts(ctx, "a", noon, march); err != nil || counts.Period != 40+3*itemsAtOnce {
		t.Errorf("counts: got %+v, %v; want %d in the period", counts, err, 40+3*itemsAtOnce)
	}
}
