// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/redis"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// BenchmarkSize reports how much memory of the server the records take: the figures of docs/scaling.md. Run it with
// -benchtime 2000x, which is the number of accounts.
func BenchmarkSize(b *testing.B) {
	ctx := context.Background()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	name := func(i int) string { return fmt.Sprintf("customer-%08d", i) }
	account := func(b *testing.B, s *redis.Store, i int) {
		err := s.CreateAccount(ctx, quota.Account{ID: name(i), Name: "A customer of some size", Tier: "growth",
			Status: quota.Active, Created: now, Updated: now, Incarnation: fmt.Sprintf("%022d", i)})
		if err != nil {
			b.Fatal(err)
		}
	}
	key := func(b *testing.B, s *redis.Store, owner, i int) {
		id := fmt.Sprintf("key_%08d%08d", owner, i)
		err := s.CreateKey(ctx, quota.Key{ID: id, Account: name(owner), Name: "website", Environment: "production",
			Hash: quota.HashKey(id), Created: now})
		if err != nil {
			b.Fatal(err)
		}
	}
	use := func(b *testing.B, s *redis.Store, i int, at time.Time, flagged ...string) {
		c := quota.Charge{Account: name(i), Key: fmt.Sprintf("key_%08d%08d", i, 0), Incarnation: fmt.Sprintf("%022d", i),
			Requests: 1, Now: at, Period: quota.PeriodOf(0, at)}
		if _, _, err := s.Take(ctx, c); err != nil {
			b.Fatal(err)
		}
		if err := s.Settle(ctx, c, quota.Outcome{Flagged: flagged}); err != nil {
			b.Fatal(err)
		}
	}
	for _, test := range []struct {
		name  string
		first func(b *testing.B, s *redis.Store, i int) // what is not measured
		add   func(b *testing.B, s *redis.Store, i int)
	}{
		{"account", nil, account},
		{"key", account, func(b *testing.B, s *redis.Store, i int) { key(b, s, i, 0) }},
		{"ten keys", account, func(b *testing.B, s *redis.Store, i int) {
			for n := range 10 {
				key(b, s, i, n)
			}
		}},
		{"first request", func(b *testing.B, s *redis.Store, i int) { account(b, s, i); key(b, s, i, 0) },
			func(b *testing.B, s *redis.Store, i int) { use(b, s, i, now) }},
		{"every day of a month, three categories", func(b *testing.B, s *redis.Store, i int) {
			account(b, s, i)
			key(b, s, i, 0)
		}, func(b *testing.B, s *redis.Store, i int) {
			for day := range 30 {
				use(b, s, i, now.AddDate(0, 0, -day), "hate", "harassment", "sexual")
			}
		}},
		{"all that is kept of a year, three categories", func(b *testing.B, s *redis.Store, i int) {
			account(b, s, i)
			key(b, s, i, 0)
		}, func(b *testing.B, s *redis.Store, i int) {
			for day := 430; day >= 0; day-- {
				if day < 61 || day%30 == 0 {
					use(b, s, i, now.AddDate(0, 0, -day), "hate", "harassment", "sexual")
				}
			}
		}},
		{"correction of 200 characters", nil, func(b *testing.B, s *redis.Store, i int) {
			at := now.Add(time.Duration(i) * time.Second)
			err := s.AppendFeedback(ctx, feedback.Record{ID: fmt.Sprintf("fb_%020d", i), Time: at, Account: name(i % 100),
				Key: "key_0000000000000000", Text: strings.Repeat("ten words ", 20), ModelVersion: "cascade-1",
				Scores: map[string]feedback.AttributeScore{
					"TOXICITY": {Summary: &feedback.Score{Value: 0.2, Type: "PROBABILITY"}}},
				ModelScores: map[string]float64{"TOXICITY": 0.87},
			}, feedback.Bound{})
			if err != nil {
				b.Fatal(err)
			}
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			server := redistest.Run(b, redistest.Options{})
			s := openStore(b, redis.Options{Addresses: []string{server.Addr()}, ClientClock: true,
				Timeout: 5 * time.Second})
			if test.first != nil {
				for i := range b.N {
					test.first(b, s, i)
				}
			}
			settled := func() int64 {
				// The ids of calls are forgotten a while after their answers: what is in flight is not what is kept.
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				s = openStore(b, redis.Options{Addresses: []string{server.Addr()}, ClientClock: true,
					Timeout: 5 * time.Second})
				var used int64
				if _, err := server.Do("MEMORY", "PURGE"); err != nil {
					b.Fatal(err)
				}
				text, err := server.Info("used_memory_dataset")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := fmt.Sscan(text, &used); err != nil {
					b.Fatal(err)
				}
				overhead, err := server.Info("used_memory_overhead")
				if err != nil {
					b.Fatal(err)
				}
				var over int64
				if _, err := fmt.Sscan(overhead, &over); err != nil {
					b.Fatal(err)
				}
				return used + over
			}
			before := settled()
			b.ResetTimer()
			for i := range b.N {
				test.add(b, s, i)
			}
			b.StopTimer()
			b.ReportMetric(float64(settled()-before)/float64(b.N), "B/record")
			b.ReportMetric(0, "ns/op")
		})
	}
}
