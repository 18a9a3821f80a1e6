// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

func testKey(id, account string) quota.Key {
	return quota.Key{ID: id, Account: account, Hash: quota.HashKey("the secret of " + id), Created: noon}
}

func testRecord(id string, at time.Time) feedback.Record {
	return feedback.Record{ID: id, Time: at, Account: "a", Key: "key_a", Text: "text of " + id}
}

// runMost calls each method of a store.
func runMost(t *testing.T, o Options) {
	t.Helper()
	o.ClientClock = true
	s := openTest(t, o)
	ctx := background
	must(t, s.MarkSeeded(ctx))
	for i := range 20 {
		id := fmt.Sprint("a", i)
		must(t, s.CreateAccount(ctx, quota.Account{ID: id, Incarnation: "1"}))
		_, err := s.UpdateAccount(ctx, id, func(a *quota.Account) error { a.Name = "new"; return nil })
		must(t, err)
		k := testKey("key_"+id, id)
		must(t, s.CreateKey(ctx, k))
		_, err = s.UpdateKey(ctx, k.ID, func(k *quota.Key) error { k.Name = "new"; return nil })
		must(t, err)
		c := quota.Charge{Account: id, Incarnation: "1", Key: k.ID, Requests: 2, Now: noon,
			Period: quota.PeriodOf(0, noon)}
		for range 3 {
			_, _, err = s.Take(ctx, c)
			must(t, err)
			must(t, s.Settle(ctx, c, quota.Outcome{Refund: true, Flagged: []string{"hate"}}))
		}
		must(t, s.AppendFeedback(ctx, testRecord(id, noon.AddDate(0, 0, i%3)), feedback.Bound{Records: 100}))
	}
	reads(t, s, 20)
	batch, err := s.NextFeedback(ctx, "test", 100)
	must(t, err)
	if len(batch.Records) != 20 {
		t.Errorf("NextFeedback: got %d records, want 20", len(batch.Records))
	}
	must(t, batch.Acknowledge(ctx))
	must(t, s.ForgetConsumer(ctx, "test"))
	n, err := s.DeleteFeedback(ctx, testRecord("a0", noon).Ref(), testRecord("a1", noon.AddDate(0, 0, 1)).Ref())
	must(t, err)
	if n != 2 {
		t.Errorf("DeleteFeedback: got %d, want 2", n)
	}
	for i := range 10 {
		must(t, s.DeleteAccount(ctx, fmt.Sprint("a", i)))
	}
	reads(t, s, 10)
	must(t, s.Health())
	must(t, s.Close())
}

// reads calls each method that reads, and compares the number of accounts and keys.
func reads(t *testing.T, s *Store, want int) {
	t.Helper()
	ctx := background
	accounts, keys := 0, 0
	for _, err := range s.Accounts(ctx) {
		must(t, err)
		accounts++
	}
	for k, err := range s.Keys(ctx, "") {
		must(t, err)
		keys++
		_, err = s.Key(ctx, k.ID)
		must(t, err)
		for range 2 {
			_, err = s.KeyByHash(ctx, k.Hash)
			must(t, err)
			_, err = s.Account(ctx, k.Account)
			must(t, err)
		}
		_, err = s.Counts(ctx, k.Account, noon, quota.PeriodOf(0, noon))
		must(t, err)
		_, err = s.Days(ctx, k.Account, noon, 40)
		must(t, err)
		_, err = s.Flagged(ctx, k.Account, quota.PeriodOf(0, noon))
		must(t, err)
		_, err = s.KeyRequests(ctx, k.Account, quota.PeriodOf(0, noon))
		must(t, err)
	}
	if accounts != want || keys != want {
		t.Errorf("listings: got %d accounts and %d keys, want %d each", accounts, keys, want)
	}
	for _, err := range s.Feedback(ctx, "") {
		must(t, err)
	}
	seeded, err := s.Seeded(ctx)
	must(t, err)
	if !seeded {
		t.Error("Seeded: got false, want true")
	}
}
