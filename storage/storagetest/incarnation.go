// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// born creates account "a" with an incarnation and returns a charge of it.
func born(t *testing.T, s storage.Store, incarnation string) quota.Charge {
	t.Helper()
	must(t, s.CreateAccount(context.Background(), quota.Account{ID: "a", Incarnation: incarnation}))
	c := charge("a", 1, quota.Limits{})
	c.Incarnation = incarnation
	return c
}

func incarnations(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	c := born(t, s, "first")
	a, err := s.UpdateAccount(ctx, "a", func(a *quota.Account) error {
		a.Incarnation = "another"
		return nil
	})
	must(t, err)
	if a.Incarnation != "first" {
		t.Errorf("incarnation in the result of UpdateAccount: got %q, want first", a.Incarnation)
	}
	for range 2 {
		take(t, s, c)
		a, err := s.Account(ctx, "a")
		must(t, err)
		if listed := collect(t, s.Accounts(ctx)); a.Incarnation != "first" || listed[0].Incarnation != "first" {
			t.Errorf("incarnation: got %q by Account and %q by Accounts, want first", a.Incarnation,
				listed[0].Incarnation)
		}
		s = reopened(s, reopen)
	}
}

// deletedInFlight guards against a new account that begins with calls of a deleted one with the same id.
func deletedInFlight(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	unborn := charge("a", 1, quota.Limits{})
	unborn.Incarnation = "first"
	_, _, err := s.Take(ctx, unborn)
	wantErr(t, err, quota.ErrNotFound)

	first := born(t, s, "first")
	for range 3 {
		take(t, s, first)
	}
	settle(t, s, first, quota.Outcome{Flagged: []string{"hate"}})
	must(t, s.DeleteAccount(ctx, "a"))
	nothing := func() {
		t.Helper()
		_, _, err := s.Take(ctx, first)
		wantErr(t, err, quota.ErrNotFound)
		settle(t, s, first, quota.Outcome{Refund: true})
		settle(t, s, first, quota.Outcome{Flagged: []string{"sexual"}})
		settle(t, s, first, quota.Outcome{})
	}
	nothing()
	if c := counts(t, s, "a"); c != (quota.Counts{}) {
		t.Errorf("counts of a deleted account after late calls: got %+v, want none", c)
	}
	if keys := look(t, s, noon).Keys; len(keys) != 0 {
		t.Errorf("requests by key of a deleted account after late calls: got %v, want none", keys)
	}
	second := born(t, s, "second")
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	nothing()
	if k, err := s.Key(ctx, "key_a"); err != nil || k.LastUsed != "" {
		t.Errorf("LastUsed of the new account's key: got %q, %v; want none", k.LastUsed, err)
	}
	take(t, s, second)
	settle(t, s, second, quota.Outcome{Flagged: []string{"hate"}})
	nothing()
	for range 2 {
		if c := counts(t, s, "a"); c != (quota.Counts{Minute: 1, Day: 1, Period: 1}) {
			t.Errorf("counts of the new account: got %+v, want 1 each", c)
		}
		flagged, err := s.Flagged(ctx, "a", march)
		must(t, err)
		if len(flagged) != 1 || flagged["hate"] != 1 {
			t.Errorf("flagged of the new account: got %v, want hate once", flagged)
		}
		if keys := look(t, s, noon).Keys; len(keys) != 1 || keys["key_a"] != 1 {
			t.Errorf("requests by key of the new account: got %v, want 1", keys)
		}
		s = reopened(s, reopen)
		nothing()
	}
	// A declared account is not looked for.
	declared := charge("declared", 1, quota.Limits{})
	take(t, s, declared)
	settle(t, s, declared, quota.Outcome{})
}

// deletionRaces deletes an account and creates it again, while calls are made with all of its incarnations.
func deletionRaces(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	const lives = 8
	born(t, s, "0")
	var life atomic.Int64
	var counted [lives]atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// Some come late.
				n := max(life.Load()-int64((worker+i)%3), 0)
				c := charge("a", 1, quota.Limits{})
				c.Incarnation = fmt.Sprint(n)
				_, _, err := s.Take(ctx, c)
				if errors.Is(err, quota.ErrNotFound) {
					continue
				}
				if err == nil {
					counted[n].Add(1)
					err = s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}})
				}
				if err != nil {
					t.Errorf("taking and settling: got the error %v, want none or %v by Take", err, quota.ErrNotFound)
					return
				}
			}
		})
	}
	for n := 1; n < lives; n++ {
		for counted[n-1].Load() < 20 && !t.Failed() {
			c := charge("other", 1, quota.Limits{})
			take(t, s, c)
			settle(t, s, c, quota.Outcome{})
		}
		must(t, s.DeleteAccount(ctx, "a"))
		born(t, s, fmt.Sprint(n))
		life.Store(int64(n))
	}
	close(stop)
	wg.Wait()
	for range 2 {
		want := counted[lives-1].Load()
		if c := counts(t, s, "a"); c != (quota.Counts{Minute: want, Day: want, Period: want}) {
			t.Errorf("counts of the last incarnation: got %+v, want %d each", c, want)
		}
		flagged, err := s.Flagged(ctx, "a", march)
		must(t, err)
		if keys := look(t, s, noon).Keys; keys["key_a"] != want {
			t.Errorf("requests by key of the last incarnation: got %v, want %d", keys, want)
		}
		if flagged["hate"] != want {
			t.Errorf("flagged of the last incarnation: got %v, want hate %d times", flagged, want)
		}
		s = reopened(s, reopen)
	}
}

func deletedBounds(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	one := feedback.Bound{Records: 1}
	for _, id := range []string{"a", "ab"} {
		must(t, s.CreateAccount(ctx, quota.Account{ID: id}))
		must(t, s.AppendFeedback(ctx, record(id, 0), one))
	}
	must(t, s.DeleteAccount(ctx, "a"))
	s = reopened(s, reopen)
	must(t, s.AppendFeedback(ctx, record("a", 1), one))
	wantErr(t, s.AppendFeedback(ctx, record("a", 2), one), feedback.ErrBound)
	wantErr(t, s.AppendFeedback(ctx, record("ab", 1), one), feedback.ErrBound)
}
