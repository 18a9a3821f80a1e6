// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// database is a directory as the store writes it, and what was acknowledged.
type database struct {
	t      testing.TB
	dir    string
	db     *badger.DB
	number uint64
	ledger map[string]string
	random *rand.Rand
	// schema1 leaves out seals, numbers and PROGRESS.
	schema1 bool
}

func badgerOptions(dir string) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(nil).
		WithMetricsEnabled(false).
		WithDetectConflicts(false).
		WithMemTableSize(128 << 10).
		WithValueThreshold(16 << 10).
		WithNumMemtables(2).
		WithNumLevelZeroTables(2).
		WithNumLevelZeroTablesStall(math.MaxInt).
		WithNumCompactors(0).
		WithBaseTableSize(64 << 10).
		WithBaseLevelSize(256 << 10).
		WithValueLogFileSize(1 << 20).
		WithBlockCacheSize(1 << 20).
		WithCompression(options.Snappy).
		WithCompactL0OnClose(false)
}

func newDatabase(t testing.TB, schema1 bool) *database {
	d := &database{t: t, dir: t.TempDir(), ledger: make(map[string]string), random: rand.New(rand.NewPCG(1, 2)), schema1: schema1}
	d.open()
	d.writeRaw(schemaKey, binary.BigEndian.AppendUint32(nil, map[bool]uint32{true: 1, false: 2}[schema1]))
	return d
}

func (d *database) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) open() {
	d.t.Helper()
	db, err := badger.Open(badgerOptions(d.dir))
	d.check(err)
	d.db = db
	d.t.Cleanup(func() { _ = db.Close() })
}

func (d *database) writeRaw(key, value []byte) {
	d.t.Helper()
	d.check(d.db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) }))
}

// write writes n times some records, and deletes one now and then.
func (d *database) write(n int) {
	d.t.Helper()
	for range n {
		d.number++
		d.check(d.db.Update(func(txn *badger.Txn) error {
			for range 1 + d.random.IntN(4) {
				key := fmt.Sprintf("m/account-%02d\x00%06d", d.random.IntN(20), d.random.IntN(500))
				if d.random.IntN(10) == 0 {
					delete(d.ledger, key)
					if err := txn.Delete([]byte(key)); err != nil {
						return err
					}
					continue
				}
				value := fmt.Sprint(d.number, strings.Repeat("x", d.random.IntN(200)))
				d.ledger[key] = value
				e := badger.NewEntry([]byte(key), []byte(value))
				if !d.schema1 {
					e = badger.NewEntry([]byte(key), seal([]byte(key), []byte(value))).WithMeta(sealedMeta)
				}
				if err := txn.SetEntry(e); err != nil {
					return err
				}
			}
			if d.schema1 {
				return nil
			}
			return txn.SetEntry(badger.NewEntry(commitKey, seal(commitKey, binary.BigEndian.AppendUint64(nil, d.number))).WithMeta(sealedMeta))
		}))
	}
	if !d.schema1 {
		d.note(d.number, d.number, bootID())
	}
}

func (d *database) note(committed, synced uint64, boot [16]byte) {
	d.t.Helper()
	d.check(os.WriteFile(filepath.Join(d.dir, progressName), slot(1, committed, synced, boot), 0o600))
}

func slot(generation, committed, synced uint64, boot [16]byte) []byte {
	b := []byte("cmprog1\n")
	for _, n := range []uint64{generation, committed, synced} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(append(b, boot[:]...), make([]byte, 16)...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(make([]byte, 512), append(b, make([]byte, 512-len(b))...)...)
}

// reopen ends the database in order and begins again: what is in memory becomes a table.
func (d *database) reopen() {
	d.t.Helper()
	d.check(d.db.Close())
	d.open()
}

func (d *database) compact() {
	d.t.Helper()
	d.check(d.db.Flatten(1))
}

// copy copies the directory as it is at one moment, as a kill would leave it.
func (d *database) copy(name string) string {
	d.t.Helper()
	moment := func() string {
		found, err := os.ReadDir(d.dir)
		d.check(err)
		var all strings.Builder
		for _, f := range found {
			if info, err := f.Info(); err == nil {
				fmt.Fprintln(&all, f.Name(), info.Size(), info.ModTime())
			}
		}
		return all.String()
	}
	for {
		to := filepath.Join(d.t.TempDir(), name)
		before := moment()
		if err := os.CopyFS(to, os.DirFS(d.dir)); err == nil && moment() == before {
			return to
		}
	}
}

// holds opens a directory that has been found to be whole and compares what is in it.
func holds(t *testing.T, dir string, ledger map[string]string) {
	t.Helper()
	report, err := Inspect(dir)
	if err == nil {
		err = report.tidy()
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := badger.Open(badgerOptions(dir))
	if err != nil {
		t.Fatalf("Badger cannot open what was found to be whole: %v\n%v", err, report.Findings)
	}
	defer db.Close()
	got := make(map[string]string)
	err = db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().KeyCopy(nil)
			value, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			if strings.HasPrefix(string(key), "meta/") {
				continue
			}
			if it.Item().UserMeta() == sealedMeta {
				payload, ok := unseal(key, value)
				if !ok {
					return errors.New("a record is damaged")
				}
				value = payload
			}
			got[string(key)] = string(value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, ledger) {
		wrong := 0
		for k, v := range ledger {
			if got[k] != v {
				wrong++
			}
		}
		t.Fatalf("%d of %d records are lost or changed, %d are there; findings: %v", wrong, len(ledger), len(got), report.Findings)
	}
}

// state is a directory and what was acknowledged.
type state struct {
	name   string
	dir    string
	older  string // the directory some writes before
	ledger map[string]string
}

// states are directories after orderly ends and after kills, with tables in two levels, tables in level 0 and logs.
func states(t *testing.T, schema1 bool) []state {
	t.Helper()
	d := newDatabase(t, schema1)
	var all []state
	older := ""
	add := func(name string) {
		all = append(all, state{name: name, dir: d.copy(name), older: older, ledger: maps.Clone(d.ledger)})
		older = all[len(all)-1].dir
	}
	d.write(20)
	add("log only")
	d.write(500)
	d.reopen()
	d.compact()
	d.write(300)
	d.reopen()
	d.write(1200)
	add("killed")
	d.check(d.db.Close())
	add("closed")
	d.open()
	d.compact()
	d.check(d.db.Close())
	add("compacted")
	d.open()
	d.write(700)
	add("killed after a compaction")
	return all
}

func TestInspectAcceptsWhatIsWhole(t *testing.T) {
	t.Parallel()
	for _, schema1 := range []bool{true, false} {
		for _, s := range states(t, schema1) {
			t.Run(fmt.Sprint(s.name, " schema 1: ", schema1), func(t *testing.T) {
				before := listing(t, s.dir)
				report, err := Inspect(s.dir)
				if err := errors.Join(err, report.Err()); err != nil {
					t.Fatal(err)
				}
				t.Logf("%d tables, %d logs, newest %d, schema %d, %v", report.Tables, report.Logs, report.Newest, report.Schema, report.Findings)
				if after := listing(t, s.dir); !slices.Equal(before, after) {
					t.Fatalf("the directory has changed from\n%v to\n%v", before, after)
				}
				holds(t, s.dir, s.ledger)
			})
		}
	}
}

// listing is what is in a directory: names, sizes and times of change.
func listing(t *testing.T, dir string) (all []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(f.Name(), info.Size(), info.ModTime(), crc32.ChecksumIEEE(b)))
	}
	return all
}

// TestDamageIsFoundOrHarmless damages files at random: what was acknowledged is there afterwards, or damage is reported.
func TestDamageIsFoundOrHarmless(t *testing.T) {
	t.Parallel()
	all := states(t, false)
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	damaged := 0
	random := rand.New(rand.NewPCG(3, 4))
	for i := range rounds * len(all) {
		s := all[i%len(all)]
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
			t.Fatal(err)
		}
		what := harm(t, random, dir, s.older)
		report, err := Inspect(dir)
		if err != nil {
			t.Fatalf("%s: %s: %v", s.name, what, err)
		}
		if err := report.Err(); err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			damaged++
			continue
		}
		ok := t.Run(fmt.Sprint(i, " ", s.name, ": ", what), func(t *testing.T) { holds(t, dir, s.ledger) })
		if !ok {
			return
		}
	}
	t.Logf("%d of %d were found to be damaged", damaged, rounds*len(all))
}

// harm does something to a file of a directory.
func harm(t *testing.T, random *rand.Rand, dir, older string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return filepath.Base(name) == "LOCK" })
	path := names[random.IntN(len(names))]
	name := filepath.Base(path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Logs are mostly zeros: harm what is not.
	content := lastNonZero(b) + 1
	if content == 0 {
		content = len(b)
	}
	what := ""
	switch k := random.IntN(6); {
	case k == 0 || k == 1:
		at := random.IntN(content)
		b[at] ^= 1 << random.IntN(8)
		what = fmt.Sprintf("a bit flipped at %d of %d", at, content)
	case k == 2:
		at := random.IntN(content + 1)
		b = b[:at]
		what = fmt.Sprintf("cut at %d of %d", at, content)
	case k == 3:
		at := random.IntN(content) &^ 4095
		clear(b[at:min(at+4096, len(b))])
		what = fmt.Sprintf("page at %d of %d zeroed", at, content)
	case k == 4:
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return name + " removed"
	default:
		old, err := os.ReadFile(filepath.Join(older, name))
		if older == "" || err != nil {
			b = append(b, b[random.IntN(len(b)):]...)
			what = "a part of it appended to it"
			break
		}
		b = old
		what = "of an older state"
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name + " " + what
}
