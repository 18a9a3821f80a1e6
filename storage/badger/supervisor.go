// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

const (
	// maxUnsynced is how much of the counts power loss may take: an older commit is synced before it is acknowledged.
	maxUnsynced = time.Second
	// replayEntries and replayBytes limit how many changes are replayed in one write.
	replayEntries, replayBytes = 1000, 1 << 20
)

// timing holds the timeouts and intervals of a supervisor.
type timing struct {
	// call is the timeout of a call of the database, sync that of a sync. After either the database is abandoned.
	call, sync time.Duration
	// recoveryWait is how long after a failure calls wait for the database to come back before they are refused.
	recoveryWait time.Duration
	// An abandoned database is reopened after firstBackoff, then after twice as long each time, up to maxBackoff.
	firstBackoff, maxBackoff time.Duration
	// check is the interval at which an idle database is checked for being writable.
	check time.Duration
	// releaseWait is how long an abandoned database may take to release its directory before it is reopened anyway.
	releaseWait time.Duration
}

// defaultTiming is used everywhere but in tests.
func defaultTiming() timing {
	return timing{
		call: 15 * time.Second, sync: time.Minute, recoveryWait: 2 * time.Second,
		firstBackoff: 20 * time.Millisecond, maxBackoff: 5 * time.Second, check: 5 * time.Second,
		releaseWait: time.Second,
	}
}

// supervisor owns the database and keeps it running. When the database fails, the supervisor holds every caller back,
// abandons the database, reopens it, replays what was written since the last successful sync, undoes the changes that
// were refused meanwhile, syncs, and lets the callers go on. A failed sync counts as a failure: the kernel and the
// disk may disagree after it, and a second sync would not tell.
type supervisor struct {
	options disk.Options
	open    opener
	logger  *zap.Logger
	timing  timing
	// reopened is called after the database was reopened and before anybody uses it.
	reopened func()

	// order is held during a write, so that the replay buffer has the order of the database. It is taken before mu.
	order    sync.Mutex
	unsynced replayBuffer

	mu sync.Mutex
	// db is nil while there is no database. Then failure says why, failedAt since when, and back is closed when there
	// is one again. A nil back means that there never will be.
	db       database
	failure  error
	failedAt time.Time
	back     chan struct{}
	// generation is the present one.
	generation *generation
	// changes are those of the present generation that are not known to be synced, in the order in which they were
	// written. They are changed with order held, too.
	changes []*change
	// full says why a healthy database refused the last write, nil if it did not.
	full error
	// failures counts the databases that were abandoned.
	failures atomic.Uint64

	// ctx ends when the supervisor is stopped.
	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup
}

// generation is the time from one opening of the database to the next. The changes of a generation that wait for a
// sync are kept or refused together, because one may build on another.
type generation struct {
	// ended says that the database was reopened. refused says that a caller was told before that its change is refused.
	ended, refused bool
}

// change is a change of accounts, keys or feedback that is written and may not survive power loss yet.
type change struct {
	supervisor *supervisor
	generation *generation
	round      *round
	// undo restores the records as they were before.
	undo []disk.Entry
	// kept says that the change is synced, failed that writing it failed.
	kept, failed bool
}

// errReopened says that a change was prepared with records of a database that has been reopened since.
var errReopened = fmt.Errorf("%w: the database was opened again meanwhile", storage.ErrUnavailable)

// start opens the database.
func (sv *supervisor) start() (err error) {
	sv.ctx, sv.cancel = context.WithCancel(context.Background())
	if sv.db, err = sv.open(sv.ctx, sv.options); err != nil {
		sv.cancel()
		return err
	}
	id := sv.db.Identity()
	sv.options.Expect = &id
	sv.generation = new(generation)
	sv.background.Go(sv.checkIdle)
	sv.watch(sv.db)
	return nil
}

// watch notices when a database ends by itself.
func (sv *supervisor) watch(db database) {
	sv.background.Go(func() {
		select {
		case <-db.Done():
			sv.fail(db, db.Err())
		case <-sv.ctx.Done():
		}
	})
}

// stop closes the database. Later calls return an error.
func (sv *supervisor) stop() error {
	sv.mu.Lock()
	sv.cancel()
	sv.mu.Unlock()
	sv.background.Wait()
	sv.mu.Lock()
	db, failure := sv.db, sv.failure
	sv.db, sv.failure = nil, errClosed
	sv.mu.Unlock()
	if db == nil {
		return failure
	}
	if err := db.Close(); err != nil {
		return unavailable(err)
	}
	return nil
}

// health returns nil while everything can be kept.
func (sv *supervisor) health() error {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.db == nil {
		return sv.failure
	}
	return sv.full
}

// await returns the database. If it has just failed, await waits up to recoveryWait for it to come back.
func (sv *supervisor) await() (database, error) {
	for {
		sv.mu.Lock()
		db, failure, back, left := sv.db, sv.failure, sv.back, sv.timing.recoveryWait-time.Since(sv.failedAt)
		sv.mu.Unlock()
		if db != nil {
			return db, nil
		}
		if left <= 0 || back == nil {
			return nil, failure
		}
		timer := time.NewTimer(left)
		select {
		case <-back:
			timer.Stop()
		case <-timer.C:
			return nil, failure
		case <-sv.ctx.Done():
			timer.Stop()
			return nil, failure
		}
	}
}

// call calls the database, and abandons it when the call fails or exceeds the timeout. A full disk is no failure.
func (sv *supervisor) call(db database, timeout time.Duration, do func(database) error) error {
	watchdog := time.AfterFunc(timeout, func() { sv.fail(db, fmt.Errorf("the disk has not answered for %v", timeout)) })
	err := do(db)
	watchdog.Stop()
	if err == nil {
		return nil
	}
	if !errors.Is(err, disk.ErrFull) {
		sv.fail(db, err)
	}
	return unavailable(err)
}

// read is call for what can be repeated. It is repeated once, after the database has failed and come back.
func (sv *supervisor) read(do func(database) error) error {
	for again := false; ; again = true {
		db, err := sv.await()
		if err != nil {
			return err
		}
		if err = sv.call(db, sv.timing.call, do); err == nil || again {
			return err
		}
	}
}

// get returns the records of some keys.
func (sv *supervisor) get(keys ...[]byte) (records []disk.Record, err error) {
	err = sv.read(func(db database) error {
		records, err = db.Get(keys...)
		return err
	})
	return records, err
}

// scan returns the first records of a range, and the key to go on from.
func (sv *supervisor) scan(r disk.Range) (records []disk.Record, next []byte, err error) {
	err = sv.read(func(db database) error {
		records, next, err = db.Scan(r)
		return err
	})
	return records, next, err
}

// snapshot returns the database as it is now.
func (sv *supervisor) snapshot() (s disk.Snapshot, err error) {
	err = sv.read(func(db database) error {
		s, err = db.Snapshot()
		return err
	})
	return s, err
}

// current returns the present generation, waiting like await.
func (sv *supervisor) current() (*generation, error) {
	if _, err := sv.await(); err != nil {
		return nil, err
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	return sv.generation, nil
}

// write makes changes. When it returns nil they survive the death of the process. It returns the generation in which
// they were written, and overdue if some change has been waiting for a sync for longer than maxUnsynced. After an
// error the changes may have been made or not.
func (sv *supervisor) write(entries []disk.Entry) (g *generation, overdue bool, err error) {
	for again := false; ; again = true {
		if _, err := sv.await(); err != nil {
			return nil, false, err
		}
		sv.order.Lock()
		g, err = sv.writeOnce(entries, nil)
		overdue = sv.unsynced.overdue(time.Now())
		sv.order.Unlock()
		if err == nil || again || errors.Is(err, disk.ErrFull) {
			return g, overdue, err
		}
	}
}

// writeChange writes a change that can be undone, in its own generation or not at all.
func (sv *supervisor) writeChange(c *change, entries []disk.Entry) error {
	sv.order.Lock()
	defer sv.order.Unlock()
	_, err := sv.writeOnce(entries, c.generation)
	if errors.Is(err, disk.ErrFull) || errors.Is(err, errReopened) {
		return err
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	// A write that failed may have been made all the same.
	c.failed = err != nil
	if sv.generation == c.generation {
		sv.changes = append(sv.changes, c)
	}
	return err
}

// writeOnce writes in the present generation; if wanted is not nil, only if that is the present one. The caller holds
// order.
func (sv *supervisor) writeOnce(entries []disk.Entry, wanted *generation) (*generation, error) {
	sv.mu.Lock()
	db, failure, g := sv.db, sv.failure, sv.generation
	sv.mu.Unlock()
	switch {
	case wanted != nil && wanted != g:
		return nil, errReopened
	case db == nil:
		return nil, failure
	}
	err := sv.call(db, sv.timing.call, func(db database) error { return db.Write(entries) })
	sv.noteFull(db, err)
	if err == nil {
		sv.unsynced.add(entries, time.Now())
	}
	return g, err
}

// noteFull notes whether a healthy database takes writes.
func (sv *supervisor) noteFull(db database, err error) {
	if err != nil && !errors.Is(err, disk.ErrFull) {
		return
	}
	sv.mu.Lock()
	turned := sv.db == db && (sv.full == nil) != (err == nil)
	if turned {
		sv.full = err
	}
	sv.mu.Unlock()
	switch {
	case !turned:
	case err != nil:
		sv.logger.Error("nothing can be written", zap.Error(err))
	default:
		sv.logger.Info("everything is written again")
	}
}

// sync makes everything that was written before survive power loss. Only the syncer's goroutine calls it.
func (sv *supervisor) sync() error {
	if _, err := sv.await(); err != nil {
		return err
	}
	sv.order.Lock()
	sv.mu.Lock()
	db, failure, g, changes := sv.db, sv.failure, sv.generation, len(sv.changes)
	sv.mu.Unlock()
	sv.unsynced.beginSync()
	sv.order.Unlock()
	if db == nil {
		return failure
	}
	if err := sv.call(db, sv.timing.sync, func(db database) error { return db.Sync() }); err != nil {
		sv.fail(db, err) // even when it is full: nobody knows what is on the disk
		return err
	}
	sv.order.Lock()
	defer sv.order.Unlock()
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.generation != g {
		return errReopened // what was written before is kept or refused already
	}
	sv.unsynced.endSync()
	for _, c := range sv.changes[:changes] {
		c.kept = true
	}
	sv.changes = slices.Delete(sv.changes, 0, changes)
	return nil
}

// survived decides about a write whose sync failed with err. It returns nil if the database has been reopened since:
// the write was replayed and synced then.
func (sv *supervisor) survived(g *generation, err error) error {
	_, _ = sv.await()
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if g.ended {
		return nil
	}
	return err
}

// wait returns nil when the change survives power loss, and an error when it is refused. A refused change, and with
// it every other change of its generation that waits, is undone as soon as there is a database again.
func (c *change) wait() error {
	sv := c.supervisor
	err := c.round.wait()
	// A change that an earlier round has synced does not wait for a database to come back: the caller would be told of
	// it when the database has been gone for long.
	if err != nil && !c.isKept() {
		_, _ = sv.await()
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if c.kept || c.generation.ended && !c.generation.refused {
		return nil
	}
	// A round that succeeded may be one of the next generation.
	c.generation.refused = true
	return cmp.Or(err, errReopened)
}

// isKept reports whether the change is synced.
func (c *change) isKept() bool {
	c.supervisor.mu.Lock()
	defer c.supervisor.mu.Unlock()
	return c.kept
}

// fail abandons a database, once, and begins to recover it.
func (sv *supervisor) fail(db database, err error) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.db != db || sv.ctx.Err() != nil {
		return // another caller was first, or the store is being closed
	}
	sv.db, sv.full, sv.failure, sv.failedAt, sv.back = nil, nil, unavailable(err), time.Now(), make(chan struct{})
	sv.failures.Add(1)
	recoverable := db.Abandon()
	if !recoverable {
		sv.failure, sv.back = fmt.Errorf("%w; the server must be restarted", sv.failure), nil
	}
	// In the background, so that a slow log does not hold up callers that only ask for the state.
	sv.background.Go(func() {
		sv.logger.Error("the database failed; what needs it is refused until it is back",
			zap.Error(err), zap.String("dir", sv.options.Dir))
		if recoverable {
			sv.recover(db)
		}
	})
}

// recover reopens the database after it was abandoned, and tries until that succeeds or the supervisor is stopped.
func (sv *supervisor) recover(old database) {
	began := time.Now()
	// The directory is locked until the old process has ended.
	late := time.NewTimer(sv.timing.releaseWait)
	defer late.Stop()
	select {
	case <-old.Released():
	case <-late.C:
	case <-sv.ctx.Done():
	}
	for backoff := sv.timing.firstBackoff; ; backoff = min(2*backoff, sv.timing.maxBackoff) {
		select {
		case <-sv.ctx.Done():
			return
		case <-time.After(backoff):
		}
		err := sv.reopen()
		if err == nil {
			sv.logger.Info("the database is back",
				zap.Duration("after", time.Since(began)), zap.String("dir", sv.options.Dir))
			return
		}
		if errors.Is(err, disk.ErrLocked) && !released(old) {
			err = unavailable(fmt.Errorf("the process that had the database in %s open was killed and does not end",
				sv.options.Dir))
		}
		sv.mu.Lock()
		news := sv.failure.Error() != err.Error()
		sv.failure = err
		sv.mu.Unlock()
		if news {
			sv.logger.Error("the database cannot be opened again; it is tried until it can",
				zap.Error(err), zap.String("dir", sv.options.Dir))
		}
	}
}

// released reports whether an abandoned database has released its directory.
func released(db database) bool {
	select {
	case <-db.Released():
		return true
	default:
		return false
	}
}

// reopen opens the database, brings it to what was acknowledged and begins a new generation.
func (sv *supervisor) reopen() error {
	o := sv.options
	o.Rewrite = true
	db, err := sv.open(sv.ctx, o)
	if errors.Is(err, disk.ErrLocked) {
		// The old process holds the lock: it cannot end while it waits for the disk.
		err = fmt.Errorf("the disk does not answer: "+
			"the database's process, which was given up, still waits for it (%w)", err)
	}
	if err != nil {
		return unavailable(err)
	}
	watchdog := time.AfterFunc(sv.timing.sync, func() { db.Abandon() })
	defer watchdog.Stop()
	sv.order.Lock()
	defer sv.order.Unlock()
	for undo := false; ; undo = true {
		if err := sv.replay(db, undo); err != nil {
			db.Abandon()
			return unavailable(err)
		}
		if sv.begin(db, undo) {
			return nil
		}
		// A caller has stopped waiting meanwhile, and was told that its change is refused.
	}
}

// begin begins a new generation with a database that holds what was acknowledged. It returns false if changes were
// refused and are not undone yet.
func (sv *supervisor) begin(db database, undone bool) bool {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.generation.refused && !undone {
		return false
	}
	sv.generation.ended = true
	sv.unsynced, sv.changes, sv.generation = replayBuffer{}, nil, new(generation)
	sv.reopened()
	sv.db, sv.failure, sv.full = db, nil, nil
	sv.watch(db)
	close(sv.back)
	return true
}

// replay writes again what a failure may have taken, undoes refused changes, the last one first, and syncs. If undo
// is false, only those changes are undone whose write failed.
func (sv *supervisor) replay(db database, undo bool) error {
	entries, err := sv.unsynced.entries()
	if err != nil {
		return err
	}
	for _, c := range slices.Backward(sv.changes) {
		if undo || c.failed {
			entries = append(entries, c.undo...)
		}
	}
	for entries := lastOfEach(entries); len(entries) > 0; {
		n, size := 0, 0
		for n < min(len(entries), replayEntries) && size < replayBytes {
			size += len(entries[n].Key) + len(entries[n].Value)
			n++
		}
		if err := db.Write(entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return db.Sync()
}

// lastOfEach returns the last change of each record. Earlier ones must not reappear, not even for a moment: a process
// that is killed then would leave them behind.
func lastOfEach(changes []disk.Entry) (left []disk.Entry) {
	seen := make(map[string]bool)
	for _, e := range slices.Backward(changes) {
		if !seen[string(e.Key)] {
			seen[string(e.Key)] = true
			left = append(left, e)
		}
	}
	slices.Reverse(left)
	return left
}

// checkIdle checks, while nobody writes, whether the database could be written.
func (sv *supervisor) checkIdle() {
	ticker := time.NewTicker(sv.timing.check)
	defer ticker.Stop()
	for {
		select {
		case <-sv.ctx.Done():
			return
		case <-ticker.C:
		}
		sv.mu.Lock()
		db, full := sv.db, sv.full
		sv.mu.Unlock()
		switch {
		case db == nil:
		case full != nil:
			sv.order.Lock()
			_, _ = sv.writeOnce(nil, nil) // noteFull notes what came of it
			sv.order.Unlock()
		default:
			// A check waits for a sync that is under way: it gets the timeout of a sync.
			sv.noteFull(db, sv.call(db, sv.timing.sync, func(db database) error { return db.Check() }))
		}
	}
}
