// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

func withLease(n int) func(*Options) { return func(o *Options) { o.Lease = n } }

// TestLeasesConform runs the conformance suite on a node that has leases: alone it counts as exactly as without.
func TestLeasesConform(t *testing.T) {
	t.Parallel()
	o := standalone(t)
	o.Lease = 5
	storagetest.Run(t, opener(o))
}

func TestLeasesHaveTheProperties(t *testing.T) {
	t.Parallel()
	o := standalone(t)
	o.Lease = 3
	storagetest.RunProperties(t, opener(o))
}

// TestLeasesNeverExceedALimit races with three nodes for a limit. No more are admitted, and at most a block for each
// node fewer; what was held is given back and can be had.
func TestLeasesNeverExceedALimit(t *testing.T) {
	t.Parallel()
	const block, limit = 50, 1000
	server := redistest.Run(t, redistest.Options{})
	var stores []*Store
	for range 3 {
		stores = append(stores, openAt(t, server.Addr(), withLease(block)))
	}
	for _, s := range stores {
		eventually(t, "three nodes live", func() bool { return s.counters.live.Load() == 3 })
	}
	c := chargeOf("a", 1, quota.Limits{RequestsPerMonth: limit, RequestsPerMinute: 2 * limit})
	n := admittedBy(t, 3*limit, c, stores...)
	if n > limit || n < limit-3*block {
		t.Errorf("got %d admitted, want %d, or fewer by less than %d for each of 3 nodes", n, limit, block)
	}
	eventually(t, "what is held is given back and can be had", func() bool {
		n += admittedBy(t, 10, c, stores...)
		return n >= limit
	})
	if n != limit {
		t.Errorf("got %d admitted in the end, want %d", n, limit)
	}
	for _, s := range stores {
		must(t, s.Close())
	}
	totalOf(t, openAt(t, server.Addr()), "a").check(t, "in the end", limit, limit, 0)
}

// TestLeasesAreGivenBack takes one request on a node with leases.
func TestLeasesAreGivenBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Run(t, redistest.Options{})
	other := openAt(t, server.Addr())
	for name, test := range map[string]struct {
		after func(t *testing.T, s *Store, c quota.Charge)
		// What the other node sees then, at least and at most.
		least, most int64
	}{
		"not yet":        {func(*testing.T, *Store, quota.Charge) {}, 1, 50},
		"on closing":     {func(t *testing.T, s *Store, _ quota.Charge) { must(t, s.Close()) }, 1, 1},
		"after a second": {func(*testing.T, *Store, quota.Charge) { time.Sleep(leaseTime + time.Second) }, 1, 1},
		"for reading": {func(t *testing.T, s *Store, c quota.Charge) {
			totalOf(t, s, c.Account).check(t, "on the node itself", 1, 1, 0)
		}, 1, 1},
		"for another minute": {func(t *testing.T, s *Store, c quota.Charge) {
			c.Now = c.Now.Add(time.Minute)
			_, _, err := s.Take(ctx, c)
			must(t, err)
			must(t, s.Close())
		}, 1, 1},
		"for a lower limit": {func(t *testing.T, s *Store, c quota.Charge) {
			c.Limits.RequestsPerMonth = 1
			if _, refused, err := s.Take(ctx, c); err != nil || refused != quota.MonthWindow {
				t.Errorf("with a limit of 1: refused by %q, %v; want %q", refused, err, quota.MonthWindow)
			}
		}, 1, 1},
		"by a crash": {func(_ *testing.T, s *Store, _ quota.Charge) { s.link.close() }, 1, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, server.Addr(), withLease(50))
			c := chargeOf("account-"+name[:3]+name[len(name)-3:], 1, quota.Limits{RequestsPerMonth: 10_000})
			counts, _, err := s.Take(ctx, c)
			must(t, err)
			if counts != (quota.Counts{Minute: 1, Day: 1, Period: 1}) {
				t.Errorf("the first call: got %+v, want 1 each", counts)
			}
			test.after(t, s, c)
			got, err := other.Counts(ctx, c.Account, noon, march)
			must(t, err)
			if got.Minute < test.least || got.Minute > test.most {
				t.Errorf("another node sees %+v, want %d to %d in the minute", got, test.least, test.most)
			}
		})
	}
}

// TestALeaseOfADeletedAccountEnds guards against calls that a node admits from memory for an account that it deleted.
func TestALeaseOfADeletedAccountEnds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openAt(t, redistest.Run(t, redistest.Options{}).Addr(), withLease(50))
	must(t, s.CreateAccount(ctx, quota.Account{ID: "a", Incarnation: "first"}))
	c := chargeOf("a", 1, quota.Limits{})
	c.Incarnation = "first"
	_, _, err := s.Take(ctx, c)
	must(t, err)
	must(t, s.DeleteAccount(ctx, "a"))
	if _, _, err := s.Take(ctx, c); err == nil {
		t.Error("a call of a deleted account was admitted")
	}
}
