// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"encoding/binary"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// replayBuffer holds in memory every change since the last successful sync, in the order in which they were made. It
// is replayed into a database that was reopened after a failure.
type replayBuffer struct {
	syncing []byte // changes that the sync under way, or the one that failed, covers
	since   []byte // changes written after it began
	// oldest is when the oldest change was made, oldestSince the same for since; zero when there is none.
	oldest, oldestSince time.Time
}

// add appends copies of changes.
func (b *replayBuffer) add(entries []disk.Entry, now time.Time) {
	for _, e := range entries {
		b.since = appendEntry(b.since, e)
	}
	if b.oldestSince.IsZero() {
		b.oldestSince = now
	}
	if b.oldest.IsZero() {
		b.oldest = now
	}
}

// overdue reports whether a change has been waiting for a sync for longer than maxUnsynced.
func (b *replayBuffer) overdue(now time.Time) bool {
	return !b.oldest.IsZero() && now.Sub(b.oldest) > maxUnsynced
}

// beginSync begins a sync of everything in the buffer.
func (b *replayBuffer) beginSync() {
	if len(b.syncing) == 0 {
		b.syncing, b.since = b.since, b.syncing[:0]
	} else {
		b.syncing, b.since = append(b.syncing, b.since...), b.since[:0]
	}
	b.oldestSince = time.Time{}
}

// endSync notes that the sync has succeeded, and drops what it covered.
func (b *replayBuffer) endSync() {
	b.syncing = b.syncing[:0]
	if cap(b.syncing) > 4<<20 {
		b.syncing = nil
	}
	b.oldest = b.oldestSince
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
func (b *replayBuffer) entries() (entries []disk.Entry, err error) {
	for _, rest := range [][]byte{b.syncing, b.since} {
		for len(rest) > 0 {
			e := disk.Entry{Delete: rest[0] == 1}
			rest = rest[1:]
			if e.Key, rest, err = cut(rest); err != nil {
				return nil, err
			}
			if e.Value, rest, err = cut(rest); err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// cut returns the length-prefixed bytes at the beginning of b, and the rest.
func cut(b []byte) (first, rest []byte, err error) {
	length, size := binary.Uvarint(b)
	if size <= 0 || length > uint64(len(b)-size) {
		return nil, nil, errDamaged
	}
	b = b[size:]
	return b[:length:length], b[length:], nil
}
