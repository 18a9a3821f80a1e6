// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

const day = 24 * time.Hour

// chargeAt is a charge of account "a" at an instant, in the calendar month.
func chargeAt(now time.Time, requests int64) quota.Charge {
	c := charge("a", requests, quota.Limits{})
	c.Now, c.Period = now, quota.PeriodOf(0, now)
	return c
}

// call charges and settles.
func call(t *testing.T, s storage.Store, c quota.Charge, flagged ...string) {
	t.Helper()
	take(t, s, c)
	settle(t, s, c, quota.Outcome{Flagged: flagged})
}

// seen is all that a store tells about an account's windows at an instant.
type seen struct {
	Counts  quota.Counts
	Days    []int64
	Flagged map[string]int64
	Keys    map[string]int64
}

func look(t *testing.T, s storage.Store, now time.Time) (all seen) {
	t.Helper()
	ctx := context.Background()
	p := quota.PeriodOf(0, now)
	var err error
	all.Counts, err = s.Counts(ctx, "a", now, p)
	must(t, err)
	all.Days, err = s.Days(ctx, "a", now, 40)
	must(t, err)
	all.Flagged, err = s.Flagged(ctx, "a", p)
	must(t, err)
	all.Keys, err = s.KeyRequests(ctx, "a", p)
	must(t, err)
	return all
}

// wrongClock lets a clock be wrong by 400 days for a while. What was counted before must be there unchanged when it
// is right again: nothing may expire because a clock says so.
func wrongClock(t *testing.T, open Open) {
	s, reopen := open(t)
	for ago := 39; ago >= 0; ago-- {
		call(t, s, chargeAt(noon.AddDate(0, 0, -ago), int64(ago+1)), "hate")
	}
	before := look(t, s, noon)
	if before.Days[39] != 40 || before.Counts != (quota.Counts{Minute: 1, Day: 1, Period: 120}) ||
		before.Flagged["hate"] != 15 {
		t.Fatalf("before the clock is wrong: got %+v, want 40 days with 1 to 40 requests", before)
	}
	for _, wrong := range []time.Duration{400 * day, -400 * day, 800 * day, -10 * 365 * day} {
		there := noon.Add(wrong)
		for i := range 3 {
			call(t, s, chargeAt(there, 2), "sexual")
			got := look(t, s, there)
			n := int64(i+1) * 2
			want := seen{quota.Counts{Minute: n, Day: n, Period: n}, make([]int64, 40),
				map[string]int64{"sexual": int64(i + 1)}, map[string]int64{"key_a": n}}
			want.Days[0] = n
			if !reflect.DeepEqual(got, want) {
				t.Errorf("clock wrong by %+d days, call %d: got %+v, want %+v", wrong/day, i, got, want)
			}
			if got := look(t, s, noon.Add(time.Hour)); got.Counts != (quota.Counts{Day: 1, Period: 120}) ||
				!reflect.DeepEqual(got.Days, before.Days) {
				t.Errorf("clock wrong by %+d days, call %d: counts of the right day: got %+v, want %+v",
					wrong/day, i, got, before)
			}
			s = reopened(s, reopen)
		}
		if wrong == 400*day {
			// Minutes are few: of this one a clock that is right again within it must know.
			if got := look(t, s, noon); !reflect.DeepEqual(got, before) {
				t.Errorf("after a clock wrong by %+d days: got %+v, want %+v as before", wrong/day, got, before)
			}
		}
	}
	// Twenty days of it.
	for i := range 20 {
		call(t, s, chargeAt(noon.Add(500*day+time.Duration(i)*day), 1))
	}
	s = reopened(s, reopen)
	later := look(t, s, noon.AddDate(0, 0, 20))
	if want := append(make([]int64, 20), before.Days[:20]...); !reflect.DeepEqual(later.Days, want) {
		t.Errorf("the history after 20 wrong days: got %v, want %v", later.Days, want)
	}
}

// eviction makes windows in several orders and checks which are left.
func eviction(t *testing.T, open Open) {
	ctx := context.Background()
	ascending, descending := make([]int, 100), make([]int, 100)
	for i := range 100 {
		ascending[i], descending[i] = i, 99-i
	}
	// Windows of a right clock, then some of a clock that was ahead, then one more of the right clock.
	apart := append(append(append([]int{}, ascending...), 200, 201, 202, 203, 204), 100)
	for name, order := range map[string][]int{"forward": ascending, "backward": descending, "back from ahead": apart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, reopen := open(t)
			for _, table := range []struct {
				account string
				keep    int
				at      func(i int) time.Time
				count   func(c quota.Counts) int64
			}{
				{
					"minutes", quota.KeptMinutes,
					func(i int) time.Time { return noon.Add(time.Duration(i) * time.Minute) },
					func(c quota.Counts) int64 { return c.Minute },
				},
				{
					"days", quota.KeptDays,
					func(i int) time.Time { return noon.AddDate(0, 0, i) },
					func(c quota.Counts) int64 { return c.Day },
				},
				{
					"periods", quota.KeptPeriods,
					func(i int) time.Time { return noon.AddDate(0, i, 0) },
					func(c quota.Counts) int64 { return c.Period },
				},
			} {
				model := map[counter]bool{}
				for _, i := range order {
					w := counter{account: table.account, at: int64(i)}
					if !model[w] {
						for _, old := range evicted(model, w, table.keep) {
							delete(model, old)
						}
						model[w] = true
					}
					now := table.at(i)
					c := quota.Charge{Account: table.account, Requests: 1, Now: now, Period: quota.PeriodOf(0, now)}
					take(t, s, c)
					if i%37 == 0 {
						settle(t, s, c, quota.Outcome{})
					}
				}
				if len(model) <= table.keep || len(model) > 2*table.keep+1 {
					t.Fatalf("the test is wrong: its model keeps %d %s, want more than %d and at most %d",
						len(model), table.account, table.keep, 2*table.keep+1)
				}
				for range 2 {
					for _, i := range order {
						now := table.at(i)
						c, err := s.Counts(ctx, table.account, now, quota.PeriodOf(0, now))
						must(t, err)
						want := model[counter{account: table.account, at: int64(i)}]
						if got := table.count(c) > 0; got != want {
							t.Errorf("is window %d of %s kept? got %t, want %t", i, table.account, got, want)
						}
					}
					s = reopened(s, reopen)
				}
			}
		})
	}
}

// evictedSettle guards against evicted windows that come back, with a part of their counts or with negative ones.
func evictedSettle(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	old := chargeAt(noon, 2)
	take(t, s, old)
	take(t, s, old)
	settle(t, s, old, quota.Outcome{})
	for i := range quota.KeptDays + 1 {
		call(t, s, chargeAt(noon.AddDate(0, i+1, 0), 1))
	}
	settle(t, s, old, quota.Outcome{Refund: true, Flagged: []string{"hate"}})
	for range 2 {
		if got := look(t, s, noon); got.Counts != (quota.Counts{}) || len(got.Flagged) != 0 {
			t.Errorf("in evicted windows: got %+v, want nothing", got)
		}
		s = reopened(s, reopen)
	}
	// Asking for an evicted window, or for a future one, makes none.
	for i := range 100 {
		now := noon.AddDate(0, 0, -i)
		_, err := s.Counts(ctx, "a", now, quota.PeriodOf(0, now))
		must(t, err)
	}
	latest := noon.AddDate(0, quota.KeptDays+1, 0)
	if got := look(t, s, latest); got.Counts != (quota.Counts{Minute: 1, Day: 1, Period: 1}) {
		t.Errorf("in the latest windows: got %+v, want 1 each", got.Counts)
	}
	first := noon.AddDate(0, quota.KeptDays+1-quota.KeptPeriods, 0)
	if got := look(t, s, first); got.Counts.Period != 1 {
		t.Errorf("in the first period that is kept: got %+v, want 1 request", got.Counts)
	}
	// An evicted window may be counted in again.
	call(t, s, chargeAt(noon, 1), "hate")
	s = reopened(s, reopen)
	if got := look(t, s, noon); got.Counts != (quota.Counts{Minute: 1, Day: 1, Period: 1}) ||
		!maps.Equal(got.Flagged, map[string]int64{"hate": 1}) {
		t.Errorf("in windows that were evicted and counted in again: got %+v, want 1 each and hate flagged once", got)
	}
}

func boundEviction(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	one := feedback.Bound{Records: 1}
	n := 0
	add := func(days int) error {
		n++
		r := record("a", n)
		r.Time = noon.AddDate(0, 0, days)
		return s.AppendFeedback(ctx, r, one)
	}
	for _, days := range []int{0, 400, 401, 402, 403, 404, 1} {
		must(t, add(days))
	}
	s = reopened(s, reopen)
	for _, days := range []int{1, 404, 403, 402} {
		wantErr(t, add(days), feedback.ErrBound)
	}
	// This day was evicted by the later ones, and is new.
	must(t, add(400))
	wantErr(t, add(400), feedback.ErrBound)
	if n := len(collect(t, s.Feedback(ctx, "a"))); n != 8 {
		t.Errorf("feedback records: got %d, want 8", n)
	}
}

func beforeTheEpoch(t *testing.T, open Open) {
	s, reopen := open(t)
	last := time.Date(1969, 12, 31, 23, 59, 59, 1, time.UTC)
	call(t, s, chargeAt(last, 1))
	call(t, s, chargeAt(last.Add(time.Second), 2))
	s = reopened(s, reopen)
	if got := look(t, s, last); got.Counts != (quota.Counts{Minute: 1, Day: 1, Period: 1}) || got.Days[0] != 1 {
		t.Errorf("before 1970: got %+v, want 1 request each", got)
	}
	if got := look(t, s, last.Add(time.Second)); got.Counts != (quota.Counts{Minute: 2, Day: 2, Period: 2}) ||
		got.Days[0] != 2 || got.Days[1] != 1 {
		t.Errorf("in 1970: got %+v, want 2 requests each, and 1 the day before", got)
	}
}
