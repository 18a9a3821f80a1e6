// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// BenchmarkRequest takes and settles with 64 callers, as requests do, on a database in a process of its own and in
// this one. p50 and p99 are of one call's take and settle.
func BenchmarkRequest(b *testing.B) {
	now := time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)
	for _, test := range []struct {
		name     string
		accounts int
		keys     int // of each account
		here     bool
	}{
		{"one account", 1, 1, false},
		{"one account in process", 1, 1, true},
		{"1000 accounts", 1000, 1, false},
		{"1000 accounts in process", 1000, 1, true},
		{"1000 keys", 1, 1000, false},
		{"1000 keys in process", 1, 1000, true},
	} {
		b.Run(test.name, func(b *testing.B) {
			s, err := badger.Open(badger.Options{Dir: b.TempDir(), InProcess: test.here})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			charges := make([]quota.Charge, test.accounts*test.keys)
			for i := range charges {
				id := fmt.Sprintf("account-%04d", i%test.accounts)
				charges[i] = quota.Charge{Account: id, Key: fmt.Sprintf("key_%s-%04d", id, i), Requests: 1, Now: now,
					Period: quota.PeriodOf(0, now)}
			}
			b.ReportAllocs()
			b.ResetTimer()
			took := callers(b, 64, func(ctx context.Context, i int) error {
				c := charges[i%len(charges)]
				if _, _, err := s.Take(ctx, c); err != nil {
					return err
				}
				return s.Settle(ctx, c, quota.Outcome{})
			})
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkAuthenticate looks up a key and its account, as each request does.
func BenchmarkAuthenticate(b *testing.B) {
	ctx := context.Background()
	s := openDir(b, b.TempDir())
	gate, err := quota.New(quota.Options{Store: s})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := gate.CreateAccount(ctx, quota.Account{ID: "a"}); err != nil {
		b.Fatal(err)
	}
	secret, _, err := gate.CreateKey(ctx, quota.KeySpec{Account: "a"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gate.Authenticate(ctx, secret); err != nil {
			b.Fatal(err)
		}
	}
}

// callers calls do b.N times from n goroutines and returns how long each call took.
func callers(b *testing.B, n int, do func(ctx context.Context, i int) error) []time.Duration {
	b.Helper()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				begin := time.Now()
				if err := do(context.Background(), i); err != nil {
					b.Errorf("a call: got the error %v, want none", err)
					return
				}
				took[i] = time.Since(begin)
			}
		})
	}
	wg.Wait()
	return took
}
