// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnfinishedTableIsNoDamage guards against a database that is refused although nothing is lost: when MANIFEST
// cannot be synced, Badger removes the table that it has just listed, and goes on.
func TestUnfinishedTableIsNoDamage(t *testing.T) {
	t.Parallel()
	const missing = 999
	for name, change := range map[string]func(tables []uint64) []byte{
		"a table of level 0": func([]uint64) []byte { return appendChange(nil, missing, 0, 0) },
		"a compaction": func(tables []uint64) []byte {
			set := appendChange(nil, missing, 0, 6)
			for _, id := range tables {
				set = appendChange(set, id, 1, 0)
			}
			return set
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			for part := range 3 {
				d := openDB(t, Options{Dir: dir})
				for i := range 20 {
					if err := d.Write([]Entry{{Key: fmt.Appendf(nil, "k/%d-%d", part, i),
						Value: []byte("value")}}); err != nil {
						t.Fatal(err)
					}
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Inspect(dir)
			if err != nil {
				t.Fatal(err)
			}
			var tables []uint64
			for id := range r.manifest.tables {
				tables = append(tables, id)
			}
			set := change(tables)
			b := binary.BigEndian.AppendUint32(nil, uint32(len(set)))
			b = append(binary.BigEndian.AppendUint32(b, crc32.Checksum(set, castagnoli)), set...)
			f, err := os.OpenFile(filepath.Join(dir, manifestName), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write(b); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}

			// What stands in a table that is gone is still missed.
			lost := t.TempDir()
			if err := os.CopyFS(lost, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			name := tableName(tables[0])
			if err := os.Remove(filepath.Join(lost, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(Options{Dir: lost}); !errors.Is(err, ErrDamaged) ||
				!strings.Contains(err.Error(), "is listed in MANIFEST and missing") {
				t.Errorf("without %s: got the error %v", name, err)
			}

			d := openDB(t, Options{Dir: dir})
			defer d.Close()
			for part := range 3 {
				for i := range 20 {
					key := fmt.Sprintf("k/%d-%d", part, i)
					records, err := d.Get([]byte(key))
					if err != nil || string(records[0].Value) != "value" {
						t.Fatalf("%s: got %q and the error %v", key, records[0].Value, err)
					}
				}
			}
			again, err := Inspect(dir)
			if err != nil || len(again.manifest.unfinished) > 0 {
				t.Errorf("got %v and the error %v: what does not count is still in MANIFEST",
					again.manifest.unfinished, err)
			}
		})
	}
}

// appendChange appends a change of MANIFEST: 0 adds a table, 1 removes it.
func appendChange(set []byte, id, operation, level uint64) []byte {
	var c []byte
	for field, n := range []uint64{1: id, 2: operation, 3: level, 6: compressionSnappy} {
		if n > 0 {
			c = binary.AppendUvarint(append(c, byte(field<<3)), n)
		}
	}
	return append(binary.AppendUvarint(append(set, 1<<3|2), uint64(len(c))), c...)
}
