// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
)

// schema is the version of the database's format. A higher one is not opened. In version 1 values had no checksum,
// writes had no number, and some records expired.
const schema = 2

// Metadata: records that belong to the database itself. Their keys begin with metadataPrefix, and callers do not see
// them.
var (
	metadataPrefix = []byte("meta/")
	schemaKey      = []byte("meta/schema")    // version, 4 bytes big-endian; no checksum: every version can read it
	upgradingKey   = []byte("meta/upgrading") // exists while values of version 1 are rewritten
	commitKey      = []byte("meta/commit")    // number of the last write, 8 bytes big-endian
	identityKey    = []byte("meta/id")        // [Identity]
	gapKey         = []byte("meta/gap")       // number up to which writes may be missing, 8 bytes; see [Report.Gap]
	eraseKey       = []byte("meta/erase")     // exists while deleted records are to be erased; see [Erase]
)

// isMetadata reports whether a record belongs to the database itself.
func isMetadata(key []byte) bool {
	return bytes.HasPrefix(key, metadataPrefix) && (bytes.Equal(key, schemaKey) || bytes.Equal(key, upgradingKey) ||
		bytes.Equal(key, commitKey) || bytes.Equal(key, identityKey) || bytes.Equal(key, gapKey) ||
		bytes.Equal(key, eraseKey))
}

// initialize reads the metadata of the database, writes that of a new one, and upgrades one of an older version.
func (d *DB) initialize(o Options, gap uint64) error {
	version, empty, err := d.version()
	switch {
	case err != nil:
		return fmt.Errorf("the database in %s cannot be read: %w; %s", d.dir, err, advice(d.dir))
	case version > schema:
		return fmt.Errorf("%w: %s has schema %d, this version knows schemas up to %d", ErrSchema, d.dir, version,
			schema)
	case version == 0 && !empty:
		return fmt.Errorf("%w: %s holds a database of something else", ErrSchema, d.dir)
	}
	first := progress{boot: bootID()}
	if id, err := d.readMetadata(identityKey, len(first.identity)); err != nil {
		return err
	} else if id != nil {
		copy(first.identity[:], id)
	} else if _, err := rand.Read(first.identity[:]); err != nil {
		return err
	}
	number, err := d.readMetadata(commitKey, 8)
	if err != nil {
		return err
	}
	if number != nil {
		d.committed = binary.BigEndian.Uint64(number)
	}
	if err := d.recordGap(gap); err != nil {
		return fmt.Errorf("the database in %s cannot be written: %w", d.dir, err)
	}
	if erase, err := d.readMetadata(eraseKey, 0); err != nil {
		return err
	} else if erase != nil {
		d.compactor.erase.Store(time.Now().UnixNano())
	}
	first.committed = d.committed
	if d.progress, err = openProgress(d.dir, first); err != nil {
		return fmt.Errorf("the database in %s cannot be opened: %w; %s", d.dir, err, advice(d.dir))
	}
	// Without the file the next start would not know what was acknowledged, and would refuse the database.
	if err := syncDirectory(d.handle); err != nil {
		return fmt.Errorf("the database in %s cannot be written: %w", d.dir, err)
	}
	d.identity = d.progress.last.identity
	if o.Expect != nil && d.identity != *o.Expect {
		return fmt.Errorf("%w: the directory %s does not hold the database that was open; %s", ErrReplaced, d.dir,
			replacedAdvice)
	}
	return d.upgrade(version)
}

// recordGap notes in the database that writes up to a number may be missing. That must be on the disk before PROGRESS
// says that these writes were committed: otherwise the next inspection would miss them.
func (d *DB) recordGap(upTo uint64) error {
	if upTo == 0 {
		return nil
	}
	number := d.committed + 1
	err := d.db.Update(func(txn *badger.Txn) error {
		return errors.Join(
			txn.SetEntry(stored(Entry{Key: gapKey, Value: binary.BigEndian.AppendUint64(nil, upTo)})),
			txn.SetEntry(stored(Entry{Key: commitKey, Value: binary.BigEndian.AppendUint64(nil, number)})),
		)
	})
	if err != nil {
		return err
	}
	d.committed = number
	return d.syncFiles()
}

// version returns the version of the format, 0 when there is none, and whether there are no records at all.
func (d *DB) version() (version uint32, empty bool, err error) {
	err = d.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(schemaKey)
		if err == nil {
			return item.Value(func(v []byte) error {
				if len(v) != 4 || binary.BigEndian.Uint32(v) == 0 {
					return ErrDamaged
				}
				version = binary.BigEndian.Uint32(v)
				return nil
			})
		}
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		it.Rewind()
		empty = !it.Valid()
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		return err
	})
	return version, empty, err
}

// readMetadata returns the value of a metadata record, nil if there is none.
func (d *DB) readMetadata(key []byte, size int) ([]byte, error) {
	records, err := d.get(key)
	if err != nil {
		return nil, err
	}
	if r := records[0]; r.Damaged || r.Value != nil && len(r.Value) != size {
		return nil, fmt.Errorf("%w: the record %s in %s cannot be read; %s", ErrDamaged, key, d.dir, advice(d.dir))
	}
	return records[0].Value, nil
}

// upgrade brings the database to the present version. It may be interrupted and repeated: a value with a checksum is
// marked as such.
func (d *DB) upgrade(version uint32) error {
	upgrading, err := d.readMetadata(upgradingKey, 0)
	if err != nil {
		return err
	}
	if version == schema && upgrading == nil {
		return nil
	}
	if version == 1 {
		d.logger.Info("the database is upgraded",
			zap.Uint32("from_schema", version), zap.Int("to_schema", schema), zap.String("dir", d.dir))
	}
	// Earlier versions refuse the database from here on.
	err = d.commit([]Entry{
		{Key: schemaKey, Value: binary.BigEndian.AppendUint32(nil, schema)},
		{Key: identityKey, Value: d.identity[:]},
		{Key: upgradingKey, Value: []byte{}},
	})
	if err == nil {
		err = d.Sync()
	}
	for from := []byte{}; err == nil && from != nil; {
		var entries []Entry
		if entries, from, err = d.withoutChecksum(from); err == nil && len(entries) > 0 {
			err = d.commit(entries)
		}
	}
	if err == nil {
		err = d.Sync()
	}
	if err == nil {
		err = d.commit([]Entry{{Key: upgradingKey, Delete: true}})
	}
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		return fmt.Errorf("upgrading the database in %s: %w", d.dir, err)
	}
	return nil
}

// withoutChecksum returns some of the records that have no checksum yet, and the key to go on from.
func (d *DB) withoutChecksum(from []byte) (entries []Entry, next []byte, err error) {
	err = d.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 16})
		defer it.Close()
		size := 0
		for it.Seek(from); it.Valid(); it.Next() {
			item := it.Item()
			if size >= chunkBytes/4 || len(entries) == 4*chunkRecords {
				next = item.KeyCopy(nil)
				return nil
			}
			if item.UserMeta() == checksummed || isMetadata(item.Key()) {
				continue
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			entries = append(entries, Entry{Key: item.KeyCopy(nil), Value: value})
			size += len(value)
		}
		return nil
	})
	return entries, next, err
}
