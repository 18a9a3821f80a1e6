// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"sync/atomic"
	"time"
)

// spaceInterval is how long an answer of the file system is used. Filling [Options.MinFree] takes longer.
const spaceInterval = 5 * time.Millisecond

// space checks the free space of the file system that holds a directory.
type space struct {
	dir     string
	minFree uint64
	checked atomic.Int64 // when there was room last, in Unix nanoseconds
}

// check returns an error that wraps [ErrFull] if there is not enough room to write. A file system that does not tell
// its free space is taken to have room.
func (s *space) check() error {
	now := time.Now().UnixNano()
	if age := now - s.checked.Load(); age >= 0 && age < int64(spaceInterval) {
		return nil
	}
	if free, known := freeSpace(s.dir); known && free < s.minFree {
		return fmt.Errorf("%w: %d MiB are free in %s, less than the %d MiB that the database keeps free",
			ErrFull, free>>20, s.dir, s.minFree>>20)
	}
	s.checked.Store(now)
	return nil
}
