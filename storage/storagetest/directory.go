// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

func account(id string) quota.Account {
	month, minute, share := int64(5), int64(0), 0.02
	return quota.Account{
		ID: id, Name: "Ünï <b>&</b>", Tier: "free", Status: "on_hold", AnchorDay: 31,
		Overrides: quota.Overrides{
			RequestsPerMonth: &month, RequestsPerMinute: &minute,
			Thresholds: map[string]float64{"hate": 0.1, "sexual": 0.9999}, HarmShare: &share,
			Allow: []string{"Scunthorpe"}, Block: []string{"buy <b>", "Käufer"}, Languages: []string{"en", "pt-BR"},
			OtherLanguage: "review",
		},
		Created: noon, Updated: noon.Add(time.Second), Incarnation: "first",
	}
}

func key(id, account string, age time.Duration) quota.Key {
	return quota.Key{ID: id, Account: account, Hash: quota.HashKey("the secret of " + id), Created: noon.Add(-age)}
}

func accountsAreKept(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	_, err := s.Account(ctx, "a")
	wantErr(t, err, quota.ErrNotFound)
	want := account("a")
	must(t, s.CreateAccount(ctx, want))
	wantErr(t, s.CreateAccount(ctx, account("a")), quota.ErrExists)
	for range 2 {
		got, err := s.Account(ctx, "a")
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Account: got\n%+v, want\n%+v", got, want)
		}
		s = reopened(s, reopen)
	}
}

func accountsAreListed(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	// More than any store reads at a time, made in an order that is not theirs.
	const n = 300
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := s.CreateAccount(ctx, quota.Account{ID: fmt.Sprintf("a%03d", i*7%n), Tier: "free"}); err != nil {
				t.Errorf("CreateAccount: got the error %v, want none", err)
			}
		})
	}
	wg.Wait()
	all := collect(t, s.Accounts(ctx))
	if len(all) != n {
		t.Fatalf("Accounts: got %d, want %d", len(all), n)
	}
	for i, a := range all {
		if want := fmt.Sprintf("a%03d", i); a.ID != want {
			t.Fatalf("Accounts: at place %d got %s, want %s", i, a.ID, want)
		}
	}
}

func updatesAreAtomic(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	must(t, s.CreateAccount(ctx, quota.Account{ID: "a"}))
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := s.UpdateAccount(ctx, "a", func(a *quota.Account) error { a.Name += "x"; return nil })
			if err != nil {
				t.Errorf("UpdateAccount: got the error %v, want none", err)
			}
			_, err = s.UpdateKey(ctx, "key_a", func(k *quota.Key) error { k.Name += "x"; return nil })
			if err != nil {
				t.Errorf("UpdateKey: got the error %v, want none", err)
			}
		})
	}
	wg.Wait()
	s = reopened(s, reopen)
	a, err := s.Account(ctx, "a")
	must(t, err)
	k, err := s.Key(ctx, "key_a")
	must(t, err)
	if len(a.Name) != 20 || len(k.Name) != 20 {
		t.Fatalf("concurrent updates: %d of the account and %d of the key are there, want 20 each", len(a.Name),
			len(k.Name))
	}
}

func failedUpdate(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	must(t, s.CreateAccount(ctx, quota.Account{ID: "a", Name: "before"}))
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	wrong := errors.New("wrong")
	_, err := s.UpdateAccount(ctx, "a", func(a *quota.Account) error { a.Name = "after"; return wrong })
	if err != wrong { //nolint:errorlint // it must come back as it is
		t.Fatalf("UpdateAccount: got the error %v, want that of the change, not wrapped: %v", err, wrong)
	}
	_, err = s.UpdateKey(ctx, "key_a", func(k *quota.Key) error { k.Name = "after"; return wrong })
	if err != wrong { //nolint:errorlint // it must come back as it is
		t.Fatalf("UpdateKey: got the error %v, want that of the change, not wrapped: %v", err, wrong)
	}
	a, err := s.Account(ctx, "a")
	must(t, err)
	k, err := s.Key(ctx, "key_a")
	must(t, err)
	if a.Name != "before" || k.Name != "" {
		t.Fatalf("names after failed updates: got %q and %q, want \"before\" and none", a.Name, k.Name)
	}
	_, err = s.UpdateAccount(ctx, "b", func(*quota.Account) error {
		t.Error("UpdateAccount calls change for an account that does not exist")
		return nil
	})
	wantErr(t, err, quota.ErrNotFound)
	_, err = s.UpdateKey(ctx, "key_b", func(*quota.Key) error {
		t.Error("UpdateKey calls change for a key that does not exist")
		return nil
	})
	wantErr(t, err, quota.ErrNotFound)
}

func keysAreKept(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	want := key("key_a", "a", time.Hour)
	want.Name, want.Environment = "näme", "live"
	expires, revoked := noon.Add(time.Hour), noon.Add(time.Minute)
	want.Expires, want.Revoked = &expires, &revoked
	original := noon.Add(2*time.Hour + time.Nanosecond)
	want.Replaced = &quota.Replacement{By: "key_b", At: noon.Add(time.Second), OriginalExpires: &original}
	must(t, s.CreateKey(ctx, want))
	for range 2 {
		got, err := s.Key(ctx, "key_a")
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Key: got\n%+v, want\n%+v", got, want)
		}
		got, err = s.KeyByHash(ctx, want.Hash)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("KeyByHash: got\n%+v, want\n%+v", got, want)
		}
		s = reopened(s, reopen)
	}
	_, err := s.Key(ctx, "key_b")
	wantErr(t, err, quota.ErrNotFound)
	_, err = s.KeyByHash(ctx, quota.Hash{1})
	wantErr(t, err, quota.ErrNotFound)
}

func keysAreListed(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	for _, k := range []quota.Key{
		key("key_1", "b", 1*time.Hour), key("key_2", "a", 1*time.Hour), key("key_3", "a", 3*time.Hour),
		key("key_4", "a-b", 9*time.Hour), key("key_5", "a", 2*time.Hour),
	} {
		must(t, s.CreateKey(ctx, k))
	}
	for of, want := range map[string][]string{
		"a":    {"key_3", "key_5", "key_2"},
		"a-b":  {"key_4"},
		"none": nil,
		"":     {"key_3", "key_5", "key_2", "key_4", "key_1"},
	} {
		var got []string
		for _, k := range collect(t, s.Keys(ctx, of)) {
			got = append(got, k.ID)
			if k.Hash == (quota.Hash{}) {
				t.Errorf("Keys: got %s without its hash, want it filled in", k.ID)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Keys of %q: got %v, want %v", of, got, want)
		}
	}
}

func keysAreUnique(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	sameID, sameHash := key("key_a", "b", 0), key("key_b", "b", 0)
	sameID.Hash, sameHash.Hash = quota.Hash{9}, key("key_a", "a", 0).Hash
	wantErr(t, s.CreateKey(ctx, sameID), quota.ErrExists)
	wantErr(t, s.CreateKey(ctx, sameHash), quota.ErrExists)
	if all := collect(t, s.Keys(ctx, "")); len(all) != 1 || all[0].Account != "a" {
		t.Fatalf("Keys after refused creations: got %+v, want the first key alone", all)
	}
	k, err := s.UpdateKey(ctx, "key_a", func(k *quota.Key) error {
		k.ID, k.Account, k.Hash, k.Name = "key_z", "z", quota.Hash{7}, "new"
		return nil
	})
	must(t, err)
	want := key("key_a", "a", 0)
	want.Name = "new"
	if !reflect.DeepEqual(k, want) {
		t.Fatalf("UpdateKey: got\n%+v, want\n%+v", k, want)
	}
}

// changesAreSeen guards against a cache that keeps what has been replaced: lookups race with each change.
func changesAreSeen(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	must(t, s.CreateAccount(ctx, quota.Account{ID: "a"}))
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	hash := key("key_a", "a", 0).Hash
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := s.Account(ctx, "a")
				_, err2 := s.KeyByHash(ctx, hash)
				if err := errors.Join(err, err2); err != nil {
					t.Errorf("Account and KeyByHash: got the error %v, want none", err)
					return
				}
				// Often enough to race with every change, and rarely enough to let it happen.
				time.Sleep(20 * time.Microsecond)
			}
		})
	}
	for i := range 50 {
		name := fmt.Sprint(i)
		_, err := s.UpdateAccount(ctx, "a", func(a *quota.Account) error { a.Name = name; return nil })
		must(t, err)
		_, err = s.UpdateKey(ctx, "key_a", func(k *quota.Key) error { k.Name = name; return nil })
		must(t, err)
		a, err := s.Account(ctx, "a")
		must(t, err)
		k, err := s.KeyByHash(ctx, hash)
		must(t, err)
		if a.Name != name || k.Name != name {
			t.Fatalf("names after update %s: got %q and %q, want the new one: an old one is cached", name, a.Name,
				k.Name)
		}
	}
	close(stop)
	wg.Wait()
}

func deletion(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	for _, id := range []string{"a", "ab"} {
		must(t, s.CreateAccount(ctx, quota.Account{ID: id}))
		must(t, s.CreateKey(ctx, key("key_"+id, id, 0)))
		c := charge(id, 3, quota.Limits{})
		take(t, s, c)
		settle(t, s, c, quota.Outcome{Flagged: []string{"hate"}})
		must(t, s.AppendFeedback(ctx, record(id, 0), noBound))
	}
	// What is cached now must not be found later.
	_, err := s.KeyByHash(ctx, key("key_a", "a", 0).Hash)
	must(t, err)
	take(t, s, charge("a", 1, quota.Limits{}))

	must(t, s.DeleteAccount(ctx, "a"))
	wantErr(t, s.DeleteAccount(ctx, "a"), quota.ErrNotFound)
	for range 2 {
		_, err := s.Account(ctx, "a")
		wantErr(t, err, quota.ErrNotFound)
		_, err = s.Key(ctx, "key_a")
		wantErr(t, err, quota.ErrNotFound)
		_, err = s.KeyByHash(ctx, key("key_a", "a", 0).Hash)
		wantErr(t, err, quota.ErrNotFound)
		if c := counts(t, s, "a"); c != (quota.Counts{}) {
			t.Errorf("counts of a deleted account: got %+v, want none", c)
		}
		flagged, err := s.Flagged(ctx, "a", march)
		must(t, err)
		days, err := s.Days(ctx, "a", noon, 1)
		must(t, err)
		if len(flagged) != 0 || days[0] != 0 {
			t.Errorf("of a deleted account: got flagged %v and days %v, want none", flagged, days)
		}
		if n := len(collect(t, s.Feedback(ctx, "a"))); n != 1 {
			t.Errorf("feedback records of a deleted account: got %d, want 1", n)
		}
		if c := counts(t, s, "ab"); c != (quota.Counts{Minute: 3, Day: 3, Period: 3}) {
			t.Errorf("counts of another account: got %+v, want 3 each", c)
		}
		if n := len(collect(t, s.Keys(ctx, ""))); n != 1 {
			t.Errorf("keys: got %d, want 1, the other account's", n)
		}
		s = reopened(s, reopen)
	}
	must(t, s.CreateAccount(ctx, quota.Account{ID: "a"}))
	must(t, s.CreateKey(ctx, key("key_a", "a", 0)))
	k, err := s.Key(ctx, "key_a")
	must(t, err)
	if k.LastUsed != "" {
		t.Errorf("LastUsed of a new key with the id of a deleted one: got %s, want none", k.LastUsed)
	}
}

func seeding(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	seeded, err := s.Seeded(ctx)
	must(t, err)
	if seeded {
		t.Fatal("Seeded of a new store: got true, want false")
	}
	must(t, s.MarkSeeded(ctx))
	must(t, s.MarkSeeded(ctx))
	s = reopened(s, reopen)
	seeded, err = s.Seeded(ctx)
	must(t, err)
	if !seeded {
		t.Fatal("Seeded after MarkSeeded and reopening: got false, want true")
	}
}

func brokenListings(t *testing.T, open Open) {
	ctx := context.Background()
	s := opened(t, open)
	for _, id := range []string{"a", "b", "c"} {
		must(t, s.CreateAccount(ctx, quota.Account{ID: id}))
		must(t, s.CreateKey(ctx, key("key_"+id, "a", 0)))
		must(t, s.AppendFeedback(ctx, record(id, 0), noBound))
	}
	for _, err := range s.Accounts(ctx) {
		must(t, err)
		break
	}
	for _, err := range s.Keys(ctx, "a") {
		must(t, err)
		break
	}
	for _, err := range s.Feedback(ctx, "") {
		must(t, err)
		break
	}
	// The consumer of a listing may change what is listed.
	for a, err := range s.Accounts(ctx) {
		must(t, err)
		must(t, s.DeleteAccount(ctx, a.ID))
	}
	if n := len(collect(t, s.Accounts(ctx))); n != 0 {
		t.Fatalf("accounts after deleting each one in a listing: got %d, want none", n)
	}
}
