// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

const (
	// shards is the number of locks of the table of tallies.
	shards = 32
	// sweepInterval is the interval at which unused windows and idle tallies are dropped from memory.
	sweepInterval = 10 * time.Second
	// idleSweeps is how many sweeps an unused tally survives.
	idleSweeps = 12
	// maxDays is the length of the daily history that can be asked for.
	maxDays = 40
)

// counters holds the tallies of active accounts and the writer that commits them.
//
// Locks are taken in the order: committing, a tally's, mu or a shard's.
type counters struct {
	store  *Store
	seed   maphash.Seed
	shards [shards]shard
	sweeps atomic.Int64
	// generation counts the generations of the database.
	generation atomic.Int64

	// committing is held while a batch is under way to the database.
	committing sync.Mutex
	wake       chan struct{}
	ended      chan error

	mu      sync.Mutex
	open    *batch
	stopped bool
}

type shard struct {
	mu      sync.RWMutex
	tallies map[string]*tally
}

// batch is what one commit writes. Everybody who waits for a change that was made while the batch was open waits for
// done.
type batch struct {
	tallies []*tally
	done    chan struct{}
	err     error // set before done is closed
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// committed reports whether the batch is committed.
func (b *batch) committed() bool {
	select {
	case <-b.done:
		return b.err == nil
	default:
		return false
	}
}

// wait returns when the batch is committed or has failed.
func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	default:
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *counters) start(s *Store) {
	c.store = s
	c.seed = maphash.MakeSeed()
	for i := range c.shards {
		c.shards[i].tallies = make(map[string]*tally)
	}
	c.open = newBatch()
	c.wake = make(chan struct{}, 1)
	c.ended = make(chan error)
	go c.write()
}

func (c *counters) shard(account string) *shard {
	return &c.shards[maphash.String(c.seed, account)%shards]
}

// find returns the tally of an account if there is one. It may have been removed by the time that it is locked.
func (c *counters) find(account string) (*tally, bool) {
	sh := c.shard(account)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	t, ok := sh.tallies[account]
	return t, ok
}

// lock returns the tally of an account, locked. The caller unlocks it.
func (c *counters) lock(account string) *tally {
	for {
		t, ok := c.find(account)
		if !ok {
			sh := c.shard(account)
			sh.mu.Lock()
			if t, ok = sh.tallies[account]; !ok {
				t = newTally(account)
				sh.tallies[account] = t
			}
			sh.mu.Unlock()
		}
		t.mu.Lock()
		if !t.removed {
			t.lastUsed = c.sweeps.Load()
			if generation := c.generation.Load(); t.generation != generation {
				t.generation = generation
				t.reset()
			}
			return t
		}
		t.mu.Unlock()
	}
}

// remove takes a locked tally out of the table. Callers that wait for its lock look for another one.
func (c *counters) remove(t *tally) {
	t.removed = true
	sh := c.shard(t.account)
	sh.mu.Lock()
	delete(sh.tallies, t.account)
	sh.mu.Unlock()
}

// enqueue puts a locked tally on the open batch.
func (c *counters) enqueue(t *tally) error {
	if t.dirty {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errClosed
	}
	t.dirty = true
	c.open.tallies = append(c.open.tallies, t)
	return nil
}

// pending returns the batch with which the present counts of a locked tally are committed, nil if they are committed
// already.
//
// For a dirty tally that is the open batch, even if the writer is about to take the tally over for the batch before:
// if that one fails, the tally joins the open batch before this is committed.
func (c *counters) pending(t *tally) (*batch, error) {
	if !t.dirty {
		return t.batch, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, errClosed
	}
	c.wakeWriter()
	return c.open, nil
}

func (c *counters) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Take implements [quota.Counters].
func (s *Store) Take(ctx context.Context, charge quota.Charge) (quota.Counts, quota.Window, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	t := s.counters.lock(charge.Account)
	defer t.mu.Unlock()
	isCurrent, err := s.isCurrent(t, charge)
	if err == nil && !isCurrent {
		err = fmt.Errorf("account %s: %w", charge.Account, quota.ErrNotFound)
	}
	if err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	minute, day, period, err := s.windows(t, charge.Now, charge.Period)
	if err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	counts := quota.Counts{Minute: minute.count, Day: day.count, Period: period.count}
	n, limits := charge.Requests, charge.Limits
	if limits.RequestsPerMonth > 0 && n > limits.RequestsPerMonth-period.count {
		return counts, quota.MonthWindow, nil
	}
	if limits.RequestsPerMinute > 0 && n > limits.RequestsPerMinute-minute.count {
		return counts, quota.MinuteWindow, nil
	}
	key, err := s.keyCount(t.account, period, charge.Key)
	if err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	if err := s.counters.enqueue(t); err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	t.minutes.count(minute, n)
	t.days.count(day, n)
	t.periods.count(period, n)
	period.add(key, n)
	if charge.Key != "" {
		t.use(charge.Key, day.start)
	}
	return quota.Counts{Minute: minute.count, Day: day.count, Period: period.count}, quota.NoWindow, nil
}

// windows returns the windows that hold at an instant. The pointers are valid until the tally is unlocked.
func (s *Store) windows(t *tally, now time.Time, p quota.Period) (minute, day, period *window, err error) {
	if minute, err = s.window(t.account, &t.minutes, minuteOf(now)); err != nil {
		return nil, nil, nil, err
	}
	day, period, err = s.longWindows(t, now, p)
	return minute, day, period, err
}

// longWindows returns the windows that an outcome may change.
func (s *Store) longWindows(t *tally, now time.Time, p quota.Period) (day, period *window, err error) {
	if day, err = s.window(t.account, &t.days, dayOf(now)); err != nil {
		return nil, nil, err
	}
	period, err = s.window(t.account, &t.periods, p.Start.Unix())
	return day, period, err
}

// settled is what an outcome may change.
type settled struct {
	day, period *window
	key         *keyCount
}

// settled returns what the outcome of a charge may change. The pointers are valid until the tally is unlocked.
func (s *Store) settled(t *tally, charge quota.Charge) (w settled, err error) {
	if w.day, w.period, err = s.longWindows(t, charge.Now, charge.Period); err == nil {
		w.key, err = s.keyCount(t.account, w.period, charge.Key)
	}
	return w, err
}

// Record implements [quota.Counters].
func (s *Store) Record(charge quota.Charge, outcome quota.Outcome) quota.Settlement {
	settling := s.record(charge, outcome)
	return &settling
}

// Settle implements [quota.Counters].
func (s *Store) Settle(ctx context.Context, charge quota.Charge, outcome quota.Outcome) error {
	settling := s.record(charge, outcome)
	return settling.Wait(ctx)
}

// settlement is an outcome that reaches the database with a batch. Without a batch it is committed already, or err
// says why not.
type settlement struct {
	store   *Store
	charge  quota.Charge
	outcome quota.Outcome
	batch   *batch
	err     error
}

// record changes the tally and wakes the writer.
func (s *Store) record(charge quota.Charge, outcome quota.Outcome) settlement {
	if s.closed.Load() {
		return settlement{err: errClosed}
	}
	b, err := s.settle(charge, outcome)
	return settlement{store: s, charge: charge, outcome: outcome, batch: b, err: err}
}

// Wait implements [quota.Settlement].
func (s *settlement) Wait(ctx context.Context) error {
	if s.err != nil || s.batch == nil {
		return s.err
	}
	err := s.batch.wait(ctx)
	if errors.Is(err, storage.ErrUnavailable) {
		s.store.rollBack(s.charge, s.outcome)
	}
	return err
}

// rollBack takes a charge and its outcome back in memory, because the caller will be told that the call failed. That
// reaches the database with a later batch. The minute keeps its count, as with a refund.
func (s *Store) rollBack(charge quota.Charge, outcome quota.Outcome) {
	t := s.counters.lock(charge.Account)
	defer t.mu.Unlock()
	if isCurrent, err := s.isCurrent(t, charge); err != nil || !isCurrent {
		return // the account was deleted, or the store closed, meanwhile
	}
	w, err := s.settled(t, charge)
	if err != nil || s.counters.enqueue(t) != nil {
		return // closed meanwhile
	}
	if !outcome.Refund {
		w.refund(charge)
	}
	w.period.flag(outcome.Flagged, -1)
}

// refund gives requests back to windows that exist.
func (w settled) refund(charge quota.Charge) {
	for _, w := range []*window{w.day, w.period} {
		if w.exists {
			w.count = max(w.count-charge.Requests, 0)
			w.dirty = true
		}
	}
	w.period.add(w.key, -charge.Requests)
}

// flag adds n to the counts of categories in a window that exists.
func (w *window) flag(categories []string, n int64) {
	if !w.exists || len(categories) == 0 {
		return
	}
	if w.flagged == nil {
		w.flagged = make(map[string]int64)
	}
	for _, category := range categories {
		w.flagged[category] = max(w.flagged[category]+n, 0)
	}
	w.dirty = true
}

// settle changes the tally and returns the batch to wait for, if any.
func (s *Store) settle(charge quota.Charge, outcome quota.Outcome) (*batch, error) {
	t := s.counters.lock(charge.Account)
	defer t.mu.Unlock()
	if isCurrent, err := s.isCurrent(t, charge); err != nil || !isCurrent {
		return nil, err
	}
	if outcome.Refund || len(outcome.Flagged) > 0 {
		w, err := s.settled(t, charge)
		if err != nil {
			return nil, err
		}
		if err := s.counters.enqueue(t); err != nil {
			return nil, err
		}
		if outcome.Refund {
			w.refund(charge)
		}
		w.period.flag(outcome.Flagged, 1)
	}
	return s.counters.pending(t)
}

// Counts implements [quota.Counters].
func (s *Store) Counts(ctx context.Context, account string, now time.Time, p quota.Period) (quota.Counts, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Counts{}, err
	}
	t := s.counters.lock(account)
	defer t.mu.Unlock()
	minute, day, period, err := s.windows(t, now, p)
	if err != nil {
		return quota.Counts{}, err
	}
	return quota.Counts{Minute: minute.count, Day: day.count, Period: period.count}, nil
}

// Days implements [quota.Counters].
func (s *Store) Days(ctx context.Context, account string, now time.Time, n int) ([]int64, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	n = min(max(n, 0), maxDays)
	counts := make([]int64, n)
	today := dayOf(now)
	// The tally is locked, so that no day is committed and dropped from memory between the scan and the loop after it.
	t := s.counters.lock(account)
	defer t.mu.Unlock()
	if !t.days.listed {
		if err := s.listWindows(account, &t.days, nil); err != nil {
			return nil, err
		}
	}
	prefix := ownedPrefix('d', account)
	for r, err := range s.scan(prefix, appendWindow(nil, 'd', account, today-int64(n)+1)) {
		if err != nil {
			return nil, err
		}
		start := sortable(r.Key[len(prefix):])
		ago := today - start
		if ago < 0 || ago >= int64(n) {
			continue
		}
		if _, exists := slices.BinarySearch(t.days.starts, start); !exists {
			continue // evicted, and not deleted yet
		}
		err := r.decode(func(v []byte) error {
			_, err := decodeCounts(v, &counts[ago])
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, w := range t.days.cached {
		if ago := today - w.start; w.exists && ago >= 0 && ago < int64(n) {
			counts[ago] = w.count
		}
	}
	return counts, nil
}

// Flagged implements [quota.Counters].
func (s *Store) Flagged(ctx context.Context, account string, p quota.Period) (map[string]int64, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	t := s.counters.lock(account)
	defer t.mu.Unlock()
	period, err := s.window(account, &t.periods, p.Start.Unix())
	if err != nil {
		return nil, err
	}
	flagged := make(map[string]int64, len(period.flagged))
	for category, count := range period.flagged {
		if count > 0 {
			flagged[category] = count
		}
	}
	return flagged, nil
}

// KeyRequests implements [quota.Counters].
func (s *Store) KeyRequests(ctx context.Context, account string, p quota.Period) (map[string]int64, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	// The tally is locked, so that no count is committed and dropped from memory between the scan and the loop after
	// it.
	t := s.counters.lock(account)
	defer t.mu.Unlock()
	period, err := s.window(account, &t.periods, p.Start.Unix())
	if err != nil {
		return nil, err
	}
	requests := make(map[string]int64)
	if !period.exists {
		return requests, nil
	}
	if !period.begun {
		prefix := appendWindow(nil, 'q', account, period.start)
		for r, err := range s.scan(prefix, nil) {
			var count int64
			if err == nil {
				err = r.decode(func(v []byte) error {
					_, err := decodeCounts(v, &count)
					return err
				})
			}
			if err != nil {
				return nil, err
			}
			requests[string(r.Key[len(prefix):])] = count
		}
	}
	for id, k := range period.keys {
		requests[id] = k.count
	}
	maps.DeleteFunc(requests, func(_ string, count int64) bool { return count == 0 })
	return requests, nil
}

// write is the writer: it commits when somebody waits, and every syncInterval what nobody waits for.
func (c *counters) write() {
	flush, sweep := time.NewTicker(syncInterval), time.NewTicker(sweepInterval)
	defer flush.Stop()
	defer sweep.Stop()
	var scratch scratch
	for {
		select {
		case _, open := <-c.wake:
			// Let other callers join the batch: a commit costs the same for one and for many.
			runtime.Gosched()
			err := c.commit(&scratch)
			if !open {
				c.ended <- err
				return
			}
		case <-flush.C:
			// Nobody waits for this commit. The next batch tries again.
			_ = c.commit(&scratch)
		case <-sweep.C:
			c.sweep()
		}
	}
}

// stop commits what is left and ends the writer. Later changes are refused.
func (c *counters) stop() error {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	// Nobody sends on wake any more: wakeWriter is called with mu held and not after stopped is set.
	close(c.wake)
	return <-c.ended
}

// scratch is memory that the next commit uses again.
type scratch struct {
	entries []disk.Entry
	buf     []byte
}

// commit writes the open batch and opens the next.
func (c *counters) commit(scratch *scratch) error {
	c.committing.Lock()
	defer c.committing.Unlock()
	c.mu.Lock()
	b := c.open
	c.open = newBatch()
	c.mu.Unlock()
	if len(b.tallies) == 0 {
		// What its waiters wait for was committed with the batch before.
		close(b.done)
		return nil
	}
	entries, buf := scratch.entries[:0], scratch.buf[:0]
	for _, t := range b.tallies {
		t.mu.Lock()
		if !t.removed {
			var err error
			entries, buf, err = c.store.changes(t, entries, buf)
			b.err = cmp.Or(b.err, err)
			t.batch, t.dirty = b, false // failed puts it on the open batch
		}
		t.mu.Unlock()
	}
	if b.err == nil {
		b.err = c.store.writeCounts(entries)
	}
	if b.err != nil {
		c.failed(b)
	}
	scratch.recycle(entries, buf)
	close(b.done)
	return b.err
}

// recycle takes memory back, unless a burst has made it large.
func (s *scratch) recycle(entries []disk.Entry, buf []byte) {
	clear(entries)
	if cap(buf) > 1<<20 {
		entries, buf = nil, nil
	}
	s.entries, s.buf = entries, buf
}

// failed puts the tallies of a batch on the open one.
func (c *counters) failed(b *batch) {
	for _, t := range b.tallies {
		t.mu.Lock()
		if !t.removed {
			t.markAllDirty()
			c.mu.Lock()
			if !t.dirty {
				t.dirty = true
				c.open.tallies = append(c.open.tallies, t)
			}
			c.mu.Unlock()
		}
		t.mu.Unlock()
	}
}

// writeCounts writes counts. If the last sync is too long ago, it waits for the next one.
func (s *Store) writeCounts(entries []disk.Entry) error {
	g, overdue, err := s.supervisor.write(entries)
	if err != nil {
		return err
	}
	s.syncer.dirty.Store(true)
	if !overdue {
		return nil
	}
	if err = s.syncer.join().wait(); err == nil {
		return nil
	}
	return s.supervisor.survived(g, err)
}

// sweep drops from memory what is committed and was not used for a while.
func (c *counters) sweep() {
	c.committing.Lock()
	defer c.committing.Unlock()
	now := c.sweeps.Add(1)
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.RLock()
		tallies := make([]*tally, 0, len(sh.tallies))
		for _, t := range sh.tallies {
			tallies = append(tallies, t)
		}
		sh.mu.RUnlock()
		for _, t := range tallies {
			t.mu.Lock()
			if !t.dirty && !t.removed {
				t.trim()
				if now-t.lastUsed > idleSweeps {
					c.remove(t)
				}
			}
			t.mu.Unlock()
		}
	}
}
