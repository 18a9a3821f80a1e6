// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// contents is all that a store tells about some accounts.
type contents struct {
	Accounts []quota.Account
	Keys     []quota.Key
	Feedback []feedback.Record
	Seeded   bool
	Usage    map[string]seen
	// Documents are keys and values, without revisions: those may be others in a copy.
	Documents map[string][]string
}

// fill puts records of all kinds into a store, changes some and deletes some.
func fill(t *testing.T, s storage.Store) {
	t.Helper()
	ctx := context.Background()
	must(t, s.MarkSeeded(ctx))
	for _, id := range []string{"a", "b", "gone"} {
		must(t, s.CreateAccount(ctx, account(id)))
		must(t, s.CreateKey(ctx, key("key_"+id, id, 0)))
		must(t, s.CreateKey(ctx, key("key_2"+id, id, time.Hour)))
		c := charge(id, 3, quota.Limits{})
		call(t, s, c, "hate", "sexual", "hate")
		take(t, s, c)
		settle(t, s, c, quota.Outcome{Refund: true})
		c = chargeAt(noon.AddDate(0, 0, -1), 7)
		c.Account = id
		c.Key = "key_2" + id
		call(t, s, c)
		for n := range 3 {
			must(t, s.AppendFeedback(ctx, record(id, n), feedback.Bound{Records: 3}))
		}
	}
	_, err := s.UpdateAccount(ctx, "a", func(a *quota.Account) error {
		a.Status, a.Tier, a.AnchorDay = "of_tomorrow", "no_more", 17
		return nil
	})
	must(t, err)
	_, err = s.UpdateKey(ctx, "key_a", func(k *quota.Key) error {
		revoked := noon.Add(time.Minute)
		k.Revoked = &revoked
		return nil
	})
	must(t, err)
	_, err = s.UpdateKey(ctx, "key_b", func(k *quota.Key) error {
		k.Replaced = &quota.Replacement{By: "key_2b", At: noon}
		return nil
	})
	must(t, err)
	must(t, s.DeleteAccount(ctx, "gone"))
	must(t, s.ChangeDocuments(ctx, shelf, put("a", "1"), put("b", "\x00\xff<&>"), put("c", ""), put("gone", "2")))
	must(t, s.ChangeDocuments(ctx, shelf, put("a", "3"), documents.Change{Key: "gone", Delete: true}))
	must(t, s.ChangeDocuments(ctx, "other", put("a", "4")))
}

func read(t *testing.T, s storage.Store) contents {
	t.Helper()
	ctx := context.Background()
	seeded, err := s.Seeded(ctx)
	must(t, err)
	all := contents{
		Accounts: collect(t, s.Accounts(ctx)),
		Keys:     collect(t, s.Keys(ctx, "")),
		Feedback: collect(t, s.Feedback(ctx, "")),
		Seeded:   seeded,
		Usage:    map[string]seen{},
		Documents: map[string][]string{
			shelf: pairs(t, s, shelf, documents.Range{}), "other": pairs(t, s, "other", documents.Range{}),
		},
	}
	for _, id := range []string{"a", "b", "gone"} {
		c, err := s.Counts(ctx, id, noon, march)
		must(t, err)
		days, err := s.Days(ctx, id, noon, 40)
		must(t, err)
		flagged, err := s.Flagged(ctx, id, march)
		must(t, err)
		keys, err := s.KeyRequests(ctx, id, march)
		must(t, err)
		all.Usage[id] = seen{c, days, flagged, keys}
	}
	return all
}

// check compares the contents with what fill has put in.
func (c contents) check(t *testing.T) {
	t.Helper()
	if len(c.Accounts) != 2 || c.Accounts[0].Status != "of_tomorrow" || c.Accounts[0].Tier != "no_more" ||
		c.Accounts[1].Status != "on_hold" {
		t.Errorf("accounts: got %+v, want a and b, a changed", c.Accounts)
	}
	if len(c.Keys) != 4 || c.Keys[1].Revoked == nil || c.Keys[1].LastUsed == "" || c.Keys[0].LastUsed == "" {
		t.Errorf("keys: got %+v, want two each of a and b, all used, the second one of a revoked", c.Keys)
	} else if r := c.Keys[3].Replaced; r == nil || r.By != "key_2b" || !r.At.Equal(noon) || r.OriginalExpires != nil {
		t.Errorf("the second key of b: got the replacement %+v, want key_2b, at noon", r)
	}
	if len(c.Feedback) != 9 || !c.Seeded {
		t.Errorf("got %d feedback records, seeded %t; want 9, true", len(c.Feedback), c.Seeded)
	}
	wantDocuments := map[string][]string{shelf: {"a=3", "b=\x00\xff<&>", "c="}, "other": {"a=4"}}
	if !reflect.DeepEqual(c.Documents, wantDocuments) {
		t.Errorf("documents: got %q, want %q", c.Documents, wantDocuments)
	}
	want := seen{quota.Counts{Minute: 6, Day: 3, Period: 10}, make([]int64, 40),
		map[string]int64{"hate": 2, "sexual": 1}, nil}
	want.Days[0], want.Days[1] = 3, 7
	for _, id := range []string{"a", "b"} {
		want.Keys = map[string]int64{"key_" + id: 3, "key_2" + id: 7}
		if !reflect.DeepEqual(c.Usage[id], want) {
			t.Errorf("usage of %s: got %+v, want %+v", id, c.Usage[id], want)
		}
	}
	if left := c.Usage["gone"]; left.Counts != (quota.Counts{}) || len(left.Flagged) != 0 || left.Days[1] != 0 ||
		len(left.Keys) != 0 {
		t.Errorf("usage of the deleted account: got %+v, want nothing", left)
	}
}

// everythingSurvives guards against a kind of record that does not survive reopening, or changes when it is read again.
func everythingSurvives(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	fill(t, s)
	before := read(t, s)
	before.check(t)
	for range 2 {
		s = reopened(s, reopen)
		if after := read(t, s); !reflect.DeepEqual(after, before) {
			t.Errorf("after reopening: got\n%+v, want\n%+v", after, before)
		}
		wantErr(t, s.AppendFeedback(ctx, record("a", 10), feedback.Bound{Records: 3}), feedback.ErrBound)
		wantErr(t, s.CreateAccount(ctx, account("a")), quota.ErrExists)
		wantErr(t, s.CreateKey(ctx, key("key_a", "a", 0)), quota.ErrExists)
	}
}

func idOrder(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	want := []string{"0", "A", "Z", "a", "a-b", "a.b", "a0", "a_b", "aB", "ab", "abc", "b", strings.Repeat("z", 64)}
	slices.Sort(want)
	for i := range want {
		id := want[(i*5+3)%len(want)]
		must(t, s.CreateAccount(ctx, quota.Account{ID: id}))
		must(t, s.CreateKey(ctx, key("key_"+id, id, 0)))
		c := charge(id, int64(len(id)), quota.Limits{})
		call(t, s, c)
	}
	for range 2 {
		var ids, holders []string
		for _, a := range collect(t, s.Accounts(ctx)) {
			ids = append(ids, a.ID)
		}
		for _, k := range collect(t, s.Keys(ctx, "")) {
			holders = append(holders, k.Account)
		}
		if !reflect.DeepEqual(ids, want) || !reflect.DeepEqual(holders, want) {
			t.Errorf("got the accounts %v and keys of %v, want both in the order %v", ids, holders, want)
		}
		for _, id := range want {
			if keys := collect(t, s.Keys(ctx, id)); len(keys) != 1 || keys[0].Account != id {
				t.Errorf("keys of %s: got %+v, want its one key", id, keys)
			}
			if c := counts(t, s, id); c.Day != int64(len(id)) {
				t.Errorf("counts of %s: got %+v, want %d in the day", id, c, len(id))
			}
		}
		s = reopened(s, reopen)
	}
}

// largeRecords stores the largest records that the gate lets through, and more categories than exist.
func largeRecords(t *testing.T, open Open) {
	ctx := context.Background()
	s, reopen := open(t)
	want := account(strings.Repeat("a", 64))
	want.Name = strings.Repeat("\U0001F600", 200)
	want.Overrides.Thresholds = map[string]float64{}
	var flagged []string
	for i := range 64 {
		want.Overrides.Thresholds[fmt.Sprintf("%064d", i)] = 1 / float64(i+2)
	}
	want.Overrides.Allow, want.Overrides.Block = nil, nil
	for i := range quota.MaxExpressions {
		want.Overrides.Allow = append(want.Overrides.Allow, fmt.Sprintf("%032d", i))
		want.Overrides.Block = append(want.Overrides.Block, strings.Repeat("\U0001F600", 8))
	}
	for i := range 1000 {
		flagged = append(flagged, fmt.Sprintf("category_%060d", i))
	}
	must(t, s.CreateAccount(ctx, want))
	k := key("key_"+strings.Repeat("x", 60), want.ID, 0)
	k.Name, k.Environment = strings.Repeat("\U0001F600", 200), strings.Repeat("\U0001F600", 64)
	must(t, s.CreateKey(ctx, k))
	c := charge(want.ID, 1<<40, quota.Limits{})
	c.Key = k.ID
	call(t, s, c, flagged...)
	for range 2 {
		got, err := s.Account(ctx, want.ID)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the account: got\n%+v, want\n%+v", got, want)
		}
		gotKey, err := s.KeyByHash(ctx, k.Hash)
		must(t, err)
		if !reflect.DeepEqual(gotKey, k) {
			t.Errorf("the key: got\n%+v, want\n%+v", gotKey, k)
		}
		counted, err := s.Flagged(ctx, want.ID, march)
		must(t, err)
		if len(counted) != len(flagged) || counted[flagged[999]] != 1 {
			t.Errorf("flagged categories: got %d, want %d with 1 each", len(counted), len(flagged))
		}
		if got := counts(t, s, want.ID); got.Period != 1<<40 {
			t.Errorf("counts: got %+v, want %d in the period", got, int64(1<<40))
		}
		s = reopened(s, reopen)
	}
}

// batches makes calls of several requests, concurrently: all requests of a call count or none.
func batches(t *testing.T, open Open) {
	s, reopen := open(t)
	limits := quota.Limits{RequestsPerMonth: 101, RequestsPerMinute: 101}
	results := make(chan bool, 40)
	for range 40 {
		go func() {
			c := charge("a", 10, limits)
			_, refused, err := s.Take(context.Background(), c)
			if err == nil && refused == quota.NoWindow {
				err = s.Settle(context.Background(), c, quota.Outcome{})
			}
			if err != nil {
				t.Errorf("taking and settling: got the error %v, want none", err)
			}
			results <- refused == quota.NoWindow
		}()
	}
	admitted := 0
	for range 40 {
		if <-results {
			admitted++
		}
	}
	s = reopened(s, reopen)
	if c := counts(t, s, "a"); admitted != 10 || c != (quota.Counts{Minute: 100, Day: 100, Period: 100}) {
		t.Errorf("calls of 10 requests with a limit of 101: got %d admitted and the counts %+v, want 10 and 100 each",
			admitted, c)
	}
	for n, want := range map[int64]quota.Window{2: quota.MonthWindow, 50: quota.MonthWindow} {
		if _, refused := take(t, s, charge("a", n, limits)); refused != want {
			t.Errorf("a call of %d requests with 1 left: got %q as refusing window, want %q", n, refused, want)
		}
	}
	if c, refused := take(t, s, charge("a", 1, limits)); refused != quota.NoWindow || c.Period != 101 {
		t.Errorf("the last request: got %+v, refused by %q; want 101 in the period, admitted", c, refused)
	}
}

// refundClamp guards against requests that are given away: a charge is given back once, and a store never counts
// below 0.
func refundClamp(t *testing.T, open Open) {
	s, reopen := open(t)
	c := charge("a", 3, quota.Limits{RequestsPerMonth: 3})
	take(t, s, c)
	for range 2 {
		settle(t, s, c, quota.Outcome{Refund: true})
		if got := counts(t, s, "a"); got != (quota.Counts{Minute: 3}) {
			t.Errorf("counts after a refund: got %+v, want 3 in the minute and 0 else", got)
		}
		s = reopened(s, reopen)
	}
	take(t, s, c)
	if _, refused := take(t, s, charge("a", 1, quota.Limits{RequestsPerMonth: 3})); refused != quota.MonthWindow {
		t.Errorf("a call beyond the limit: got %q as refusing window, want %q", refused, quota.MonthWindow)
	}
}
