// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package badger keeps the service's records in an embedded Badger database in a local directory.
//
// Counts live in memory while an account is active, which makes limits exact, and reach the database through one
// writer that commits for all waiting callers at once. When a commit returns, the kernel has it, so the death of the
// process loses nothing that was acknowledged. The kernel is told to write to the disk twice a second, and at once
// for accounts, keys and feedback. A commit that is not synced within a second is not acknowledged before it is.
//
// The database has a process of its own (package process), because a disk that fails can end the process that uses it
// in ways that nobody can prevent: faults in mapped files, assertions. When the database fails, ends or hangs, the
// supervisor abandons it and reopens it. Meanwhile everything that needs it returns [storage.ErrUnavailable]. What
// was acknowledged since the last sync is kept in memory and replayed.
//
// # A write
//
// There are two ways from a method of [Store] to an answer. The first is that of counts, which wait for the kernel:
//
//  1. Take locks the account's tally (tally.go), checks the limits against the windows in it, counts, and puts the
//     tally on the open batch of the writer (counters.enqueue in counters.go). It returns: the charge is in memory.
//  2. Record changes the same tally, wakes the writer, and returns a settlement that holds the batch.
//  3. The writer (counters.write) closes the batch, opens the next one, and encodes what changed in each tally of the
//     batch as entries: absolute values, so that writing one again does no harm.
//  4. supervisor.write (supervisor.go) passes the entries to the database, in [process.Client] as a frame to the
//     child process. There [disk.DB] gives each value a checksum, commits the entries in a numbered Badger
//     transaction (large ones in several), and notes the number in the file PROGRESS.
//  5. The supervisor adds the entries to the replay buffer (replay.go), in the order in which they were written. If
//     an entry in it has not been synced for a second, the writer waits for the next sync (sync.go).
//  6. The batch is done, and the Wait of each settlement in it returns.
//
// The second way is that of accounts, keys and feedback, which wait for the disk:
//
//  1. The method takes the lock of what it changes (Store.directory or Store.appending) and calls Store.apply. That
//     reads the records, lets the method say which entries it wants, and reads what is stored under their keys now:
//     the undo.
//  2. supervisor.writeChange writes the entries as above, in the generation of the database in which they were
//     prepared or not at all, and remembers the change with its undo until it is synced.
//  3. The method joins the next sync round, drops what it changed from the caches, and gives the lock back.
//  4. The round ends: [disk.DB] has synced the logs and the directory, and noted the number of the last synced write.
//     The method returns nil.
//
// When a call of the database fails, or takes longer than its timeout, supervisor.fail abandons the database and
// begins to reopen it. Callers wait for two seconds and are refused after that. Once it is open, the supervisor
// replays the replay buffer. If a change of accounts, keys or feedback was refused meanwhile, all that were waiting
// with it are undone, because one may build on another. Then the supervisor syncs, and a new generation begins.
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
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// Errors of [Open] and [Restore]. The errors that wrap them name the directory.
var (
	// ErrLocked says that another process, or another store of this process, has the directory open.
	ErrLocked = disk.ErrLocked
	// ErrSchema says that a newer version of this software wrote the database, or that it is a database of something
	// else.
	ErrSchema = disk.ErrSchema
	// ErrDamaged says that files of the database are missing or changed. Nothing was touched.
	ErrDamaged = disk.ErrDamaged
	// ErrUnfinished says that a restore or a migration into the directory did not finish.
	ErrUnfinished = contents.ErrUnfinished
)

// Options configure a [Store].
type Options struct {
	// Dir is the directory of the database. Required; made when missing, readable by its owner only. It must not be
	// on a network file system.
	Dir string
	// Logger receives the log of the database. Default: nothing is logged.
	Logger *zap.Logger
	// MemTableSize is the size in bytes of the table in memory that takes new records, and of its log on the disk. Up
	// to three are held. Larger ones are written out less often. Default and minimum: 8 MiB.
	MemTableSize int64
	// BlockCacheSize is how many bytes of blocks read from the disk are kept in memory. Default: 8 MiB.
	BlockCacheSize int64
	// CacheSize is how many accounts, and how many keys, are cached. Default: 10,000.
	CacheSize int
	// MinFree is how many bytes of the file system are left free: with less, nothing is written. A write that was let
	// through and the tables in memory that are being written out need six times MemTableSize in the worst case. The
	// database is compacted only while three times its size is free beside MinFree; without that, writes are refused
	// once there are 32 tables of MemTableSize. Default: eight times MemTableSize.
	MinFree int64
	// InProcess keeps the database in this process, for short work such as that of a command. A disk that fails may
	// then end the process, and a database that failed is not reopened.
	InProcess bool

	// open replaces how the database is opened, timing the timeouts. For tests.
	open   opener
	timing timing
}

// Store is a database in a directory. It is safe for concurrent use. [Store.Close] must be called.
type Store struct {
	supervisor supervisor
	// spare holds the file descriptors that it takes to start the database's process again.
	spare  process.SpareDescriptors
	dir    string
	logger *zap.Logger

	closed  atomic.Bool
	closing chan struct{}
	close   func() error

	// directory is held for writing while accounts and keys are changed, and for reading while the caches are filled,
	// so that a cache never keeps what has just been replaced.
	directory sync.RWMutex
	accounts  *otter.Cache[string, *quota.Account]
	keys      *otter.Cache[quota.Hash, *quota.Key]

	// appending is held while a feedback record is counted and written.
	appending sync.Mutex

	counters counters
	syncer   syncer
}

// Open opens the database in o.Dir, or makes it. Errors wrap [ErrLocked], [ErrSchema], [ErrDamaged], [ErrUnfinished],
// [contents.ErrMoved] and [storage.ErrUnavailable] where they apply. Whatever is wrong with the files, they are left as
// they are.
func Open(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("badger storage: no directory is given")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("badger storage: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, unfinished)); err == nil {
		return nil, fmt.Errorf("badger storage: %s: %w: empty the directory and repeat it", dir, ErrUnfinished)
	}
	if text, err := os.ReadFile(filepath.Join(dir, moved)); err == nil {
		return nil, movedError(dir, text)
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
	if o.timing == (timing{}) {
		o.timing = defaultTiming()
	}
	s := &Store{dir: dir, logger: o.Logger, closing: make(chan struct{})}
	s.close = sync.OnceValue(s.shut)
	switch {
	case o.open != nil:
	case o.InProcess:
		o.open = openInProcess
	default:
		o.open = openOwnProcess(&s.spare, o.Logger)
		_ = s.spare.Fill() // it is filled again after each start
	}
	s.accounts = otter.Must(&otter.Options[string, *quota.Account]{MaximumSize: o.CacheSize})
	s.keys = otter.Must(&otter.Options[quota.Hash, *quota.Key]{MaximumSize: o.CacheSize})
	s.supervisor = supervisor{
		logger: o.Logger, open: o.open, timing: o.timing, reopened: s.dropCaches,
		options: disk.Options{
			Dir: dir, Logger: o.Logger,
			MemTableSize: o.MemTableSize, BlockCacheSize: o.BlockCacheSize, MinFree: o.MinFree,
		},
	}
	if err := s.supervisor.start(); err != nil {
		s.release()
		if errors.Is(err, disk.ErrFull) {
			return nil, unavailable(err)
		}
		return nil, fmt.Errorf("badger storage: %w", err)
	}
	s.syncer.start(s.supervisor.sync)
	s.counters.start(s)
	return s, nil
}

// dropCaches empties the caches of accounts and keys, and has tallies read their counts again. It is called when the
// database was reopened: changes may have been undone.
func (s *Store) dropCaches() {
	// First, so that a reader that began before takes what it read out of the caches again; see [fill].
	s.counters.generation.Add(1)
	s.accounts.InvalidateAll()
	s.keys.InvalidateAll()
}

// fill reads a record and caches it. The caller holds directory for reading. A record of a database that has failed
// since is not kept, because its change may have been undone.
func fill[K comparable, V any](s *Store, cache *otter.Cache[K, *V], id K, read func(K, *V) error) (V, error) {
	generation := s.counters.generation.Load()
	v := new(V)
	if err := read(id, v); err != nil {
		return *new(V), err
	}
	cache.Set(id, v)
	if s.counters.generation.Load() != generation {
		cache.Invalidate(id)
	}
	return *v, nil
}

// release gives back what does not belong to the database.
func (s *Store) release() {
	_ = s.spare.Close()
	s.accounts.StopAllGoroutines()
	s.keys.StopAllGoroutines()
}

// Close commits and syncs what is left, and releases the directory. Calls that wait for a commit are answered first.
// It may be called more than once.
func (s *Store) Close() error {
	return s.close()
}

func (s *Store) shut() error {
	close(s.closing)
	commitErr := s.counters.stop()
	// A change that holds one of these locks joins a sync round before it gives the lock back. Later ones are refused.
	s.directory.Lock()
	s.appending.Lock()
	s.closed.Store(true)
	s.appending.Unlock()
	s.directory.Unlock()
	err := errors.Join(commitErr, s.syncer.stop(), s.supervisor.stop())
	s.release()
	return err
}

// Health implements [storage.Store].
func (s *Store) Health() error {
	if s.closed.Load() {
		return errClosed
	}
	return s.supervisor.health()
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

// apply makes the changes that prepare returns. Prepare may read what it needs: the caller holds directory or
// appending, so that nobody else changes these records meanwhile. If the database is reopened in between, prepare is
// called once more, because a change that it has read may have been undone.
//
// The changes hold when [change.wait] returns nil. If they are refused, now or then, the records are again what they
// were as soon as there is a database.
func (s *Store) apply(prepare func() ([]disk.Entry, error)) (*change, error) {
	for again := false; ; again = true {
		if s.closed.Load() {
			return nil, errClosed
		}
		g, err := s.supervisor.current()
		if err != nil {
			return nil, err
		}
		entries, err := prepare()
		if err != nil {
			return nil, err
		}
		c, err := s.applyOnce(g, entries)
		if err == nil || again || errors.Is(err, disk.ErrFull) {
			return c, err
		}
	}
}

// applyOnce makes changes that were prepared in a generation.
func (s *Store) applyOnce(g *generation, entries []disk.Entry) (*change, error) {
	keys := make([][]byte, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}
	before, err := s.supervisor.get(keys...)
	if err != nil {
		return nil, err
	}
	c := &change{supervisor: &s.supervisor, generation: g}
	for i, r := range before {
		// A record that was damaged before is deleted: it cannot be restored.
		c.undo = append(c.undo, disk.Entry{Key: keys[i], Value: r.Value, Delete: r.Value == nil})
	}
	if err := s.supervisor.writeChange(c, entries); err != nil {
		return nil, err
	}
	c.round = s.syncer.join()
	return c, nil
}

// Interface guards
var _ storage.Store = (*Store)(nil)
