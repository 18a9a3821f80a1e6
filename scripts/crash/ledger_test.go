// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"crypto/sha256"
	"os"
	"strings"
	"testing"
	"time"
)

// full returns a ledger in which everything has happened once, and the matching store.
func full() (*ledger, *stored) {
	l := newLedger()
	now := time.Now()
	l.now = func() time.Time { return now }
	l.sending("api", []string{"hate"}).ended(counted)
	l.sending("api", nil).ended(refunded)
	l.sending("api", nil).ended(unknown)
	l.feedback["one"] = &suggestion{Account: "api", Sum: sha256.Sum256([]byte("text")), Acked: true}
	l.feedback["two"] = &suggestion{Account: "api", Sum: sha256.Sum256([]byte("more")), Status: 503}
	l.keys["key_1"] = &heldKey{stages: stages{present, present}}
	l.keys["key_2"] = &heldKey{stages: stages{changed, changed}}
	l.accounts["made"] = &heldAccount{stages{present, present}}
	l.accounts["gone"] = &heldAccount{stages{deleted, deleted}}
	u := usage{Flagged: map[string]int64{"hate": 1}}
	u.Period.Requests, u.Minute.Requests = 1, 2
	u.Minute.Reset = now.Truncate(time.Minute).Add(time.Minute)
	one := struct {
		Requests int64 `json:"requests"`
	}{1}
	u.Days, u.Keys = append(u.Days, one), append(u.Keys, one)
	return l, &stored{
		usage:    map[string]usage{"api": u},
		feedback: []record{{Account: "api", Text: "text", Token: "one"}},
		keys: map[string]key{"key_1": {ID: "key_1", Account: keysAccount},
			"key_2": {ID: "key_2", Account: keysAccount, Revoked: &now}},
		accounts: map[string]account{"made": {ID: "made", Name: "made"}},
	}
}

func TestLedgerFindsDifferences(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*stored)
		want   string
	}{
		"nothing": {func(*stored) {}, ""},
		"what was sent may be stored": {func(s *stored) {
			change(s, func(u *usage) {
				u.Period.Requests, u.Days[0].Requests, u.Keys[0].Requests, u.Minute.Requests = 2, 2, 2, 3
			})
		}, ""},
		"a count is lost":             {func(s *stored) { change(s, func(u *usage) { u.Period.Requests = 0 }) }, "period"},
		"a count too many":            {func(s *stored) { change(s, func(u *usage) { u.Period.Requests = 3 }) }, "period"},
		"a minute lost what it keeps": {func(s *stored) { change(s, func(u *usage) { u.Minute.Requests = 1 }) }, "minute"},
		"a day is lost":               {func(s *stored) { change(s, func(u *usage) { u.Days[0].Requests = 0 }) }, "days"},
		"requests of a key are lost":  {func(s *stored) { change(s, func(u *usage) { u.Keys[0].Requests = 0 }) }, "by key"},
		"a key has too many":          {func(s *stored) { change(s, func(u *usage) { u.Keys[0].Requests = 3 }) }, "by key"},
		"flagged content is lost":     {func(s *stored) { change(s, func(u *usage) { u.Flagged["hate"] = 0 }) }, "flagged hate"},
		"flagged for something else":  {func(s *stored) { change(s, func(u *usage) { u.Flagged["violence"] = 1 }) }, "violence"},
		"no usage":                    {func(s *stored) { delete(s.usage, "api") }, "no usage"},
		"feedback is lost":            {func(s *stored) { s.feedback = nil }, "missing"},
		"feedback is there twice":     {func(s *stored) { s.feedback = append(s.feedback, s.feedback[0]) }, "more than once"},
		"feedback is changed":         {func(s *stored) { s.feedback[0].Text = "test" }, "changed"},
		"feedback that nobody sent":   {func(s *stored) { s.feedback = append(s.feedback, record{Token: "three"}) }, "nobody sent"},
		"refused feedback is kept":    {func(s *stored) { s.feedback = append(s.feedback, record{Account: "api", Text: "more", Token: "two"}) }, "answered 503"},
		"a key is lost":               {func(s *stored) { delete(s.keys, "key_1") }, "acknowledged ones are missing"},
		"a revocation is lost":        {func(s *stored) { s.keys["key_2"] = key{ID: "key_2"} }, "are valid"},
		"a key ended by itself":       {func(s *stored) { s.keys["key_1"] = key{ID: "key_1", Expires: new(time.Time)} }, "nobody revoked"},
		"a key that nobody made":      {func(s *stored) { s.keys["key_3"] = key{ID: "key_3", Account: keysAccount} }, "nobody made"},
		"an account is lost":          {func(s *stored) { delete(s.accounts, "made") }, "account made"},
		"a deleted account is back":   {func(s *stored) { s.accounts["gone"] = account{ID: "gone", Name: "gone"} }, "account gone"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, s := full()
			test.change(s)
			got := strings.Join(differences(l, l, s), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("differences: got %q, want %q in it", got, test.want)
			}
		})
	}
}

func change(s *stored, f func(*usage)) {
	u := s.usage["api"]
	f(&u)
	s.usage["api"] = u
}

// What a backup must hold was acknowledged before it began; what it may hold was sent before it ended.
func TestWhatWasStoredBetween(t *testing.T) {
	t.Parallel()
	l, s := full()
	before := l.clone()
	l.sending("api", nil).ended(counted)
	l.feedback["three"] = &suggestion{Account: "api", Sum: sha256.Sum256([]byte("third")), Acked: true}
	l.keys["key_1"].stages = stages{changed, changed}
	l.accounts["made"].stages = stages{deleted, deleted}
	if got := differences(before, l, s); got != nil {
		t.Errorf("differences of a store that lacks what came later: got %q, want none", got)
	}
	if got := differences(l, l, s); len(got) < 4 {
		t.Errorf("differences from the later ledger: got %q, want at least 4", got)
	}
}

// A promise that is no longer made need not be broken, and one in other words needs another look.
func TestPromisesAreMade(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(docs)), " ")
	for _, r := range rounds {
		if !strings.Contains(text, r.promise) {
			t.Errorf("round %s: docs/operations.md does not say %q", r.name, r.promise)
		}
	}
}
