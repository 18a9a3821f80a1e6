// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	upstream "github.com/dgraph-io/badger/v4"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// openDir opens a store that is closed when the test ends.
func openDir(t testing.TB, dir string) *badger.Store {
	t.Helper()
	s, err := badger.Open(badger.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: got the error %v, want none", err)
		}
	})
	return s
}

func TestBadgerConforms(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, openEmpty)
}

// openEmpty returns an empty store, and a function that opens it again.
func openEmpty(t *testing.T) (storage.Store, func() storage.Store) {
	dir := t.TempDir()
	s := openDir(t, dir)
	return s, func() storage.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openDir(t, dir)
		return s
	}
}

func TestBadgerBacksUp(t *testing.T) {
	t.Parallel()
	storagetest.RunBackup(t, openEmpty, func(t *testing.T, backup []byte) storage.Store {
		dir := t.TempDir()
		if err := badger.Restore(context.Background(), dir, bytes.NewReader(backup)); err != nil {
			t.Fatal(err)
		}
		return openDir(t, dir)
	})
}

func TestBadgerHasTheProperties(t *testing.T) {
	t.Parallel()
	storagetest.RunProperties(t, openEmpty)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	locked := t.TempDir()
	openDir(t, locked)
	for name, test := range map[string]struct {
		dir  string
		is   error
		says []string
	}{
		"no directory":     {says: []string{"no directory is given"}},
		"a file":           {dir: file, says: []string{file}},
		"already open":     {dir: locked, is: badger.ErrLocked, says: []string{locked, "another Caddy"}},
		"damaged manifest": {dir: damaged(t), is: badger.ErrDamaged, says: []string{"MANIFEST", "caddy moderation check"}},
		"a newer schema":   {dir: withSchema(t, []byte{0, 0, 0, 9}), is: badger.ErrSchema, says: []string{"schema 9"}},
		"a broken schema":  {dir: withSchema(t, []byte("x")), says: []string{"damaged"}},
		"something else's": {dir: withSchema(t, nil), is: badger.ErrSchema, says: []string{"something else"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := badger.Open(badger.Options{Dir: test.dir})
			if err == nil {
				t.Fatal(s.Close())
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error is %v, want one that is %v", err, test.is)
			}
			for _, part := range append(test.says, test.dir) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

// damaged returns the directory of a database whose manifest is damaged, and checks that a failed Open leaves it so.
func damaged(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := openDir(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, "MANIFEST")
	garbage := []byte("garbage garbage garbage")
	if err := os.WriteFile(manifest, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := os.ReadFile(manifest); err != nil || !bytes.Equal(left, garbage) {
			t.Errorf("the damaged file was changed to %q, %v", left, err)
		}
	})
	return dir
}

// withSchema returns the directory of a database with the given schema record, or with another record and none.
func withSchema(t *testing.T, schema []byte) string {
	t.Helper()
	dir := t.TempDir()
	db, err := upstream.Open(upstream.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(txn *upstream.Txn) error {
		if schema == nil {
			return txn.Set([]byte("something"), nil)
		}
		return txn.Set([]byte("meta/schema"), schema)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestGateAdmitsExactlyTheLimit races for the last 10 requests of a month through the gate.
func TestGateAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openDir(t, t.TempDir())
	gate, err := quota.New(quota.Options{Store: s, Tiers: map[string]quota.Limits{"free": {RequestsPerMonth: 25}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.CreateAccount(ctx, quota.Account{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	secret, _, err := gate.CreateKey(ctx, quota.KeySpec{Account: "a"})
	if err != nil {
		t.Fatal(err)
	}
	call := func() (admitted bool) {
		who, err := gate.Authenticate(ctx, secret)
		if err != nil {
			t.Errorf("Authenticate: got the error %v, want none", err)
			return false
		}
		d, err := gate.Admit(ctx, who, 1)
		if err := errors.Join(err, gate.Settle(ctx, d, quota.Outcome{})); err != nil {
			t.Errorf("Join: got the error %v, want none", err)
		}
		return d.Refused == quota.NoWindow
	}
	for range 15 {
		if !call() {
			t.Fatal("refused below the limit")
		}
	}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if call() {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 10 {
		t.Fatalf("%d of 64 are admitted, want 10", n)
	}
}
