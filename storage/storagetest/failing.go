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

// OpenFailing is [Open] with a function that makes the store unable to write, with true, and lets it write again,
// with false.
type OpenFailing func(t *testing.T) (s storage.Store, fail func(bool), reopen func() storage.Store)

// RunFailing runs the tests of a store that is unable to write for a while.
func RunFailing(t *testing.T, open OpenFailing) {
	for name, test := range map[string]func(*testing.T, OpenFailing){
		"a call that cannot be kept is given back": failingCalls,
		"a change that cannot be kept is not made": failingChanges,
		"what is acknowledged is counted":          failingUnderLoad,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

// healed lets a store write again, and waits up to 30 s until it does.
func healed(t *testing.T, s storage.Store, fail func(bool)) {
	t.Helper()
	fail(false)
	var err error
	for range 3000 {
		// A store may find out only when it is used.
		if err = errors.Join(s.Health(), s.MarkSeeded(context.Background())); err == nil && s.Health() == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("30 s after it can write again the store still fails: %v", err)
}

// refusing makes a store unable to write, and checks that it says so when something must be kept.
func refusing(t *testing.T, s storage.Store, fail func(bool)) {
	t.Helper()
	must(t, s.Health())
	fail(true)
	wantErr(t, s.MarkSeeded(context.Background()), storage.ErrUnavailable)
	wantErr(t, s.Health(), storage.ErrUnavailable)
}

func failingCalls(t *testing.T, open OpenFailing) {
	ctx := context.Background()
	s, fail, reopen := open(t)
	c := charge("a", 2, quota.Limits{})
	call(t, s, c, "hate")
	take(t, s, c)
	refusing(t, s, fail)
	// A call in flight, and a new one if the store still counts.
	wantErr(t, s.Record(c, quota.Outcome{Flagged: []string{"hate", "sexual"}}).Wait(ctx), storage.ErrUnavailable)
	minute := int64(4)
	if _, _, err := s.Take(ctx, c); err == nil {
		minute += 2
		wantErr(t, s.Settle(ctx, c, quota.Outcome{Refund: true}), storage.ErrUnavailable)
	} else {
		wantErr(t, err, storage.ErrUnavailable)
	}
	healed(t, s, fail)
	for range 2 {
		if got := counts(t, s, "a"); got != (quota.Counts{Minute: minute, Day: 2, Period: 2}) {
			t.Errorf("counts after a failed call: got %+v, want %d in the minute and 2 else", got, minute)
		}
		flagged, err := s.Flagged(ctx, "a", march)
		must(t, err)
		if !reflect.DeepEqual(flagged, map[string]int64{"hate": 1}) {
			t.Errorf("flagged after a failed call: got %v, want hate once", flagged)
		}
		if keys := look(t, s, noon).Keys; !reflect.DeepEqual(keys, map[string]int64{"key_a": 2}) {
			t.Errorf("requests by key after a failed call: got %v, want 2", keys)
		}
		s = reopen()
	}
	call(t, s, c)
	if got := counts(t, s, "a"); got.Period != 4 {
		t.Errorf("counts after one more call: got %+v, want 4 in the period", got)
	}
}

func failingChanges(t *testing.T, open OpenFailing) {
	ctx := context.Background()
	s, fail, reopen := open(t)
	fill(t, s)
	before, kept := read(t, s), one(t, s, "b")
	refusing(t, s, fail)
	_, updateErr := s.UpdateAccount(ctx, "a", func(a *quota.Account) error { a.Name = "new"; return nil })
	_, deleteErr := s.DeleteFeedback(ctx, record("a", 0).Ref(), record("b", 1).Ref())
	_, keyErr := s.UpdateKey(ctx, "key_b", func(k *quota.Key) error { k.Name = "new"; return nil })
	unchanged := documents.Change{Key: "b", Value: []byte("2"), If: kept.Unchanged()}
	for doing, err := range map[string]error{
		"adding documents":    s.ChangeDocuments(ctx, shelf, put("d", "1"), put("e", "1")),
		"changing a document": s.ChangeDocuments(ctx, shelf, unchanged),
		"deleting a document": s.ChangeDocuments(ctx, shelf, documents.Change{Key: "b", Delete: true}),
		"erasing a document":  s.ChangeDocuments(ctx, shelf, documents.Change{Key: "b", Delete: true, Erase: true}),
		"creating an account": s.CreateAccount(ctx, quota.Account{ID: "c"}),
		"updating an account": updateErr,
		"deleting an account": s.DeleteAccount(ctx, "a"),
		"creating a key":      s.CreateKey(ctx, key("key_c", "a", 0)),
		"updating a key":      keyErr,
		"deleting feedback":   deleteErr,
		"keeping feedback":    s.AppendFeedback(ctx, record("b", 5), feedback.Bound{Records: 4}),
	} {
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: got the error %v, want %v", doing, err, storage.ErrUnavailable)
		}
	}
	healed(t, s, fail)
	for range 2 {
		if after := read(t, s); !reflect.DeepEqual(after, before) {
			t.Errorf("the contents after refused changes: got\n%+v, want\n%+v", after, before)
		}
		s = reopen()
	}
	// What was refused can be done, once.
	must(t, s.CreateAccount(ctx, quota.Account{ID: "c"}))
	must(t, s.CreateKey(ctx, key("key_c", "a", 0)))
	must(t, s.ChangeDocuments(ctx, shelf, documents.Change{Key: "d", If: documents.Absent()},
		documents.Change{Key: "e", If: documents.Absent()}, documents.Change{Key: "b", If: one(t, s, "b").Unchanged()}))
	must(t, s.AppendFeedback(ctx, record("b", 5), feedback.Bound{Records: 4}))
	wantErr(t, s.AppendFeedback(ctx, record("b", 6), feedback.Bound{Records: 4}), feedback.ErrBound)
	if n, err := s.DeleteFeedback(ctx, record("a", 0).Ref(), record("b", 1).Ref()); n != 2 || err != nil {
		t.Errorf("deleting two records: got %d, %v", n, err)
	}
}

// failingUnderLoad makes a store fail over and over under load. In the end exactly the calls that were acknowledged
// are counted.
func failingUnderLoad(t *testing.T, open OpenFailing) {
	ctx := context.Background()
	s, fail, reopen := open(t)
	var acknowledged, kept, added atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	work := func(do func(i int) error, done *atomic.Int64) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				err := do(i)
				switch {
				case err == nil:
					done.Add(1)
				case !errors.Is(err, storage.ErrUnavailable):
					t.Errorf("a call of a failing store: got the error %v, want none or %v", err,
						storage.ErrUnavailable)
					return
				}
			}
		})
	}
	for range 8 {
		work(func(int) error {
			c := charge("a", 1, quota.Limits{})
			if _, _, err := s.Take(ctx, c); err != nil {
				return err
			}
			return s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}})
		}, &acknowledged)
	}
	work(func(i int) error { return s.AppendFeedback(ctx, record("a", i), noBound) }, &kept)
	work(func(i int) error {
		key := fmt.Sprintf("item/%06d", i)
		return s.ChangeDocuments(ctx, shelf, put(key, "1"), put("last/"+key, ""))
	}, &added)
	for range 5 {
		for before := acknowledged.Load(); acknowledged.Load() < before+20 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		fail(true)
		time.Sleep(5 * time.Millisecond)
		healed(t, s, fail)
	}
	close(stop)
	wg.Wait()
	for range 2 {
		want := acknowledged.Load()
		c := counts(t, s, "a")
		flagged, err := s.Flagged(ctx, "a", march)
		must(t, err)
		if c.Period != want || c.Day != want || c.Minute < want || flagged["hate"] != want {
			t.Errorf("got the counts %+v and flagged %v, want the %d acknowledged calls, and no less in the minute",
				c, flagged, want)
		}
		if keys := look(t, s, noon).Keys; keys["key_a"] != want {
			t.Errorf("requests by key: got %v, want the %d acknowledged calls", keys, want)
		}
		items := pairs(t, s, shelf, documents.Prefix("item/"))
		lasts := pairs(t, s, shelf, documents.Prefix("last/"))
		if int64(len(items)) != added.Load() || len(lasts) != len(items) {
			t.Errorf("documents: got %d and %d that were added with them, want the %d that were acknowledged", len(items),
				len(lasts), added.Load())
		}
		if n := int64(len(collect(t, s.Feedback(ctx, "a")))); n != kept.Load() {
			t.Errorf("feedback records: got %d, want the %d that were acknowledged", n, kept.Load())
		}
		s = reopen()
	}
}
