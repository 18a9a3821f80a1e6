// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dgraph "github.com/dgraph-io/badger/v4"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// someDatabase returns the directory of a database with accounts, keys and feedback, which is closed.
func someDatabase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := badger.Open(badger.Options{Dir: dir, InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		id := fmt.Sprintf("account-%03d", i)
		now := time.Date(2026, 11, 22, 0, 0, i, 0, time.UTC)
		err = errors.Join(err,
			s.CreateAccount(t.Context(), quota.Account{ID: id, Tier: "free", Created: now}),
			s.CreateKey(t.Context(), quota.Key{ID: "key_" + id, Account: id, Hash: quota.HashKey(id), Created: now}),
			s.AppendFeedback(t.Context(), feedback.Record{ID: id, Time: now, Account: id, Text: strings.Repeat(id, 100)}, feedback.Bound{}),
		)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// accountsIn returns how many accounts and keys there are in a database.
func accountsIn(t *testing.T, dir string) (accounts, keys int) {
	t.Helper()
	s, err := badger.Open(badger.Options{Dir: dir, InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, err := range s.Accounts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		accounts++
	}
	for _, err := range s.Keys(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys++
	}
	return accounts, keys
}

// spoil changes the value of the first record whose key begins with prefix, as a fault of memory would.
func spoil(t *testing.T, dir, prefix string) {
	t.Helper()
	db, err := dgraph.Open(dgraph.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(txn *dgraph.Txn) error {
		it := txn.NewIterator(dgraph.IteratorOptions{Prefix: []byte(prefix), PrefetchValues: true})
		defer it.Close()
		it.Rewind()
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		value[len(value)/2] ^= 1
		return txn.SetEntry(dgraph.NewEntry(it.Item().KeyCopy(nil), value).WithMeta(it.Item().UserMeta()))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedRecordsAreSaid: a command goes on behind a damaged record, or names it, and does not succeed.
func TestDamagedRecordsAreSaid(t *testing.T) {
	dir := someDatabase(t)
	spoil(t, dir, "f/")
	spoil(t, dir, "a/")
	load(t, "storage badger "+dir)
	stdout, stderr, err := run(t, "feedback", "export")
	if lines := strings.Count(stdout, "\n"); err == nil || lines != 100 || !strings.HasSuffix(stdout, "{\"left_out\":1}\n") || !strings.Contains(stderr, "damaged records are left out: 1") {
		t.Errorf("the export has %d lines, %s, %v", lines, stderr, err)
	}
	if _, stderr, err := run(t, "account", "list"); err == nil || !strings.Contains(stderr, "a record is damaged: account account-000") {
		t.Errorf("the list says %s, %v", stderr, err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	if _, stderr, err := run(t, "backup", file); err == nil || !strings.Contains(stderr, "a record is damaged: account account-000") {
		t.Errorf("the backup says %s, %v", stderr, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a backup nevertheless")
	}
	_, stderr, err = run(t, "backup", file, "--leave-out-damaged")
	if err == nil || !strings.Contains(stderr, "account account-000 (1)") || !strings.Contains(stderr, "a record of feedback (1)") {
		t.Errorf("the backup says %s, %v", stderr, err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	must(t, "restore", file, "--dir", restored)
	if accounts, keys := accountsIn(t, restored); accounts != 99 || keys != 100 {
		t.Errorf("%d accounts and %d keys are left", accounts, keys)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := someDatabase(t)
	stdout, stderr, err := run(t, "check", dir)
	if err != nil || !strings.Contains(stdout, "The database is whole.") || !strings.Contains(stdout, "accounts") {
		t.Fatal(stdout, stderr, err)
	}
	stdout, _, err = run(t, "check", dir, "--json")
	var report struct {
		Records  map[string]int   `json:"records"`
		Findings []map[string]any `json:"findings"`
	}
	if err := errors.Join(err, json.Unmarshal([]byte(stdout), &report)); err != nil {
		t.Fatal(err)
	}
	if report.Records["accounts"] != 100 || report.Records["keys"] != 100 || report.Records["feedback"] != 100 || len(report.Findings) != 0 {
		t.Errorf("it reports %s", stdout)
	}
	if _, stderr, err := run(t, "check", filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is missing was checked", stderr)
	}
	if stdout, _, err := run(t, "check", t.TempDir()); err == nil || !strings.Contains(err.Error(), "there is no database in") {
		t.Errorf("a directory without a database was checked: %s, %v", stdout, err)
	}
	s, err := badger.Open(badger.Options{Dir: dir, InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if stdout, _, err := run(t, "check", dir); !errors.Is(err, badger.ErrLocked) {
		t.Fatalf("a directory that is open was checked: %s, %v", stdout, err)
	}
}

// TestCheckSavesWhatIsLeft damages a database, and restores what is left of it.
func TestCheckSavesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		harm func(dir string) error
		// least accounts and keys are left.
		least int
		says  string
	}{
		"MANIFEST removed": {func(dir string) error { return os.Remove(filepath.Join(dir, "MANIFEST")) }, 100, "MANIFEST"},
		"MANIFEST cut":     {func(dir string) error { return os.Truncate(filepath.Join(dir, "MANIFEST"), 20) }, 100, "MANIFEST"},
		"a table flipped": {func(dir string) error {
			tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			if err != nil || len(tables) == 0 {
				return errors.Join(err, errors.New("there is no table"))
			}
			b, err := os.ReadFile(tables[0])
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 4
			return os.WriteFile(tables[0], b, 0o600)
		}, 30, ".sst"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := someDatabase(t)
			if err := test.harm(dir); err != nil {
				t.Fatal(err)
			}
			if s, err := badger.Open(badger.Options{Dir: dir, InProcess: true}); !errors.Is(err, badger.ErrDamaged) {
				t.Fatalf("it was opened: %v, %v", s, err)
			}
			if stdout, stderr, err := run(t, "check", dir); !errors.Is(err, badger.ErrDamaged) || !strings.Contains(stdout, test.says) || !strings.Contains(stderr, "--save") {
				t.Fatal(stdout, stderr, err)
			}
			saved, restored := filepath.Join(t.TempDir(), "saved"), filepath.Join(t.TempDir(), "restored")
			stdout, stderr, err := run(t, "check", dir, "--save", saved)
			if !errors.Is(err, badger.ErrDamaged) {
				t.Fatal(stdout, stderr, err)
			}
			if _, stderr, err := run(t, "restore", saved, "--dir", restored); err != nil {
				t.Fatal(stderr)
			}
			accounts, keys := accountsIn(t, restored)
			t.Logf("%d accounts and %d keys are left\n%s", accounts, keys, stdout)
			if accounts < test.least || keys < test.least {
				t.Fatal("more is lost than was damaged")
			}
		})
	}
}
