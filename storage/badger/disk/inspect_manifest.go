// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

const manifestName = "MANIFEST"

// manifest is what MANIFEST says: which tables there are.
type manifest struct {
	tables map[uint64]manifestTable
	// removed are tables that were listed once, and are not.
	removed map[uint64]bool
	// usable says that it lists at least what it listed at some time.
	usable bool
	// end is where an incomplete change at its end begins, 0 when there is none.
	end int64
}

type manifestTable struct {
	level       uint32
	compression byte
}

// maxLevels is how many levels a database has.
const maxLevels = 7

// readManifest reads MANIFEST like Badger, which allocates what a damaged one asks for, and cuts off everything behind a
// length that leads behind its end.
//
//	header   "Bdgr", two bytes that are 0, version 8 in two bytes
//	changes  length and CRC-32C in four bytes each, big-endian; a protobuf message
func (r *Report) readManifest(dir string) error {
	b, err := readFile(filepath.Join(dir, manifestName), 1<<30)
	r.manifest = manifest{tables: make(map[uint64]manifestTable), removed: make(map[uint64]bool)}
	if err != nil {
		return r.problem(manifestName, err)
	}
	r.Bytes += int64(len(b))
	if len(b) < 8 || !bytes.Equal(b[:8], []byte("Bdgr\x00\x00\x00\x08")) {
		r.damage(manifestName, "it does not begin like one")
		return nil
	}
	for at := 8; at < len(b); {
		rest := b[at:]
		if len(rest) < 8 || int64(binary.BigEndian.Uint32(rest)) > int64(len(rest)-8) {
			r.manifest.usable = true
			if holdsChange(rest) {
				r.damage(manifestName, "a length in it at offset %d is wrong", at)
				return nil
			}
			r.manifest.end = int64(at)
			return nil
		}
		length, sum := int(binary.BigEndian.Uint32(rest)), binary.BigEndian.Uint32(rest[4:])
		change := rest[8 : 8+length]
		if crc32.Checksum(change, castagnoli) != sum {
			r.damage(manifestName, "a checksum in it at offset %d is wrong", at)
			return nil
		}
		if err := r.manifest.apply(change); err != nil {
			r.damage(manifestName, "the change at offset %d is wrong: %v", at, err)
			return nil
		}
		at += 8 + length
	}
	r.manifest.usable = true
	return nil
}

// holdsChange reports whether what follows a checksum begins with what it is the checksum of, which an incomplete change
// does not.
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

// apply changes what is listed.
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

// fields reads a message of protobuf that has numbers and messages in it. Of one that is empty b is not nil.
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

// readFile reads a file that is not larger than most.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	if info.Size() > most {
		return nil, fmt.Errorf("it is %d bytes long, more than it can be", info.Size())
	}
	return os.ReadFile(path)
}
