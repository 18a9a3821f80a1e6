// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/dgraph-io/badger/v4"
)

// A range is read in parts of at most this many records, and about this many bytes.
const (
	chunkRecords = 256
	chunkBytes   = 1 << 20
)

// guard makes an error of what Badger asserts, and of a fault in a mapped file: the disk could not give what was read.
func guard(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			*err = fmt.Errorf("reading the database: %v", p)
		}
	}
}

// Get returns the records of some keys as they were at one moment, in the order of the keys.
func (d *DB) Get(keys ...[]byte) ([]Record, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	return d.get(keys...)
}

func (d *DB) get(keys ...[]byte) (records []Record, err error) {
	defer guard(&err)()
	records = make([]Record, len(keys))
	err = d.db.View(func(txn *badger.Txn) error {
		for i, key := range keys {
			item, err := txn.Get(key)
			if errors.Is(err, badger.ErrKeyNotFound) {
				records[i].Key = key
				continue
			}
			if err != nil {
				return err
			}
			if records[i], err = record(item, true); err != nil {
				return err
			}
		}
		return nil
	})
	return records, err
}

// record copies a record.
func record(item *badger.Item, value bool) (r Record, err error) {
	r.Key = item.KeyCopy(nil)
	if !value {
		return r, nil
	}
	stored, err := item.ValueCopy(nil)
	if err != nil {
		return r, err
	}
	whole := false
	if item.UserMeta() == checksummed {
		r.Value, whole = verifyChecksum(r.Key, stored)
	}
	if r.Damaged = !whole; r.Damaged {
		r.Value = nil
	}
	return r, nil
}

// Scan returns the first records of a range in the order of their keys, and the key to go on from, nil at the end. Records
// that are written between two calls may or may not be found.
func (d *DB) Scan(r Range) (records []Record, next []byte, err error) {
	if err := d.enter(); err != nil {
		return nil, nil, err
	}
	defer d.leave()
	defer guard(&err)()
	err = d.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: r.Prefix, PrefetchValues: !r.KeysOnly, PrefetchSize: 16})
		defer it.Close()
		from := r.Prefix
		if bytes.Compare(r.From, from) > 0 {
			from = r.From
		}
		it.Seek(from)
		records, next, err = chunk(it, r.Records, !r.KeysOnly)
		return err
	})
	return records, next, err
}

// chunk reads some records from where an iterator stands.
func chunk(it *badger.Iterator, most int, values bool) (records []Record, next []byte, err error) {
	if most <= 0 {
		most = chunkRecords
	}
	size := 0
	for ; it.Valid(); it.Next() {
		if isMetadata(it.Item().Key()) {
			continue
		}
		if len(records) == most || size >= chunkBytes {
			return records, it.Item().KeyCopy(nil), nil
		}
		r, err := record(it.Item(), values)
		if err != nil {
			return nil, nil, err
		}
		size += len(r.Key) + len(r.Value)
		records = append(records, r)
	}
	return records, nil, nil
}

// Write makes changes, in the order in which they stand. They are made all or none when they fit into one transaction of
// about 1 MB. When it returns nil they survive the death of the process; [DB.Sync] makes them survive more than that.
func (d *DB) Write(entries []Entry) error {
	if err := d.room(); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	return d.commit(entries)
}

// commit writes changes and their number.
func (d *DB) commit(entries []Entry) (err error) {
	d.writing.Lock()
	defer d.writing.Unlock()
	if d.failed != nil {
		return d.failed
	}
	defer func() {
		if err != nil {
			// After an error Badger may be without a table to write to, which it does not survive another time.
			d.failed = err
		}
	}()
	number := d.committed
	var txn *badger.Txn
	defer func() { txn.Discard() }()
	// Each transaction has a number of its own, so that none of them can be lost unnoticed.
	initialize := func() error {
		number++
		txn = d.db.NewTransaction(true)
		return txn.SetEntry(stored(Entry{Key: commitKey, Value: binary.BigEndian.AppendUint64(nil, number)}))
	}
	if err := initialize(); err != nil {
		return err
	}
	set := func(e *badger.Entry, remove bool) error {
		put := func() error {
			if remove {
				return txn.Delete(e.Key)
			}
			return txn.SetEntry(e)
		}
		err := put()
		if errors.Is(err, badger.ErrTxnTooBig) {
			if err := txn.Commit(); err != nil {
				return err
			}
			if err := initialize(); err != nil {
				return err
			}
			err = put()
		}
		return err
	}
	for _, e := range entries {
		if err := set(stored(e), e.Delete); err != nil {
			return err
		}
	}
	if err := txn.Commit(); err != nil {
		return err
	}
	d.committed = number
	return d.notes.note(number, d.notes.last.synced)
}

// stored is an entry as Badger keeps it.
func stored(e Entry) *badger.Entry {
	if e.Delete || bytes.Equal(e.Key, schemaKey) {
		return badger.NewEntry(e.Key, e.Value)
	}
	return badger.NewEntry(e.Key, withChecksum(e.Key, e.Value)).WithMeta(checksummed)
}

// snapshot is a [Snapshot] of a DB.
type snapshot struct {
	db  *DB
	txn *badger.Txn

	mu sync.Mutex
	it *badger.Iterator // nil when the snapshot is closed
}

// Snapshot returns the database as it is now. Until it is closed, what is replaced meanwhile takes room.
func (d *DB) Snapshot() (Snapshot, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	s := &snapshot{db: d, txn: d.db.NewTransaction(false)}
	s.it = s.txn.NewIterator(badger.DefaultIteratorOptions)
	s.it.Rewind()
	d.snapshots.Store(s, struct{}{})
	return s, nil
}

// Next returns the next records, in the order of their keys, none at the end.
func (s *snapshot) Next() (records []Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.it == nil {
		return nil, ErrClosed
	}
	defer guard(&err)()
	records, _, err = chunk(s.it, 0, true)
	return records, err
}

// Close ends the snapshot. It may be called more than once.
func (s *snapshot) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.it != nil {
		s.it.Close()
		s.txn.Discard()
		s.it = nil
		s.db.snapshots.Delete(s)
	}
	return nil
}
