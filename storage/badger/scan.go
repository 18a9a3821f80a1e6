// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"fmt"
	"iter"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// record is a [disk.Record] with a method to decode it.
type record disk.Record

// absent reports whether there is no such record.
func absent(r disk.Record) bool { return r.Value == nil && !r.Damaged }

// decode decodes the value. An error wraps [storage.ErrDamaged] and names the record.
func (r record) decode(decode func(value []byte) error) error {
	if !r.Damaged {
		err := decode(r.Value)
		if err == nil {
			return nil
		}
	}
	return unavailable(fmt.Errorf("%w: %s", errDamaged, describe(r.Key)))
}

// scan yields the records whose keys begin with prefix, from a key on, in the order of their keys. It reads them in
// parts and uses the database only while it reads: a consumer may take its time, and may change the records that it
// is given.
func (s *Store) scan(prefix, from []byte) iter.Seq2[record, error] {
	return s.scanFrom(prefix, from, 0)
}

// scanFrom is scan in parts of n records; 0 is the default of [disk.Range].
func (s *Store) scanFrom(prefix, from []byte, n int) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for {
			records, next, err := s.supervisor.scan(disk.Range{Prefix: prefix, From: from, Records: n})
			if err != nil {
				yield(record{}, err)
				return
			}
			for _, r := range records {
				if !yield(record(r), nil) {
					return
				}
			}
			if next == nil {
				return
			}
			from = next
		}
	}
}
