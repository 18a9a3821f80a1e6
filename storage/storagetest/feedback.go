// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

var noBound feedback.Bound

func record(account string, n int) feedback.Record {
	return feedback.Record{
		ID:      fmt.Sprintf("%s-%04d", account, n),
		Time:    noon.Add(time.Duration(n) * time.Millisecond),
		Account: account,
		Key:     "key_" + account,
		Text:    "text",
		Scores: map[string]feedback.AttributeScore{
			"TOXICITY": {Summary: &feedback.Score{Value: 0.5, Type: "PROBABILITY"}},
		},
		ModelVersion: "1",
		ModelScores:  map[string]float64{"TOXICITY": 0.25},
	}
}

func feedbackIsKept(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	want := record("a", 1)
	want.Text = "a < b & c > d, \u2028 \U0001F600"
	want.Scores["UNKNOWN"] = feedback.AttributeScore{Spans: []feedback.SpanScore{
		{Begin: 1, End: 2, Score: feedback.Score{Value: 1, Type: "PROBABILITY"}},
	}}
	want.Community, want.Session, want.Languages, want.ClientToken = "c", "s", []string{"en", "de"}, "t"
	want.Context = feedback.RawJSON(`{"entries":[{"text":"<b>\u00fc</b>"}],"n":1.0e2}`)
	must(t, s.AppendFeedback(ctx, want, noBound))
	for range 2 {
		all := collect(t, s.Feedback(ctx, ""))
		if len(all) != 1 || !reflect.DeepEqual(all[0], want) {
			t.Fatalf("Feedback: got\n%+v, want\n%+v", all, want)
		}
		s = reopened(s, reopen)
	}
	wantErr(t, s.AppendFeedback(ctx, want, noBound), quota.ErrExists)
	nameless := record("a", 2)
	nameless.ID = ""
	wantErr(t, s.AppendFeedback(ctx, nameless, noBound), quota.ErrInvalid)
}

func feedbackOrder(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	// More than a store reads at a time, and not in the order of time.
	const n = 600
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				account := []string{"a", "b"}[i%2]
				if err := s.AppendFeedback(ctx, record(account, n-1-i), noBound); err != nil {
					t.Errorf("AppendFeedback: got the error %v, want none", err)
				}
			}
		})
	}
	wg.Wait()
	for account, want := range map[string]int{"": n, "a": n / 2, "b": n / 2, "c": 0} {
		all := collect(t, s.Feedback(ctx, account))
		if len(all) != want {
			t.Errorf("Feedback of %q: got %d records, want %d", account, len(all), want)
		}
		for i := 1; i < len(all); i++ {
			if !all[i-1].Time.Before(all[i].Time) {
				t.Fatalf("Feedback of %q: record %d is of %s, the one before of %s; want the oldest first",
					account, i, all[i].Time, all[i-1].Time)
			}
		}
	}
}

func feedbackSize(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	large := record("a", 0)
	large.Text = strings.Repeat("x", feedback.MaxRecordBytes)
	wantErr(t, s.AppendFeedback(ctx, large, noBound), feedback.ErrTooLarge)
	// 10,000 of the longest characters fit.
	large.Text = strings.Repeat("\U0001F600", 10_000)
	must(t, s.AppendFeedback(ctx, large, noBound))
	if n := len(collect(t, s.Feedback(ctx, ""))); n != 1 {
		t.Fatalf("records after one that is too large and one that is not: got %d, want 1", n)
	}
}

func feedbackBound(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	race := func(account string, first int, bound feedback.Bound) (kept int64) {
		var n atomic.Int64
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				err := s.AppendFeedback(ctx, record(account, first+i), bound)
				if err == nil {
					n.Add(1)
				} else if !errors.Is(err, feedback.ErrBound) {
					t.Errorf("AppendFeedback: got the error %v, want none or %v", err, feedback.ErrBound)
				}
			})
		}
		wg.Wait()
		return n.Load()
	}
	if n := race("a", 0, feedback.Bound{Records: 10}); n != 10 {
		t.Errorf("records kept within a bound of 10: got %d", n)
	}
	s = reopened(s, reopen)
	if n := race("a", 100, feedback.Bound{Records: 15}); n != 5 {
		t.Errorf("records kept after reopening within a bound of 15, with 10 used: got %d, want 5", n)
	}
	size, err := json.Marshal(record("b", 1))
	must(t, err)
	if n := race("b", 1, feedback.Bound{Bytes: 5 * int64(len(size))}); n != 5 {
		t.Errorf("records kept within the bytes of 5: got %d", n)
	}
	if n := race("c", 0, noBound); n != 32 {
		t.Errorf("records kept without a bound: got %d, want 32", n)
	}
	if n := len(collect(t, s.Feedback(ctx, "a"))); n != 15 {
		t.Errorf("Feedback: got %d records, want 15", n)
	}
	tomorrow := record("a", 999)
	tomorrow.Time = noon.AddDate(0, 0, 1)
	must(t, s.AppendFeedback(ctx, tomorrow, feedback.Bound{Records: 1}))
}
