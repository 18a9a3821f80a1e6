// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/redis"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// BenchmarkRequest takes and settles as requests do, with one caller and with 64, on Redis and on Badger. P50 and p99 are
// of one call's take and settle. Of the outcomes, one in ten has a flagged category; Redis is not told of the others.
func BenchmarkRequest(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, accounts := range []int{1, 1000} {
			for name, open := range map[string]func(*testing.B) storage.Store{
				"redis":           func(b *testing.B) storage.Store { return openRedis(b, 0) },
				"redis, lease 50": func(b *testing.B) storage.Store { return openRedis(b, 50) },
				"badger": func(b *testing.B) storage.Store {
					s, err := badger.Open(badger.Options{Dir: b.TempDir()})
					if err != nil {
						b.Fatal(err)
					}
					return s
				},
			} {
				b.Run(fmt.Sprintf("%d callers/%d accounts/%s", callers, accounts, name), func(b *testing.B) {
					s := open(b)
					defer s.Close()
					benchmark(b, s, callers, accounts)
				})
			}
		}
	}
}

func openStore(b testing.TB, o redis.Options) *redis.Store {
	b.Helper()
	s, err := redis.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func openRedis(b *testing.B, lease int) storage.Store {
	b.Helper()
	server := redistest.Run(b, redistest.Options{})
	return openStore(b, redis.Options{Addresses: []string{server.Addr()}, ClientClock: true, Timeout: 5 * time.Second,
		Outage: redis.Deny, Lease: lease})
}

func benchmark(b *testing.B, s storage.Store, callers, accounts int) {
	b.Helper()
	ctx := context.Background()
	now := time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)
	charges := make([]quota.Charge, accounts)
	for i := range charges {
		id := fmt.Sprintf("account-%04d", i)
		charges[i] = quota.Charge{Account: id, Key: "key_" + id, Requests: 1, Now: now, Period: quota.PeriodOf(0, now),
			Limits: quota.Limits{RequestsPerMonth: 1 << 40, RequestsPerMinute: 1 << 40}}
	}
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				begun := time.Now()
				c := charges[i%len(charges)]
				_, _, err := s.Take(ctx, c)
				if err == nil {
					o := quota.Outcome{}
					if i%10 == 0 {
						o.Flagged = []string{"hate"}
					}
					err = s.Settle(ctx, c, o)
				}
				if err != nil {
					b.Errorf("a call: got the error %v, want none", err)
					return
				}
				took[i] = time.Since(begun)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
