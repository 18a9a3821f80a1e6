// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// smallDisk returns a directory on a file system of its own of size MiB.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("Unmount: got the error %v, want none", err)
		}
	})
	return dir
}

// leave is how much of the MinFree of smallOptions stays free on a disk that fills up: too little for the store to go
// on, and enough for the tables in memory that are being written.
const leave = 36 << 20

// fill writes a file until left bytes of the disk are free, and returns its name.
func fill(t *testing.T, dir string, left int) string {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			t.Fatal(err)
		}
		over := int(fs.Bavail)*int(fs.Bsize) - left
		if over <= 0 {
			return f.Name()
		}
		if _, err := f.Write(make([]byte, min(over, 1<<20))); err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("Write: got the error %v", err)
		}
	}
}

func smallOptions(dir string) badger.Options {
	return badger.Options{Dir: filepath.Join(dir, "db"), MemTableSize: 8 << 20, MinFree: 44 << 20}
}

// TestFullDiskIsSurvived fills the disk under load. The process must not die of it (a fault in a memory map cannot be
// recovered from), no call may hang, nothing acknowledged may be lost, and the store must go on when there is room. The
// last byte is taken after the store has stopped writing: what it is writing needs the room that it keeps free.
func TestFullDiskIsSurvived(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	disk := smallDisk(t, 80)
	s, err := badger.Open(smallOptions(disk))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ChangeDocuments(ctx, "review", documents.Change{Key: "i/0", Value: []byte("a text")}); err != nil {
		t.Fatal(err)
	}
	var acknowledged, refused atomic.Int64
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
				c := crashCharge("a")
				_, _, err := s.Take(ctx, c)
				if err == nil {
					err = s.Settle(ctx, c, quota.Outcome{})
				}
				switch {
				case err == nil:
					acknowledged.Add(1)
				case errors.Is(err, storage.ErrUnavailable):
					refused.Add(1)
					time.Sleep(time.Millisecond)
				default:
					t.Errorf("a call on a full disk: got the error %v, want none or %v", err, storage.ErrUnavailable)
					return
				}
			}
		})
	}
	// A store that no longer answers fails the test by its timeout.
	wait := func(of *atomic.Int64) {
		for before := of.Load(); of.Load() < before+100; {
			time.Sleep(time.Millisecond)
		}
	}
	for range 2 {
		wait(&acknowledged)
		filler := fill(t, disk, leave)
		wait(&refused)
		fill(t, disk, 0)
		wait(&refused)
		err := s.CreateAccount(ctx, quota.Account{ID: "a"})
		if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), disk) {
			t.Errorf("creating an account on a full disk: %v", err)
		}
		err = s.AppendFeedback(ctx, feedback.Record{ID: "1", Time: crashTime}, feedback.Bound{})
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("feedback on a full disk: %v", err)
		}
		err = s.ChangeDocuments(ctx, "review", documents.Change{Key: "i/1", Value: []byte("a text")})
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("a document on a full disk: %v", err)
		}
		// Reads are still answered.
		if kept, err := s.Documents(ctx, "review", "i/0", "i/1"); err != nil || kept[0].Revision == 0 || kept[1].Revision != 0 {
			t.Errorf("documents on a full disk: got %+v, %v, want the one from before", kept, err)
		}
		if _, err := s.Counts(ctx, "a", crashTime, quota.PeriodOf(0, crashTime)); err != nil {
			t.Errorf("counts on a full disk: %v", err)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	wait(&acknowledged)
	close(stop)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = badger.Open(smallOptions(disk))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stored, err := s.Counts(ctx, "a", crashTime, quota.PeriodOf(0, crashTime))
	if err != nil {
		t.Fatal(err)
	}
	// Failed calls were rolled back, except in the minute.
	if want := acknowledged.Load(); stored.Period != want || stored.Day != want || stored.Minute < want ||
		stored.Minute > want+refused.Load() {
		t.Fatalf("stored are %+v of %d acknowledged and %d refused requests", stored, want, refused.Load())
	}
}

// TestOwnRecordsStopBeforeTheDiskIsFull fills the disk with the store's own records.
func TestOwnRecordsStopBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	for what, size := range map[string]int{
		"before anything is compacted": 64,
		"while tables are compacted":   192,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			fillWithRecords(t, size, size > 64)
		})
	}
}

func fillWithRecords(t *testing.T, size int, compacts bool) {
	ctx := context.Background()
	disk := smallDisk(t, size)
	core, logs := observer.New(zap.DebugLevel)
	o := smallOptions(disk)
	o.Logger = zap.New(core)
	s, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	// Writes are also refused while a compaction takes long or takes room: that ends by itself. The disk is full of
	// records only when nothing fits any more.
	full := func() bool {
		return !compacts || logs.FilterMessageSnippet("too little room to compact").Len() > 0
	}
	var kept atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 10_000 {
				// Random texts: compression would make room otherwise.
				var text [20_000]byte
				rand.Read(text[:])
				id := fmt.Sprintf("%d-%d", worker, i)
				record := feedback.Record{ID: id, Time: crashTime, Account: "a", Text: hex.EncodeToString(text[:])}
				err := s.AppendFeedback(ctx, record, feedback.Bound{})
				for errors.Is(err, storage.ErrUnavailable) && !full() {
					time.Sleep(time.Millisecond)
					err = s.AppendFeedback(ctx, record, feedback.Bound{})
				}
				if errors.Is(err, storage.ErrUnavailable) {
					return
				}
				if err != nil {
					t.Errorf("AppendFeedback: got the error %v, want none", err)
					return
				}
				kept.Add(1)
			}
			t.Error("the disk is never full")
		})
	}
	wg.Wait()
	stored := int64(0)
	for _, err := range s.Feedback(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		stored++
	}
	if stored != kept.Load() || stored < 100 {
		t.Errorf("%d records are stored, %d were acknowledged", stored, kept.Load())
	}
	t.Logf("%d records, %d compactions", stored, logs.FilterMessage("the database is compacted").Len())
	if compacts {
		// A compaction under way is finished. Whether there is room to close after it is not promised.
		if err := s.Close(); err != nil && !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("Close: got the error %v", err)
		}
	} else {
		fill(t, disk, leave)
		// There is no room to close: the directory stays locked, and its logs hold everything.
		if err := s.Close(); !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("Close on a full disk: %v", err)
		}
		if _, err := badger.Open(smallOptions(disk)); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("Open on a full disk: %v", err)
		}
	}
	moved := t.TempDir()
	if err := os.CopyFS(moved, os.DirFS(filepath.Join(disk, "db"))); err != nil {
		t.Fatal(err)
	}
	again := int64(0)
	for _, err := range openDir(t, moved).Feedback(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		again++
	}
	if again != stored {
		t.Errorf("a copy of the directory holds %d records of %d", again, stored)
	}
}

// TestLeftoversAreRemovedBeforeRoomIsLookedFor kills a database while it is compacted: the copies that it leaves take
// the room that the next start wants. It must remove them instead of waiting for somebody else to do so.
func TestLeftoversAreRemovedBeforeRoomIsLookedFor(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), smallDisk(t, 96)
	o := smallOptions(dir)
	s, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.CreateAccount(ctx, quota.Account{ID: "a"}), s.Close()); err != nil {
		t.Fatal(err)
	}
	copies := filepath.Join(o.Dir, "COMPACTION")
	if err := os.Mkdir(copies, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copies, "000001.sst"), make([]byte, 60<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = badger.Open(o); err != nil {
		t.Fatalf("Open beside copies that fill the disk: got the error %v, want none", err)
	}
	defer s.Close()
	if _, err := s.Account(ctx, "a"); err != nil {
		t.Errorf("Account: got the error %v, want none", err)
	}
	if _, err := os.Stat(copies); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copies: got the error %v, want that they are gone", err)
	}
}
