// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	upstream "github.com/dgraph-io/badger/v4"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	moving "github.com/caddy-moderation/caddy-moderation/storage/contents"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

func TestBadgerMoves(t *testing.T) {
	t.Parallel()
	storagetest.RunMove(t, openEmpty, fillDirectory)
}

// fillDirectory is a storagetest.Fill.
func fillDirectory(t *testing.T) (moving.Target, func() (storage.Store, error)) {
	dir := filepath.Join(t.TempDir(), "target")
	to, err := badger.NewTarget(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	return to, func() (storage.Store, error) {
		s, err := badger.Open(badger.Options{Dir: dir})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = s.Close() })
		return s, nil
	}
}

func TestTargetRefusesWhatIsNotEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openDir(t, dir)
	if _, err := badger.NewTarget(dir); !errors.Is(err, moving.ErrNotEmpty) {
		t.Errorf("filling an open database: got the error %v, want %v", err, moving.ErrNotEmpty)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.NewTarget(other); !errors.Is(err, moving.ErrNotEmpty) {
		t.Errorf("filling a directory with a letter: got the error %v, want %v", err, moving.ErrNotEmpty)
	}
}

func TestTargetIsFilledAgain(t *testing.T) {
	t.Parallel()
	s := filled(t)
	dir := t.TempDir()
	first, err := badger.NewTarget(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Put(context.Background(), s.Contents(context.Background(), nil)); err != nil {
		t.Fatal(err)
	}
	// Somebody else must not empty what is being filled.
	if _, err := badger.NewTarget(dir); !errors.Is(err, badger.ErrLocked) {
		t.Errorf("filling a directory that is being filled: got the error %v, want %v", err, badger.ErrLocked)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := badger.NewTarget(dir)
	if err != nil {
		t.Fatal(err)
	}
	for item, err := range again.Contents(context.Background(), nil) {
		t.Errorf("a place that is filled again: got the item %+v, error %v; want none", item, err)
	}
	m := moving.Move{From: s, To: again}
	if _, err := m.Run(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestMovedStoreIsRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	s, err := badger.Open(badger.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.MarkMoved(ctx, "to redis 10.0.0.5:6379"), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = badger.Open(badger.Options{Dir: dir})
	if !errors.Is(err, moving.ErrMoved) || !strings.Contains(err.Error(), "10.0.0.5") ||
		!strings.Contains(err.Error(), "migrate --undo badger "+dir) {
		t.Errorf("opening a store that was moved: got the error %v, want one that says where to", err)
	}
	if err := badger.Reopen(dir); err != nil {
		t.Fatal(err)
	}
	if err := badger.Reopen(dir); err == nil {
		t.Error("taking back what was not done: got no error")
	}
	s = openDir(t, dir)
	if err := errors.Join(s.MarkMoved(ctx, "x"), s.UnmarkMoved(ctx), s.UnmarkMoved(ctx)); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedRecordsAreNamed(t *testing.T) {
	t.Parallel()
	s := openDir(t, damagedRecord(t))
	m := moving.Move{From: s, To: first(fillDirectory(t))}
	if _, err := m.Run(context.Background()); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("moving a damaged record: got the error %v, want %v", err, storage.ErrDamaged)
	}
	var named []string
	leaveOut := func(err error) { named = append(named, err.Error()) }
	m = moving.Move{From: s, To: first(fillDirectory(t)), LeaveOut: leaveOut}
	if _, err := m.Run(context.Background()); err != nil || len(named) == 0 {
		t.Errorf("moving without damaged records: got the error %v and the names %q, want none and some", err, named)
	}
}

// damagedRecord returns the directory of a database that holds a record whose checksum is wrong.
func damagedRecord(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := badger.Open(badger.Options{Dir: dir})
	if err == nil {
		err = errors.Join(s.CreateAccount(context.Background(), quota.Account{ID: "a"}), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := upstream.Open(upstream.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(txn *upstream.Txn) error { return txn.Set([]byte("a/b"), []byte("spoilt")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func first[A, B any](a A, _ B) A { return a }
