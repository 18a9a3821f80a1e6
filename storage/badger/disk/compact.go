// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
)

// A compaction writes merged tables through memory maps of sparse files. It must never meet the end of the disk, and
// Badger's own compactors do not check for room. They are off, and a DB compacts when a compaction surely fits.
const (
	// compactInterval is the interval at which a DB checks whether there is something to compact.
	compactInterval = 100 * time.Millisecond
	// compactRetry is the pause after a failed compaction.
	compactRetry = 10 * time.Second
	// fewTables in level 0, each as large as a table in memory, are worth a compaction of a small database. A large
	// database, which a compaction rewrites, waits until level 0 is a tenth of it or has manyTables.
	fewTables, manyTables = 4, 24
	// maxTables is the number of tables in level 0 at which writes stall: each read has to ask all of them.
	maxTables = 32
	// maxStall is how long writes wait for a compaction before they are refused.
	maxStall = 5 * time.Second
	// eraseDelay is how long after the last deletion deleted records are erased: many deletions need one erasure.
	eraseDelay = time.Second
)

// stall says what becomes of writes.
type stall = int32

const (
	stallNone   stall = iota
	stallWait         // they wait for the compaction under way
	stallRefuse       // they are refused: no compaction is possible, or it takes too long
)

// compactor merges tables in the background. Only its loop uses the fields that are not atomic.
type compactor struct {
	stall atomic.Int32
	// erase is when deleted records were last to be erased, in Unix nanoseconds, 0 if all are. It is changed with
	// [DB.writing] held.
	erase atomic.Int64
	// first is the newest log when the compaction under way began.
	first atomic.Int64
	table int64 // size of a table in memory

	// flatten merges the tables of a database.
	flatten func(*badger.DB) error

	running      chan error // nil while nothing is compacted
	spare        int64      // bytes on the disk that are for writes during the compaction that is under way
	stalledSince time.Time  // since when writes wait
	retry        time.Time
	stuck        bool // for lack of room, or after a failure
}

// room returns an error that wraps [ErrFull] if nothing may be written now.
func (d *DB) room() error {
	if d.compactor.stall.Load() != stallNone {
		if err := d.awaitCompaction(); err != nil {
			return err
		}
	}
	return d.space.check()
}

// awaitCompaction waits until writes go on or are refused. The last commits of a DB that closes pass: they are few.
func (d *DB) awaitCompaction() error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-d.closing:
			return nil
		default:
		}
		switch d.compactor.stall.Load() {
		case stallNone:
			return nil
		case stallRefuse:
			return notCompactedError{d.dir}
		}
		select {
		case <-ticker.C:
		case <-d.closing:
		}
	}
}

// compact runs compactions until the DB closes. It finishes the one that is under way then, because it cannot be
// called off.
func (d *DB) compact() {
	c := &d.compactor
	ticker := time.NewTicker(compactInterval)
	defer ticker.Stop()
	for {
		select {
		case <-d.closing:
			if c.running == nil {
				return
			}
			if err := <-c.running; err != nil {
				d.logger.Debug("a compaction was called off", zap.String("error", cause(err)))
			}
			return
		case err := <-c.running:
			c.running = nil
			if err != nil {
				d.compactionStuck("the database cannot be compacted; it is tried again",
					zap.String("error", cause(err)))
				c.retry = time.Now().Add(compactRetry)
			} else {
				c.stuck = false
				d.logger.Debug("the database is compacted")
			}
		case <-ticker.C:
		}
		now := d.schedule()
		switch {
		case now != stallWait:
			c.stalledSince = time.Time{}
		case c.stalledSince.IsZero():
			c.stalledSince = time.Now()
		case time.Since(c.stalledSince) > maxStall:
			now = stallRefuse
		}
		if now == stallRefuse && c.stall.Load() != stallRefuse {
			d.logger.Warn("writes are refused until the database is compacted",
				zap.Bool("under_way", c.running != nil), zap.String("dir", d.dir))
		}
		c.stall.Store(now)
	}
}

// cause returns why a compaction failed, without the keys that Badger puts before it.
func cause(err error) string {
	text := err.Error()
	if _, after, found := strings.Cut(text, " err: "); found {
		return after
	}
	return text
}

// schedule begins a compaction if one is due and fits, and returns what becomes of writes.
func (d *DB) schedule() stall {
	c := &d.compactor
	tables, size := 0, int64(0)
	if d.enter() != nil {
		return stallNone
	}
	levels := d.db.Levels()
	d.leave()
	for _, level := range levels {
		if level.Level == 0 {
			tables = level.NumTables
		}
		size += level.Size
	}
	erase := c.erase.Load()
	isErasing := erase != 0 && time.Since(time.Unix(0, erase)) >= eraseDelay
	isDue := int64(tables) >= min(max(size/10/c.table, fewTables), manyTables)
	if c.running == nil && (isErasing || isDue) && d.fits(size) {
		c.running = make(chan error, 1)
		c.first.Store(d.newestLog())
		go func(ended chan<- error) {
			if isErasing {
				ended <- d.eraseDeleted(erase)
			} else {
				ended <- d.merge(false)
			}
		}(c.running)
	}
	if c.running == nil {
		if tables >= maxTables && c.stuck {
			return stallRefuse
		}
		return stallNone
	}
	// Badger compacts until one level is left, including what is written meanwhile. That takes its own room, and
	// twice as much to be compacted; a table on the disk is a little larger than in memory. Three tables in memory
	// have logs.
	grown := d.newestLog() - c.first.Load()
	if tables >= maxTables || (4*grown+3)*c.table > c.spare {
		return stallWait
	}
	return stallNone
}

// fits reports whether a compaction of size bytes of tables fits on the disk beside what is kept free and some
// writes. A compaction works on a copy, writes as much as it reads before it removes anything, and writes twice what
// it moves by two levels.
func (d *DB) fits(size int64) bool {
	c := &d.compactor
	if time.Now().Before(c.retry) {
		return false
	}
	free, known := freeSpace(d.dir)
	if !known {
		c.spare = 1 << 62
		return true
	}
	need := 3*size + int64(d.space.minFree)
	c.spare = int64(free) - need
	if c.spare < 4*c.table {
		d.compactionStuck(
			"the disk has too little room to compact the database; "+
				"reads become slower, and writes are refused in the end",
			zap.Uint64("free_bytes", free), zap.Int64("needed_bytes", need+4*c.table))
		return false
	}
	return true
}

// newestLog returns the number of the newest log of a table in memory. Each table has the next number.
func (d *DB) newestLog() (newest int64) {
	logs, err := filepath.Glob(filepath.Join(d.dir, "*.mem"))
	if err != nil {
		return 0
	}
	for _, path := range logs {
		if n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), ".mem"), 10, 64); err == nil {
			newest = max(newest, n)
		}
	}
	return newest
}

// compactionStuck logs why nothing is compacted, once until a compaction succeeds again.
func (d *DB) compactionStuck(message string, fields ...zap.Field) {
	if !d.compactor.stuck {
		d.logger.Warn(message, append(fields, zap.String("dir", d.dir))...)
	}
	d.compactor.stuck = true
}
