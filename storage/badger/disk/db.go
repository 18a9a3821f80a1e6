// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"go.uber.org/zap"
)

// Options configure a [DB].
type Options struct {
	// Dir is the directory of the database, an absolute path. It is made if it is missing, readable by its owner only.
	Dir string
	// Logger receives the log of the database. Default: nothing is logged.
	Logger *zap.Logger
	// MemTableSize is the size in bytes of the table in memory that takes new records, and of its log on the disk. Up
	// to three are held. Larger ones are written out less often. Default and minimum: 8 MiB.
	MemTableSize int64
	// BlockCacheSize is how many bytes of blocks read from the disk are kept in memory. Default: 8 MiB.
	BlockCacheSize int64
	// MinFree is how many bytes of the file system are left free: with less, nothing is written. A write that was let
	// through and the tables in memory that are being written out need six times MemTableSize in the worst case. The
	// database is compacted only while three times its size is free beside MinFree; without that, writes are refused
	// once there are 32 tables of MemTableSize. Default: eight times MemTableSize.
	MinFree int64
	// Expect, if not nil, is the database that must be in the directory: no other one is opened and none is made.
	Expect *Identity
	// Rewrite says that the caller will write again what was not synced, so that it need not be there. It is set
	// after a sync has failed: the kernel has dropped what it could not write, and says that it was written.
	Rewrite bool

	// manualCompaction leaves it to a test when tables are merged.
	manualCompaction bool
	// compactOnClose makes Badger merge the tables of level 0 with those of the next level when it is closed.
	compactOnClose bool
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	o.MemTableSize = max(o.MemTableSize, 8<<20)
	if o.BlockCacheSize <= 0 {
		o.BlockCacheSize = 8 << 20
	}
	if o.MinFree <= 0 {
		o.MinFree = 8 * o.MemTableSize
	}
	return o
}

// DB is an open database. It is safe for concurrent use. [DB.Close] must be called.
//
// After an error that does not wrap [ErrFull] a DB cannot be trusted any more: close or abandon it, and open it again.
type DB struct {
	db       *badger.DB
	dir      string
	options  Options
	handle   *os.File // the directory as it was opened
	logger   *zap.Logger
	space    space
	identity Identity

	// lifecycle is held for reading while the database is used, and for writing to close or exchange it.
	lifecycle sync.RWMutex
	closed    atomic.Bool
	closing   chan struct{}
	close     func() error

	// writing is held during a write.
	writing   sync.Mutex
	committed uint64 // number of the last write
	progress  *progressFile
	failed    error // why nothing is written any more

	// syncing is held during a sync.
	syncing sync.Mutex
	newest  int64 // the newest log as of the last sync

	// snapshots are the open ones.
	snapshots sync.Map

	compactor  compactor
	background sync.WaitGroup
}

// Open opens the database in o.Dir, or makes it. Errors wrap [ErrLocked], [ErrSchema], [ErrDamaged], [ErrReplaced] and
// [ErrFull] where they apply. Whatever is wrong with the files, they are left as they are.
func Open(o Options) (*DB, error) {
	o = o.withDefaults()
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("the directory %q is not absolute", o.Dir)
	}
	d := &DB{dir: o.Dir, logger: o.Logger, space: space{dir: o.Dir, minFree: uint64(o.MinFree)},
		closing: make(chan struct{})}
	d.close = sync.OnceValue(d.shut)
	if err := d.open(o); err != nil {
		return nil, errors.Join(err, d.release())
	}
	d.compactor.table = o.MemTableSize
	d.compactor.flatten = func(db *badger.DB) error { return db.Flatten(1) }
	if !o.manualCompaction {
		d.background.Go(d.compact)
	}
	return d, nil
}

// open locks the directory, inspects what is in it, and opens it.
func (d *DB) open(o Options) error {
	if err := d.openDirectory(o); err != nil {
		return err
	}
	report, err := d.inspectDirectory(o)
	if err != nil {
		return err
	}
	o.MemTableSize = report.memTable(o.MemTableSize)
	if err := d.makeRoom(report); err != nil {
		return err
	}
	d.options = o
	if d.db, err = d.openBadger(o); err != nil {
		return err
	}
	return d.initialize(o, report.Gap)
}

// makeRoom removes what a crash has left, and then checks that there is room. The other way round, a database whose
// leftovers take the room that it wants would never open again.
func (d *DB) makeRoom(report *Report) error {
	// An interrupted compaction leaves copies.
	if err := os.RemoveAll(filepath.Join(d.dir, mergeName)); err != nil {
		return fmt.Errorf("the database in %s cannot be written: %w", d.dir, err)
	}
	full := d.space.check()
	// A table may go only when the MANIFEST that does not list it is on the disk.
	err := rewriteManifest(d.dir, d.handle, report.manifest.whole)
	if err == nil {
		err = report.removeUnlisted()
	}
	if err != nil {
		if full != nil {
			return full
		}
		return fmt.Errorf("the database in %s cannot be written: %w", d.dir, err)
	}
	// Opening writes tables with what the last process has left in the logs.
	return d.space.check()
}

// openDirectory opens and locks the directory.
func (d *DB) openDirectory(o Options) (err error) {
	if o.Expect == nil {
		if err := MakeDirectory(d.dir); err != nil {
			return err
		}
	}
	if err := d.space.check(); err != nil {
		// What a killed compaction has left can be removed. Without that there is no need to look further.
		if _, none := os.Stat(filepath.Join(d.dir, mergeName)); none != nil {
			return err
		}
	}
	if d.handle, err = os.Open(d.dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the directory %s is gone; %s", ErrReplaced, d.dir, replacedAdvice)
	}
	if err != nil {
		return err
	}
	if info, err := d.handle.Stat(); err != nil || !info.IsDir() {
		return errors.Join(fmt.Errorf("%s is not a directory", d.dir), err)
	}
	if err := lockDirectory(d.handle); err != nil {
		return fmt.Errorf("%w: is another Caddy using the directory %s?", err, d.dir)
	}
	if o.Expect != nil {
		p, err := readProgress(d.dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && p.identity != *o.Expect {
			return fmt.Errorf("%w: the directory %s does not hold the database that was open; %s", ErrReplaced, d.dir,
				replacedAdvice)
		}
	}
	return nil
}

// inspectDirectory compares what is in the directory with what must be there, and removes what a crash has left and
// Badger refuses.
func (d *DB) inspectDirectory(o Options) (*Report, error) {
	report, err := inspect(d.dir, inspection{boot: bootID(), rewrite: o.Rewrite})
	if err != nil {
		return nil, err
	}
	for _, f := range report.Findings {
		if f.Damage {
			continue // the error names it, and opening is tried again and again
		}
		d.logger.Info("a file of the database is not as after an orderly end",
			zap.String("file", f.File), zap.String("finding", f.Problem), zap.String("dir", d.dir))
	}
	return report, report.cleanUp()
}

// openBadger opens the database with options for little memory. Conflict detection is off, because callers that
// change a record hold a lock. Badger's own compactors are off, too: [DB.compact] compacts, and also holds writes
// back, so that Badger never stalls them. Such a stall would last until there is room for a compaction.
func (d *DB) openBadger(o Options) (db *badger.DB, err error) {
	opt := badger.DefaultOptions(o.Dir).
		WithLogger(logger{o.Logger.WithOptions(zap.AddCallerSkip(1)).Sugar(), d.failedToWrite}).
		WithMetricsEnabled(false).
		WithSyncWrites(false).
		WithDetectConflicts(false).
		WithBypassLockGuard(ownLock).
		WithMemTableSize(o.MemTableSize).
		WithNumMemtables(2).
		WithNumLevelZeroTables(2).
		WithNumLevelZeroTablesStall(math.MaxInt).
		WithNumCompactors(0).
		WithValueLogFileSize(16 << 20).
		WithBlockCacheSize(o.BlockCacheSize).
		WithCompression(options.Snappy).
		WithCompactL0OnClose(o.compactOnClose)
	defer func() {
		// Badger asserts some of what it reads.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s cannot be read: %v; %s", ErrDamaged, o.Dir, p, advice(o.Dir))
		}
	}()
	db, err = badger.Open(opt)
	switch {
	case err == nil:
		return db, nil
	case locked(err):
		return nil, fmt.Errorf("%w: is another Caddy using the directory %s?", ErrLocked, o.Dir)
	default:
		return nil, fmt.Errorf("the database in %s cannot be opened: %w; %s", o.Dir, err, advice(o.Dir))
	}
}

// locked reports whether an error of Badger says that the directory is in use. Badger has no error value for that.
func locked(err error) bool {
	return strings.Contains(err.Error(), "directory lock") || strings.Contains(err.Error(), "lock file")
}

// replacedAdvice is what an operator can do about a directory that was replaced.
const replacedAdvice = "bring it back, or restart the server to use what is there now"

// advice is what an operator can do about a database that cannot be read.
func advice(dir string) string {
	return fmt.Sprintf("run: caddy moderation check %s; if it is damaged, move the directory away and run: "+
		"caddy moderation restore FILE --dir %s", dir, dir)
}

// Identity implements [Database].
func (d *DB) Identity() Identity { return d.identity }

// Close implements [Database]. It may be called more than once. It finishes a compaction that is under way.
//
// On a full disk the database itself is left open, because closing it would need room: everything that was written is
// in its log, but the directory stays locked until the process ends.
func (d *DB) Close() error { return d.close() }

func (d *DB) shut() error {
	syncErr := d.Sync()
	close(d.closing)
	// From here on only this function uses the database.
	d.lifecycle.Lock()
	d.closed.Store(true)
	d.lifecycle.Unlock()
	d.snapshots.Range(func(s, _ any) bool { return s.(*snapshot).Close() == nil })
	d.background.Wait()
	if d.failed != nil {
		return errors.Join(syncErr, d.failed)
	}
	if err := d.space.check(); err != nil {
		d.logger.Error("the disk is full: the database is left open until the process ends", zap.String("dir", d.dir))
		return errors.Join(syncErr, err)
	}
	return errors.Join(syncErr, d.release())
}

// release closes what was opened.
func (d *DB) release() (err error) {
	if d.db != nil {
		err = d.db.Close()
	}
	if d.progress != nil {
		err = errors.Join(err, d.progress.file.Close())
	}
	if d.handle != nil {
		err = errors.Join(err, d.handle.Close())
	}
	return err
}

// enter begins a use of the database, leave ends it. Uses are not nested.
func (d *DB) enter() error {
	d.lifecycle.RLock()
	if d.closed.Load() {
		d.lifecycle.RUnlock()
		return ErrClosed
	}
	return nil
}

func (d *DB) leave() { d.lifecycle.RUnlock() }
