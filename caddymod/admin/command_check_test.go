// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
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
			s.AppendFeedback(t.Context(), feedback.Record{
				ID: id, Time: now, Account: id, Text: strings.Repeat(id, 100),
			}, feedback.Bound{}),
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

// TestDamagedRecordsAreReported: a command goes on behind a damaged record, or names it, and does not succeed.
func TestDamagedRecordsAreReported(t *testing.T) {
	dir := someDatabase(t)
	spoil(t, dir, "f/")
	spoil(t, dir, "a/")
	spoil(t, dir, "k/")
	load(t, "storage badger "+dir)
	stdout, stderr, err := run(t, "feedback", "export")
	if lines := strings.Count(stdout, "\n"); err == nil || lines != 100 ||
		!strings.HasSuffix(stdout, "{\"left_out\":1}\n") ||
		!strings.Contains(stderr, "damaged records are left out: 1") {
		t.Errorf("export: got %d lines, %s (%v), want 100 and an error that 1 record is left out", lines, stderr, err)
	}
	stdout, stderr, err = run(t, "account", "list")
	if lines := strings.Count(stdout, "\n"); err == nil || lines != 1+99+1 || strings.Contains(stdout, "account-000") ||
		stderr != "Error: damaged records are left out: account account-000 (1)\n" {
		t.Errorf("account list: got %d lines, %s (%v), want the title, 99 accounts and the declared one, and an error "+
			"that names account-000", lines, stderr, err)
	}
	var keys []quota.Key
	stdout, stderr, err = run(t, "key", "list", "--json")
	named := regexp.MustCompile(`^Error: damaged records are left out: key key_account-\d{3} \(1\)\n$`)
	if decodeErr := json.Unmarshal([]byte(stdout), &keys); decodeErr != nil || err == nil || len(keys) != 99+1 ||
		!named.MatchString(stderr) {
		t.Errorf("key list: got %d keys, %s (%v), want 100 and an error that names a key", len(keys), stderr, err)
	}
	// Without being asked to leave something out, the routes do not.
	for path, want := range map[string]int{
		"accounts": http.StatusInternalServerError, "keys": http.StatusInternalServerError,
		"accounts?damaged=ignore": http.StatusBadRequest, "keys?account=fixed": http.StatusOK,
	} {
		if got := send(t, http.MethodGet, "/moderation/"+path, ""); got.status != want {
			t.Errorf("%s: got %d %s, want %d", path, got.status, got.body, want)
		}
	}
	file := filepath.Join(t.TempDir(), "backup")
	if _, stderr, err := run(t, "backup", file); err == nil ||
		!strings.Contains(stderr, "a record is damaged: account account-000") {
		t.Errorf("backup: got %s (%v), want an error that names the damaged account-000", stderr, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a backup nevertheless")
	}
	_, stderr, err = run(t, "backup", file, "--leave-out-damaged")
	if err == nil || !strings.Contains(stderr, "account account-000 (1)") ||
		!strings.Contains(stderr, "a record of feedback (1)") {
		t.Errorf("backup --leave-out-damaged: got %s (%v), want an error that names the account and the feedback",
			stderr, err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	must(t, "restore", file, "--dir", restored)
	if accounts, keys := accountsIn(t, restored); accounts != 99 || keys != 99 {
		t.Errorf("restored: got %d accounts and %d keys, want 99 each", accounts, keys)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := someDatabase(t)
	stdout, stderr, err := run(t, "check", dir)
	if err != nil || !strings.Contains(stdout, "The database is whole.") || !strings.Contains(stdout, "accounts") {
		t.Fatalf("check: got %s, %s (%v), want a whole database with accounts", stdout, stderr, err)
	}
	stdout, _, err = run(t, "check", dir, "--json")
	var report struct {
		Records  map[string]int   `json:"records"`
		Findings []map[string]any `json:"findings"`
	}
	if err := errors.Join(err, json.Unmarshal([]byte(stdout), &report)); err != nil {
		t.Fatal(err)
	}
	if report.Records["accounts"] != 100 || report.Records["keys"] != 100 || report.Records["feedback"] != 100 ||
		len(report.Findings) != 0 {
		t.Errorf("check --json: got %s, want 100 accounts, keys and records of feedback, and no findings", stdout)
	}
	if _, stderr, err := run(t, "check", filepath.Join(dir, "missing")); err == nil {
		t.Errorf("a directory that is missing: got no error (%s)", stderr)
	}
	if stdout, _, err := run(t, "check", t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "there is no database in") {
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
			if stdout, stderr, err := run(t, "check", dir); !errors.Is(err, badger.ErrDamaged) ||
				!strings.Contains(stdout, test.says) || !strings.Contains(stderr, "--save") {
				t.Fatalf("check: got %s, %s (%v), want %v, %q and a hint to --save",
					stdout, stderr, err, badger.ErrDamaged, test.says)
			}
			saved, restored := filepath.Join(t.TempDir(), "saved"), filepath.Join(t.TempDir(), "restored")
			stdout, stderr, err := run(t, "check", dir, "--save", saved)
			if !errors.Is(err, badger.ErrDamaged) {
				t.Fatalf("check --save: got %s, %s (%v), want %v", stdout, stderr, err, badger.ErrDamaged)
			}
			if _, stderr, err := run(t, "restore", saved, "--dir", restored); err != nil {
				t.Fatalf("restoring what was saved: %v, %s", err, stderr)
			}
			accounts, keys := accountsIn(t, restored)
			t.Logf("%d accounts and %d keys are left\n%s", accounts, keys, stdout)
			if accounts < test.least || keys < test.least {
				t.Fatalf("got %d accounts and %d keys, want at least %d of each", accounts, keys, test.least)
			}
		})
	}
}
