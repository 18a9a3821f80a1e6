// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package badger keeps the service's records in an embedded Badger database in a local directory.
//
// Counts live in memory while an account is active, which makes limits exact, and reach the database through one writer
// that commits for all waiting callers at once. Every commit is in the kernel's hands when it returns, so the death of
// the process loses nothing that was acknowledged; the kernel is told to write to the disk twice a second, and at once for
// accounts, keys and feedback. A commit that is not synced within a second is acknowledged when it is.
//
// The database has a process of its own, because a disk that fails can end the process that uses it in ways that nobody can
// prevent: faults in mapped files, assertions. When it fails, ends or hangs, it is given up and opened again; meanwhile
// everything that needs it is answered [storage.ErrUnavailable], and what was acknowledged since the last sync is kept in
// memory and written again.
package badger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/process"
)

// Errors of [Open] and [Restore]. The errors that wrap them name the directory.
var (
	// ErrLocked says that another process, or another store of this process, has the directory open.
	ErrLocked = disk.ErrLocked
	// ErrSchema says that a newer version of this software wrote the database, or that it is a database of something else.
	ErrSchema = disk.ErrSchema
	// ErrDamaged says that files of the database are missing or changed. Nothing was touched.
	ErrDamaged = disk.ErrDamaged
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
	// MemTableSize in the worst case. The database is compacted only while three times its size is free beside MinFree; without
	// that, writes are refused when 32 tables of MemTableSize have gathered.
	MinFree int64
	// InProcess keeps the database in this process, for short work such as that of a command. A disk that fails may then end the
	// process, and a database that failed is not opened again.
	InProcess bool

	// open replaces how the database is opened, pace how long is waited.
	open opener
	pace pace
}

// Store is a database in a directory. It is safe for concurrent use. [Store.Close] must be called.
type Store struct {
	keeper keeper
	// reserve holds what it takes to start the database's process again.
	reserve process.Reserve
	dir     string
	logger  *zap.Logger

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

	counters counters
	syncer   syncer
}

// Open opens the database in o.Dir, or makes it. Errors wrap [ErrLocked], [ErrSchema], [ErrDamaged], [ErrUnfinished] and
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
	if o.CacheSize <= 0 {
		o.CacheSize = 10_000
	}
	if o.pace == (pace{}) {
		o.pace = usualPace()
	}
	s := &Store{dir: dir, logger: o.Logger, closing: make(chan struct{})}
	s.close = sync.OnceValue(s.shut)
	switch {
	case o.open != nil:
	case o.InProcess:
		o.open = openInProcess
	default:
		o.open = openOwnProcess(&s.reserve, o.Logger)
		_ = s.reserve.Fill() // what cannot be had now is had another time
	}
	s.accounts = otter.Must(&otter.Options[string, *quota.Account]{MaximumSize: o.CacheSize})
	s.keys = otter.Must(&otter.Options[quota.Hash, *quota.Key]{MaximumSize: o.CacheSize})
	s.keeper = keeper{logger: o.Logger, open: o.open, pace: o.pace, reopened: s.forget, options: disk.Options{
		Dir: dir, Logger: o.Logger, MemTableSize: o.MemTableSize, BlockCacheSize: o.BlockCacheSize, MinFree: o.MinFree,
	}}
	if err := s.keeper.start(); err != nil {
		s.release()
		if errors.Is(err, disk.ErrFull) {
			return nil, unavailable(err)
		}
		return nil, fmt.Errorf("badger storage: %w", err)
	}
	s.syncer.start(s.keeper.sync)
	s.counters.start(s)
	return s, nil
}

// forget empties the caches of accounts and keys, and has counts read again: changes may have been taken back.
func (s *Store) forget() {
	// First, so that who has read something before takes it out of the caches again; see [fill].
	s.counters.epoch.Add(1)
	s.accounts.InvalidateAll()
	s.keys.InvalidateAll()
}

// fill reads something and keeps it in a cache. The caller holds directory for reading. What was read from a database that has
// failed since is not kept: it may have been taken back.
func fill[K comparable, V any](s *Store, cache *otter.Cache[K, *V], id K, read func(K, *V) error) (V, error) {
	epoch := s.counters.epoch.Load()
	v := new(V)
	if err := read(id, v); err != nil {
		return *new(V), err
	}
	cache.Set(id, v)
	if s.counters.epoch.Load() != epoch {
		cache.Invalidate(id)
	}
	return *v, nil
}

// release gives back what needs no database.
func (s *Store) release() {
	_ = s.reserve.Close()
	s.accounts.StopAllGoroutines()
	s.keys.StopAllGoroutines()
}

// Close commits and syncs what is left, and releases the directory. Calls that wait for a commit are answered first. It may
// be called more than once.
func (s *Store) Close() error {
	return s.close()
}

func (s *Store) shut() error {
	close(s.closing)
	commitErr := s.counters.stop()
	// Who is changing something has joined a round when this is through, and everybody else is refused.
	s.directory.Lock()
	s.appending.Lock()
	s.closed.Store(true)
	s.appending.Unlock()
	s.directory.Unlock()
	err := errors.Join(commitErr, s.syncer.stop(), s.keeper.stop())
	s.release()
	return err
}

// Health implements [storage.Store].
func (s *Store) Health() error {
	if s.closed.Load() {
		return errClosed
	}
	return s.keeper.health()
}

// errClosed is returned by every call after Close.
var errClosed = fmt.Errorf("%w: closed", storage.ErrUnavailable)

// unavailable marks an error of the database as one of storage.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

// ready returns an error when ctx is done or the store is closed.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// changed makes changes to records that nobody else changes meanwhile, because the caller holds directory or appending, which prepare reads and says. They hold when
// [change.wait] returns nil. When they are refused, then or now, what was there before is there again as soon as there is a
// database. Prepare is asked again when the database was opened again meanwhile: what it has read may have been taken back.
func (s *Store) changed(prepare func() ([]disk.Entry, error)) (*change, error) {
	for again := false; ; again = true {
		if s.closed.Load() {
			return nil, errClosed
		}
		e, err := s.keeper.now()
		if err != nil {
			return nil, err
		}
		entries, err := prepare()
		if err != nil {
			return nil, err
		}
		c, err := s.change(e, entries)
		if err == nil || again || errors.Is(err, disk.ErrFull) {
			return c, err
		}
	}
}

// change makes changes whose preparation began in an era.
func (s *Store) change(e *era, entries []disk.Entry) (*change, error) {
	keys := make([][]byte, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}
	before, err := s.keeper.get(keys...)
	if err != nil {
		return nil, err
	}
	c := &change{keeper: &s.keeper, era: e}
	for i, r := range before {
		// What was damaged before is not brought back.
		c.undo = append(c.undo, disk.Entry{Key: keys[i], Value: r.Value, Delete: r.Value == nil})
	}
	if err := s.keeper.writeChange(c, entries); err != nil {
		return nil, err
	}
	c.round = s.syncer.join()
	return c, nil
}

// Interface guards
var _ storage.Store = (*Store)(nil)
