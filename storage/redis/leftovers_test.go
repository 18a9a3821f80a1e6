// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestTheNextStoreTellsWhatOneCouldNot: a store is replaced in an outage that only its successor ends, as by a reload
// with a new password. What was acknowledged meanwhile is counted once, and a store of another database takes nothing.
func TestTheNextStoreTellsWhatOneCouldNot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server, other := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	left := new(Leftovers)
	sharing := func(o *Options) { o.Leftovers = left }
	first := openAt(t, proxy.Addr(), withPolicy(Local), withTimeout(100*time.Millisecond), sharing)
	charges := []quota.Charge{
		chargeOf("a", 1, quota.Limits{RequestsPerMonth: 100}), chargeOf("b", 1, quota.Limits{RequestsPerMonth: 100}),
	}
	ask := func(s *Store, times int) {
		t.Helper()
		for range times {
			for _, c := range charges {
				_, refused, err := s.Take(ctx, c)
				must(t, err)
				if refused != quota.NoWindow {
					t.Fatalf("got refused by %q, want admitted", refused)
				}
				must(t, s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}}))
			}
		}
	}
	ask(first, 3)
	proxy.Refuse()
	ask(first, 5)
	second := openAt(t, server.Addr(), withPolicy(Local), sharing)
	ask(second, 2)
	if err := first.Close(); err == nil {
		t.Error("closing a store with what it could not tell: got no error, want one")
	}
	third := openAt(t, other.Addr(), withPolicy(Local), sharing)
	for _, account := range []string{"a", "b"} {
		eventually(t, "the next store tells it", func() bool {
			return totalOf(t, second, account).Counts.Period == 10
		})
		totalOf(t, second, account).check(t, "the same database", 10, 10, 10)
		totalOf(t, third, account).check(t, "another database", 0, 0, 0)
	}
}
