// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"iter"

	"github.com/dgraph-io/badger/v4"
)

// A scan reads at most this many records, and about this many bytes, at a time.
const (
	chunkRecords = 256
	chunkBytes   = 1 << 20
)

// record is a copy of what the database holds under a key.
type record struct{ key, value []byte }

// scan yields the records whose keys begin with prefix, in the order of their keys. It reads them in chunks and uses the
// database only while it reads: a consumer may take its time, and may change what it is given.
func (s *Store) scan(prefix []byte, values bool) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		next := prefix
		for next != nil {
			var chunk []record
			err := s.view(func(txn *badger.Txn) (err error) {
				chunk, next, err = readChunk(txn, prefix, next, values)
				return err
			})
			if err != nil {
				yield(record{}, err)
				return
			}
			for _, r := range chunk {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// readChunk reads records from a key on, and returns the key to go on from, or nil at the end.
func readChunk(txn *badger.Txn, prefix, from []byte, values bool) (chunk []record, next []byte, err error) {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix, PrefetchValues: values, PrefetchSize: 16})
	defer it.Close()
	size := 0
	for it.Seek(from); it.Valid(); it.Next() {
		if len(chunk) == chunkRecords || size >= chunkBytes {
			return chunk, it.Item().KeyCopy(nil), nil
		}
		r := record{key: it.Item().KeyCopy(nil)}
		if values {
			if r.value, err = it.Item().ValueCopy(nil); err != nil {
				return nil, nil, err
			}
		}
		size += len(r.key) + len(r.value)
		chunk = append(chunk, r)
	}
	return chunk, nil, nil
}
