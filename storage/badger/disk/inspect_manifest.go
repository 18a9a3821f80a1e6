// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const manifestName = "MANIFEST"

// manifest is the content of MANIFEST: the list of tables.
type manifest struct {
	tables map[uint64]manifestTable
	// removed are tables that were listed once and are not now.
	removed map[uint64]bool
	// usable says that the list is complete as of some time.
	usable bool
	// end is where an incomplete change at the end begins, 0 if there is none.
	end int64
	// sets are the encoded changes, and whole is the content with those that count.
	sets  [][]byte
	whole []byte
	// unfinished are the tables of changes that do not count, because Badger could not write or sync the change and
	// has removed the table.
	unfinished []uint64
}

func newManifest() manifest {
	return manifest{tables: make(map[uint64]manifestTable), removed: make(map[uint64]bool)}
}

// manifestHeader begins every MANIFEST.
const manifestHeader = "Bdgr\x00\x00\x00\x08"

// finish leaves out the changes whose tables are missing, if all other tables exist: the tables that these changes
// removed count again. If somebody else has removed the tables, checkWrites finds that out.
func (m *manifest) finish(present []uint64) {
	kept := newManifest()
	kept.usable, kept.end, kept.whole = m.usable, m.end, []byte(manifestHeader)
	for _, set := range m.sets {
		adds, left := newManifest(), false
		if adds.apply(set[8:]) != nil {
			return
		}
		for id := range adds.tables {
			if _, listed := m.tables[id]; listed && !slices.Contains(present, id) {
				kept.unfinished, left = append(kept.unfinished, id), true
			}
		}
		if left {
			continue
		}
		if kept.apply(set[8:]) != nil {
			return
		}
		kept.sets, kept.whole = append(kept.sets, set), append(kept.whole, set...)
	}
	for id := range kept.tables {
		if !slices.Contains(present, id) {
			return
		}
	}
	*m = kept
}

type manifestTable struct {
	level       uint32
	compression byte
}

// maxLevels is the number of levels of a database.
const maxLevels = 7

// missingFile returns the name of a file that an open database needs and that is missing, or the empty string.
func missingFile(dir string) (name string, err error) {
	for {
		b, err := os.ReadFile(filepath.Join(dir, manifestName))
		if errors.Is(err, fs.ErrNotExist) {
			return manifestName, nil
		}
		if err != nil {
			return "", err
		}
		r := &Report{Dir: dir}
		r.parseManifest(b)
		missing := ""
		for id := range r.manifest.tables {
			if _, err := os.Lstat(filepath.Join(dir, tableName(id))); errors.Is(err, fs.ErrNotExist) {
				missing = max(missing, tableName(id))
			}
		}
		if missing == name {
			return name, nil
		}
		// A compaction may just have replaced it. Then MANIFEST does not list it any more.
		name = missing
	}
}

// readManifest reads MANIFEST as Badger does, but without allocating what a damaged length asks for, and without
// cutting off everything behind a length that is too large.
//
//	header   "Bdgr", two bytes that are 0, version 8 in two bytes
//	changes  length and CRC-32C in four bytes each, big-endian; a protobuf message
func (r *Report) readManifest(dir string) error {
	b, err := readFile(filepath.Join(dir, manifestName), 1<<30)
	if err != nil {
		r.manifest = manifest{}
		return r.problem(manifestName, err)
	}
	r.Bytes += int64(len(b))
	r.parseManifest(b)
	return nil
}

func (r *Report) parseManifest(b []byte) {
	r.manifest = newManifest()
	if len(b) < 8 || string(b[:8]) != manifestHeader {
		r.damage(manifestName, "it does not begin like one")
		return
	}
	r.manifest.whole = b[:8]
	for at := 8; at < len(b); {
		rest := b[at:]
		if len(rest) < 8 || int64(binary.BigEndian.Uint32(rest)) > int64(len(rest)-8) {
			r.manifest.usable = true
			if holdsChange(rest) {
				r.damage(manifestName, "a length in it at offset %d is wrong", at)
				return
			}
			r.manifest.end = int64(at)
			return
		}
		length, sum := int(binary.BigEndian.Uint32(rest)), binary.BigEndian.Uint32(rest[4:])
		change := rest[8 : 8+length]
		if crc32.Checksum(change, castagnoli) != sum {
			r.damage(manifestName, "a checksum in it at offset %d is wrong", at)
			return
		}
		if err := r.manifest.apply(change); err != nil {
			r.damage(manifestName, "the change at offset %d is wrong: %v", at, err)
			return
		}
		r.manifest.sets = append(r.manifest.sets, b[at:at+8+length])
		at += 8 + length
		r.manifest.whole = b[:at]
	}
	r.manifest.usable = true
}

// holdsChange reports whether the bytes that follow a checksum begin with what it is the checksum of. An incomplete
// change does not.
func holdsChange(b []byte) bool {
	if len(b) < 9 {
		return false
	}
	want, sum := binary.BigEndian.Uint32(b[4:]), uint32(0)
	for i := range b[8:] {
		if sum = crc32.Update(sum, castagnoli, b[8+i:9+i]); sum == want {
			return true
		}
	}
	return false
}

var errMessage = errors.New("it is not a message")

// apply applies a set of changes to the list.
func (m *manifest) apply(set []byte) error {
	return fields(set, func(field, _ uint64, change []byte) error {
		if field != 1 || change == nil {
			return errMessage
		}
		var id, remove, level, key, compression uint64
		err := fields(change, func(field, n uint64, b []byte) error {
			if b != nil {
				return errMessage
			}
			switch field {
			case 1:
				id = n
			case 2:
				remove = n
			case 3:
				level = n
			case 4:
				key = n
			case 6:
				compression = n
			}
			return nil
		})
		_, listed := m.tables[id]
		switch {
		case err != nil:
			return err
		case remove > 1:
			return errors.New("it neither adds nor removes")
		case remove == 1:
			delete(m.tables, id)
			m.removed[id] = true
		case listed:
			return fmt.Errorf("%s is listed twice", tableName(id))
		case level >= maxLevels:
			return fmt.Errorf("%s is in level %d", tableName(id), level)
		case key != 0:
			return fmt.Errorf("%s is encrypted", tableName(id))
		case compression > compressionSnappy:
			return fmt.Errorf("%s is compressed in a way that this version does not know", tableName(id))
		default:
			m.tables[id] = manifestTable{level: uint32(level), compression: byte(compression)}
			delete(m.removed, id)
		}
		return nil
	})
}

// fields calls each with the fields of a protobuf message: numbers, and messages as b, which is not nil even if empty.
func fields(message []byte, each func(field, n uint64, b []byte) error) error {
	for len(message) > 0 {
		tag, size := binary.Uvarint(message)
		if size <= 0 {
			return errMessage
		}
		message = message[size:]
		n, size := binary.Uvarint(message)
		if size <= 0 {
			return errMessage
		}
		message = message[size:]
		var b []byte
		switch tag & 7 {
		case 0:
		case 2:
			if n > uint64(len(message)) {
				return errMessage
			}
			b, message = message[:n:n], message[n:]
		default:
			return errMessage
		}
		if err := each(tag>>3, n, b); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads a regular file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("it is %d bytes long, more than it can be", info.Size())
	}
	return os.ReadFile(path)
}
