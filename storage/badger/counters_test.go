// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// TestSweepLosesNothing drops tallies from memory as fast as it can, while calls race for limits. A tally that is
// dropped while it is in use, or before it is committed, would admit more than the limit.
func TestSweepLosesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop := make(chan struct{})
	var sweeper, callers sync.WaitGroup
	var dropped atomic.Int64
	sweeper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			before := tallies(s)
			for range idleSweeps + 1 {
				s.counters.sweep()
			}
			if tallies(s) < before {
				dropped.Add(1)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	const accounts, limit = 4, 300
	now := time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)
	var admitted [accounts]atomic.Int64
	for worker := range 16 {
		callers.Go(func() {
			for i := range 200 {
				n := (worker + i) % accounts
				c := quota.Charge{
					Account: fmt.Sprint(n), Key: fmt.Sprint("key_", 1+i%2), Requests: 1,
					Period: quota.PeriodOf(0, now), Limits: quota.Limits{RequestsPerMonth: limit},
					// Many windows at once, so that old ones are trimmed too.
					Now: now.Add(time.Duration(i%5) * 24 * time.Hour),
				}
				_, refused, err := s.Take(ctx, c)
				if err == nil && refused == quota.NoWindow {
					admitted[n].Add(1)
					err = s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}})
				}
				if err != nil {
					t.Errorf("Settle: got the error %v, want none", err)
					return
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	sweeper.Wait()
	for n := range admitted {
		got, err := s.Counts(ctx, fmt.Sprint(n), now, quota.PeriodOf(0, now))
		if err != nil {
			t.Fatal(err)
		}
		days, err := s.Days(ctx, fmt.Sprint(n), now.Add(5*24*time.Hour), 10)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, d := range days {
			sum += d
		}
		flagged, err := s.Flagged(ctx, fmt.Sprint(n), quota.PeriodOf(0, now))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := s.KeyRequests(ctx, fmt.Sprint(n), quota.PeriodOf(0, now))
		if err != nil {
			t.Fatal(err)
		}
		if a := admitted[n].Load(); a != limit || got.Period != limit || sum != limit || flagged["hate"] != limit ||
			keys["key_1"]+keys["key_2"] != limit || keys["key_2"] == 0 {
			t.Errorf("account %d: admitted %d, stored %d, in days %d, flagged %d, by key %v; want %d of each", n, a,
				got.Period, sum, flagged["hate"], keys, limit)
		}
	}
	if dropped.Load() == 0 {
		t.Error("nothing was ever dropped")
	}
}

func tallies(s *Store) (n int) {
	for i := range s.counters.shards {
		sh := &s.counters.shards[i]
		sh.mu.RLock()
		n += len(sh.tallies)
		sh.mu.RUnlock()
	}
	return n
}

// fullDisk is a database whose disk is full while full is set.
type fullDisk struct {
	database
	full *atomic.Bool
}

func (f fullDisk) Write(entries []disk.Entry) error {
	if f.full.Load() {
		return disk.ErrFull
	}
	return f.database.Write(entries)
}

// TestFailedCommitIsTriedAgain guards against counts that are lost when the database refuses them once.
func TestFailedCommitIsTriedAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	var full atomic.Bool
	s, err := Open(Options{Dir: dir, open: func(ctx context.Context, o disk.Options) (database, error) {
		db, err := openInProcess(ctx, o)
		return fullDisk{db, &full}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)
	c := quota.Charge{Account: "a", Key: "k", Requests: 1, Now: now, Period: quota.PeriodOf(0, now)}
	call := func() error {
		if _, _, err := s.Take(ctx, c); err != nil {
			t.Fatal(err)
		}
		return s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}})
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	if err := call(); err == nil {
		t.Fatal("settled on a full disk")
	}
	if s.Health() == nil {
		t.Error("a store that can write nothing is in good health")
	}
	full.Store(false)
	// Nothing changes any more: the rest of the second call must reach the disk by itself.
	if err := s.flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Health(); err != nil {
		t.Errorf("the disk has room again, and the store says: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Counts(ctx, "a", now, c.Period)
	if err != nil {
		t.Fatal(err)
	}
	// The failed call was rolled back, except in the minute.
	if got != (quota.Counts{Minute: 2, Day: 1, Period: 1}) {
		t.Fatalf("stored are %+v", got)
	}
	flagged, err := s.Flagged(ctx, "a", c.Period)
	if err != nil || flagged["hate"] != 1 {
		t.Fatalf("flagged is %v, %v", flagged, err)
	}
	keys, err := s.KeyRequests(ctx, "a", c.Period)
	if err != nil || keys["k"] != 1 {
		t.Fatalf("requests by key are %v, %v", keys, err)
	}
}

// TestEvictionThatFails guards against requests by key that come back, or are lost, when the commit that deletes them
// fails, and the window has begun again before the next one.
func TestEvictionThatFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	var full atomic.Bool
	s, err := Open(Options{Dir: dir, open: func(ctx context.Context, o disk.Options) (database, error) {
		db, err := openInProcess(ctx, o)
		return fullDisk{db, &full}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	month := func(n int) quota.Period {
		return quota.PeriodOf(0, time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC).AddDate(0, n, 0))
	}
	take := func(n int, key string) {
		t.Helper()
		p := month(n)
		c := quota.Charge{Account: "a", Key: key, Requests: 1, Now: p.Start, Period: p}
		if _, _, err := s.Take(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	flush := func(fails bool) {
		t.Helper()
		full.Store(fails)
		if err := s.flush(ctx); (err != nil) != fails {
			t.Fatalf("a commit: got the error %v, want one: %t", err, fails)
		}
	}
	// Of the first period the database holds two keys, and the memory none.
	take(0, "old")
	take(0, "both")
	flush(false)
	s.counters.sweep()
	s.counters.sweep()
	for n := 1; n <= quota.KeptPeriods; n++ {
		take(n, "k")
	}
	flush(false)
	take(quota.KeptPeriods+1, "k")
	flush(true)
	take(0, "both")
	flush(true)
	flush(false)
	take(0, "new")
	flush(true)
	flush(false)
	for range 2 {
		got, err := s.KeyRequests(ctx, "a", month(0))
		if want := map[string]int64{"both": 1, "new": 1}; err != nil || !maps.Equal(got, want) {
			t.Errorf("requests by key: got %v, %v; want %v", got, err, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(Options{Dir: dir, InProcess: true}); err != nil {
			t.Fatal(err)
		}
	}
	defer s.Close()
	left := 0
	for _, err := range s.scan([]byte("q/"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		left++
	}
	// Both of month 0, and one of each other period that is kept.
	if want := 2 + quota.KeptPeriods; left != want {
		t.Errorf("records of keys: got %d, want %d: others must be deleted with their period", left, want)
	}
}
