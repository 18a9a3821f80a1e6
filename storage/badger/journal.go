// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"encoding/binary"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// journal holds in memory every change since the last successful sync, in the order in which they were made.
type journal struct {
	syncing []byte // what the sync that is under way, or failed, was for
	since   []byte // what was written after it began
	// oldest is when the oldest of these changes was made, zero when there is none; oldestSince of those in since.
	oldest, oldestSince time.Time
}

// add appends changes. They are copied.
func (j *journal) add(entries []disk.Entry, now time.Time) {
	for _, e := range entries {
		j.since = appendEntry(j.since, e)
	}
	if j.oldestSince.IsZero() {
		j.oldestSince = now
	}
	if j.oldest.IsZero() {
		j.oldest = now
	}
}

// overdue reports whether there is a change that was made longer ago than power loss may take.
func (j *journal) overdue(now time.Time) bool {
	return !j.oldest.IsZero() && now.Sub(j.oldest) > mostUnsynced
}

// begin begins a sync of everything in the journal.
func (j *journal) begin() {
	if len(j.syncing) == 0 {
		j.syncing, j.since = j.since, j.syncing[:0]
	} else {
		j.syncing, j.since = append(j.syncing, j.since...), j.since[:0]
	}
	j.oldestSince = time.Time{}
}

// end notes that the sync has succeeded.
func (j *journal) end() {
	j.syncing = j.syncing[:0]
	if cap(j.syncing) > 4<<20 {
		j.syncing = nil
	}
	j.oldest = j.oldestSince
}

// appendEntry encodes a change.
func appendEntry(b []byte, e disk.Entry) []byte {
	remove := byte(0)
	if e.Delete {
		remove = 1
	}
	b = binary.AppendUvarint(append(b, remove), uint64(len(e.Key)))
	b = append(b, e.Key...)
	b = binary.AppendUvarint(b, uint64(len(e.Value)))
	return append(b, e.Value...)
}

// entries decodes the changes.
func (j *journal) entries() (entries []disk.Entry, err error) {
	for _, b := range [][]byte{j.syncing, j.since} {
		for len(b) > 0 {
			e := disk.Entry{Delete: b[0] == 1}
			b = b[1:]
			if e.Key, b, err = cut(b); err != nil {
				return nil, err
			}
			if e.Value, b, err = cut(b); err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// cut returns the bytes that b begins with behind their length, and the rest.
func cut(b []byte) (first, rest []byte, err error) {
	length, size := binary.Uvarint(b)
	if size <= 0 || length > uint64(len(b)-size) {
		return nil, nil, errDamaged
	}
	b = b[size:]
	return b[:length:length], b[length:], nil
}
