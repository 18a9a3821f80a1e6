// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// filledTables opens a database and writes records until there are some tables, which only the test compacts.
func filledTables(t *testing.T) (d *DB, records int) {
	t.Helper()
	d, err := Open(Options{Dir: filepath.Join(t.TempDir(), "d"), manualCompaction: true})
	if err != nil {
		t.Fatal(err)
	}
	random, value := rand.NewChaCha8([32]byte{}), make([]byte, 700_000)
	for ; len(d.db.Tables()) < fewTables-1; records++ {
		_, _ = random.Read(value)
		if err := d.Write([]Entry{{Key: fmt.Appendf(nil, "f/%06d", records), Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	return d, records
}

// missingRecords counts those of the records that are not there.
func missingRecords(t *testing.T, d *DB, records int) (missing int) {
	t.Helper()
	for i := range records {
		r, err := d.Get(fmt.Appendf(nil, "f/%06d", i))
		if err != nil {
			t.Fatal(err)
		}
		if r[0].Value == nil {
			missing++
		}
	}
	return missing
}

// TestACompactionThatCannotMakeItsTablesLosesNothing guards against an error that Badger swallows: when a table that
// a compaction makes cannot be created, because the disk answers with EIO or no descriptors are left, Badger forgets
// and removes the tables that were to be merged all the same, and says that it succeeded. Here files with the names
// of the next tables are in the way.
func TestACompactionThatCannotMakeItsTablesLosesNothing(t *testing.T) {
	t.Parallel()
	d, records := filledTables(t)
	blocked := 0
	d.compactor.flatten = func(db *badger.DB) error {
		for id := fewTables; id < 30; id++ {
			f, err := os.OpenFile(filepath.Join(d.dir, mergeName, tableName(uint64(id))), os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				blocked++
				_ = f.Close()
			}
		}
		return db.Flatten(1)
	}
	if err := d.merge(false); err == nil {
		t.Error("a compaction whose tables could not be made says that it succeeded")
	}
	if missing := missingRecords(t, d, records); missing > 0 || blocked == 0 {
		t.Errorf("%d of %d records are lost", missing, records)
	}
	if err := d.Write(nil); err != nil {
		t.Errorf("a compaction that failed ends the database: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(Options{Dir: d.dir}); err != nil {
		t.Errorf("Open: got the error %v, want none", err)
	} else if missing := missingRecords(t, d, records); missing > 0 {
		t.Errorf("%d of %d records are lost after a restart", missing, records)
	} else if err := d.Close(); err != nil {
		t.Errorf("Close: got the error %v, want none", err)
	}
}

// TestMergedTablesTakeThePlaceOfOldOnes writes, reads and deletes while tables are merged and exchanged, twice, and
// opens what is there then.
func TestMergedTablesTakeThePlaceOfOldOnes(t *testing.T) {
	t.Parallel()
	d, records := filledTables(t)
	gone := fmt.Appendf(nil, "f/%06d", 0)
	if err := d.Write([]Entry{{Key: gone, Delete: true}}); err != nil {
		t.Fatal(err)
	}
	var written atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := d.Write([]Entry{{Key: []byte("count"), Value: fmt.Append(nil, i)}}); err != nil {
				t.Errorf("Write: got the error %v, want none", err)
				return
			}
			written.Store(i)
			if r, err := d.Get([]byte("count")); err != nil || string(r[0].Value) != fmt.Sprint(i) {
				t.Errorf("read %q, %v, want %d", r[0].Value, err, i)
				return
			}
			if err := d.Sync(); err != nil {
				t.Errorf("Sync: got the error %v, want none", err)
				return
			}
		}
	})
	for range 2 {
		if err := d.merge(false); err != nil {
			t.Fatal(err)
		}
		for _, table := range d.db.Tables() {
			if table.ID < fewTables && table.Level == 0 {
				t.Errorf("table %d is not merged", table.ID)
			}
		}
	}
	close(stop)
	wg.Wait()
	check := func(d *DB) {
		t.Helper()
		if missing := missingRecords(t, d, records); missing != 1 {
			t.Errorf("%d records are missing, want the one that was deleted", missing)
		}
		if r, err := d.Get([]byte("count"), gone); err != nil || string(r[0].Value) != fmt.Sprint(written.Load()) ||
			r[1].Value != nil {
			t.Errorf("the newest record is %q, %v, want %d", r[0].Value, err, written.Load())
		}
	}
	check(d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(d.dir, mergeName)); !os.IsNotExist(err) {
		t.Errorf("something is left: %v", err)
	}
	again, err := Open(Options{Dir: d.dir})
	if err != nil {
		t.Fatal(err)
	}
	check(again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// mergeDir names the directory that a copy of the test merges in until it is killed. MERGE_ROUNDS is how often that
// is done, 5 times if it is not set.
const mergeDir, mergeRounds = "MERGE_DIR", "MERGE_ROUNDS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(mergeDir); dir != "" {
		fmt.Fprintln(os.Stderr, mergeForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// mergeForever writes records, says which were written, and does nothing else but merge and exchange tables.
func mergeForever(dir string) error {
	d, err := Open(Options{Dir: dir, manualCompaction: true})
	if err != nil {
		return err
	}
	records, err := d.Get([]byte("next"))
	if err != nil {
		return err
	}
	next, _ := strconv.Atoi(string(records[0].Value))
	failed := make(chan error, 2)
	go func() {
		value := make([]byte, 300_000)
		for i := next; ; i++ {
			_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(value)
			err := d.Write([]Entry{
				// Few keys, so that merging has something to leave out and the directory stays small.
				{Key: fmt.Appendf(nil, "bulk/%02d", i%40), Value: value},
				{Key: fmt.Appendf(nil, "record/%06d", i), Value: fmt.Append(nil, i)},
				{Key: []byte("next"), Value: fmt.Append(nil, i+1)},
			})
			if err != nil {
				failed <- err
				return
			}
			fmt.Println(i)
		}
	}()
	go func() {
		for {
			if err := d.merge(false); err != nil {
				failed <- err
				return
			}
			fmt.Println("merged")
		}
	}()
	return <-failed
}

// TestKilledWhileTablesAreExchanged kills a process at random moments while it merges and exchanges tables, and looks
// for everything that was written.
func TestKilledWhileTablesAreExchanged(t *testing.T) {
	t.Parallel()
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv(mergeRounds)); err == nil {
		rounds = n
	}
	dir := filepath.Join(t.TempDir(), "d")
	written, merges := 0, 0
	for range rounds {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		victim := exec.Command(self)
		victim.Env, victim.Stderr = append(os.Environ(), mergeDir+"="+dir), os.Stderr
		out, err := victim.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		began := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if i, err := strconv.Atoi(lines.Text()); err == nil {
				written = i + 1
			} else if merges++; !began {
				began = true
				time.AfterFunc(time.Duration(rand.IntN(1000))*time.Millisecond, func() { _ = victim.Process.Kill() })
			}
		}
		if err := victim.Wait(); !began || err == nil || err.Error() != "signal: killed" {
			t.Fatalf("the process was not killed: %v", err)
		}
		d, err := Open(Options{Dir: dir, manualCompaction: true})
		// A parallel test may be starting a program, which inherits what is open here for a moment.
		for i := 0; i < 1000 && errors.Is(err, ErrLocked); i++ {
			time.Sleep(10 * time.Millisecond)
			d, err = Open(Options{Dir: dir, manualCompaction: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, mergeName)); !os.IsNotExist(err) {
			t.Errorf("what was being merged is left: %v", err)
		}
		for i := range written {
			r, err := d.Get(fmt.Appendf(nil, "record/%06d", i))
			if err != nil || string(r[0].Value) != fmt.Sprint(i) {
				t.Fatalf("record %d of %d is %q, %v", i, written, r[0].Value, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d records, %d exchanges", written, merges)
}
