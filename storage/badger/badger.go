// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package badger keeps the service's records in an embedded Badger database in a local directory.
//
// Counts live in memory while an account is active, which makes limits exact, and reach the database through one writer
// that commits for all waiting callers at once. Every commit is in the kernel's hands when it returns, so the death of
// the process loses nothing that was acknowledged; the kernel is told to write to the disk every second, and at once for
// accounts, keys and feedback.
//
// Badger writes through memory maps of sparse files, and a full disk would end the whole process with SIGBUS. The store
// therefore stops writing while the file system has less than [Options.MinFree] left, answers
// [storage.ErrUnavailable], and goes on by itself when there is room again. Badger's tables are merged only while twice
// their size is free beside that. What remains: another program that takes the last byte within the moment that a
// table is written in (a compaction, or up to three tables in memory) still ends the process. What was acknowledged is in
// the log then, and there after a restart.
package badger

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/maypok86/otter/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Errors of [Open] and [Restore]. The errors that wrap them name the directory.
var (
	// ErrLocked says that another process, or another store of this process, has the directory open.
	ErrLocked = errors.New("the database is in use")
	// ErrSchema says that a newer version of this software wrote the database, or that it is a database of something else.
	ErrSchema = errors.New("the database cannot be read by this version")
	// ErrUnfinished says that a restore into the directory did not finish.
	ErrUnfinished = errors.New("a restore did not finish")
)

// Options configure a [Store].
type Options struct {
	// Dir is the directory of the database. Required; made when missing, readable by its owner only. It must not be on a
	// network file system.
	Dir string
	// Logger receives what the database has to say. Default: nothing is logged.
	Logger *zap.Logger
	// MemTableSize is the size in bytes of the table in memory that takes new records, and of its log on the disk. Up to three are held.
	// Larger ones are written out less often. Default and least: 8 MiB.
	MemTableSize int64
	// BlockCacheSize is how many bytes of blocks read from the disk are kept in memory. Default 8 MiB.
	BlockCacheSize int64
	// CacheSize is how many accounts, and how many keys, are kept ready in memory. Default 10,000.
	CacheSize int
	// MinFree is how many bytes of the file system are left free: with less, nothing is written. Default: eight times
	// MemTableSize. A write that was let through, and the tables in memory that are on their way to the disk, need six times
	// MemTableSize in the worst case. The database is compacted only while twice its size is free beside MinFree; without
	// that, writes are refused when 32 tables of MemTableSize have gathered.
	MinFree int64
}

// Store is a database in a directory. It is safe for concurrent use. [Store.Close] must be called.
type Store struct {
	db     *badger.DB
	dir    string
	logger *zap.Logger
	space  space

	// life is held for reading while the database is used, and for writing to end its life.
	life    sync.RWMutex
	closed  atomic.Bool
	closing chan struct{}
	close   func() error

	// directory is held for writing while accounts and keys are changed and for reading while the caches are filled, so that a
	// cache never keeps what has just been replaced.
	directory sync.RWMutex
	accounts  *otter.Cache[string, *quota.Account]
	keys      *otter.Cache[quota.Hash, *quota.Key]

	// appending is held while a feedback record is counted and kept.
	appending sync.Mutex

	counters  counters
	syncer    syncer
	compactor compactor
	// background are the goroutines that tidy up.
	background sync.WaitGroup
}

// Open opens the database in o.Dir, or makes it. Errors wrap [ErrLocked], [ErrSchema], [ErrUnfinished] and
// [storage.ErrUnavailable] where they apply. Whatever is wrong with the files, they are left as they are.
func Open(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("badger storage: no directory is given")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("badger storage: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, unfinished)); err == nil {
		return nil, fmt.Errorf("badger storage: %w: empty the directory %s and restore again", ErrUnfinished, dir)
	}
	return open(dir, o)
}

// open opens a directory without looking for the mark of an unfinished restore.
func open(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	o.MemTableSize = max(o.MemTableSize, 8<<20)
	if o.BlockCacheSize <= 0 {
		o.BlockCacheSize = 8 << 20
	}
	if o.CacheSize <= 0 {
		o.CacheSize = 10_000
	}
	if o.MinFree <= 0 {
		o.MinFree = 8 * o.MemTableSize
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("badger storage: %w", err)
	}
	s := &Store{dir: dir, logger: o.Logger, space: space{dir: dir, least: uint64(o.MinFree)}, closing: make(chan struct{})}
	s.close = sync.OnceValue(s.shut)
	// Opening writes what the last process left in the logs into tables.
	if err := s.space.check(); err != nil {
		return nil, err
	}
	var err error
	if s.db, err = openDB(dir, o); err != nil {
		return nil, err
	}
	if err := s.checkSchema(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.accounts = otter.Must(&otter.Options[string, *quota.Account]{MaximumSize: o.CacheSize})
	s.keys = otter.Must(&otter.Options[quota.Hash, *quota.Key]{MaximumSize: o.CacheSize})
	s.syncer.start(s.sync, s.logger)
	s.counters.start(s)
	s.compactor.table = o.MemTableSize
	s.background.Go(s.compact)
	s.background.Go(s.collectGarbage)
	return s, nil
}

// openDB opens the database with the profile for little memory. Conflicts need not be detected: accounts, keys and
// feedback are changed under locks, and counters are written by one writer. Nothing is compacted but by [Store.compact],
// which also holds writes, so that Badger never stalls them: a stall would last until there is room for a compaction.
func openDB(dir string, o Options) (db *badger.DB, err error) {
	opt := badger.DefaultOptions(dir).
		WithLogger(logger{o.Logger.WithOptions(zap.AddCallerSkip(1)).Sugar()}).
		WithMetricsEnabled(false).
		WithSyncWrites(false).
		WithDetectConflicts(false).
		WithMemTableSize(o.MemTableSize).
		WithNumMemtables(2).
		WithNumLevelZeroTables(2).
		WithNumLevelZeroTablesStall(math.MaxInt).
		WithNumCompactors(0).
		WithValueLogFileSize(16 << 20).
		WithBlockCacheSize(o.BlockCacheSize).
		WithCompression(options.Snappy).
		WithCompactL0OnClose(false)
	defer func() {
		// Badger asserts some of what it reads.
		if p := recover(); p != nil {
			err = fmt.Errorf("badger storage: the database in %s cannot be read: %v; %s", dir, p, advice)
		}
	}()
	db, err = badger.Open(opt)
	switch {
	case err == nil:
		return db, nil
	case locked(err):
		return nil, fmt.Errorf("badger storage: %w: is another Caddy using the directory %s?", ErrLocked, dir)
	default:
		return nil, fmt.Errorf("badger storage: the database in %s cannot be opened: %w; %s", dir, err, advice)
	}
}

// locked reports whether an error of Badger says that the directory is in use, for which it has no error value.
func locked(err error) bool {
	return strings.Contains(err.Error(), "directory lock") || strings.Contains(err.Error(), "lock file")
}

// advice is what an operator can do about a database that cannot be read.
const advice = "if it is damaged, move the directory away and run: caddy moderation restore FILE"

// Close commits and syncs what is left, and releases the directory. Calls that wait for a commit are answered first. It may
// be called more than once. A compaction that is under way is finished first.
//
// On a full disk the database itself is left open, because closing it would need room: everything that was acknowledged
// is in its log, but the directory stays locked until the process ends.
func (s *Store) Close() error {
	return s.close()
}

func (s *Store) shut() error {
	close(s.closing)
	commitErr := s.counters.stop()

	// From here on nobody uses the database but this function.
	s.life.Lock()
	s.closed.Store(true)
	s.life.Unlock()

	syncErr := s.syncer.stop()
	s.background.Wait()
	s.accounts.StopAllGoroutines()
	s.keys.StopAllGoroutines()
	if err := s.space.check(); err != nil {
		s.logger.Error("the disk is full: the database is left open until the process ends", zap.String("dir", s.dir))
		return errors.Join(commitErr, syncErr, err)
	}
	if err := s.db.Close(); err != nil {
		return errors.Join(commitErr, syncErr, unavailable(err))
	}
	return errors.Join(commitErr, syncErr)
}

// Health implements [storage.Store].
func (s *Store) Health() error {
	if s.closed.Load() {
		return errClosed
	}
	return nil
}

// errClosed is returned by every call after Close.
var errClosed = fmt.Errorf("%w: closed", storage.ErrUnavailable)

// unavailable marks an error of the database as one of storage.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

// enter begins a use of the database, leave ends it. Uses are not nested, and nobody waits for anything within one.
func (s *Store) enter() error {
	s.life.RLock()
	if s.closed.Load() {
		s.life.RUnlock()
		return errClosed
	}
	return nil
}

func (s *Store) leave() { s.life.RUnlock() }

// errOwn carries the error of a caller's function through view and change, which mark all others as the database's.
type errOwn struct{ error }

// own marks an error as not the database's.
func own(err error) error {
	if err == nil {
		return nil
	}
	return errOwn{err}
}

func sorted(err error) error {
	if o, ok := err.(errOwn); ok { //nolint:errorlint // it is never wrapped
		return o.error
	}
	if err == nil {
		return nil
	}
	return unavailable(err)
}

// view reads.
func (s *Store) view(read func(*badger.Txn) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return sorted(s.db.View(read))
}

// change writes, and returns the sync that will make it survive power loss.
func (s *Store) change(write func(*badger.Txn) error) (*round, error) {
	if err := s.room(); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := sorted(s.db.Update(write)); err != nil {
		return nil, err
	}
	return s.syncer.join(), nil
}

// collectGarbage drops value log files that are not needed. Records are small enough to stay out of the value log, so
// there is hardly ever something to do.
func (s *Store) collectGarbage() {
	ticker := time.NewTicker(10 * time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-ticker.C:
			for s.space.check() == nil && s.db.RunValueLogGC(0.5) == nil {
			}
		}
	}
}

// checkSchema writes the schema's version into a new database and compares it in an old one.
func (s *Store) checkSchema() error {
	var found uint32
	var empty bool
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(schemaKey)
		if err == nil {
			return item.Value(func(v []byte) (err error) {
				found, err = decodeSchema(v)
				return err
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
	switch {
	case err != nil:
		return fmt.Errorf("badger storage: the database in %s cannot be read: %w; %s", s.dir, err, advice)
	case found == schema:
		return nil
	case found > schema:
		return fmt.Errorf("badger storage: %w: %s has schema %d, this version knows schemas up to %d", ErrSchema, s.dir, found, schema)
	case !empty:
		return fmt.Errorf("badger storage: %w: %s holds a database of something else", ErrSchema, s.dir)
	}
	err = s.db.Update(func(txn *badger.Txn) error { return txn.Set(schemaKey, encodeSchema(schema)) })
	if err != nil {
		return unavailable(err)
	}
	return s.sync()
}

// Interface guards
var (
	_ storage.Store = (*Store)(nil)
	_ badger.Logger = logger{}
)
