// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

func charging(t *testing.T, open Open) {
	s := opened(t, open)
	limits := quota.Limits{RequestsPerMonth: 5, RequestsPerMinute: 4}
	for i, step := range []struct {
		requests int64
		counts   int64
		refused  quota.Window
	}{
		{requests: 6, counts: 0, refused: quota.MonthWindow},
		{requests: 5, counts: 0, refused: quota.MinuteWindow},
		{requests: 3, counts: 3},
		{requests: 2, counts: 3, refused: quota.MinuteWindow},
		{requests: 1, counts: 4},
		{requests: 1, counts: 4, refused: quota.MinuteWindow},
	} {
		c, refused := take(t, s, charge("a", step.requests, limits))
		if want := (quota.Counts{Minute: step.counts, Day: step.counts, Period: step.counts}); c != want ||
			refused != step.refused {
			t.Errorf("step %d: Take: got %+v, refused by %q; want %+v, %q", i, c, refused, want, step.refused)
		}
		if got := counts(t, s, "a"); got != c {
			t.Errorf("step %d: Counts: got %+v, want %+v as Take said", i, got, c)
		}
	}
}

func refusalOrder(t *testing.T, open Open) {
	s := opened(t, open)
	limits := quota.Limits{RequestsPerMonth: 1, RequestsPerMinute: 1}
	take(t, s, charge("a", 1, limits))
	if _, refused := take(t, s, charge("a", 1, limits)); refused != quota.MonthWindow {
		t.Fatalf("both limits are used up: got %q as refusing window, want %q", refused, quota.MonthWindow)
	}
}

func unlimited(t *testing.T, open Open) {
	s := opened(t, open)
	const many = int64(1) << 60
	c, refused := take(t, s, charge("a", many, quota.Limits{}))
	if refused != quota.NoWindow || c != (quota.Counts{Minute: many, Day: many, Period: many}) {
		t.Fatalf("without limits: got %+v, refused by %q; want %d each, admitted", c, refused, many)
	}
	if _, refused := take(t, s, charge("a", many, quota.Limits{RequestsPerMonth: 1 << 62})); refused != quota.NoWindow {
		t.Fatalf("a month of 1<<62 with 1<<61 used: refused by %q, want admitted", refused)
	}
	if _, refused := take(t, s, charge("a", 1, quota.Limits{RequestsPerMonth: 1})); refused != quota.MonthWindow {
		t.Fatalf("a month of 1 with 1<<61 used: got %q as refusing window, want %q", refused, quota.MonthWindow)
	}
}

func windowsApart(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	limits := quota.Limits{RequestsPerMonth: 100, RequestsPerMinute: 1}
	at := func(now time.Time) quota.Counts {
		c := charge("a", 1, limits)
		c.Now, c.Period = now, quota.PeriodOf(0, now)
		counts, refused := take(t, s, c)
		if refused != quota.NoWindow {
			t.Errorf("at %s: refused by %q, want admitted", now, refused)
		}
		settle(t, s, c, quota.Outcome{})
		return counts
	}
	last := time.Date(2026, 3, 31, 23, 58, 59, 0, time.UTC)
	for i, step := range []struct {
		now  time.Time
		want quota.Counts
	}{
		{last, quota.Counts{Minute: 1, Day: 1, Period: 1}},
		{last.Add(time.Second), quota.Counts{Minute: 1, Day: 2, Period: 2}},
		{last.Add(time.Minute + time.Second), quota.Counts{Minute: 1, Day: 1, Period: 1}},
		// A call that began before the end of the month may come after one that began later.
		{last.Add(-time.Minute), quota.Counts{Minute: 1, Day: 3, Period: 3}},
		{last.Add(-2 * time.Minute), quota.Counts{Minute: 1, Day: 4, Period: 4}},
		{last.Add(-24 * time.Hour), quota.Counts{Minute: 1, Day: 1, Period: 5}},
	} {
		if got := at(step.now); got != step.want {
			t.Errorf("step %d, at %s: counts: got %+v, want %+v", i, step.now, got, step.want)
		}
	}
	if c := counts(t, s, "b"); c != (quota.Counts{}) {
		t.Errorf("counts of another account: got %+v, want none", c)
	}
	// The newest two minutes of those around are kept.
	got, err := s.Counts(ctx, "a", last.Add(time.Second), quota.PeriodOf(15, last))
	must(t, err)
	if want := (quota.Counts{Minute: 1, Day: 4}); got != want {
		t.Errorf("counts in another period: got %+v, want %+v", got, want)
	}
}

func exactLimits(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	limits := map[string]quota.Limits{
		"month":  {RequestsPerMonth: 10},
		"minute": {RequestsPerMinute: 10},
		"both":   {RequestsPerMonth: 10, RequestsPerMinute: 10},
	}
	var admitted sync.Map
	var wg sync.WaitGroup
	for id, limits := range limits {
		n := new(atomic.Int64)
		admitted.Store(id, n)
		for range 64 {
			wg.Go(func() {
				for range 3 {
					c := charge(id, 1, limits)
					_, refused, err := s.Take(ctx, c)
					if err != nil {
						t.Errorf("Take: got the error %v, want none", err)
						return
					}
					if refused != quota.NoWindow {
						continue
					}
					n.Add(1)
					if err := s.Settle(ctx, c, quota.Outcome{}); err != nil {
						t.Errorf("Settle: got the error %v, want none", err)
					}
				}
			})
		}
	}
	wg.Wait()
	s = reopened(s, reopen)
	for id := range limits {
		n, _ := admitted.Load(id)
		if got := n.(*atomic.Int64).Load(); got != 10 {
			t.Errorf("limit on %s: got %d admitted, want 10", id, got)
		}
		if c := counts(t, s, id); c != (quota.Counts{Minute: 10, Day: 10, Period: 10}) {
			t.Errorf("limit on %s: counts: got %+v, want 10 each", id, c)
		}
	}
}

func refunds(t *testing.T, open Open) {
	s, reopen := open(t)
	c := charge("a", 2, quota.Limits{RequestsPerMonth: 4, RequestsPerMinute: 9})
	take(t, s, c)
	settle(t, s, c, quota.Outcome{})
	take(t, s, c)
	settle(t, s, c, quota.Outcome{Refund: true})
	for range 2 {
		if got, want := counts(t, s, "a"), (quota.Counts{Minute: 4, Day: 2, Period: 2}); got != want {
			t.Fatalf("counts after a refund: got %+v, want %+v", got, want)
		}
		s = reopened(s, reopen)
	}
	if _, refused := take(t, s, c); refused != quota.NoWindow {
		t.Fatalf("taking what was refunded: refused by %q, want admitted", refused)
	}
}

func flaggedCounts(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	for _, categories := range [][]string{{"hate", "sexual", "hate"}, nil, {"self_harm"}} {
		c := charge("a", 1, quota.Limits{})
		take(t, s, c)
		settle(t, s, c, quota.Outcome{Flagged: categories})
	}
	next := quota.PeriodOf(0, march.End)
	for range 2 {
		got, err := s.Flagged(ctx, "a", march)
		must(t, err)
		if want := map[string]int64{"hate": 2, "sexual": 1, "self_harm": 1}; !reflect.DeepEqual(got, want) {
			t.Fatalf("flagged: got %v, want %v", got, want)
		}
		// The map is the caller's.
		got["hate"] = 99
		for account, p := range map[string]quota.Period{"a": next, "b": march} {
			got, err := s.Flagged(ctx, account, p)
			must(t, err)
			if len(got) != 0 {
				t.Fatalf("flagged of %s from %s on: got %v, want nothing", account, p.Start, got)
			}
		}
		s = reopened(s, reopen)
	}
}

// lateFlags flags categories after a call was settled, as for a response that is moderated while it is sent: the
// charge stays as it is, and what was added is durable when Settle returns.
func lateFlags(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	c := charge("a", 2, quota.Limits{})
	take(t, s, c)
	settle(t, s, c, quota.Outcome{Flagged: []string{"hate"}})
	before := counts(t, s, "a")
	c.Requests = 0
	settle(t, s, c, quota.Outcome{Flagged: []string{"hate", "sexual"}})
	settle(t, s, c, quota.Outcome{Refund: true})
	// Nothing was counted for this account: it has no window to which a flag could be added.
	c.Account = "b"
	settle(t, s, c, quota.Outcome{Flagged: []string{"hate"}})
	for range 2 {
		for account, want := range map[string]map[string]int64{"a": {"hate": 2, "sexual": 1}, "b": {}} {
			got, err := s.Flagged(ctx, account, march)
			must(t, err)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("flagged of %s: got %#v, want %#v", account, got, want)
			}
		}
		if got := counts(t, s, "a"); got != before {
			t.Errorf("counts after late flags: got %+v, want %+v as before", got, before)
		}
		if got := counts(t, s, "b"); got != (quota.Counts{}) {
			t.Errorf("counts of an account without calls: got %+v, want none", got)
		}
		s = reopened(s, reopen)
	}
}

// keyRequests guards against requests that are counted for the wrong key, the wrong account or the wrong period, that
// a refund does not give back, and that do not survive.
func keyRequests(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	next := quota.PeriodOf(0, march.End)
	made := func(account, key string, n int64, now time.Time, o quota.Outcome) {
		c := charge(account, n, quota.Limits{RequestsPerMonth: 100})
		c.Key, c.Now, c.Period = key, now, quota.PeriodOf(0, now)
		take(t, s, c)
		settle(t, s, c, o)
	}
	// The last one is not stored, as a declared key: all of them are counted alike.
	must(t, s.CreateKey(ctx, key("key_1", "a", 0)))
	must(t, s.CreateKey(ctx, key("key_2", "a", 0)))
	made("a", "key_1", 2, noon, quota.Outcome{})
	made("a", "key_1", 3, noon, quota.Outcome{Flagged: []string{"hate"}})
	made("a", "key_2", 1, noon, quota.Outcome{})
	made("a", "key_2", 50, noon, quota.Outcome{Refund: true})
	made("a", "declared", 7, noon, quota.Outcome{})
	made("a", "given_back", 4, noon, quota.Outcome{Refund: true})
	made("a", "", 8, noon, quota.Outcome{})
	made("a", "key_1", 9, march.End, quota.Outcome{})
	made("ab", "key_1", 11, noon, quota.Outcome{})
	refused := charge("a", 100, quota.Limits{RequestsPerMonth: 100})
	refused.Key = "key_2"
	if _, window := take(t, s, refused); window != quota.MonthWindow {
		t.Errorf("a call beyond the limit: got %q as refusing window, want %q", window, quota.MonthWindow)
	}
	for range 2 {
		for _, of := range []struct {
			account string
			period  quota.Period
			want    map[string]int64
		}{
			{"a", march, map[string]int64{"key_1": 5, "key_2": 1, "declared": 7}},
			{"a", next, map[string]int64{"key_1": 9}},
			{"ab", march, map[string]int64{"key_1": 11}},
			{"ab", next, map[string]int64{}},
			{"b", march, map[string]int64{}},
			{"a", quota.PeriodOf(15, noon), map[string]int64{}},
		} {
			got, err := s.KeyRequests(ctx, of.account, of.period)
			must(t, err)
			if !reflect.DeepEqual(got, of.want) {
				t.Errorf("requests by key of %s from %s on: got %#v, want %v", of.account, of.period.Start, got, of.want)
			}
			// The map is the caller's.
			got["key_1"] = 99
		}
		if got := counts(t, s, "a"); got.Period != 21 {
			t.Errorf("counts: got %+v, want 21 in the period: 13 by key and 8 without", got)
		}
		s = reopened(s, reopen)
	}
}

// manyKeys counts for more keys than a store reads at a time, concurrently, over reopenings.
func manyKeys(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	const keys = 600
	want := map[string]int64{}
	for range 2 {
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := worker; i < keys; i += 8 {
					c := charge("a", int64(i+1), quota.Limits{})
					c.Key = fmt.Sprintf("key_%04d", i)
					_, _, err := s.Take(ctx, c)
					if err := errors.Join(err, s.Settle(ctx, c, quota.Outcome{})); err != nil {
						t.Errorf("a call: got the error %v, want none", err)
					}
				}
			})
		}
		wg.Wait()
		sum := int64(0)
		for i := range keys {
			want[fmt.Sprintf("key_%04d", i)] += int64(i + 1)
			sum += want[fmt.Sprintf("key_%04d", i)]
		}
		got, err := s.KeyRequests(ctx, "a", march)
		must(t, err)
		if !reflect.DeepEqual(got, want) || counts(t, s, "a").Period != sum {
			t.Errorf("requests by key: got %d keys, want %d with 1 to %d requests each time, %d in all",
				len(got), len(want), keys, sum)
		}
		s = reopened(s, reopen)
	}
}

// keyEviction guards against requests by key that outlive their period: in a window that was evicted and begins
// again, nothing of before may show, whether the store was reopened in between or not.
func keyEviction(t *testing.T, open Open) {
	ctx := context.Background()
	for _, often := range []bool{false, true} {
		t.Run(map[bool]string{false: "in one go", true: "reopened each time"}[often], func(t *testing.T) {
			t.Parallel()
			s, reopen := open(t)
			at := func(month int, key string, n int64) {
				c := chargeAt(noon.AddDate(0, month, 0), n)
				c.Key = key
				call(t, s, c)
				if often {
					s = reopened(s, reopen)
				}
			}
			check := func(month int, want map[string]int64) {
				t.Helper()
				got, err := s.KeyRequests(ctx, "a", quota.PeriodOf(0, noon.AddDate(0, month, 0)))
				must(t, err)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("requests by key of month %d: got %#v, want %v", month, got, want)
				}
			}
			at(0, "old", 1)
			at(0, "both", 2)
			for month := 1; month <= quota.KeptPeriods; month++ {
				at(month, "later", 3)
			}
			check(0, map[string]int64{"old": 1, "both": 2})
			at(quota.KeptPeriods+1, "later", 3)
			check(0, map[string]int64{})
			late := chargeAt(noon, 1)
			late.Key = "old"
			settle(t, s, late, quota.Outcome{Refund: true})
			check(0, map[string]int64{})
			// A clock that goes back makes the window again.
			at(0, "both", 5)
			check(0, map[string]int64{"both": 5})
			at(0, "new", 1)
			at(0, "old", 7)
			for range 2 {
				check(0, map[string]int64{"both": 5, "new": 1, "old": 7})
				check(quota.KeptPeriods+1, map[string]int64{"later": 3})
				s = reopened(s, reopen)
			}
		})
	}
}

func daysListed(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	for _, ago := range []int{0, 1, 29, 30, 39, 40} {
		c := charge("a", int64(ago+1), quota.Limits{})
		c.Now = noon.AddDate(0, 0, -ago)
		c.Period = quota.PeriodOf(0, c.Now)
		take(t, s, c)
		settle(t, s, c, quota.Outcome{})
	}
	for range 2 {
		for n, want := range map[int]map[int]int64{
			30: {0: 1, 1: 2, 29: 30},
			40: {0: 1, 1: 2, 29: 30, 30: 31, 39: 40},
			1:  {0: 1},
		} {
			days, err := s.Days(ctx, "a", noon, n)
			must(t, err)
			if len(days) != n {
				t.Fatalf("Days: got %d days, want %d", len(days), n)
			}
			for i, got := range days {
				if got != want[i] {
					t.Errorf("Days for %d: day %d: got %d requests, want %d", n, i, got, want[i])
				}
			}
		}
		days, err := s.Days(ctx, "b", noon, 3)
		must(t, err)
		if !reflect.DeepEqual(days, []int64{0, 0, 0}) {
			t.Errorf("Days of an account without requests: got %v, want zeros", days)
		}
		s = reopened(s, reopen)
	}
}

func lastUsed(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	show := func() string {
		k, err := s.Key(ctx, "key_a")
		must(t, err)
		if listed := collect(t, s.Keys(ctx, "a")); listed[0].LastUsed != k.LastUsed {
			t.Errorf("LastUsed: Keys says %q, Key says %q; want the same", listed[0].LastUsed, k.LastUsed)
		}
		return k.LastUsed
	}
	if day := show(); day != "" {
		t.Fatalf("LastUsed of an unused key: got %q, want none", day)
	}
	for _, day := range []string{"2026-03-15", "2026-03-16"} {
		c := charge("a", 1, quota.Limits{})
		now, _ := time.Parse(time.DateOnly, day)
		c.Now, c.Period = now, quota.PeriodOf(0, now)
		take(t, s, c)
		settle(t, s, c, quota.Outcome{})
		if got := show(); got != day {
			t.Fatalf("LastUsed: got %q, want %q", got, day)
		}
		s = reopened(s, reopen)
		if got := show(); got != day {
			t.Fatalf("LastUsed after reopening: got %q, want %q", got, day)
		}
	}
	k, err := s.UpdateKey(ctx, "key_a", func(k *quota.Key) error { k.Name = "new"; return nil })
	must(t, err)
	if k.LastUsed != "2026-03-16" {
		t.Fatalf("LastUsed in the result of UpdateKey: got %q, want 2026-03-16", k.LastUsed)
	}
}

// lateSettle guards against an outcome that is counted in the windows of the time at which it is recorded.
func lateSettle(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	first := charge("a", 1, quota.Limits{})
	take(t, s, first)
	second := charge("a", 1, quota.Limits{})
	second.Now = march.End.Add(time.Hour)
	second.Period = quota.PeriodOf(0, second.Now)
	take(t, s, second)
	settle(t, s, second, quota.Outcome{})
	settle(t, s, first, quota.Outcome{Refund: true, Flagged: []string{"hate"}})
	s = reopened(s, reopen)
	if c := counts(t, s, "a"); c != (quota.Counts{Minute: 1}) {
		t.Errorf("the windows of the first call: got %+v, want 1 in the minute, because it was refunded", c)
	}
	c, err := s.Counts(ctx, "a", second.Now, second.Period)
	must(t, err)
	if c != (quota.Counts{Minute: 1, Day: 1, Period: 1}) {
		t.Errorf("the windows of the second call: got %+v, want 1 each", c)
	}
	flagged, err := s.Flagged(ctx, "a", march)
	must(t, err)
	if flagged["hate"] != 1 {
		t.Errorf("flagged in the period of the first call: got %v, want hate once", flagged)
	}
}

func countsSurvive(t *testing.T, open Open) {
	s, reopen := open(t)
	limits := quota.Limits{RequestsPerMonth: 3}
	for want := int64(1); want <= 3; want++ {
		c, refused := take(t, s, charge("a", 1, limits))
		if refused != quota.NoWindow || c.Period != want {
			t.Fatalf("request %d of 3: got %+v, refused by %q; want admitted", want, c, refused)
		}
		settle(t, s, charge("a", 1, limits), quota.Outcome{})
		s = reopened(s, reopen)
	}
	if _, refused := take(t, s, charge("a", 1, limits)); refused != quota.MonthWindow {
		t.Fatalf("request 4 of 3 after reopening: got %q as refusing window, want %q", refused, quota.MonthWindow)
	}
}

func doneContext(t *testing.T, open Open) {
	s := opened(t, open)
	background := context.Background()
	must(t, s.CreateAccount(background, quota.Account{ID: "a"}))
	must(t, s.CreateKey(background, key("key_a", "a", 0)))
	done, cancel := context.WithCancel(background)
	cancel()
	_, _, err := s.Take(done, charge("a", 1, quota.Limits{}))
	wantErr(t, err, context.Canceled)
	wantErr(t, s.CreateAccount(done, quota.Account{ID: "b"}), context.Canceled)
	wantErr(t, s.CreateKey(done, key("key_b", "a", 0)), context.Canceled)
	_, err = s.UpdateAccount(done, "a", func(a *quota.Account) error { a.Name = "new"; return nil })
	wantErr(t, err, context.Canceled)
	wantErr(t, s.DeleteAccount(done, "a"), context.Canceled)
	wantErr(t, s.AppendFeedback(done, record("a", 0), noBound), context.Canceled)
	kept := record("kept", 0)
	must(t, s.AppendFeedback(background, kept, noBound))
	_, err = s.DeleteFeedback(done, kept.Ref())
	wantErr(t, err, context.Canceled)
	must(t, s.ChangeDocuments(background, shelf, put("a", "1")))
	wantErr(t, s.ChangeDocuments(done, shelf, put("a", "2")), context.Canceled)
	_, err = s.Documents(done, shelf, "a")
	wantErr(t, err, context.Canceled)
	if got := one(t, s, "a"); string(got.Value) != "1" {
		t.Errorf("a document after a change with a done context: got %q, want 1", got.Value)
	}
	for _, err := range s.ListDocuments(done, shelf, documents.Range{}) {
		wantErr(t, err, context.Canceled)
	}
	for _, err := range s.Accounts(done) {
		wantErr(t, err, context.Canceled)
	}
	if c := counts(t, s, "a"); c != (quota.Counts{}) {
		t.Errorf("counts after calls with a done context: got %+v, want none", c)
	}
	if all := collect(t, s.Accounts(background)); len(all) != 1 || all[0].Name != "" {
		t.Errorf("accounts after calls with a done context: got %+v, want a as it was", all)
	}
	if n := len(collect(t, s.Keys(background, ""))); n != 1 {
		t.Errorf("keys after calls with a done context: got %d, want 1", n)
	}
	if all := collect(t, s.Feedback(background, "")); len(all) != 1 || all[0].ID != kept.ID {
		t.Errorf("feedback records after calls with a done context: got %v, want the one that was there", all)
	}
}

func settleDoneContext(t *testing.T, open Open) {
	s, reopen := open(t)
	c := charge("a", 1, quota.Limits{})
	take(t, s, c)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Settle(done, c, quota.Outcome{Refund: true}); err != nil {
		wantErr(t, err, context.Canceled)
	}
	// Other callers do not wait at all.
	for range 2 {
		take(t, s, c)
	}
	s.Record(c, quota.Outcome{Refund: true})
	s.Record(c, quota.Outcome{})
	s = reopened(s, reopen)
	if got, want := counts(t, s, "a"), (quota.Counts{Minute: 3, Day: 1, Period: 1}); got != want {
		t.Fatalf("counts of calls that nobody waited for, after reopening: got %+v, want %+v", got, want)
	}
}

func closing(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	must(t, s.CreateAccount(ctx, quota.Account{ID: "a"}))
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	c := charge("a", 1, quota.Limits{})
	take(t, s, c)
	must(t, s.Health())
	must(t, s.Close())
	must(t, s.Close())
	_, _, takeErr := s.Take(ctx, c)
	_, accountErr := s.Account(ctx, "a")
	_, keyErr := s.Key(ctx, "key_a")
	_, hashErr := s.KeyByHash(ctx, key("key_a", "a", 0).Hash)
	_, updateErr := s.UpdateAccount(ctx, "a", func(*quota.Account) error { return nil })
	_, updateKeyErr := s.UpdateKey(ctx, "key_a", func(*quota.Key) error { return nil })
	_, countsErr := s.Counts(ctx, "a", noon, march)
	_, daysErr := s.Days(ctx, "a", noon, 30)
	_, flaggedErr := s.Flagged(ctx, "a", march)
	_, keyRequestsErr := s.KeyRequests(ctx, "a", march)
	_, deleteErr := s.DeleteFeedback(ctx, feedback.Ref{Time: noon, ID: "a"})
	_, seededErr := s.Seeded(ctx)
	_, documentsErr := s.Documents(ctx, shelf, "a")
	errs := map[string]error{
		"Take": takeErr, "Account": accountErr, "Key": keyErr, "KeyByHash": hashErr,
		"UpdateAccount": updateErr, "UpdateKey": updateKeyErr,
		"Counts": countsErr, "Days": daysErr, "Flagged": flaggedErr, "Seeded": seededErr,
		"KeyRequests": keyRequestsErr, "DeleteFeedback": deleteErr,
		"Settle":         s.Settle(ctx, c, quota.Outcome{}),
		"Record":         s.Record(c, quota.Outcome{}).Wait(ctx),
		"CreateAccount":  s.CreateAccount(ctx, quota.Account{ID: "b"}),
		"CreateKey":      s.CreateKey(ctx, key("key_b", "a", 0)),
		"DeleteAccount":  s.DeleteAccount(ctx, "a"),
		"AppendFeedback": s.AppendFeedback(ctx, record("a", 0), noBound),
		"MarkSeeded":     s.MarkSeeded(ctx),
		"Documents":      documentsErr,

		"ChangeDocuments": s.ChangeDocuments(ctx, shelf, put("a", "1")),
	}
	for _, err := range s.ListDocuments(ctx, shelf, documents.Range{}) {
		errs["ListDocuments"] = err
	}
	for _, err := range s.Accounts(ctx) {
		errs["Accounts"] = err
	}
	for _, err := range s.Keys(ctx, "") {
		errs["Keys"] = err
	}
	for _, err := range s.Feedback(ctx, "") {
		errs["Feedback"] = err
	}
	if len(errs) != 25 {
		t.Errorf("got %d errors of methods and listings, want 25: a listing of a closed store must yield an error",
			len(errs))
	}
	errs["Health"] = s.Health()
	for method, err := range errs {
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s after Close: got the error %v, want %v", method, err, storage.ErrUnavailable)
		}
	}
}

func closingUnderLoad(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	must(t, s.CreateAccount(ctx, quota.Account{ID: "a"}))
	var settled atomic.Int64
	begun := make(chan struct{}, 64)
	var wg sync.WaitGroup
	work := func(do func() error) {
		wg.Go(func() {
			for {
				err := do()
				select {
				case begun <- struct{}{}:
				default:
				}
				if errors.Is(err, storage.ErrUnavailable) {
					return
				}
				if err != nil {
					t.Errorf("a call while the store is closed: got the error %v, want none or %v", err,
						storage.ErrUnavailable)
					return
				}
			}
		})
	}
	for range 8 {
		work(func() error {
			c := charge("a", 1, quota.Limits{})
			_, _, err := s.Take(ctx, c)
			if err == nil {
				err = s.Settle(ctx, c, quota.Outcome{})
			}
			if err == nil {
				settled.Add(1)
			}
			return err
		})
	}
	work(func() error {
		_, err := s.UpdateAccount(ctx, "a", func(a *quota.Account) error { a.Name += "x"; return nil })
		return err
	})
	work(func() error {
		for _, err := range s.Accounts(ctx) {
			return err
		}
		return nil
	})
	for range 64 {
		<-begun
	}
	must(t, s.Close())
	wg.Wait()
	if reopen == nil {
		return
	}
	if got := counts(t, reopen(), "a").Period; got < settled.Load() {
		t.Fatalf("requests in the period after closing under load: got %d, want at least the %d that were settled",
			got, settled.Load())
	}
}
