// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/internal/schema1"
)

// kept is a record as Badger keeps it.
type kept struct {
	value   string
	meta    byte
	expires uint64
}

// raw returns all that Badger keeps in a directory.
func raw(t *testing.T, dir string) map[string]kept {
	t.Helper()
	found := make(map[string]kept)
	change(t, dir, func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			value, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			found[string(it.Item().Key())] = kept{string(value), it.Item().UserMeta(), it.Item().ExpiresAt()}
		}
		return nil
	})
	return found
}

// change changes a database behind this package's back.
func change(t *testing.T, dir string, do func(*badger.Txn) error) {
	t.Helper()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(do), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// copied returns a copy of a directory with the given name, as it is at one moment: as a kill would leave it. Badger
// may be making a table of a log meanwhile.
func copied(t testing.TB, dir, name string) string {
	t.Helper()
	moment := func() string {
		found, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, f := range found {
			if info, err := f.Info(); err == nil {
				fmt.Fprintln(&all, f.Name(), info.Size(), info.ModTime())
			}
		}
		return all.String()
	}
	for {
		to := filepath.Join(t.TempDir(), name)
		before := moment()
		if err := os.CopyFS(to, os.DirFS(dir)); err == nil && moment() == before {
			return to
		}
	}
}

// values are the records that are shown.
func values(t *testing.T, d *DB) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for from, more := []byte(nil), true; more; more = from != nil {
		records, next, err := d.Scan(Range{From: from})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Damaged {
				t.Fatalf("the record %q is damaged", r.Key)
			}
			found[string(r.Key)] = string(r.Value)
		}
		from = next
	}
	return found
}

// TestUpgradeMayBeInterrupted kills the process that upgrades a database of schema 1 when it has rewritten some of
// the records, opens what it left, and compares every record with what schema 1 had.
func TestUpgradeMayBeInterrupted(t *testing.T) {
	t.Parallel()
	want := make(map[string]string)
	for key, r := range raw(t, schema1.Database(t, "killed")) {
		if key != string(schemaKey) {
			want[key] = r.value
		}
	}
	if len(want) < 1000 {
		t.Fatalf("only %d records", len(want))
	}
	for _, rewritten := range []int{-1, 0, 1, 2, len(want) / 2, len(want) - 1, len(want)} {
		t.Run(fmt.Sprint(rewritten), func(t *testing.T) {
			t.Parallel()
			dir := schema1.Database(t, "killed")
			if rewritten >= 0 {
				dir = interrupted(t, dir, rewritten)
			}
			for range 2 {
				d, err := Open(Options{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				if got := values(t, d); !maps.Equal(got, want) {
					t.Errorf("%d records are there of %d, or others", len(got), len(want))
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for key, r := range raw(t, dir) {
				if key != string(schemaKey) && (r.meta != checksummed || r.expires != 0) {
					t.Errorf("the record %q has the mark %d and expires at %d", key, r.meta, r.expires)
				}
			}
		})
	}
}

// interrupted returns a copy of a database whose upgrade has rewritten so many records, any of them.
func interrupted(t *testing.T, dir string, rewritten int) string {
	t.Helper()
	o := Options{Dir: dir}.withDefaults()
	d := &DB{
		dir: dir, logger: o.Logger,
		space: space{dir: dir, minFree: uint64(o.MinFree)}, closing: make(chan struct{}),
	}
	if err := d.openDirectory(o); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.db, err = d.openBadger(o); err != nil {
		t.Fatal(err)
	}
	first := progress{boot: bootID(), identity: Identity{1, 2, 3}}
	if d.progress, err = openProgress(dir, first); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(d.commit([]Entry{
		{Key: schemaKey, Value: binary.BigEndian.AppendUint32(nil, schema)},
		{Key: identityKey, Value: first.identity[:]},
		{Key: upgradingKey, Value: []byte{}},
	}), d.Sync())
	var entries []Entry
	for from := []byte{}; err == nil && from != nil; {
		var part []Entry
		part, from, err = d.withoutChecksum(from)
		entries = append(entries, part...)
	}
	if err != nil {
		t.Fatal(err)
	}
	rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	if err := d.commit(entries[:rewritten]); err != nil {
		t.Fatal(err)
	}
	left := copied(t, dir, "copy")
	if err := d.release(); err != nil {
		t.Fatal(err)
	}
	return left
}

// TestLaterSchemasAreRefused opens what a later version may leave, and compares what it left then. Earlier versions
// read four bytes under meta/schema, so that they can refuse what this one writes.
func TestLaterSchemasAreRefused(t *testing.T) {
	t.Parallel()
	dir := schema1.Database(t, "closed")
	d, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before := raw(t, dir)
	if got := before[string(schemaKey)]; got.value != "\x00\x00\x00\x02" || got.meta != 0 {
		t.Errorf("earlier versions find %q under %s", got.value, schemaKey)
	}
	change(t, dir, func(txn *badger.Txn) error { return txn.Set(schemaKey, []byte{0, 0, 0, schema + 1}) })
	before[string(schemaKey)] = kept{value: string([]byte{0, 0, 0, schema + 1})}
	progressBefore, err := os.ReadFile(filepath.Join(dir, progressName))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := Open(Options{Dir: dir}); !errors.Is(err, ErrSchema) {
		t.Fatalf("opened %v, %v, want %v", d, err, ErrSchema)
	}
	if after, err := os.ReadFile(filepath.Join(dir, progressName)); err != nil ||
		string(after) != string(progressBefore) {
		t.Errorf("%s was changed, %v", progressName, err)
	}
	if !maps.Equal(raw(t, dir), before) {
		t.Error("records were changed")
	}
}
