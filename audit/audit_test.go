// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

var start = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// open returns a log whose clock stands.
func open(store documents.Store, now *time.Time) *audit.Log {
	return &audit.Log{Store: store, Now: func() time.Time { return *now }}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// actions returns the actions of entries.
func actions(t *testing.T, entries func(func(audit.Entry, error) bool)) (all []string) {
	t.Helper()
	for e, err := range entries {
		must(t, err)
		all = append(all, e.Action)
	}
	return all
}

// TestEntries adds entries and reads them again in both orders.
func TestEntries(t *testing.T) {
	t.Parallel()
	now := start
	log := open(storagetest.NewMemory(), &now)
	ctx := t.Context()
	if got := actions(t, log.Latest(ctx, audit.Query{})); got != nil {
		t.Errorf("an empty log: got %v", got)
	}
	for _, e := range []audit.Entry{
		{Actor: "alice", Via: audit.Desk, Action: "account.create", Account: "acme"},
		{Actor: "alice", Via: audit.Desk, Action: "key.create", Account: "acme", Target: "key_1"},
		{Actor: "bob", Via: audit.Admin, Action: "key.revoke", Account: "small", Target: strings.Repeat("ä", 500),
			Details: map[string]string{"name": "a key"}},
	} {
		must(t, log.Append(ctx, e))
		now = now.Add(time.Minute)
	}
	for name, test := range map[string]struct {
		query audit.Query
		want  []string
	}{
		"all":         {audit.Query{}, []string{"key.revoke", "key.create", "account.create"}},
		"account":     {audit.Query{Account: "acme"}, []string{"key.create", "account.create"}},
		"actor":       {audit.Query{Actor: "bob"}, []string{"key.revoke"}},
		"action":      {audit.Query{Action: "key.create"}, []string{"key.create"}},
		"of a kind":   {audit.Query{Action: "key"}, []string{"key.revoke", "key.create"}},
		"since":       {audit.Query{Since: start.Add(time.Minute)}, []string{"key.revoke", "key.create"}},
		"before":      {audit.Query{Before: 3}, []string{"key.create", "account.create"}},
		"before none": {audit.Query{Before: 1}, nil},
	} {
		if got := actions(t, log.Latest(ctx, test.query)); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
		if test.query.Before > 0 {
			continue
		}
		slices.Reverse(test.want)
		if got := actions(t, log.All(ctx, test.query)); !slices.Equal(got, test.want) {
			t.Errorf("%s, the earliest first: got %v, want %v", name, got, test.want)
		}
	}
	for e, err := range log.Latest(ctx, audit.Query{}) {
		must(t, err)
		if e.Number != 3 || !e.Time.Equal(start.Add(2*time.Minute)) || len(e.Target) > 210 ||
			e.Details["name"] != "a key" || e.Previous == "" {
			t.Errorf("got %+v", e)
		}
		break
	}
}

// TestDetails guards against an entry that tells a part of a change as if it were the whole, and against one that is
// too large to be kept.
func TestDetails(t *testing.T) {
	t.Parallel()
	now := start
	log := open(storagetest.NewMemory(), &now)
	short, long, huge := strings.Repeat("a -> b, ", 800), strings.Repeat("ä", 5000), map[string]string{}
	for n := range 50 {
		huge[fmt.Sprintf("%03d", n)] = strings.Repeat("\x01", 5000)
	}
	for name, test := range map[string]struct {
		details map[string]string
		whole   bool // the detail "a" is
	}{
		"none":        {nil, true},
		"whole":       {map[string]string{"a": short, "b": short}, true},
		"too long":    {map[string]string{"a": long}, false},
		"no UTF-8":    {map[string]string{"a": strings.Repeat("\xff", 9000)}, false},
		"all of them": {huge, true},
	} {
		added := audit.Entry{Via: audit.Desk, Action: "x", Details: test.details}
		if err := log.Append(t.Context(), added); err != nil {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for e, err := range log.Latest(t.Context(), audit.Query{}) {
			must(t, err)
			got := e.Details["a"]
			if test.whole != (got == test.details["a"]) || !test.whole && !strings.HasSuffix(got, "…") {
				t.Errorf("%s: got %.20q with %d bytes, whole: %t", name, got, len(got), test.whole)
			}
			if n := len(e.Details); n > 32 || n < min(len(test.details), 32) {
				t.Errorf("%s: got %d details", name, n)
			}
			break
		}
	}
}

// TestNodesWriteOneChain guards against entries that are lost or numbered twice when several nodes write at once.
func TestNodesWriteOneChain(t *testing.T) {
	t.Parallel()
	store, now := storagetest.NewMemory(), start
	const nodes, each = 4, 30
	var group sync.WaitGroup
	for node := range nodes {
		group.Go(func() {
			log := open(store, &now)
			for n := range each {
				if err := log.Append(context.Background(), audit.Entry{Action: fmt.Sprint(node, ".", n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	log := open(store, &now)
	if n, err := log.Verify(t.Context()); n != nodes*each || err != nil {
		t.Errorf("got %d entries and %v, want %d", n, err, nodes*each)
	}
	seen := map[string]bool{}
	for _, action := range actions(t, log.Latest(t.Context(), audit.Query{})) {
		seen[action] = true
	}
	if len(seen) != nodes*each {
		t.Errorf("got %d different entries, want %d", len(seen), nodes*each)
	}
}

// TestTampering guards against an entry that was changed, taken out, added or exchanged without being noticed.
func TestTampering(t *testing.T) {
	t.Parallel()
	key := func(n int) string { return fmt.Sprintf("e/%016x", n) }
	for name, tamper := range map[string]func(*testing.T, documents.Store){
		"changed": func(t *testing.T, s documents.Store) {
			found, err := s.Documents(t.Context(), "audit", key(2))
			must(t, err)
			value := strings.Replace(string(found[0].Value), "alice", "mallory", 1)
			must(t, s.ChangeDocuments(t.Context(), "audit", documents.Change{Key: key(2), Value: []byte(value)}))
		},
		"the last changed": func(t *testing.T, s documents.Store) {
			found, err := s.Documents(t.Context(), "audit", key(5))
			must(t, err)
			value := strings.Replace(string(found[0].Value), "alice", "mallory", 1)
			must(t, s.ChangeDocuments(t.Context(), "audit", documents.Change{Key: key(5), Value: []byte(value)}))
		},
		"taken out": func(t *testing.T, s documents.Store) {
			must(t, s.ChangeDocuments(t.Context(), "audit", documents.Change{Key: key(3), Delete: true}))
		},
		"the first taken out": func(t *testing.T, s documents.Store) {
			must(t, s.ChangeDocuments(t.Context(), "audit", documents.Change{Key: key(1), Delete: true}))
		},
		"the last taken out": func(t *testing.T, s documents.Store) {
			must(t, s.ChangeDocuments(t.Context(), "audit", documents.Change{Key: key(5), Delete: true}))
		},
		"exchanged": func(t *testing.T, s documents.Store) {
			found, err := s.Documents(t.Context(), "audit", key(2), key(3))
			must(t, err)
			must(t, s.ChangeDocuments(t.Context(), "audit", documents.Change{Key: key(2), Value: found[1].Value},
				documents.Change{Key: key(3), Value: found[0].Value}))
		},
		"no JSON": func(t *testing.T, s documents.Store) {
			must(t, s.ChangeDocuments(t.Context(), "audit", documents.Change{Key: key(4), Value: []byte("?")}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, now := storagetest.NewMemory(), start
			log := open(store, &now)
			for range 5 {
				must(t, log.Append(t.Context(), audit.Entry{Actor: "alice", Via: audit.Desk, Action: "key.create"}))
			}
			if n, err := log.Verify(t.Context()); n != 5 || err != nil {
				t.Fatalf("got %d, %v", n, err)
			}
			tamper(t, store)
			if _, err := log.Verify(t.Context()); !errors.Is(err, audit.ErrBroken) {
				t.Errorf("got %v, want %v", err, audit.ErrBroken)
			}
		})
	}
}

// TestTrim guards against old entries that stay, new ones that go, and a chain that looks broken afterwards.
func TestTrim(t *testing.T) {
	t.Parallel()
	store, now := storagetest.NewMemory(), start
	log := open(store, &now)
	const many = 600
	for range many {
		must(t, log.Append(t.Context(), audit.Entry{Action: "key.create"}))
		now = now.Add(time.Hour)
	}
	if n, err := log.Trim(t.Context(), start); n != 0 || err != nil {
		t.Errorf("nothing is old: got %d, %v", n, err)
	}
	total := 0
	for {
		n, err := log.Trim(t.Context(), start.Add(400*time.Hour))
		must(t, err)
		if total += n; n == 0 {
			break
		}
		if left, err := log.Verify(t.Context()); left != uint64(many-total) || err != nil {
			t.Fatalf("after %d: got %d, %v", total, left, err)
		}
	}
	if total != 400 {
		t.Errorf("got %d trimmed, want 400", total)
	}
	if got := actions(t, log.Latest(t.Context(), audit.Query{})); len(got) != many-400 {
		t.Errorf("got %d entries, want %d", len(got), many-400)
	}
	for {
		n, err := log.Trim(t.Context(), now.Add(time.Hour))
		must(t, err)
		if n == 0 {
			break
		}
	}
	must(t, log.Append(t.Context(), audit.Entry{Action: "key.revoke"}))
	if n, err := log.Verify(t.Context()); n != 2 || err != nil {
		t.Errorf("the last entry stays: got %d, %v, want it and the new one", n, err)
	}
}
