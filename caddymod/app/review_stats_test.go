// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// slowStore is a store whose lists wait until they may go on.
type slowStore struct {
	documents.Store
	lists atomic.Int64
	begun chan struct{}
	goOn  chan error
}

func (s *slowStore) ListDocuments(
	ctx context.Context, collection string, r documents.Range,
) iter.Seq2[documents.Document, error] {
	s.lists.Add(1)
	s.begun <- struct{}{}
	if err := <-s.goOn; err != nil {
		return func(yield func(documents.Document, error) bool) { yield(documents.Document{}, err) }
	}
	return s.Store.ListDocuments(ctx, collection, r)
}

// TestReviewStatsAreCountedOnce guards against a count for each of many callers, callers that wait for a slow one
// although something is known, and callers that wait for ever.
func TestReviewStatsAreCountedOnce(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[time.Time]
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	now.Store(&at)
	later := func(by time.Duration) {
		at := now.Load().Add(by)
		now.Store(&at)
	}
	store := &slowStore{Store: storagetest.NewMemory(), begun: make(chan struct{}), goOn: make(chan error)}
	queue, err := review.New(review.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	r := &Reviews{app: &App{now: func() time.Time { return *now.Load() }}, Queue: queue}
	r.app.services.Store(&Services{pooled: new(pooledStore)})
	add := func(account string) {
		t.Helper()
		if _, err := queue.Add(t.Context(), review.Item{
			Origin: review.API, Cause: review.Reviewed, Account: account, Texts: []review.Text{{Text: "a text"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func(account string) int {
		t.Helper()
		stats, err := r.Stats(t.Context(), account)
		if err != nil {
			t.Errorf("Stats of %q: got the error %v, want none", account, err)
		}
		return stats.Items[review.Pending]
	}
	add("acme")
	add("acme")
	add("other")
	// The first callers wait for one count.
	var callers sync.WaitGroup
	for range 10 {
		for account, want := range map[string]int{"": 3, "acme": 2, "other": 1, "empty": 0} {
			callers.Go(func() {
				if got := waiting(account); got != want {
					t.Errorf("the first count of %q: got %d, want %d", account, got, want)
				}
			})
		}
	}
	<-store.begun
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := r.Stats(gone, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: got the error %v", err)
	}
	store.goOn <- nil
	callers.Wait()
	// What is known holds for a while, and nobody waits long for a new count.
	add("acme")
	if got := waiting("acme"); got != 2 {
		t.Errorf("at once: got %d, want 2, which are known", got)
	}
	later(ReviewStatsAge)
	counting := make(chan int, 1)
	go func() { counting <- waiting("acme") }()
	<-store.begun
	if got := waiting("acme"); got != 2 {
		t.Errorf("while it is counted: got %d, want 2, which are known", got)
	}
	if got := <-counting; got != 2 {
		t.Errorf("who has begun to count: got %d, want 2, which are known", got)
	}
	store.goOn <- nil
	for waiting("acme") != 3 { // the count is there in a moment
		time.Sleep(time.Millisecond)
	}
	// For what is too old to be shown, callers wait.
	add("acme")
	later(reviewStatsOld)
	go func() { counting <- waiting("acme") }()
	<-store.begun
	select {
	case got := <-counting:
		t.Errorf("counts that are a minute old: got %d without waiting", got)
	case <-time.After(3 * reviewStatsWait):
		store.goOn <- nil
		if got := <-counting; got != 4 {
			t.Errorf("got %d, want 4", got)
		}
	}
	// A count that fails is an error for whoever counts, and the next one counts again.
	later(reviewStatsOld)
	broken := errors.New("the store is gone")
	for range 2 {
		failed := make(chan error)
		go func() {
			_, err := r.Stats(t.Context(), "")
			failed <- err
		}()
		<-store.begun
		store.goOn <- broken
		if err := <-failed; !errors.Is(err, broken) {
			t.Errorf("a count that fails: got the error %v, want %v", err, broken)
		}
	}
	if n := store.lists.Load(); n != 5 {
		t.Errorf("it was counted %d times, want 5", n)
	}
}
