// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func openDB(t *testing.T, o Options) *DB {
	t.Helper()
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestOpenRefusesDamageAndTouchesNothing(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*testing.T, string){
		"MANIFEST cut":     cut(manifestName, 20),
		"MANIFEST removed": remove(manifestName),
		"table flipped":    flip("*.sst", 60, 2),
		"table empty":      cut("*.sst", 0),
		"PROGRESS ahead":   write(progressName, slot(9, 1000, 1000, bootID())),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			db := openDB(t, Options{Dir: dir})
			err := db.Write([]Entry{{Key: []byte("a/b"), Value: []byte("c")}})
			if err = errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			harm(t, dir)
			before := listing(t, dir)
			db, err = Open(Options{Dir: dir})
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("error %v", errors.Join(err, db.Close()))
			}
			if after := listing(t, dir); !slices.Equal(before, after) {
				t.Fatalf("the directory has changed from\n%v to\n%v", before, after)
			}
		})
	}
}

// TestOpenGoesOnBehindWritesThatPowerLossTook opens a database of which the end of one log is lost and a part of the
// next one is there. It must be opened, and another time too.
func TestOpenGoesOnBehindWritesThatPowerLossTook(t *testing.T) {
	t.Parallel()
	another := bootID()
	another[0]++
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	dir := t.TempDir()
	// Nothing else is there after power loss in the first minute.
	write(manifestName, []byte("Bdgr\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"))(t, dir)
	write(progressName, slot(1, 9, 2, another))(t, dir)
	id := encodeWrite(1, identityKey, make([]byte, 16))
	logs := [][]byte{
		slices.Concat(encodeEntry(1, 0, schemaKey, []byte{0, 0, 0, schema}), id, encodeWrite(1, commitKey, number(1)),
			encodeWrite(2, commitKey, number(2))),
		slices.Concat(encodeWrite(5, []byte("a/b"), []byte("value")), encodeWrite(5, commitKey, number(5))),
	}
	for i, b := range logs {
		write(logName(uint64(i+1)), append(append(make([]byte, logHeader), b...), make([]byte, 5000)...))(t, dir)
	}
	for range 3 {
		db, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		records, err := db.Get([]byte("a/b"))
		if err = errors.Join(err, db.Write([]Entry{{Key: []byte("a/c"), Value: []byte("c")}}), db.Close()); err != nil {
			t.Fatal(err)
		}
		if string(records[0].Value) != "value" {
			t.Fatalf("the record is %+v", records[0])
		}
	}
}

// TestOpenAfterPowerLossAndAKill: what power loss took of what was not synced must not be missed after the next kill.
func TestOpenAfterPowerLossAndAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openDB(t, Options{Dir: dir})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	another := bootID()
	another[0]++
	p, err := readProgress(dir)
	if err != nil {
		t.Fatal(err)
	}
	p.boot, p.committed = another, p.committed+5
	write(progressName, append(make([]byte, progressSlot), p.append(nil)...))(t, dir)
	openDB(t, Options{Dir: dir})
	killed := copied(t, dir, "killed")
	openDB(t, Options{Dir: killed})
}

func TestEachTransactionOfALargeWriteHasANumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openDB(t, Options{Dir: dir})
	before := db.committed
	var entries []Entry
	for i := range 60 {
		entries = append(entries, Entry{Key: fmt.Appendf(nil, "f/%03d", i), Value: bytes.Repeat([]byte("x"), 100<<10)})
	}
	if err := db.Write(entries); err != nil {
		t.Fatal(err)
	}
	if db.committed < before+5 {
		t.Fatalf("6 MB were written as %d transactions", db.committed-before)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	openDB(t, Options{Dir: dir})
}

// TestALogOfALargerTableIsTaken: a server that was killed is started again with smaller tables in memory.
func TestALogOfALargerTableIsTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openDB(t, Options{Dir: dir, MemTableSize: 40 << 20})
	for i := range 250 {
		var entries []Entry
		for j := range 1000 {
			entries = append(entries, Entry{Key: fmt.Appendf(nil, "m/%d/%d", j, i), Value: []byte("some value")})
		}
		if err := db.Write(entries); err != nil {
			t.Fatal(err)
		}
	}
	killed := copied(t, dir, "killed")
	again := openDB(t, Options{Dir: killed})
	records, err := again.Get([]byte("m/999/249"))
	if err != nil || string(records[0].Value) != "some value" {
		t.Fatal(records, err)
	}
}
