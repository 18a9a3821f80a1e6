// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// filled returns a store with records of all kinds.
func filled(t testing.TB) *badger.Store {
	t.Helper()
	ctx := context.Background()
	s := openDir(t, t.TempDir())
	c := crashCharge("a")
	_, _, takeErr := s.Take(ctx, c)
	err := errors.Join(
		s.MarkSeeded(ctx),
		s.CreateAccount(ctx, quota.Account{ID: "a", Tier: "free", Created: crashTime}),
		s.CreateAccount(ctx, quota.Account{ID: "deleted"}),
		s.DeleteAccount(ctx, "deleted"),
		s.CreateKey(ctx, quota.Key{ID: "key_a", Account: "a", Hash: quota.HashKey("key_a"), Created: crashTime}),
		s.AppendFeedback(ctx, feedback.Record{ID: "1", Time: crashTime, Account: "a",
			Text: strings.Repeat("text", 100)}, feedback.Bound{}),
		takeErr,
		s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// contents is what a store holds, for comparison.
type contents struct {
	accounts []quota.Account
	keys     []quota.Key
	records  []feedback.Record
	counts   quota.Counts
	flagged  map[string]int64
	days     []int64
	seeded   bool
}

func read(t *testing.T, s storage.Store) (c contents) {
	t.Helper()
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for a, err := range s.Accounts(ctx) {
		check(err)
		c.accounts = append(c.accounts, a)
	}
	for k, err := range s.Keys(ctx, "") {
		check(err)
		c.keys = append(c.keys, k)
	}
	for r, err := range s.Feedback(ctx, "") {
		check(err)
		c.records = append(c.records, r)
	}
	var err error
	charge := crashCharge("a")
	c.counts, err = s.Counts(ctx, "a", charge.Now, charge.Period)
	check(err)
	c.flagged, err = s.Flagged(ctx, "a", charge.Period)
	check(err)
	c.days, err = s.Days(ctx, "a", charge.Now, 40)
	check(err)
	c.seeded, err = s.Seeded(ctx)
	check(err)
	return c
}

func backup(t testing.TB, s *badger.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Backup(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBackupHoldsEverything(t *testing.T) {
	t.Parallel()
	s := filled(t)
	// A charge that is not settled yet is included.
	if _, _, err := s.Take(context.Background(), crashCharge("a")); err != nil {
		t.Fatal(err)
	}
	saved := backup(t, s)
	dir := filepath.Join(t.TempDir(), "missing", "directory")
	if err := badger.Restore(context.Background(), dir, bytes.NewReader(saved)); err != nil {
		t.Fatal(err)
	}
	want, got := read(t, s), read(t, openDir(t, dir))
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("restored\n%+v, want\n%+v", got, want)
	}
	if want.counts.Period != 2 || len(want.accounts) != 1 || len(want.keys) != 1 || len(want.records) != 1 ||
		!want.seeded {
		t.Fatalf("the store holds too little to tell: %+v", want)
	}
}

// TestBackupUnderLoad compares a backup with what was acknowledged before it began and what was tried until it ended.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openDir(t, t.TempDir())
	var tried, acknowledged atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				tried.Add(1)
				c := crashCharge("a")
				_, _, err := s.Take(ctx, c)
				if err := errors.Join(err, s.Settle(ctx, c, quota.Outcome{})); err != nil {
					t.Errorf("Join: got the error %v, want none", err)
					return
				}
				acknowledged.Add(1)
			}
		})
	}
	for range 3 {
		least := acknowledged.Load()
		saved := backup(t, s)
		most := tried.Load()
		dir := t.TempDir()
		if err := badger.Restore(ctx, dir, bytes.NewReader(saved)); err != nil {
			t.Fatal(err)
		}
		c := crashCharge("a")
		got, err := openDir(t, dir).Counts(ctx, "a", c.Now, c.Period)
		if err != nil {
			t.Fatal(err)
		}
		if got.Period < least || got.Period > most || got.Day != got.Period || got.Minute != got.Period {
			t.Errorf("the backup holds %+v, want %d to %d of each", got, least, most)
		}
	}
	close(stop)
	wg.Wait()
}

// TestBrokenBackupLeavesNothing restores backups that are truncated, changed and extended.
func TestBrokenBackupLeavesNothing(t *testing.T) {
	t.Parallel()
	whole := backup(t, filled(t))
	change := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 1
		return b
	}
	for name, broken := range map[string][]byte{
		"nothing":          {},
		"another file":     []byte("SQLite format 3\x00 and so on and so forth"),
		"the header":       whole[:25],
		"half":             whole[:len(whole)/2],
		"the last byte":    whole[:len(whole)-1],
		"the sum":          whole[:len(whole)-32],
		"a changed header": change(24),
		"a changed record": change(len(whole) / 2),
		"a changed count":  change(len(whole) - 33),
		"a changed sum":    change(len(whole) - 1),
		"something behind": append(bytes.Clone(whole), 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			err := badger.Restore(context.Background(), dir, bytes.NewReader(broken))
			if !errors.Is(err, badger.ErrBackup) {
				t.Fatalf("error is %v, want %v", err, badger.ErrBackup)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Fatalf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestRestoreRefusesWhatIsNotEmpty(t *testing.T) {
	t.Parallel()
	saved := backup(t, filled(t))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := badger.Restore(context.Background(), dir, bytes.NewReader(saved))
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatalf("error is %v, want one that names %s", err, dir)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Fatalf("the directory holds %v, %v", left, err)
	}
}

// TestInterruptedRestoreIsNotOpened opens the directory of a restore under way, as a crash would leave it.
func TestInterruptedRestoreIsNotOpened(t *testing.T) {
	t.Parallel()
	saved := backup(t, filled(t))
	dir := filepath.Join(t.TempDir(), "db")
	from, to := io.Pipe()
	done := make(chan error)
	go func() { done <- badger.Restore(context.Background(), dir, from) }()
	if _, err := to.Write(saved[:len(saved)-40]); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(badger.Options{Dir: dir}); !errors.Is(err, badger.ErrUnfinished) {
		t.Errorf("error is %v, want %v", err, badger.ErrUnfinished)
	}
	to.CloseWithError(errors.New("the disk with the backup was pulled"))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "pulled") {
		t.Errorf("restore says %v", err)
	}
	openDir(t, dir)
}

// stuck is a writer for backups that does not take the first part until it is released.
type stuck struct {
	began, release chan struct{}
	taken          bytes.Buffer
}

func (s *stuck) Write(b []byte) (int, error) {
	select {
	case <-s.began:
	default:
		close(s.began)
	}
	<-s.release
	return s.taken.Write(b)
}

func TestSlowBackupDoesNotKeepTheStoreOpen(t *testing.T) {
	t.Parallel()
	s := filled(t)
	to := &stuck{began: make(chan struct{}), release: make(chan struct{})}
	done := make(chan error)
	go func() { done <- s.Backup(context.Background(), to) }()
	<-to.began
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	close(to.release)
	// Everything may have been read of the store before it was closed.
	if err := <-done; err == nil {
		if err := badger.Restore(context.Background(), filepath.Join(t.TempDir(), "db"), &to.taken); err != nil {
			t.Errorf("a backup that ended well cannot be restored: %v", err)
		}
	} else if !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("the backup says %v, want unavailable", err)
	}
	if err := s.Backup(context.Background(), io.Discard); !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("a backup of a closed store says %v", err)
	}
}

func TestBackupEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := filled(t).Backup(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
}

func TestBackupReportsItsWriter(t *testing.T) {
	t.Parallel()
	wrong := errors.New("no space in the other place")
	if err := filled(t).Backup(context.Background(),
		writerFunc(func([]byte) (int, error) { return 0, wrong })); !errors.Is(err, wrong) {
		t.Fatalf("error is %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
