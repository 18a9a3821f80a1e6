// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
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
	// schema1 leaves out checksums, numbers and PROGRESS.
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
	d := &database{t: t, dir: t.TempDir(), ledger: make(map[string]string), random: rand.New(rand.NewPCG(1, 2)),
		schema1: schema1}
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
					e = badger.NewEntry([]byte(key), withChecksum([]byte(key), []byte(value))).WithMeta(checksummed)
				}
				if err := txn.SetEntry(e); err != nil {
					return err
				}
			}
			if d.schema1 {
				return nil
			}
			return txn.SetEntry(badger.NewEntry(commitKey,
				withChecksum(commitKey, binary.BigEndian.AppendUint64(nil, d.number))).WithMeta(checksummed))
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
	return copied(d.t, d.dir, name)
}

// holds opens a directory that has been found to be whole and compares what is in it.
func holds(t *testing.T, dir string, ledger map[string]string) {
	t.Helper()
	report, err := Inspect(dir)
	if err == nil {
		err = report.cleanUp()
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
			if it.Item().UserMeta() == checksummed {
				payload, ok := verifyChecksum(key, value)
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
		t.Fatalf("%d of %d records are lost or changed, %d are there; findings: %v", wrong, len(ledger), len(got),
			report.Findings)
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
				t.Logf("%d tables, %d logs, newest %d, schema %d, %v", report.Tables, report.Logs, report.Newest,
					report.Schema, report.Findings)
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

// TestDamageIsFoundOrHarmless damages files at random: what was acknowledged is there afterwards, or damage is
// reported.
func TestDamageIsFoundOrHarmless(t *testing.T) {
	t.Parallel()
	all := states(t, false)
	rounds := 20
	if testing.Short() {
		rounds = 5
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
			t.Fatalf("%s: %s: got the error %v, want none", s.name, what, err)
		}
		if err := report.Err(); err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("Err: got the error %v, want %v", err, ErrDamaged)
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

// harm damages a file of a directory.
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
	var what string
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

// TestDamageIsNamed is one test for each way in which a directory has been seen to be damaged, or can be.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, false)
	d.write(600)
	d.reopen()
	d.compact()
	d.write(200)
	d.reopen()
	older := d.copy("older")
	d.write(200)
	d.reopen()
	d.write(100)
	d.reopen()
	d.write(50)
	// Four tables, one of them compacted, and a log.
	killed := state{dir: d.copy("killed"), older: older, ledger: maps.Clone(d.ledger)}
	d.check(d.db.Close())
	closed := state{dir: d.copy("closed"), older: older, ledger: d.ledger}

	another := bootID()
	another[0]++
	for name, test := range map[string]struct {
		of   state
		harm func(t *testing.T, dir string)
		// file is named; harmless when empty.
		file string
	}{
		"MANIFEST removed":                      {closed, remove("MANIFEST"), "MANIFEST"},
		"MANIFEST removed, tables too":          {closed, func(t *testing.T, dir string) { remove("MANIFEST")(t, dir); remove("*.sst")(t, dir) }, "MANIFEST"},
		"MANIFEST cut to 40 bytes":              {closed, cut("MANIFEST", 40), "MANIFEST"},
		"MANIFEST cut to 40 bytes, log alive":   {killed, cut("MANIFEST", 40), "MANIFEST"},
		"MANIFEST empty":                        {closed, cut("MANIFEST", 0), "MANIFEST"},
		"MANIFEST of a new database":            {closed, cut("MANIFEST", 16), "MANIFEST"},
		"MANIFEST without the last table":       {closed, manifestWithoutLast(1), "MANIFEST"},
		"MANIFEST without one before the log":   {killed, manifestWithoutLast(1), "MANIFEST"},
		"MANIFEST without two before the log":   {killed, manifestWithoutLast(2), "MANIFEST"},
		"MANIFEST without any, PROGRESS lost":   {closed, func(t *testing.T, dir string) { cut("MANIFEST", 16)(t, dir); remove("PROGRESS")(t, dir) }, "MANIFEST"},
		"MANIFEST of an older state":            {closed, put(older, "MANIFEST"), "MANIFEST"},
		"MANIFEST of an older state, log alive": {killed, put(older, "MANIFEST"), "MANIFEST"},
		"MANIFEST with a length flipped":        {closed, flip("MANIFEST", 18, 0), "MANIFEST"},
		"MANIFEST with a bit flipped":           {closed, flip("MANIFEST", 30, 3), "MANIFEST"},
		"MANIFEST with the end torn":            {killed, grow("MANIFEST", []byte{0, 0, 0, 14, 1, 2, 3, 4, 10, 12}), ""},
		"MANIFEST with zeros at its end":        {killed, grow("MANIFEST", make([]byte, 4096)), ""},
		"MANIFEST with half a header":           {killed, grow("MANIFEST", []byte{0, 0, 1}), ""},
		"table removed":                         {closed, remove("*.sst"), ".sst"},
		"table empty":                           {closed, cut("*.sst", 0), ".sst"},
		"table cut":                             {closed, cut("*.sst", 5000), ".sst"},
		"table cut by a byte":                   {closed, cut("*.sst", -1), ".sst"},
		"table with a bit flipped in front":     {closed, flip("*.sst", 100, 1), ".sst"},
		"table with a bit flipped in its index": {closed, flip("*.sst", -40, 1), ".sst"},
		"table with its checksum flipped":       {closed, flip("*.sst", -6, 1), ".sst"},
		"table with a huge index":               {closed, overwrite("*.sst", -14, []byte{0xff, 0xff, 0xff, 0xff}), ".sst"},
		"table with a huge checksum":            {closed, overwrite("*.sst", -4, []byte{0xff, 0xff, 0xff, 0xff}), ".sst"},
		"table with a page of zeros":            {closed, overwrite("*.sst", 0, make([]byte, 4096)), ".sst"},
		"table of another number":               {closed, func(t *testing.T, dir string) { swap(t, dir, "*.sst") }, "PROGRESS"},
		"table with a name of its own":          {closed, rename("*.sst", "-1.sst"), "-1.sst"},
		"leftover of a flush":                   {killed, leftover(closed), ""},
		"leftover of a flush, torn":             {killed, write("000099.sst", make([]byte, 5000)), ""},
		"leftover of a flush, empty":            {killed, write("000099.sst", nil), ""},
		"log removed":                           {killed, remove("*.mem"), "PROGRESS"},
		"log cut":                               {killed, cut("*.mem", 3000), ".mem"},
		"log cut within its header":             {killed, cut("*.mem", 10), ".mem"},
		"log with a bit flipped":                {killed, flip("*.mem", 2000, 1), ".mem"},
		"log with its header flipped":           {killed, flip("*.mem", 3, 1), ".mem"},
		"log with a page of zeros":              {killed, overwrite("*.mem", 4096, make([]byte, 4096)), ".mem"},
		"log with a huge length":                {killed, overwrite("*.mem", 2000, []byte{0, 0, 10, 255, 255, 255, 255, 15, 0}), ".mem"},
		"log of an older state":                 {killed, func(t *testing.T, dir string) { cut("*.mem", 20)(t, dir) }, ".mem"},
		"log with an incomplete write":          {killed, after("*.mem", []byte{64, 1, 12, 4, 0, 'a', 'b', 'c'}), ""},
		"log with a huge length behind its end": {killed, after("*.mem", []byte{64, 1, 12, 255, 255, 255, 255, 15, 0, 'a'}), ""},
		"log with a number that is too long":    {killed, after("*.mem", bytes.Repeat([]byte{255}, 30)), ""},
		"log without content":                   {killed, write("00099.mem", nil), ""},
		"log with a name of its own":            {killed, write("x.mem", nil), "x.mem"},
		"KEYREGISTRY removed":                   {closed, remove("KEYREGISTRY"), ""},
		"KEYREGISTRY flipped":                   {closed, flip("KEYREGISTRY", 20, 1), "KEYREGISTRY"},
		"KEYREGISTRY cut":                       {closed, cut("KEYREGISTRY", 20), "KEYREGISTRY"},
		"KEYREGISTRY with a huge key":           {closed, grow("KEYREGISTRY", []byte{255, 255, 255, 255, 0, 0, 0, 0}), "KEYREGISTRY"},
		"DISCARD removed":                       {closed, remove("DISCARD"), ""},
		"DISCARD empty":                         {closed, cut("DISCARD", 0), ""},
		"DISCARD cut":                           {closed, cut("DISCARD", 9), "DISCARD"},
		"DISCARD flipped":                       {closed, flip("DISCARD", 40, 1), "DISCARD"},
		"value log removed":                     {closed, remove("*.vlog"), ""},
		"value log empty":                       {closed, cut("*.vlog", 0), ""},
		"value log cut":                         {closed, cut("*.vlog", 7), ""},
		"value log with its header flipped":     {closed, flip("*.vlog", 2, 1), ".vlog"},
		"value log with a huge length":          {closed, grow("*.vlog", []byte{0, 0, 10, 255, 255, 255, 255, 15, 0}), ".vlog"},
		"PROGRESS removed":                      {killed, remove("PROGRESS"), "PROGRESS"},
		"PROGRESS flipped in its older half":    {killed, flip("PROGRESS", 20, 1), ""},
		"PROGRESS flipped in its newer half":    {killed, flip("PROGRESS", 532, 1), "PROGRESS"},
		"PROGRESS of more than there is":        {killed, write("PROGRESS", slot(3, 1151, 1, bootID())), "the write 1151 is lost"},
		"power loss, within what was synced":    {killed, powerLoss(1150, another), ".mem"},
		"power loss, behind what was synced":    {killed, powerLoss(1100, another), ""},
		"kill, within what was not synced":      {killed, powerLoss(1100, bootID()), ".mem"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.CopyFS(dir, os.DirFS(test.of.dir)); err != nil {
				t.Fatal(err)
			}
			test.harm(t, dir)
			before := listing(t, dir)
			report, err := Inspect(dir)
			if err != nil {
				t.Fatal(err)
			}
			if after := listing(t, dir); !slices.Equal(before, after) {
				t.Fatalf("the directory has changed from\n%v to\n%v", before, after)
			}
			err = report.Err()
			t.Log(report.Findings)
			switch {
			case test.file == "" && err != nil:
				t.Fatalf("what is whole was refused: %v", err)
			case test.file == "" && strings.HasPrefix(name, "power loss"):
			case test.file == "":
				holds(t, dir, test.of.ledger)
			case !errors.Is(err, ErrDamaged):
				t.Fatalf("error %v", err)
			case !strings.Contains(err.Error(), test.file):
				t.Fatalf("the error does not name %s: %v", test.file, err)
			}
		})
	}
}

// harming changes a file; of several that match, the last one.
func harming(pattern string, change func(b []byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		path := found[len(found)-1]
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func cut(pattern string, at int) func(*testing.T, string) {
	return harming(pattern, func(b []byte) []byte { return b[:from(b, at)] })
}

// from counts from the end when it is negative.
func from(b []byte, at int) int {
	if at < 0 {
		return len(b) + at
	}
	return at
}

func flip(pattern string, at, bit int) func(*testing.T, string) {
	return harming(pattern, func(b []byte) []byte { b[from(b, at)] ^= 1 << bit; return b })
}

func grow(pattern string, by []byte) func(*testing.T, string) {
	return harming(pattern, func(b []byte) []byte { return append(b, by...) })
}

func overwrite(pattern string, at int, with []byte) func(*testing.T, string) {
	return harming(pattern, func(b []byte) []byte { copy(b[from(b, at):], with); return b })
}

// after writes behind the last entry of a log.
func after(pattern string, what []byte) func(*testing.T, string) {
	return harming(pattern, func(b []byte) []byte { copy(b[lastNonZero(b)+1:], what); return b })
}

func write(name string, b []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func put(older, name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		b, err := os.ReadFile(filepath.Join(older, name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, b)(t, dir)
	}
}

func remove(pattern string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, path := range found {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func rename(pattern, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		if err := os.Rename(found[0], filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
}

func swap(t *testing.T, dir, pattern string) {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) < 2 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	b, err := os.ReadFile(found[0])
	if err == nil {
		err = os.WriteFile(found[1], b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// manifestWithoutLast cuts changes off, at their boundaries.
func manifestWithoutLast(n int) func(*testing.T, string) {
	return harming("MANIFEST", func(b []byte) []byte {
		var ends []int
		for at := 8; at < len(b); {
			ends = append(ends, at)
			at += 8 + int(binary.BigEndian.Uint32(b[at:]))
		}
		return b[:ends[len(ends)-n]]
	})
}

// leftover copies the newest table of a later state, whose log is still there.
func leftover(later state) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		found, err := filepath.Glob(filepath.Join(later.dir, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		put(later.dir, filepath.Base(found[len(found)-1]))(t, dir)
	}
}

// powerLoss takes the page of the log that holds the last write.
func powerLoss(synced uint64, boot [16]byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		harming("*.mem", func(b []byte) []byte {
			last := lastNonZero(b)
			clear(b[last&^4095:])
			return b
		})(t, dir)
		write("PROGRESS", slot(3, 1150, synced, boot))(t, dir)
	}
}

// TestWritesThatWereNeverSyncedMayBeMissing is about power loss after a log was full: the end of that log is lost,
// and a part of the next one is on the disk.
func TestWritesThatWereNeverSyncedMayBeMissing(t *testing.T) {
	t.Parallel()
	another := bootID()
	another[0]++
	commit := func(n uint64) []byte { return encodeWrite(n, commitKey, binary.BigEndian.AppendUint64(nil, n)) }
	gap := func(n, upTo uint64) []byte {
		return append(encodeWrite(n, gapKey, binary.BigEndian.AppendUint64(nil, upTo)), commit(n)...)
	}
	first := append(commit(1), commit(2)...)
	second := append(commit(5), commit(6)...)
	for name, test := range map[string]struct {
		logs     [][]byte
		progress []byte
		rewrite  bool
		gap      uint64
		damaged  bool
	}{
		"after power loss":                        {logs: [][]byte{first, second}, progress: slot(1, 6, 2, another), gap: 6},
		"without power loss":                      {logs: [][]byte{first, second}, progress: slot(1, 6, 2, bootID()), damaged: true},
		"before writing again what is not synced": {logs: [][]byte{first, second}, progress: slot(1, 6, 2, bootID()), rewrite: true, gap: 6},
		"synced before power loss":                {logs: [][]byte{first, second}, progress: slot(1, 6, 4, another), damaged: true},
		"that were noted as missing":              {logs: [][]byte{first, append(second, gap(7, 6)...)}, progress: slot(1, 7, 7, bootID())},
		"before a note that they were missing":    {logs: [][]byte{first, append(second, gap(9, 6)...)}, progress: slot(1, 9, 9, bootID()), damaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// A manifest without tables.
			write(manifestName, []byte("Bdgr\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"))(t, dir)
			write(progressName, test.progress)(t, dir)
			for i, b := range test.logs {
				content := slices.Concat(make([]byte, logHeader), b, make([]byte, 5000))
				write(logName(uint64(i+1)), content)(t, dir)
			}
			report, err := inspect(dir, inspection{boot: bootID(), rewrite: test.rewrite})
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Err(); test.damaged != errors.Is(err, ErrDamaged) || report.Gap != test.gap {
				t.Fatalf("error %v, gap %d; want damage: %t, gap %d", err, report.Gap, test.damaged, test.gap)
			}
		})
	}
}

// encodeWrite returns an entry of a log whose value has a checksum.
func encodeWrite(version uint64, key, payload []byte) []byte {
	return encodeEntry(version, checksummed, key, withChecksum(key, payload))
}

// encodeEntry returns an entry of a log.
func encodeEntry(version uint64, userMeta byte, key, value []byte) []byte {
	b := []byte{0, userMeta}
	b = binary.AppendUvarint(b, uint64(len(key)+8))
	b = binary.AppendUvarint(b, uint64(len(value)))
	b = append(append(b, 0), key...)
	b = append(binary.BigEndian.AppendUint64(b, ^version), value...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// FuzzInspect changes a table, a log and MANIFEST: nothing in them may end the process.
func FuzzInspect(f *testing.F) {
	d := newDatabase(f, false)
	d.write(150)
	d.reopen()
	d.write(20)
	for i, pattern := range []string{"*.sst", "*.mem", manifestName, progressName, registryName} {
		found, err := filepath.Glob(filepath.Join(d.dir, pattern))
		if err != nil || len(found) == 0 {
			f.Fatal(pattern, err)
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, b[:lastNonZero(b)+1])
	}
	manifest, err := os.ReadFile(filepath.Join(d.dir, manifestName))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, file int, b []byte) {
		names := []string{"000001.sst", "00001.mem", manifestName, progressName, registryName}
		dir := t.TempDir()
		for name, b := range map[string][]byte{manifestName: manifest, names[uint(file)%uint(len(names))]: b} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		report, err := Inspect(dir)
		if err != nil {
			t.Fatal(err)
		}
		_ = report.Err()
	})
}

// BenchmarkInspect reads a database as large as a store of some months has it.
func BenchmarkInspect(b *testing.B) {
	dir := b.TempDir()
	opt := badgerOptions(dir).WithMemTableSize(8 << 20).WithValueThreshold(1 << 20).
		WithBaseTableSize(2 << 20).WithBaseLevelSize(10 << 20)
	db, err := badger.Open(opt)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 400)
	for n := uint64(1); n <= 3000; n++ {
		err := db.Update(func(txn *badger.Txn) error {
			for range 250 {
				for i := range text {
					text[i] = "etaoinshrdlu "[random.IntN(13)]
				}
				key := fmt.Appendf(nil, "f/%016x", random.Uint64())
				if err := txn.SetEntry(badger.NewEntry(key,
					withChecksum(key, text[:random.IntN(len(text))])).WithMeta(checksummed)); err != nil {
					return err
				}
			}
			return txn.SetEntry(badger.NewEntry(commitKey,
				withChecksum(commitKey, binary.BigEndian.AppendUint64(nil, n))).WithMeta(checksummed))
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		report, err := Inspect(dir)
		if err = errors.Join(err, report.Err()); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(report.Bytes)
		b.ReportMetric(float64(report.Tables), "tables")
	}
}
