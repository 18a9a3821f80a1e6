// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// ids returns the ids of all records that are kept.
func ids(t *testing.T, s storage.Store) (all []string) {
	t.Helper()
	for _, r := range collect(t, s.Feedback(context.Background(), "")) {
		all = append(all, r.ID)
	}
	return all
}

// feedbackIsDeleted guards against a deletion that takes other records with it, does not survive, or gives back what
// was used of a bound.
func feedbackIsDeleted(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	bound := feedback.Bound{Records: 4}
	for i := range 4 {
		must(t, s.AppendFeedback(ctx, record("a", i), bound))
	}
	// Records of one instant, and one whose id begins like another's.
	twin := record("b", 1)
	twin.ID = "a-00010"
	must(t, s.AppendFeedback(ctx, twin, noBound))
	missing := record("a", 1).Ref()
	missing.Time = missing.Time.Add(1)
	for i, step := range []struct {
		refs []feedback.Ref
		want int
	}{
		{nil, 0},
		{[]feedback.Ref{missing, {Time: noon, ID: "nobody"}, {}}, 0},
		{[]feedback.Ref{record("a", 1).Ref(), missing, record("a", 3).Ref(), record("a", 1).Ref()}, 2},
		{[]feedback.Ref{record("a", 1).Ref(), record("a", 3).Ref()}, 0},
	} {
		n, err := s.DeleteFeedback(ctx, step.refs...)
		if n != step.want || err != nil {
			t.Errorf("step %d: DeleteFeedback: got %d, %v; want %d", i, n, err, step.want)
		}
	}
	tooMany := make([]feedback.Ref, feedback.MaxDelete+1)
	tooMany[0] = record("a", 0).Ref()
	_, err := s.DeleteFeedback(ctx, tooMany...)
	wantErr(t, err, feedback.ErrTooMany)
	for range 2 {
		if got, want := ids(t, s), []string{"a-0000", "a-00010", "a-0002"}; !reflect.DeepEqual(got, want) {
			t.Errorf("records after a deletion: got %v, want %v", got, want)
		}
		wantErr(t, s.AppendFeedback(ctx, record("a", 5), bound), feedback.ErrBound)
		s = reopened(s, reopen)
	}
	// What was deleted can be kept again.
	must(t, s.AppendFeedback(ctx, record("a", 1), noBound))
}

// feedbackSelections deletes by each condition, and by several: all of them must hold.
func feedbackSelections(t *testing.T, open Open) {
	t.Helper()
	ctx := context.Background()
	hash := feedback.HashText("secret \U0001F600\n")
	for name, test := range map[string]struct {
		which feedback.Selection
		want  []string // the records that stay
	}{
		"account": {feedback.Selection{Account: "a"}, []string{"ab-0000", "ab-0001", "ab-0002"}},
		"before": {
			feedback.Selection{Before: record("", 1).Time},
			[]string{"a-0001", "ab-0001", "a-0002", "ab-0002"},
		},
		"text": {feedback.Selection{TextHash: &hash}, []string{"a-0000", "ab-0000", "ab-0001", "a-0002"}},
		"all": {
			feedback.Selection{Account: "a", Before: record("", 2).Time, TextHash: &hash},
			[]string{"a-0000", "ab-0000", "ab-0001", "a-0002", "ab-0002"},
		},
		"none": {
			feedback.Selection{Account: "a", Before: noon},
			[]string{"a-0000", "ab-0000", "a-0001", "ab-0001", "a-0002", "ab-0002"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, reopen := open(t)
			for i := range 3 {
				for _, account := range []string{"a", "ab"} {
					r := record(account, i)
					// The others have no newline, or one more, or the text elsewhere.
					r.Text = "secret \U0001F600"
					r.Context = feedback.RawJSON("{\"entries\":[{\"text\":\"secret \U0001F600\\n\"}]}")
					if account == "a" && i == 1 || account == "ab" && i == 2 {
						r.Text += "\n"
					}
					must(t, s.AppendFeedback(ctx, r, noBound))
				}
			}
			counted, err := storage.CountFeedback(ctx, s, test.which)
			must(t, err)
			for i, want := range []int{6 - len(test.want), 0} {
				got, err := storage.DeleteFeedback(ctx, s, test.which, 0)
				must(t, err)
				if got != (storage.FeedbackResult{Records: int64(want)}) || i == 0 && counted != got {
					t.Errorf("deletion %d: got %+v after counting %+v, want %d records", i, got, counted, want)
				}
			}
			s = reopened(s, reopen)
			if got := ids(t, s); !reflect.DeepEqual(got, test.want) {
				t.Errorf("records that stay: got %v, want %v", got, test.want)
			}
		})
	}
	t.Run("no condition", func(t *testing.T) {
		t.Parallel()
		s := opened(t, open)
		must(t, s.AppendFeedback(ctx, record("a", 0), noBound))
		_, err := storage.DeleteFeedback(ctx, s, feedback.Selection{}, 0)
		wantErr(t, err, feedback.ErrNoCondition)
		if n := len(ids(t, s)); n != 1 {
			t.Errorf("records after a deletion without a condition: got %d, want 1", n)
		}
	})
}

// deletionCountsOnce deletes the same records concurrently: the counts add up to the records.
func deletionCountsOnce(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	const records = 400
	for i := range records {
		must(t, s.AppendFeedback(ctx, record("a", i), noBound))
	}
	var deleted atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			n, err := storage.DeleteFeedback(ctx, s, feedback.Selection{Account: "a"}, time.Millisecond)
			if err != nil {
				t.Errorf("DeleteFeedback: got the error %v, want none", err)
			}
			deleted.Add(n.Records)
		})
	}
	wg.Wait()
	if n := len(ids(t, s)); n != 0 || deleted.Load() != records {
		t.Errorf("after concurrent deletions: %d records are left and %d were counted, want 0 and %d",
			n, deleted.Load(), records)
	}
}

// deletionUnderLoad deletes old records while new ones are added. The new ones stay, and the deletion can be broken
// off and repeated.
func deletionUnderLoad(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	const old = 700
	for i := range old {
		must(t, s.AppendFeedback(ctx, record("a", i), noBound))
	}
	which := feedback.Selection{Account: "a", Before: record("a", old).Time}
	stop := make(chan struct{})
	var added []string
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r := record("a", old+i)
			r.ID = fmt.Sprintf("new-%06d", i)
			if err := s.AppendFeedback(ctx, r, noBound); err != nil {
				t.Errorf("AppendFeedback: got the error %v, want none", err)
				return
			}
			added = append(added, r.ID)
		}
	})
	// The first batch is deleted, and then the caller leaves.
	broken, cancel := context.WithCancel(ctx)
	counting := &cancelling{Store: s, cancel: cancel}
	first, err := storage.DeleteFeedback(broken, counting, which, time.Hour)
	if !errors.Is(err, context.Canceled) || first.Records != feedback.MaxDelete {
		t.Errorf("a deletion that was broken off: got %+v, %v; want %d records and %v", first, err,
			feedback.MaxDelete, context.Canceled)
	}
	second, err := storage.DeleteFeedback(ctx, s, which, 0)
	must(t, err)
	close(stop)
	wg.Wait()
	if first.Records+second.Records != old {
		t.Errorf("deleted: got %d and %d, want %d in all", first.Records, second.Records, old)
	}
	s = reopened(s, reopen)
	if got := ids(t, s); !slices.Equal(got, added) {
		t.Errorf("records after a deletion under load: got %d, want the %d that were added meanwhile", len(got),
			len(added))
	}
}

// cancelling is a store whose caller leaves after the first deletion.
type cancelling struct {
	storage.Store
	cancel func()
}

func (c *cancelling) DeleteFeedback(ctx context.Context, refs ...feedback.Ref) (int, error) {
	defer c.cancel()
	return c.Store.DeleteFeedback(ctx, refs...)
}
