// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// filesWith returns the files below dir that hold a text.
func filesWith(t *testing.T, dir string, text []byte) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the database has removed it meanwhile
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(content, text) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// awaitErasure waits until a database has erased what was deleted.
func awaitErasure(t *testing.T, d *DB) {
	t.Helper()
	for range 3000 {
		if d.compactor.erase.Load() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("after 30 s nothing is erased")
}

// TestErase guards against a deleted text that stays in the files of the database, wherever it was when it was
// deleted: in a log, in a single table, in merged tables. What was not deleted must stay.
func TestErase(t *testing.T) {
	t.Parallel()
	// Random, so that no compression hides it from a search.
	random := rand.NewChaCha8([32]byte{1})
	text, other := make([]byte, 300), make([]byte, 300)
	_, _ = random.Read(text)
	_, _ = random.Read(other)
	write := func(d *DB, entries ...Entry) {
		t.Helper()
		if err := errors.Join(d.Write(entries), d.Sync()); err != nil {
			t.Fatal(err)
		}
	}
	put := func(d *DB) {
		write(d, Entry{Key: []byte("f/1"), Value: text}, Entry{Key: []byte("f/2"), Value: other})
	}
	for name, test := range map[string]struct {
		// fill puts the records where they are when they are deleted, and may open the database again.
		fill func(t *testing.T, d *DB) *DB
		// restart kills the database after the deletion: it is to erase when it is opened again.
		restart bool
	}{
		"in a log": {fill: func(_ *testing.T, d *DB) *DB { put(d); return d }},
		"in a single table": {fill: func(t *testing.T, d *DB) *DB {
			put(d)
			return reopen(t, d, false)
		}},
		"in merged tables": {fill: func(t *testing.T, d *DB) *DB {
			for i := range 2 * fewTables {
				put(d)
				write(d, Entry{Key: fmt.Appendf(nil, "f/3%d", i), Value: other})
				d = reopen(t, d, true)
			}
			if err := d.merge(false); err != nil {
				t.Fatal(err)
			}
			return reopen(t, d, false)
		}},
		"before a restart": {fill: func(t *testing.T, d *DB) *DB {
			put(d)
			return reopen(t, d, true)
		}, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "d")
			d, err := Open(Options{Dir: dir, manualCompaction: test.restart || name == "in merged tables"})
			if err != nil {
				t.Fatal(err)
			}
			d = test.fill(t, d)
			write(d, Entry{Key: []byte("f/1"), Delete: true})
			if len(filesWith(t, dir, text)) == 0 {
				t.Fatal("the test is wrong: the deleted text is in no file")
			}
			write(d, Erase())
			if test.restart {
				d = reopen(t, d, false)
			}
			awaitErasure(t, d)
			if found := filesWith(t, dir, text); len(found) > 0 {
				t.Errorf("the deleted text is still in %v", found)
			}
			for range 2 {
				r, err := d.Get([]byte("f/1"), []byte("f/2"), eraseKey)
				if err != nil || r[0].Value != nil || !bytes.Equal(r[1].Value, other) || r[2].Value != nil {
					t.Errorf("got %v, %v; want the other record alone", r, err)
				}
				d = reopen(t, d, false)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			report, err := Inspect(dir)
			if err != nil || report.Err() != nil {
				t.Errorf("the database after that: %v, %v", err, report.Err())
			}
		})
	}
}

// reopen closes a database and opens it again.
func reopen(t *testing.T, d *DB, manual bool) *DB {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openSoon(t, Options{Dir: d.dir, manualCompaction: manual})
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// openSoon opens a database that was just closed. A process that another test is starting may hold its lock for a
// moment, until it runs its own program.
func openSoon(t *testing.T, o Options) *DB {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		d, err := Open(o)
		if err == nil {
			return d
		}
		if !errors.Is(err, ErrLocked) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestEraseWaits guards against an erasure that takes a snapshot's records away, and one that is forgotten because
// something was deleted while it was under way.
func TestEraseWaits(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	d, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	random := rand.NewChaCha8([32]byte{2})
	texts := make([][]byte, 20)
	var entries []Entry
	for i := range texts {
		texts[i] = make([]byte, 300)
		_, _ = random.Read(texts[i])
		entries = append(entries, Entry{Key: fmt.Appendf(nil, "f/%02d", i), Value: texts[i]})
	}
	if err := d.Write(entries); err != nil {
		t.Fatal(err)
	}
	s, err := d.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for i := range texts {
		if err := d.Write([]Entry{{Key: fmt.Appendf(nil, "f/%02d", i), Delete: true}, Erase()}); err != nil {
			t.Fatal(err)
		}
		if i == 10 {
			time.Sleep(eraseDelay + 3*compactInterval) // it has begun, and waits for the snapshot
		}
		if i == 15 {
			records, err := s.Next()
			if err != nil || len(records) != len(texts) {
				t.Errorf("in the snapshot: got %d records, %v; want %d", len(records), err, len(texts))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitErasure(t, d)
	for i, text := range texts {
		if found := filesWith(t, dir, text); len(found) > 0 {
			t.Errorf("text %d, which was deleted, is still in %v", i, found)
		}
	}
}
