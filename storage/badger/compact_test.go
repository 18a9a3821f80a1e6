// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// clocks counts for account "a" with a clock that is right for more days than are kept, then ahead by 400 days, then
// behind, and returns what the store tells after that.
func clocks(t *testing.T, s *badger.Store, now time.Time) []any {
	t.Helper()
	ctx := context.Background()
	for i := range 90 {
		at := now.AddDate(0, 0, i-89)
		if i%10 == 5 {
			at = at.Add(400 * 24 * time.Hour)
		}
		if i%10 == 6 {
			at = at.Add(-400 * 24 * time.Hour)
		}
		c := quota.Charge{Account: "a", Key: "key_a", Requests: int64(i), Now: at, Period: quota.PeriodOf(0, at)}
		_, _, err := s.Take(ctx, c)
		if err := errors.Join(err, s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}})); err != nil {
			t.Fatal(err)
		}
	}
	all := told(t, s, now)
	if days := all[1].([]int64); days[0] != 89 || days[1] != 88 || days[3] != 0 || days[4] != 0 || days[39] != 50 {
		t.Fatalf("at first the days are %v", days)
	}
	return all
}

// told is what a store tells about the windows of account "a" at an instant, and 400 days before and after.
func told(t *testing.T, s *badger.Store, now time.Time) (all []any) {
	t.Helper()
	ctx := context.Background()
	for _, wrong := range []time.Duration{0, 400 * 24 * time.Hour, -400 * 24 * time.Hour} {
		at := now.Add(wrong)
		counts, err := s.Counts(ctx, "a", at, quota.PeriodOf(0, at))
		days, daysErr := s.Days(ctx, "a", at, 40)
		flagged, flaggedErr := s.Flagged(ctx, "a", quota.PeriodOf(0, at))
		if err := errors.Join(err, daysErr, flaggedErr); err != nil {
			t.Fatal(err)
		}
		all = append(all, counts, days, flagged)
	}
	return all
}

// TestTablesAreCompacted guards against tables that are never merged, because Badger's own compactors are off, and
// against records that are lost, or come back, when they are.
func TestTablesAreCompacted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	core, logs := observer.New(zap.DebugLevel)
	o := badger.Options{Dir: t.TempDir(), Logger: zap.New(core)}
	s, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	before := clocks(t, s, crashTime)
	const workers, each = 8, 150
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range each {
				// Random texts: compression would leave too few tables otherwise.
				var text [20_000]byte
				rand.Read(text[:])
				r := feedback.Record{ID: fmt.Sprintf("%d-%d", worker, i), Time: crashTime, Account: "a",
					Text: hex.EncodeToString(text[:])}
				if err := s.AppendFeedback(ctx, r, feedback.Bound{}); err != nil {
					t.Errorf("AppendFeedback: got the error %v, want none", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := 0; logs.FilterMessage("the database is compacted").Len() == 0; i++ {
		if i > 30_000 {
			t.Fatal("nothing is compacted")
		}
		time.Sleep(time.Millisecond)
	}
	if after := told(t, s, crashTime); !reflect.DeepEqual(after, before) {
		t.Errorf("after a compaction the store tells %+v, before %+v", after, before)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, o.Dir)
	if after := told(t, s, crashTime); !reflect.DeepEqual(after, before) {
		t.Errorf("after a compaction and opening again the store tells %+v, before %+v", after, before)
	}
	stored := 0
	for _, err := range s.Feedback(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		stored++
	}
	if stored != workers*each {
		t.Errorf("%d records are stored, %d were acknowledged", stored, workers*each)
	}
}
