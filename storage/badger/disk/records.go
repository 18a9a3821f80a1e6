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

// A part of a range has at most chunkRecords records and about chunkBytes bytes.
const (
	chunkRecords = 256
	chunkBytes   = 1 << 20
)

// guard turns a failed assertion of Badger, and a fault in a mapped file that the disk could not read, into an error.
func guard(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			*err = fmt.Errorf("reading the database: %v", p)
		}
	}
}

// Get implements [Database].
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

// record copies a record, without its value if that is not wanted.
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

// Scan implements [Database].
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

// chunk reads up to limit records from the position of an iterator. Default: chunkRecords.
func chunk(it *badger.Iterator, limit int, values bool) (records []Record, next []byte, err error) {
	if limit <= 0 {
		limit = chunkRecords
	}
	size := 0
	for ; it.Valid(); it.Next() {
		if isMetadata(it.Item().Key()) {
			continue
		}
		if len(records) == limit || size >= chunkBytes {
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

// Write implements [Database].
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
func (d *DB) commit(entries []Entry) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.commitLocked(entries); err != nil {
		return err
	}
	d.noteErase(entries)
	return nil
}

// commitLocked is commit for a caller that holds writing.
func (d *DB) commitLocked(entries []Entry) (err error) {
	if d.failed != nil {
		return d.failed
	}
	defer func() {
		if err != nil {
			// After an error Badger may have no table to write to, and would crash at the next write.
			d.failed = err
		}
	}()
	number := d.committed
	var txn *badger.Txn
	defer func() { txn.Discard() }()
	// Each transaction has a number of its own, so that none of them can be lost unnoticed.
	begin := func() error {
		number++
		txn = d.db.NewTransaction(true)
		return txn.SetEntry(stored(Entry{Key: commitKey, Value: binary.BigEndian.AppendUint64(nil, number)}))
	}
	if err := begin(); err != nil {
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
			if err := begin(); err != nil {
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
	return d.progress.write(number, d.progress.last.synced)
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

// Snapshot implements [Database]. Until the snapshot is closed, records that are replaced meanwhile keep their room.
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

// Next implements [Snapshot].
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

// Close implements [Snapshot].
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
