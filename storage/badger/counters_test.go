// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"fmt"
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
					Account: fmt.Sprint(n), Key: "k", Requests: 1,
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
		if a := admitted[n].Load(); a != limit || got.Period != limit || sum != limit || flagged["hate"] != limit {
			t.Errorf("account %d: admitted %d, stored %d, in days %d, flagged %d; want %d of each", n, a, got.Period,
				sum, flagged["hate"], limit)
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
}
