// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// A change of a record is a swap: the server replaces the value if it is what the node took it for. No two writes have
// the same value (see [seal]), so a swap that is sent again after a lost answer does no harm.
//
// Each swap names the last millisecond of the server's clock in which it may be done. When that has passed and no
// answer has come, the swap is taken back: what was sent before can no longer arrive. Until this is known, Health
// returns an error and changes wait.

var (
	//go:embed scripts/swap.lua
	swapLua string
	//go:embed scripts/unswap.lua
	unswapLua string

	swapScript   = newRepeatable(swapLua)
	unswapScript = newRepeatable(unswapLua)
)

// until returns the last millisecond of the server's clock for what is done within ctx, which has a deadline.
func (l *link) until(ctx context.Context) string {
	deadline, _ := ctx.Deadline()
	return strconv.FormatInt(l.clock.now().Add(time.Until(deadline)).UnixMilli(), 10)
}

// timed evaluates a script whose answer begins with an outcome and the server's time, and reads the clock from it.
func (l *link) timed(
	ctx context.Context, script *rueidis.Lua, keys, args []string,
) (outcome string, rest []rueidis.RedisMessage, err error) {
	sent := monotonic()
	m, err := l.eval(ctx, script, keys, args)
	if err != nil {
		return "", nil, err
	}
	return l.readTimed(sent, m)
}

// readTimed reads the answer of a script that [link.timed] evaluates.
func (l *link) readTimed(
	sent time.Duration, m rueidis.RedisMessage,
) (outcome string, rest []rueidis.RedisMessage, err error) {
	values, err := m.ToArray()
	if err != nil || len(values) < 2 {
		return "", nil, errAnswer
	}
	outcome, err = values[0].ToString()
	ms, err2 := values[1].AsInt64()
	if errors.Join(err, err2) != nil {
		return "", nil, errAnswer
	}
	l.clock.observe(sent, monotonic(), time.UnixMilli(ms), time.Millisecond)
	return outcome, values[2:], nil
}

// What a script says came of it.
const (
	done  = "done"
	other = "other"
	late  = "late"
	early = "early"
)

// voidable evaluates a script that does nothing after an instant of the server's clock and then says "late". The
// instant is the last argument. What takes back undoes the script if its outcome is not known: it is called with the
// arguments of the script, until it says "done".
func (s *Store) voidable(
	ctx context.Context, script, back *rueidis.Lua, keys, args []string,
) (outcome string, rest []rueidis.RedisMessage, err error) {
	s.fresh.begin(keys...)
	defer s.fresh.end(keys...)
	for {
		with := append(args[:len(args):len(args)], s.link.until(ctx))
		outcome, rest, err = s.evalAcknowledged(ctx, script, keys, with)
		switch {
		case err != nil:
			if !errors.As(err, new(notSent)) {
				s.undo(back, keys, with)
			}
			return "", nil, err
		case outcome == late && ctx.Err() != nil:
			return "", nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, errTimeout)
		case outcome != late:
			return outcome, rest, nil
		}
		// The server's clock is ahead of what was known of it. Now it is known.
	}
}

// swap replaces a record, and returns what is there if it is not what it was taken for: then outcome is other.
func (s *Store) swap(ctx context.Context, name, was, becomes string) (outcome, is string, err error) {
	outcome, rest, err := s.voidable(ctx, swapScript, unswapScript, []string{name}, []string{was, becomes})
	if err != nil {
		return "", "", err
	}
	if len(rest) != 1 {
		return "", "", errAnswer
	}
	is, err = rest[0].ToString()
	if err != nil {
		return "", "", errAnswer
	}
	return outcome, present(is), nil
}

// undone takes something back.
type undone struct {
	// names are the records that it changes, one or more. The first says in which part it is.
	names []string
	// run is called until it returns true.
	run func(ctx context.Context) (finished bool, err error)
}

// part returns the part of the slots that it is in.
func (u undone) part() int { return slotOfName(u.names[0]) * clusterParts / clusterSlots }

// undos are what must be taken back.
type undos struct {
	count atomic.Int64
	// of is how many there are in each part of the slots of a cluster.
	of   [clusterParts]atomic.Int64
	mu   sync.Mutex
	list []undone
	wake chan struct{}
	// empty is closed while there is nothing to take back.
	empty chan struct{}
}

func (u *undos) init() {
	u.wake = make(chan struct{}, 1)
	u.empty = make(chan struct{})
	close(u.empty)
}

// undo has a script evaluated until it answers "done". It does so once the instant has passed which is the last of the
// arguments, even if what is taken back is known to be done: the client may have sent it twice.
func (s *Store) undo(script *rueidis.Lua, keys, args []string) {
	s.later(s.undoing(script, keys, args))
}

// undoing is what [Store.undo] has done.
func (s *Store) undoing(script *rueidis.Lua, keys, args []string) undone {
	return undone{keys, func(ctx context.Context) (bool, error) {
		outcome, _, err := s.link.timed(ctx, script, keys, args)
		return outcome == done, err
	}}
}

// later has something taken back.
func (s *Store) later(what undone) {
	s.fresh.begin(what.names...)
	u := &s.undos
	u.of[what.part()].Add(1)
	u.mu.Lock()
	if u.count.Add(1) == 1 {
		u.empty = make(chan struct{})
	}
	u.list = append(u.list, what)
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// undoneAll waits until nothing is to be taken back.
func (s *Store) undoneAll(ctx context.Context) error {
	for s.undos.count.Load() > 0 {
		s.undos.mu.Lock()
		empty := s.undos.empty
		s.undos.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), errTimeout) {
				return ctx.Err()
			}
			return errInDoubt
		}
	}
	return nil
}

// undoneAsked waits until nothing is to be taken back in the parts of a cluster that are asked now. In the others
// nothing can be read or changed, so that calls of other parts need not wait for them.
func (s *Store) undoneAsked(ctx context.Context) error {
	if s.options.Topology != Cluster {
		return s.undoneAll(ctx)
	}
	for {
		asked := false
		for i := range s.undos.of {
			asked = asked || s.undos.of[i].Load() > 0 && s.counters.circuit.allowAt(i) == nil
		}
		if !asked {
			return nil
		}
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return s.undoneAll(ctx)
		}
	}
}

// lookPause is how often it is looked whether everything was taken back in some parts.
const lookPause = 5 * time.Millisecond

// errInDoubt says that changes whose outcome is not known are not taken back yet.
var errInDoubt = fmt.Errorf("%w: changes that the database did not answer in time are being taken back",
	storage.ErrUnavailable)

// How often undoing is tried again, and for how long when the store is closed.
const (
	undoPause   = 50 * time.Millisecond
	undoAtClose = 2 * time.Second
)

// runUndos takes back what must be taken back until the store is closed, and then for a while.
func (s *Store) runUndos() {
	closing, deadline := s.closing, time.Time{}
	var pause <-chan time.Time
	for {
		select {
		case <-closing:
			closing, deadline = nil, time.Now().Add(undoAtClose)
		case <-s.undos.wake:
		case <-pause:
		}
		s.undoOnce(deadline)
		left := s.undos.count.Load()
		pause = nil
		if left > 0 {
			pause = time.After(undoPause)
		}
		if closing == nil && (left == 0 || time.Now().After(deadline)) {
			if left > 0 {
				s.logger.Error("changes with an unknown outcome were not taken back before the store was closed",
					zap.Int64("changes", left))
			}
			return
		}
	}
}

// undoOnce tries once to take back everything, in the order from the latest to the earliest, until a deadline if there
// is one: each may take its time if the server hangs.
func (s *Store) undoOnce(deadline time.Time) {
	u := &s.undos
	u.mu.Lock()
	list := u.list
	u.list = nil
	u.mu.Unlock()
	var left []undone
	for _, what := range slices.Backward(list) {
		if !deadline.IsZero() && time.Now().After(deadline) {
			left = append(left, what)
			continue
		}
		ctx, cancel := s.link.begin(context.Background())
		finished, err := what.run(ctx)
		cancel()
		if err != nil || !finished {
			left = append(left, what)
			continue
		}
		s.fresh.end(what.names...)
		u.of[what.part()].Add(-1)
		u.mu.Lock()
		if u.count.Add(-1) == 0 {
			close(u.empty)
		}
		u.mu.Unlock()
	}
	slices.Reverse(left)
	u.mu.Lock()
	u.list = append(left, u.list...)
	u.mu.Unlock()
}

// freshFor is for how long a record is read past the caches after this store has changed it: longer than a cache of
// the client keeps what it read before.
const freshFor = cacheTTL + time.Second

// fresh knows the records that this store has changed a short time ago, or is changing. They are not read from caches,
// so that each change is seen by whatever begins after it.
type fresh struct {
	// changes counts beginnings and ends of changes, and size is the number of names.
	changes, size atomic.Int64
	mu            sync.RWMutex
	names         map[string]*freshness
	sweep         time.Time
}

type freshness struct {
	changing int
	// changed is when the last change ended, by the monotonic clock.
	changed time.Duration
	until   time.Time
}

// begin notes that records are being changed.
func (f *fresh) begin(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes.Add(1)
	if f.names == nil {
		f.names = make(map[string]*freshness)
	}
	for _, name := range names {
		n := f.names[name]
		if n == nil {
			n = new(freshness)
			f.names[name] = n
		}
		n.changing++
	}
	f.size.Store(int64(len(f.names)))
}

// end notes that records have been changed.
func (f *fresh) end(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes.Add(1)
	now := time.Now()
	for _, name := range names {
		n := f.names[name]
		n.changing--
		n.changed = monotonic()
		n.until = now.Add(freshFor)
	}
	if now.Before(f.sweep) {
		return
	}
	f.sweep = now.Add(freshFor)
	for name, n := range f.names {
		if n.changing == 0 && now.After(n.until) {
			delete(f.names, name)
		}
	}
	f.size.Store(int64(len(f.names)))
}

// has reports whether a record must be read past the caches.
func (f *fresh) has(name string) bool {
	if f.size.Load() == 0 {
		return false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := f.names[name]
	return n != nil && (n.changing > 0 || time.Now().Before(n.until))
}

// changedSince reports whether a record is being changed, or may have been since an instant of the monotonic clock.
func (f *fresh) changedSince(name string, then time.Duration) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := f.names[name]
	return n != nil && (n.changing > 0 || then <= n.changed)
}

// stripes are locks by name, for changes that this store makes one after the other: without them they would have to
// be repeated when they meet. Changes of other nodes are told apart by the server.
type stripes struct {
	seed  maphash.Seed
	locks [256]chan struct{}
}

func (l *stripes) init() {
	l.seed = maphash.MakeSeed()
	for i := range l.locks {
		l.locks[i] = make(chan struct{}, 1)
	}
}

// lock waits for the lock of a name, and returns what gives it back.
func (l *stripes) lock(ctx context.Context, name string) (unlock func(), err error) {
	c := l.locks[maphash.String(l.seed, name)%uint64(len(l.locks))]
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, errTimeout)
	}
}
