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
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

const (
	// mostUnsynced is the most that power loss can take of the counts: an older commit is synced before it is acknowledged.
	mostUnsynced = time.Second
	// replayEntries and replayBytes are how many changes are written again at a time.
	replayEntries, replayBytes = 1000, 1 << 20
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
	// gone is how long a database that was given up is waited for to let go of its directory before it is opened again.
	gone time.Duration
}

// usualPace is that of everything but tests.
func usualPace() pace {
	return pace{
		call: 15 * time.Second, sync: time.Minute, patience: 2 * time.Second,
		firstPause: 20 * time.Millisecond, longestPause: 5 * time.Second, check: 5 * time.Second,
		gone: time.Second,
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

	// order is held while something is written, so that the journal has the order of the database. It is taken before mu.
	order   sync.Mutex
	journal journal

	mu sync.Mutex
	// db is nil while there is none. failure says why then, failed since when, and back is closed when there is one again.
	db      database
	failure error
	failed  time.Time
	back    chan struct{}
	// era is the present one.
	era *era
	// changes are those of the era that are not known to be synced, in the order in which they were written. It is changed with
	// order held, too.
	changes []*change
	// full says why the last write was refused by a database that is well; nil when it was not.
	full error

	// life ends when the keeper is stopped.
	life       context.Context
	closing    context.CancelFunc
	background sync.WaitGroup
}

// era is the time from one opening of the database to the next. Changes of an era that wait for a sync are kept or refused
// together: one may build on what another wrote.
type era struct {
	// over says that the database was opened again, refused that somebody was told before that a change is refused.
	over, refused bool
}

// change is a change that is made and may not survive power loss yet.
type change struct {
	keeper *keeper
	era    *era
	round  *round
	// undo brings back what was there before.
	undo []disk.Entry
	// kept says that it is synced, failed that it was refused when it was written.
	kept, failed bool
}

// errReopened says that what a change builds on was read from a database that has been opened again since.
var errReopened = fmt.Errorf("%w: the database was opened again meanwhile", storage.ErrUnavailable)

// start opens the database.
func (k *keeper) start() (err error) {
	k.life, k.closing = context.WithCancel(context.Background())
	if k.db, err = k.open(k.life, k.options); err != nil {
		k.closing()
		return err
	}
	id := k.db.Identity()
	k.options.Expect = &id
	k.era = new(era)
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

// now returns the present era, waiting a moment for a database that has just failed.
func (k *keeper) now() (*era, error) {
	if _, err := k.await(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.era, nil
}

// write makes changes that survive the death of the process when it returns nil, and says in which era, and whether something
// was written longer ago than power loss may take. After an error they may have been made or not.
func (k *keeper) write(entries []disk.Entry) (e *era, overdue bool, err error) {
	for again := false; ; again = true {
		if _, err := k.await(); err != nil {
			return nil, false, err
		}
		k.order.Lock()
		e, err = k.writeOnce(entries, nil)
		overdue = k.journal.overdue(time.Now())
		k.order.Unlock()
		if err == nil || again || errors.Is(err, disk.ErrFull) {
			return e, overdue, err
		}
	}
}

// writeChange makes changes that can be taken back, in the given era or not at all.
func (k *keeper) writeChange(c *change, entries []disk.Entry) error {
	k.order.Lock()
	defer k.order.Unlock()
	_, err := k.writeOnce(entries, c.era)
	if errors.Is(err, disk.ErrFull) || errors.Is(err, errReopened) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// What failed may have been written all the same.
	c.failed = err != nil
	if k.era == c.era {
		k.changes = append(k.changes, c)
	}
	return err
}

// writeOnce writes in the present era or, when one is given, in that one. The caller holds order.
func (k *keeper) writeOnce(entries []disk.Entry, in *era) (*era, error) {
	k.mu.Lock()
	db, failure, e := k.db, k.failure, k.era
	k.mu.Unlock()
	switch {
	case in != nil && in != e:
		return nil, errReopened
	case db == nil:
		return nil, failure
	}
	err := k.use(db, k.pace.call, func(db database) error { return db.Write(entries) })
	k.noteFull(db, err)
	if err == nil {
		k.journal.add(entries, time.Now())
	}
	return e, err
}

// noteFull notes whether a database that is well takes writes.
func (k *keeper) noteFull(db database, err error) {
	if err != nil && !errors.Is(err, disk.ErrFull) {
		return
	}
	k.mu.Lock()
	turned := k.db == db && (k.full == nil) != (err == nil)
	if turned {
		k.full = err
	}
	k.mu.Unlock()
	switch {
	case !turned:
	case err != nil:
		k.logger.Error("nothing can be written", zap.Error(err))
	default:
		k.logger.Info("everything is written again")
	}
}

// sync makes what was written before survive power loss. It is called by one goroutine at a time.
func (k *keeper) sync() error {
	if _, err := k.await(); err != nil {
		return err
	}
	k.order.Lock()
	k.mu.Lock()
	db, failure, e, changes := k.db, k.failure, k.era, len(k.changes)
	k.mu.Unlock()
	k.journal.begin()
	k.order.Unlock()
	if db == nil {
		return failure
	}
	if err := k.use(db, k.pace.sync, func(db database) error { return db.Sync() }); err != nil {
		k.fail(db, err) // whatever it is: nobody knows what is on the disk
		return err
	}
	k.order.Lock()
	defer k.order.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.era != e {
		return errReopened // what was written before is kept, or refused, already
	}
	k.journal.end()
	for _, c := range k.changes[:changes] {
		c.kept = true
	}
	k.changes = slices.Delete(k.changes, 0, changes)
	return nil
}

// settled ends a write whose sync failed with err. It returns nil when the database has been opened again meanwhile: what the
// journal held was written again and synced then.
func (k *keeper) settled(e *era, err error) error {
	_, _ = k.await()
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.over {
		return nil
	}
	return err
}

// wait returns when the change survives power loss, or is refused: then it is taken back when there is a database again, with
// all others that wait.
func (c *change) wait() error {
	k := c.keeper
	err := c.round.wait()
	if err != nil {
		_, _ = k.await()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.kept || c.era.over && !c.era.refused {
		return nil
	}
	// A round that has succeeded may be one of the next era.
	c.era.refused = true
	return cmp.Or(err, errReopened)
}

// fail gives a database up, once.
func (k *keeper) fail(db database, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.db != db || k.life.Err() != nil {
		return // somebody else was first, or the error is for whoever closes
	}
	k.db, k.full, k.failure, k.failed, k.back = nil, nil, unavailable(err), time.Now(), make(chan struct{})
	recoverable := db.Abandon()
	if !recoverable {
		k.failure, k.back = fmt.Errorf("%w; the server must be restarted", k.failure), nil
	}
	// A log that takes its time does not hold up who only asks for the state.
	k.background.Go(func() {
		k.logger.Error("the database failed; what needs it is refused until it is back", zap.Error(err), zap.String("dir", k.options.Dir))
		if recoverable {
			k.recover(db)
		}
	})
}

// recover opens the database again, as often as it takes, when it was given up.
func (k *keeper) recover(old database) {
	began := time.Now()
	// While the old process is about to end, the directory is locked.
	late := time.NewTimer(k.pace.gone)
	defer late.Stop()
	select {
	case <-old.Gone():
	case <-late.C:
	case <-k.life.Done():
	}
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
		if errors.Is(err, disk.ErrLocked) && !gone(old) {
			err = unavailable(fmt.Errorf("the process that had the database in %s open was killed and does not end", k.options.Dir))
		}
		k.mu.Lock()
		news := k.failure.Error() != err.Error()
		k.failure = err
		k.mu.Unlock()
		if news {
			k.logger.Error("the database cannot be opened again; it is tried until it can", zap.Error(err), zap.String("dir", k.options.Dir))
		}
	}
}

// gone reports whether a database that was given up has let go of its directory.
func gone(db database) bool {
	select {
	case <-db.Gone():
		return true
	default:
		return false
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
	for refused := false; ; refused = true {
		if err := k.replay(db, refused); err != nil {
			db.Abandon()
			return unavailable(err)
		}
		if k.settle(db, refused) {
			return nil
		}
		// Somebody's patience has ended meanwhile.
	}
}

// settle begins a new era with a database that holds what was acknowledged. It reports false when changes were refused that
// are still there.
func (k *keeper) settle(db database, undone bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.era.refused && !undone {
		return false
	}
	k.era.over = true
	k.journal, k.changes, k.era = journal{}, nil, new(era)
	k.reopened()
	k.db, k.failure, k.full = db, nil, nil
	k.follow(db)
	close(k.back)
	return true
}

// replay writes again what a failure may have taken, and takes back what was refused, the last change first.
func (k *keeper) replay(db database, refused bool) error {
	entries, err := k.journal.entries()
	if err != nil {
		return err
	}
	for _, c := range slices.Backward(k.changes) {
		if refused || c.failed {
			entries = append(entries, c.undo...)
		}
	}
	for entries := last(entries); len(entries) > 0; {
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

// last returns the last change of each record. Those before it are not to be there again, not even for a moment: whoever kills
// the process then would find them.
func last(changes []disk.Entry) (left []disk.Entry) {
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
			k.order.Lock()
			_, _ = k.writeOnce(nil, nil) // its outcome is noted
			k.order.Unlock()
		default:
			// A check waits for a sync that is under way.
			k.noteFull(db, k.use(db, k.pace.sync, func(db database) error { return db.Check() }))
		}
	}
}
