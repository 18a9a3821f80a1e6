// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

const (
	// mostUnsynced is the most that power loss can take of the counts: an older commit is synced before it is acknowledged.
	mostUnsynced = time.Second
	// replayPart is how many changes are written again at a time.
	replayPart = 1000
)

// pace says how long a keeper waits.
type pace struct {
	// call is how long a call of the database may take before the database is given up, sync how long a sync may.
	call, sync time.Duration
	// patience is how long after a failure calls wait for the database to come back before they are refused.
	patience time.Duration
	// A database that was given up is opened again after firstPause, then after twice as long each time up to longestPause.
	firstPause, longestPause time.Duration
	// check is how often it is looked, when nothing is written, whether the database could be written.
	check time.Duration
}

// usualPace is that of everything but tests.
func usualPace() pace {
	return pace{
		call: 15 * time.Second, sync: time.Minute, patience: 2 * time.Second,
		firstPause: 20 * time.Millisecond, longestPause: 5 * time.Second, check: 5 * time.Second,
	}
}

// keeper owns the database. When the database fails, the keeper stops everybody who needs it, gives it up, opens it again,
// writes once more what was written since the last successful sync, takes back what was refused meanwhile, syncs, and lets
// everybody go on. A failed sync is such a failure: what the kernel holds then and what the disk holds may differ, and a
// second sync would not tell.
type keeper struct {
	options disk.Options
	open    opener
	logger  *zap.Logger
	pace    pace
	// reopened is called when the database was opened again, before anybody uses it.
	reopened func()

	// order is held while something is written, so that the journal has the order of the database.
	order   sync.Mutex
	journal journal

	mu sync.Mutex
	// db is nil while there is none. failure says why then, failed since when, and back is closed when there is one again.
	db      database
	failure error
	failed  time.Time
	back    chan struct{}
	// era is that of the database that is open, or was open last.
	era *era
	// full says why the last write was refused by a database that is well; nil when it was not.
	full error
	// undo brings back what was there before the changes whose writes failed.
	undo []disk.Entry

	// life ends when the keeper is stopped.
	life       context.Context
	closing    context.CancelFunc
	background sync.WaitGroup
}

// era is the time from one opening of the database to its failure.
type era struct {
	// made counts the changes that can be refused, and synced those of them that survive power loss.
	made, synced uint64
	// refused says that all others are: none of them must be there when the database is back. They are refused together, because
	// one may have been made on top of the other.
	refused bool
	next    *era
}

// stale reports whether something was taken back since an era began that is over.
func (e *era) stale(now *era) bool {
	for ; e != nil && e != now; e = e.next {
		if e.refused {
			return true
		}
	}
	return false
}

// mark says when a change was made.
type mark struct {
	era    *era
	number uint64
}

// start opens the database.
func (k *keeper) start() (err error) {
	k.era = new(era)
	k.life, k.closing = context.WithCancel(context.Background())
	if k.db, err = k.open(k.life, k.options); err != nil {
		k.closing()
		return err
	}
	id := k.db.Identity()
	k.options.Expect = &id
	k.background.Go(k.watch)
	k.follow(k.db)
	return nil
}

// follow notices when a database ends by itself.
func (k *keeper) follow(db database) {
	k.background.Go(func() {
		select {
		case <-db.Done():
			k.fail(db, db.Err())
		case <-k.life.Done():
		}
	})
}

// stop closes the database. Nobody may use it any more but those who are answered with an error.
func (k *keeper) stop() error {
	k.mu.Lock()
	k.closing()
	k.mu.Unlock()
	k.background.Wait()
	k.mu.Lock()
	db, failure := k.db, k.failure
	k.db, k.failure = nil, errClosed
	k.mu.Unlock()
	if db == nil {
		return failure
	}
	if err := db.Close(); err != nil {
		return unavailable(err)
	}
	return nil
}

// health returns nil while everything can be kept.
func (k *keeper) health() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.db == nil {
		return k.failure
	}
	return k.full
}

// await returns the database, waiting a moment for one that has just failed.
func (k *keeper) await() (database, error) {
	for {
		k.mu.Lock()
		db, failure, back, left := k.db, k.failure, k.back, k.pace.patience-time.Since(k.failed)
		k.mu.Unlock()
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
		case <-k.life.Done():
			timer.Stop()
			return nil, failure
		}
	}
}

// use calls the database, and gives it up when that fails or takes too long.
func (k *keeper) use(db database, limit time.Duration, do func(database) error) error {
	watchdog := time.AfterFunc(limit, func() { k.fail(db, fmt.Errorf("the disk has not answered for %v", limit)) })
	err := do(db)
	watchdog.Stop()
	if err == nil {
		return nil
	}
	if !errors.Is(err, disk.ErrFull) {
		k.fail(db, err)
	}
	return unavailable(err)
}

// read is use for what can be done again: it is, once, when the database fails and comes back.
func (k *keeper) read(do func(database) error) error {
	for again := false; ; again = true {
		db, err := k.await()
		if err != nil {
			return err
		}
		if err = k.use(db, k.pace.call, do); err == nil || again {
			return err
		}
	}
}

// get returns the records of some keys.
func (k *keeper) get(keys ...[]byte) (records []disk.Record, err error) {
	err = k.read(func(db database) error {
		records, err = db.Get(keys...)
		return err
	})
	return records, err
}

// scan returns the first records of a range.
func (k *keeper) scan(r disk.Range) (records []disk.Record, next []byte, err error) {
	err = k.read(func(db database) error {
		records, next, err = db.Scan(r)
		return err
	})
	return records, next, err
}

// snapshot returns the database as it is.
func (k *keeper) snapshot() (s snapshot, err error) {
	err = k.read(func(db database) error {
		s, err = db.Snapshot()
		return err
	})
	return s, err
}

// errStale says that a change was made on top of one that was refused meanwhile. It must be made anew.
var errStale = fmt.Errorf("%w: it has failed meanwhile", storage.ErrUnavailable)

// now returns the present era.
func (k *keeper) now() *era {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.era
}

// write makes changes that survive the death of the process when it returns nil. Those that can be refused later say how they
// are taken back, and in which era what they are made from was read: the error is errStale when it does not hold any more. After
// another error they are taken back, or may have been made when they do not say how.
func (k *keeper) write(entries, undo []disk.Entry, basis *era) (at mark, err error) {
	for again := false; ; again = true {
		if _, err := k.await(); err != nil {
			return at, err
		}
		at, err = k.writeOnce(entries, undo, basis)
		if err == nil || again || errors.Is(err, disk.ErrFull) || errors.Is(err, errStale) {
			return at, err
		}
	}
}

func (k *keeper) writeOnce(entries, undo []disk.Entry, basis *era) (at mark, err error) {
	k.order.Lock()
	defer k.order.Unlock()
	k.mu.Lock()
	db, failure := k.db, k.failure
	at.era = k.era
	stale := basis.stale(k.era)
	k.mu.Unlock()
	if db == nil {
		return at, failure
	}
	if stale {
		return at, errStale
	}
	err = k.use(db, k.pace.call, func(db database) error { return db.Write(entries) })
	k.noteFull(db, err)
	if err != nil && !errors.Is(err, disk.ErrFull) {
		// The database is given up, and is not back before this returns.
		k.mu.Lock()
		k.undo = append(k.undo, undo...)
		k.mu.Unlock()
	}
	if err != nil {
		return at, err
	}
	k.journal.add(entries, undo, time.Now())
	k.mu.Lock()
	at.era.made++
	at.number = at.era.made
	k.mu.Unlock()
	return at, nil
}

// noteFull notes whether a database that is well takes writes.
func (k *keeper) noteFull(db database, err error) {
	if err != nil && !errors.Is(err, disk.ErrFull) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.db == db && (k.full == nil) != (err == nil) {
		if k.full = err; err != nil {
			k.logger.Error("nothing can be written", zap.Error(err))
		} else {
			k.logger.Info("everything is written again")
		}
	}
}

// sync makes what was written before survive power loss.
func (k *keeper) sync() error {
	for {
		if _, err := k.await(); err != nil {
			return err
		}
		k.order.Lock()
		k.mu.Lock()
		db, now := k.db, k.era
		made := now.made
		k.mu.Unlock()
		if db == nil {
			k.order.Unlock()
			continue // it has just failed
		}
		k.journal.begin()
		k.order.Unlock()
		if err := k.use(db, k.pace.sync, func(db database) error { return db.Sync() }); err != nil {
			return err
		}
		k.order.Lock()
		defer k.order.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.era == now {
			k.journal.end()
			now.synced = made
		}
		return nil
	}
}

// overdue reports whether something was written longer ago than power loss may take.
func (k *keeper) overdue() bool {
	k.order.Lock()
	defer k.order.Unlock()
	return !k.journal.oldest.IsZero() && time.Since(k.journal.oldest) > mostUnsynced
}

// settled says what becomes of a change after a sync that was to keep it and ended with err. It returns nil when the change is
// kept, also after an error: it was synced before, or the database is back, which has what the journal held. Otherwise it is
// refused, and taken back before anybody uses the database again.
func (k *keeper) settled(at mark, err error) error {
	if err != nil {
		_, _ = k.await()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case at.number <= at.era.synced:
		return nil
	case at.era.refused:
		return errRefused // the sync may have been one of a later era
	case at.era != k.era || err == nil:
		return nil
	}
	at.era.refused = true
	return err
}

// errRefused says that a change was taken back with others.
var errRefused = fmt.Errorf("%w: the database has failed meanwhile", storage.ErrUnavailable)

// kept is settled for a change that is not taken back: whoever made it makes it good with another one.
func (k *keeper) kept(at mark, err error) error {
	_, _ = k.await()
	k.mu.Lock()
	defer k.mu.Unlock()
	if at.era != k.era {
		return nil
	}
	return err
}

// fail gives a database up, once.
func (k *keeper) fail(db database, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.db != db || k.life.Err() != nil {
		return // somebody else was first, or the error is for whoever closes
	}
	k.db, k.full, k.failure, k.failed, k.back = nil, nil, unavailable(err), time.Now(), make(chan struct{})
	k.logger.Error("the database failed; what needs it is refused until it is back", zap.Error(err), zap.String("dir", k.options.Dir))
	if !db.Abandon() {
		k.failure, k.back = fmt.Errorf("%w; the server must be restarted", k.failure), nil
		return
	}
	k.background.Go(k.recover)
}

// recover opens the database again, as often as it takes.
func (k *keeper) recover() {
	began := time.Now()
	for pause := k.pace.firstPause; ; pause = min(2*pause, k.pace.longestPause) {
		select {
		case <-k.life.Done():
			return
		case <-time.After(pause):
		}
		err := k.reopen()
		if err == nil {
			k.logger.Info("the database is back", zap.Duration("after", time.Since(began)), zap.String("dir", k.options.Dir))
			return
		}
		k.mu.Lock()
		if k.failure.Error() != err.Error() {
			k.logger.Error("the database cannot be opened again; it is tried until it can", zap.Error(err), zap.String("dir", k.options.Dir))
		}
		k.failure = err
		k.mu.Unlock()
	}
}

// reopen opens the database and brings it to what was acknowledged.
func (k *keeper) reopen() error {
	o := k.options
	o.Rewrite = true
	db, err := k.open(k.life, o)
	if errors.Is(err, disk.ErrLocked) {
		// Nobody else has it: a process cannot end while it waits for the disk.
		err = fmt.Errorf("the disk does not answer: the database's process, which was given up, still waits for it (%w)", err)
	}
	if err != nil {
		return unavailable(err)
	}
	watchdog := time.AfterFunc(k.pace.sync, func() { db.Abandon() })
	defer watchdog.Stop()
	k.order.Lock()
	defer k.order.Unlock()
	if err := k.replay(db); err != nil {
		db.Abandon()
		return unavailable(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// What was refused since then is taken back before anybody else may write: what failed last was made last.
	undo := k.undo
	if k.era.refused {
		undo = slices.Concat(undo, k.journal.undo())
	}
	if len(undo) > 0 {
		if err := errors.Join(write(db, undo), db.Sync()); err != nil {
			db.Abandon()
			return unavailable(err)
		}
	}
	k.journal = journal{}
	k.reopened()
	k.db, k.failure, k.full, k.undo = db, nil, nil, nil
	k.era.next = new(era)
	k.era = k.era.next
	k.follow(db)
	close(k.back)
	return nil
}

// replay writes again what a failure may have taken.
func (k *keeper) replay(db database) error {
	entries, err := k.journal.entries()
	if err != nil {
		return err
	}
	return errors.Join(write(db, entries), db.Sync())
}

// write writes many changes.
func write(db database, entries []disk.Entry) error {
	for len(entries) > 0 {
		part := entries[:min(len(entries), replayPart)]
		if err := db.Write(part); err != nil {
			return err
		}
		entries = entries[len(part):]
	}
	return nil
}

// watch looks whether the database could be written when nobody writes.
func (k *keeper) watch() {
	ticker := time.NewTicker(k.pace.check)
	defer ticker.Stop()
	for {
		select {
		case <-k.life.Done():
			return
		case <-ticker.C:
		}
		k.mu.Lock()
		db, full := k.db, k.full
		k.mu.Unlock()
		switch {
		case db == nil:
		case full != nil:
			_, _ = k.writeOnce(nil, nil, nil) // its outcome is noted
		default:
			k.noteFull(db, k.use(db, k.pace.call, func(db database) error { return db.Check() }))
		}
	}
}
