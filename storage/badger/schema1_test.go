// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/internal/schema1"
)

// What schema 1 was is kept in package schema1: this file wrote it, as the README there says, and reads it.

// schema1Dir names the environment variable under which TestWriteSchema1 makes the files again.
const schema1Dir = "SCHEMA1_DIR"

var schema1Time = time.Date(2026, 11, 15, 12, 0, 30, 7, time.UTC)

// schema1Few are accounts with something peculiar, schema1Many those that make the database larger than one read of it.
var schema1Few = []string{"plain", "over.rides_-1", "odd", "paused", "declared", strings.Repeat("x", 64), "deleted",
	"again"}

const schema1Many = 100

// TestWriteSchema1 is no test: it makes the files of package schema1, with the code of a commit that writes schema 1.
func TestWriteSchema1(t *testing.T) {
	to := os.Getenv(schema1Dir)
	if to == "" {
		t.Skipf("%s says where to; see internal/schema1/README.md", schema1Dir)
	}
	ctx := context.Background()
	closed := filepath.Join(to, "closed")
	s, err := badger.Open(badger.Options{Dir: closed})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(schema1Begin(ctx, s), s.Close()); err != nil {
		t.Fatal(err)
	}
	// The changes of the second process are in another table, or in a log.
	killed := filepath.Join(to, "killed")
	if err := os.CopyFS(killed, os.DirFS(closed)); err != nil {
		t.Fatal(err)
	}
	if s, err = badger.Open(badger.Options{Dir: closed}); err != nil {
		t.Fatal(err)
	}
	if err := schema1End(ctx, s); err != nil {
		t.Fatal(err)
	}
	golden := schema1Content(t, s)
	var saved bytes.Buffer
	if err := errors.Join(s.Backup(ctx, &saved), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(to, "golden.json"), golden, 0o644),
		os.WriteFile(filepath.Join(to, "backup"), saved.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	if s, err = badger.Open(badger.Options{Dir: killed}); err != nil {
		t.Fatal(err)
	}
	if err := schema1End(ctx, s); err != nil {
		t.Fatal(err)
	}
	// Everything is acknowledged: the process ends without closing the database.
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(self.Kill())
}

func schema1Begin(ctx context.Context, s storage.Store) error {
	number := func(n int64) *int64 { return &n }
	account := func(id string, change func(*quota.Account)) error {
		a := quota.Account{ID: id, Tier: "free", Status: quota.Active, Created: schema1Time.AddDate(0, -2, 0),
			Updated: schema1Time}
		if change != nil {
			change(&a)
		}
		return s.CreateAccount(ctx, a)
	}
	err := errors.Join(
		s.MarkSeeded(ctx),
		account("plain", nil),
		account("over.rides_-1", func(a *quota.Account) {
			a.Name, a.Tier, a.AnchorDay = "Ünïcode & <Söhne> \u2028 GmbH", "enterprise", 31
			a.Overrides = quota.Overrides{RequestsPerMonth: number(1 << 50), RequestsPerMinute: number(0),
				Thresholds: map[string]float64{"hate": 0.8, "spam": 1e-9}}
		}),
		account("odd", func(a *quota.Account) { a.Status, a.Tier = "frozen by \"lawyers\"", "a tier that is gone" }),
		account("paused", func(a *quota.Account) { a.Status, a.AnchorDay = quota.Paused, 1 }),
		account(strings.Repeat("x", 64), func(a *quota.Account) { a.Name = strings.Repeat("ñ", 200) }),
		account("deleted", nil),
		account("again", nil),
	)
	for i := range schema1Many {
		err = errors.Join(err, account(fmt.Sprintf("n%03d", i), nil))
	}
	for i, id := range schema1Few {
		err = errors.Join(err, schema1Keys(ctx, s, id), schema1Counts(ctx, s, id, int64(i+1)))
	}
	for i := range schema1Many {
		err = errors.Join(err, schema1Charge(ctx, s, fmt.Sprintf("n%03d", i), schema1Time, int64(i+1),
			quota.Outcome{Flagged: []string{"hate"}}))
	}
	return errors.Join(err, schema1Feedback(ctx, s))
}

// schema1Keys makes a key that is valid, one that is expired, one that is revoked, and one that is both.
func schema1Keys(ctx context.Context, s storage.Store, account string) (err error) {
	past := schema1Time.Add(-time.Hour)
	for i, k := range []quota.Key{{Name: "valid"}, {Expires: &past}, {Revoked: &past},
		{Expires: &past, Revoked: &past, Environment: "prödüction"}} {
		k.ID, k.Account = fmt.Sprintf("key_%s_%d", account, i), account
		k.Created = schema1Time.Add(-time.Duration(i) * 24 * time.Hour)
		k.Hash = quota.HashKey(k.ID)
		err = errors.Join(err, s.CreateKey(ctx, k))
	}
	return err
}

// schema1Counts counts in several minutes, days and periods.
func schema1Counts(ctx context.Context, s storage.Store, account string, n int64) (err error) {
	for _, ago := range []int{45, 31, 14, 3, 1} {
		at := schema1Time.AddDate(0, 0, -ago)
		err = errors.Join(err, schema1Charge(ctx, s, account, at, n+int64(ago),
			quota.Outcome{Flagged: []string{"spam", "hate", "spam"}}))
	}
	for i := range 3 {
		at := schema1Time.Add(-time.Duration(i) * time.Minute)
		err = errors.Join(err, schema1Charge(ctx, s, account, at, 1<<(10*i),
			quota.Outcome{Flagged: []string{"ünïcode", "violence/graphic"}}))
	}
	return errors.Join(err, schema1Charge(ctx, s, account, schema1Time, 5, quota.Outcome{Refund: true}))
}

func schema1Charge(
	ctx context.Context, s storage.Store, account string, at time.Time, n int64, outcome quota.Outcome,
) error {
	c := quota.Charge{Account: account, Key: "key_" + account + "_0", Requests: n, Now: at,
		Period: schema1Period(account, at)}
	_, _, err := s.Take(ctx, c)
	return errors.Join(err, s.Settle(ctx, c, outcome))
}

func schema1Period(account string, at time.Time) quota.Period {
	if account == "over.rides_-1" {
		return quota.PeriodOf(31, at)
	}
	return quota.PeriodOf(0, at)
}

func schema1Feedback(ctx context.Context, s storage.Store) (err error) {
	for i := range 300 {
		r := feedback.Record{
			ID:      fmt.Sprintf("fb_%03d", i),
			Time:    schema1Time.Add(time.Duration(i%7) * time.Hour).Add(-time.Duration(i)),
			Account: schema1Few[i%3], Key: "key_plain_0",
			Text: fmt.Sprintf("text %d <b>&amp;</b> \u2028 \U0001F600 %s", i, strings.Repeat("a", i)),
			Scores: map[string]feedback.AttributeScore{"TOXICITY": {
				Summary: &feedback.Score{Value: 0.1, Type: "PROBABILITY"},
				Spans:   []feedback.SpanScore{{Begin: 0, End: 3}},
			}},
		}
		switch i % 5 {
		case 0:
			r.Context = feedback.RawJSON(`{"a":[1,2.50,1e400,-0,"\u003c\/","<>",null],"a":{"deep":{"":""}}}`)
		case 1:
			r.Context, r.Languages = feedback.RawJSON(`12345678901234567890.10`), []string{"de", "", "xx-odd"}
		case 2:
			r.ModelVersion, r.ModelScores = "1.0", map[string]float64{"hate": 0.5, "x": 1e-300}
		case 3:
			r.Community, r.Session, r.ClientToken = "c", "\u0000\u0001", strings.Repeat("t", 64)
		}
		err = errors.Join(err, s.AppendFeedback(ctx, r, feedback.Bound{}))
	}
	long := feedback.Record{ID: "long", Time: schema1Time, Account: "plain", Text: strings.Repeat("0123456789", 6_500)}
	return errors.Join(err, s.AppendFeedback(ctx, long, feedback.Bound{}))
}

// schema1End changes some of what was there before.
func schema1End(ctx context.Context, s storage.Store) error {
	_, err := s.UpdateAccount(ctx, "paused", func(a *quota.Account) error { a.Name = "renamed"; return nil })
	_, keyErr := s.UpdateKey(ctx, "key_plain_0", func(k *quota.Key) error { k.Name = "renamed too"; return nil })
	err = errors.Join(err, keyErr, s.DeleteAccount(ctx, "deleted"), s.DeleteAccount(ctx, "again"),
		s.CreateAccount(ctx, quota.Account{ID: "again"}))
	for i, id := range []string{"plain", "declared", "again"} {
		err = errors.Join(err, schema1Charge(ctx, s, id, schema1Time, int64(i+7),
			quota.Outcome{Flagged: []string{"hate"}}))
	}
	for i := range 20 {
		r := feedback.Record{ID: fmt.Sprintf("late_%03d", i), Time: schema1Time.AddDate(0, 0, 1), Account: "plain",
			Text: "late"}
		err = errors.Join(err, s.AppendFeedback(ctx, r, feedback.Bound{}))
	}
	return err
}

// schema1Account is what a store tells about an account, existing or not. Zero values are left out.
type schema1Account struct {
	ID      string
	Account *quota.Account `json:",omitempty"`
	Keys    []quota.Key    `json:",omitempty"`
	// Found are the ids of the keys that KeyByHash finds.
	Found   []string                    `json:",omitempty"`
	Counts  map[string]quota.Counts     `json:",omitempty"` // by instant
	Days    map[int]int64               `json:",omitempty"` // by how many days before schema1Time
	Flagged map[string]map[string]int64 `json:",omitempty"` // by period
}

// schema1Content returns everything that a store tells, as JSON.
func schema1Content(t *testing.T, s storage.Store) []byte {
	t.Helper()
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var content struct {
		Seeded   bool
		Listed   []string
		Keys     []string
		Accounts []schema1Account
		Feedback []feedback.Record
	}
	var err error
	content.Seeded, err = s.Seeded(ctx)
	check(err)
	for a, err := range s.Accounts(ctx) {
		check(err)
		content.Listed = append(content.Listed, a.ID)
	}
	for k, err := range s.Keys(ctx, "") {
		check(err)
		content.Keys = append(content.Keys, k.ID)
	}
	for r, err := range s.Feedback(ctx, "") {
		check(err)
		content.Feedback = append(content.Feedback, r)
	}
	ids := schema1Few
	for i := range schema1Many {
		ids = append(ids[:len(ids):len(ids)], fmt.Sprintf("n%03d", i))
	}
	for _, id := range ids {
		of := schema1Account{ID: id, Counts: make(map[string]quota.Counts), Days: make(map[int]int64),
			Flagged: make(map[string]map[string]int64)}
		a, err := s.Account(ctx, id)
		switch {
		case err == nil:
			of.Account = &a
		case !errors.Is(err, quota.ErrNotFound):
			t.Fatal(err)
		}
		for k, err := range s.Keys(ctx, id) {
			check(err)
			of.Keys = append(of.Keys, k)
			found, err := s.KeyByHash(ctx, quota.HashKey(k.ID))
			check(err)
			of.Found = append(of.Found, found.ID)
		}
		for _, at := range []time.Time{
			schema1Time, schema1Time.Add(-time.Minute), schema1Time.Add(-2 * time.Minute),
			schema1Time.AddDate(0, 0, -14), schema1Time.AddDate(0, 0, -31), schema1Time.AddDate(0, 0, -45),
		} {
			counts, err := s.Counts(ctx, id, at, schema1Period(id, at))
			check(err)
			if counts != (quota.Counts{}) {
				of.Counts[at.Format(time.RFC3339)] = counts
			}
			flagged, err := s.Flagged(ctx, id, schema1Period(id, at))
			check(err)
			if len(flagged) > 0 {
				of.Flagged[schema1Period(id, at).Start.Format(time.DateOnly)] = flagged
			}
		}
		days, err := s.Days(ctx, id, schema1Time, 40)
		check(err)
		for ago, n := range days {
			if n != 0 {
				of.Days[ago] = n
			}
		}
		content.Accounts = append(content.Accounts, of)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	check(e.Encode(content))
	return b.Bytes()
}

// equalsSchema1 compares what a store answers with what it answered under schema 1.
func equalsSchema1(t *testing.T, s storage.Store) {
	t.Helper()
	want := strings.Split(string(schema1.Read(t, "golden.json")), "\n")
	got := strings.Split(string(schema1Content(t, s)), "\n")
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("line %d of the content is %.200s, want %.200s", i+1, got[i], want[i])
		}
	}
	if len(want) != len(got) {
		t.Fatalf("the content has %d lines, want %d", len(got), len(want))
	}
}

// TestSchema1Opens opens databases of schema 1 twice: the second time they are upgraded already.
func TestSchema1Opens(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"closed", "killed"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			dir := schema1.Database(t, which)
			for range 2 {
				s, err := badger.Open(badger.Options{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				equalsSchema1(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSchema1BackupRestores restores a backup of schema 1.
func TestSchema1BackupRestores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := badger.Restore(context.Background(), dir, bytes.NewReader(schema1.Read(t, "backup"))); err != nil {
		t.Fatal(err)
	}
	equalsSchema1(t, openDir(t, dir))
}

// TestSchema1KeepsItsBounds asks for one record and one byte more than the bound of a day whose records an earlier
// version kept.
func TestSchema1KeepsItsBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openDir(t, schema1.Database(t, "killed"))
	var used feedback.Bound
	for r, err := range s.Feedback(ctx, "plain") {
		if err != nil {
			t.Fatal(err)
		}
		if r.Time.YearDay() == schema1Time.YearDay() {
			used.Records++
			used.Bytes += encodedSize(t, r)
		}
	}
	next := feedback.Record{ID: "next", Time: schema1Time, Account: "plain", Text: "one more"}
	size := encodedSize(t, next)
	for _, bound := range []feedback.Bound{{Records: used.Records}, {Bytes: used.Bytes + size - 1}} {
		if err := s.AppendFeedback(ctx, next, bound); !errors.Is(err, feedback.ErrBound) {
			t.Errorf("with %+v used and a bound of %+v: %v, want %v", used, bound, err, feedback.ErrBound)
		}
	}
	if err := s.AppendFeedback(ctx, next,
		feedback.Bound{Records: used.Records + 1, Bytes: used.Bytes + size}); err != nil || used.Records < 90 {
		t.Errorf("with %+v used, a record more: %v", used, err)
	}
}

func encodedSize(t *testing.T, r feedback.Record) int64 {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		t.Fatal(err)
	}
	return int64(b.Len() - 1)
}
