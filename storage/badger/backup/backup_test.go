// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/backup"
)

// begin is what a backup begins with.
const begin = "caddy-moderation backup\n\x01"

// backedUp is a record of a backup.
type backedUp struct {
	key, value string
	expires    uint64
}

// saved returns a backup of records.
func saved(t testing.TB, records ...backedUp) []byte {
	t.Helper()
	var b bytes.Buffer
	w := backup.NewWriter(&b)
	for _, r := range records {
		if err := w.Record([]byte(r.key), []byte(r.value), r.expires); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll reads a backup. Errors must wrap backup.ErrNotWhole, and memory must not be taken because a file says so.
func readAll(t *testing.T, b []byte) (records []backedUp, err error) {
	t.Helper()
	before := allocated()
	err = backup.Read(bytes.NewReader(b), func(key, value []byte, expires uint64) error {
		records = append(records, backedUp{string(key), string(value), expires})
		return nil
	})
	// The reader has a buffer, and the runtime notes small objects by the span; a length that is a lie is 16 MiB.
	if taken := allocated() - before; taken > uint64(1<<20+100*len(b)) {
		t.Fatalf("reading %d bytes took %d bytes of memory", len(b), taken)
	}
	if err != nil && !errors.Is(err, backup.ErrNotWhole) {
		t.Fatalf("the error does not say that this is no backup: %v", err)
	}
	return records, err
}

func allocated() uint64 {
	sample := [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample[:])
	return sample[0].Value.Uint64()
}

// lies are lengths behind the header that nothing follows.
var lies = map[string][]byte{
	"the longest key":           binary.AppendUvarint(nil, 1<<16),
	"a key that is too long":    binary.AppendUvarint(nil, 1<<16+1),
	"a key of 2^64-1":           binary.AppendUvarint(nil, 1<<64-1),
	"a number without an end":   bytes.Repeat([]byte{0xff}, 20),
	"a number with zeros":       {0x80, 0x80, 0x00},
	"the longest value":         binary.AppendUvarint([]byte{1, 'k'}, 16<<20),
	"a value that is too long":  binary.AppendUvarint([]byte{1, 'k'}, 16<<20+1),
	"an expiry that is too far": append(binary.AppendUvarint([]byte{1, 'k', 1, 'v'}, 1<<62+1), make([]byte, 41)...),
}

// TestBackupLengthsAreNotBelieved must not run beside others: it looks at the memory of the process.
func TestBackupLengthsAreNotBelieved(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			if _, err := readAll(t, append([]byte(begin), lie...)); err == nil {
				t.Fatal("it is taken for a backup")
			}
		})
	}
}

// TestEveryByteOfABackupCounts changes each byte, cuts behind each, and appends one.
func TestEveryByteOfABackupCounts(t *testing.T) {
	whole := saved(t, backedUp{"a/a", "\x01{}", 0}, backedUp{"meta/schema", "\x00\x00\x00\x01", 0},
		backedUp{"m/a\x00", "", 1 << 40})
	for at := range whole {
		if _, err := readAll(t, whole[:at]); err == nil {
			t.Fatalf("a backup of %d bytes is whole without its last %d", len(whole), len(whole)-at)
		}
		for bit := range 8 {
			whole[at] ^= 1 << bit
			if _, err := readAll(t, whole); err == nil {
				t.Fatalf("bit %d of byte %d may change", bit, at)
			}
			whole[at] ^= 1 << bit
		}
	}
	if _, err := readAll(t, append(slices.Clip(whole), 0)); err == nil {
		t.Fatal("something may follow a backup")
	}
	if _, err := readAll(t, whole); err != nil {
		t.Fatal(err)
	}
}

// TestBackupReaderPassesErrorsOn tells the end of a file from a disk that cannot be read, and from one that cannot be
// written.
func TestBackupReaderPassesErrorsOn(t *testing.T) {
	t.Parallel()
	whole := saved(t, backedUp{"a/a", "\x01{}", 0})
	wrong := errors.New("the disk with the backup was pulled")
	for at := range len(whole) + 1 {
		r := &breaking{whole[:at], wrong}
		if err := backup.Read(r, func([]byte, []byte, uint64) error { return nil }); !errors.Is(err, wrong) ||
			errors.Is(err, backup.ErrNotWhole) {
			t.Errorf("after %d bytes the reader says %v", at, err)
		}
	}
	err := backup.Read(bytes.NewReader(whole), func([]byte, []byte, uint64) error { return wrong })
	if !errors.Is(err, wrong) || errors.Is(err, backup.ErrNotWhole) {
		t.Errorf("error is %v", err)
	}
}

// breaking reads what is left and fails then.
type breaking struct {
	left []byte
	err  error
}

func (b *breaking) Read(into []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, b.err
	}
	n := copy(into, b.left)
	b.left = b.left[n:]
	return n, nil
}

// FuzzRead reads anything. What is taken for a backup is what a writer of its records would have written.
func FuzzRead(f *testing.F) {
	whole := saved(f, backedUp{"a/a", "\x01{}", 0}, backedUp{"f/1", string(bytes.Repeat([]byte("text"), 20)), 0},
		backedUp{"m/a\x00", "\x01\x02", 1 << 40})
	f.Add(whole)
	f.Add(saved(f))
	for cut := range len(whole) {
		f.Add(whole[:cut])
	}
	for at := range whole {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 0x80
		f.Add(flipped)
	}
	for _, lie := range lies {
		f.Add(append([]byte(begin), lie...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := readAll(t, b)
		if err == nil && !bytes.Equal(saved(t, records...), b) {
			t.Fatalf("%q is read as %+v", b, records)
		}
	})
}

// FuzzWrite writes records, reads them, and reads them with a byte changed, cut off behind it, and with more behind.
func FuzzWrite(f *testing.F) {
	f.Add([]byte{}, uint(0), byte(1))
	f.Add([]byte("\x03a/a\x03\x01{}\x00"), uint(30), byte(0x80))
	f.Add([]byte("\x03a/a\x00\x05\x05m/a\x00x\x02\x01\x02\xff"), uint(1<<20), byte(0xff))
	f.Add(slices.Concat([]byte("\x03f/1\xff"), make([]byte, 400)), uint(100), byte(3))
	f.Fuzz(func(t *testing.T, b []byte, at uint, change byte) {
		records := recordsOf(b)
		whole := saved(t, records...)
		if got, err := readAll(t, whole); err != nil || !reflect.DeepEqual(got, records) {
			t.Fatalf("%+v is read as %+v, %v", records, got, err)
		}
		place := int(at % uint(len(whole)))
		damaged := map[string][]byte{"cut": whole[:place], "continued": append(slices.Clip(whole), b...)}
		if len(b) == 0 {
			delete(damaged, "continued")
		}
		if change != 0 {
			damaged["changed"] = bytes.Clone(whole)
			damaged["changed"][place] ^= change
		}
		for what, b := range damaged {
			if _, err := readAll(t, b); err == nil {
				t.Fatalf("a backup of %d records, %s at %d, is whole", len(records), what, place)
			}
		}
	})
}

// recordsOf makes records of any bytes. Keys are not empty.
func recordsOf(b []byte) (records []backedUp) {
	next := func() string {
		if len(b) == 0 {
			return ""
		}
		n := min(int(b[0]), len(b)-1)
		s := string(b[1 : 1+n])
		b = b[1+n:]
		return s
	}
	for len(b) > 0 {
		r := backedUp{key: "k" + next(), value: next()}
		if len(b) > 0 {
			r.expires = uint64(b[0]) << (b[0] % 50)
			b = b[1:]
		}
		records = append(records, r)
	}
	return records
}
