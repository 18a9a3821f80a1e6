// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// filledTables opens a database and writes records until there are some tables, which only the test compacts.
func filledTables(t *testing.T) (d *DB, records int) {
	t.Helper()
	d, err := Open(Options{Dir: filepath.Join(t.TempDir(), "d"), uncompacted: true})
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

// TestACompactionThatCannotMakeItsTablesLosesNothing guards against an error that Badger swallows: when a table that a compaction
// makes cannot be created, because the disk answers with EIO or no descriptors are left, Badger forgets and removes the tables
// that were to be merged all the same, and says that it succeeded. Here files with the names of the next tables are in the way.
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
	if err := d.merge(); err == nil {
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
		t.Error(err)
	} else if missing := missingRecords(t, d, records); missing > 0 {
		t.Errorf("%d of %d records are lost after a restart", missing, records)
	} else if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestMergedTablesTakeThePlaceOfOldOnes writes, reads and deletes while tables are merged and exchanged, twice, and opens what is
// there then.
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
				t.Error(err)
				return
			}
			written.Store(i)
			if r, err := d.Get([]byte("count")); err != nil || string(r[0].Value) != fmt.Sprint(i) {
				t.Errorf("read %q, %v, want %d", r[0].Value, err, i)
				return
			}
			if err := d.Sync(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 2 {
		if err := d.merge(); err != nil {
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
		if r, err := d.Get([]byte("count"), gone); err != nil || string(r[0].Value) != fmt.Sprint(written.Load()) || r[1].Value != nil {
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
