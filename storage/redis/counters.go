// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// maxDays is the length of the daily history that can be asked for.
const maxDays = 40

// counters is the part of a store that counts.
//
// Locks are taken in the order: a settlement's, a tally's draining, a shard's, a tally's, dirtyMu.
type counters struct {
	// usable returns an error while the database is not the one that it must be.
	usable      func() error
	link        *link
	records     names
	policy      Outage
	clientClock bool
	block       int64 // of a lease, 0 for none
	logger      *zap.Logger
	circuit     *circuit
	// database returns the identity of the database, "" before it was reached.
	database  func() string
	leftovers *Leftovers // may be nil
	ids       *callIDs
	// node is this node's name among the nodes, and live how many of them there are, as far as is known.
	node string
	live atomic.Int64

	// outages is how often the server was no longer asked.
	outages atomic.Uint64

	// probes are names that are in no use, one in each part of the slots.
	probes []string

	names  atomic.Pointer[windowNames]
	seed   maphash.Seed
	shards [tallyShards]tallyShard

	dirtyMu sync.Mutex
	// dirty are the tallies of which the server does not know all, by their parts: one of them may be gone for long.
	dirty []map[*tally]struct{}
	// leased are the tallies with a lease.
	leased map[*tally]struct{}

	// calling is read-locked by each call, so that those under way can be waited for when the store is closed.
	calling sync.RWMutex
	closed  bool
	stop    chan struct{}
	stopped chan struct{}
	flushed time.Duration // when ids were forgotten last
}

func newCounters(l *link, records names, o Options, usable func() error) *counters {
	c := &counters{
		usable: usable, link: l, records: records, policy: o.Outage, clientClock: o.ClientClock, block: int64(o.Lease),
		logger: o.Logger, leftovers: o.Leftovers,
		circuit: newCircuit(monotonic, partsOf(o.Topology)), ids: newCallIDs(), seed: maphash.MakeSeed(),
		dirty: make([]map[*tally]struct{}, partsOf(o.Topology)), leased: map[*tally]struct{}{},
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	c.live.Store(1)
	c.node = fmt.Sprintf("%x", c.ids.node)
	c.probes = probes(records, len(c.circuit.parts))
	for i := range c.dirty {
		c.dirty[i] = map[*tally]struct{}{}
	}
	for i := range c.shards {
		c.shards[i].tallies = map[string]*tally{}
	}
	l.breaker = c.circuit
	return c
}

// allow returns an error when the database is not to be asked about an account now.
func (c *counters) allow(t *tally) error {
	if err := c.usable(); err != nil {
		return err
	}
	return c.circuit.allowAt(t.part)
}

// enter begins a call, unless the store is closed. After true, leave must be called.
func (c *counters) enter() bool {
	c.calling.RLock()
	if c.closed {
		c.calling.RUnlock()
		return false
	}
	return true
}

func (c *counters) leave() { c.calling.RUnlock() }

// Take implements [quota.Counters].
func (s *Store) Take(ctx context.Context, charge quota.Charge) (quota.Counts, quota.Window, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	if err := s.held.err(); err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	c := s.counters
	if !c.enter() {
		return quota.Counts{}, quota.NoWindow, errClosed
	}
	defer c.leave()
	counts, refused, err := c.take(charge, takesForLeases)
	if !errors.Is(err, quota.ErrNotFound) {
		return counts, refused, err
	}
	// The account is not there: because it was deleted, or because the database was emptied.
	if lost := s.confirmIdentity(ctx); lost != nil {
		if s.known.check() != nil {
			return c.take(charge, 0) // as the policy says
		}
		return quota.Counts{}, quota.NoWindow, lost
	}
	return counts, refused, err
}

// take charges a call. A refusal is asked for again so often while this node holds what may be needed.
func (c *counters) take(charge quota.Charge, again int) (quota.Counts, quota.Window, error) {
	t := c.lock(charge.Account)
	w := c.windows(t, charge.Now, charge.Period)
	if t.lease != nil && t.clean() {
		if counts, ok := c.takeLeased(t, charge, w); ok {
			t.mu.Unlock()
			return counts, quota.NoWindow, nil
		}
	}
	err := c.allow(t)
	if err == nil && !t.clean() {
		t.mu.Unlock()
		err = c.catchUp(t)
		t.mu.Lock()
	}
	if err != nil {
		defer t.mu.Unlock()
		return c.takeAlone(t, charge, "", err)
	}
	leases := c.block > 0 && t.leasing == nil && t.lease == nil
	id, args := c.ids.next(), arguments.Get().(*[]string)
	*args = t.takeArguments((*args)[:0], id, charge, w, c.clientClock)
	*args = t.takeAnswered(c.appendLease(*args, leases))
	if leases {
		t.leasing = make(chan struct{})
	}
	drops := t.drops
	t.mu.Unlock()

	a, err := c.eval(t, takeScript, *args)
	putArguments(args, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if leases {
		close(t.leasing)
		t.leasing = nil
	}
	if errors.Is(err, storage.ErrDamaged) {
		return quota.Counts{}, quota.NoWindow, err
	}
	if err != nil {
		return c.takeAlone(t, charge, sentID(id, a), err)
	}
	counts := quota.Counts{Minute: a.minute, Day: a.day, Period: a.period}
	switch a.code {
	case '0':
		t.hasAnswered(id, a)
		t.learn(charge, w, counts)
		if a.leased > 0 && t.drops == drops {
			counts = c.newLease(t, charge, w, counts, a.leased)
		}
		return counts, quota.NoWindow, nil
	case 'm', 'p':
		if again > 0 && c.heldHere(t) {
			c.cancel(t, charge, id, a)
			return c.takeHeld(t, charge, again-1)
		}
		t.learn(charge, w, counts)
		c.cancel(t, charge, id, a)
		if a.code == 'm' {
			return counts, quota.MinuteWindow, nil
		}
		return counts, quota.MonthWindow, nil
	case 'n':
		return quota.Counts{}, quota.NoWindow, fmt.Errorf("account %s: %w", charge.Account, quota.ErrNotFound)
	case 'o':
		c.cancel(t, charge, id, a)
		return quota.Counts{}, quota.NoWindow, errOtherMinute
	case 'd':
		return quota.Counts{}, quota.NoWindow, fmt.Errorf("the counts of account %s: %w", charge.Account,
			storage.ErrDamaged)
	}
	return quota.Counts{}, quota.NoWindow, errAnswer
}

// cancel has a refused call undone that was made before without an answer: that may still arrive, when there is room.
// The tally is locked.
func (c *counters) cancel(t *tally, charge quota.Charge, id string, a answer) {
	if !a.again {
		return
	}
	e := c.itemOf(t, charge)
	e.charge = charge.Requests
	c.note(t, id, modeUndo, t.tagFor(charge.Incarnation), e)
}

var errOtherMinute = fmt.Errorf("%w: %w", storage.ErrUnavailable, quota.ErrOtherMinute)

// takeArguments appends the arguments of the script take. The tally is locked.
func (t *tally) takeArguments(
	args []string, id string, charge quota.Charge, w *windowNames, clientClock bool,
) []string {
	minute := w.minuteText
	if clientClock {
		minute = ""
	}
	minuteMax, month := t.limitsFor(charge.Limits)
	args = append(args, id, t.tagFor(charge.Incarnation), minute, w.minuteAs, w.dayAs, w.periodAs,
		strconv.FormatInt(charge.Requests, 10), minuteMax, month, charge.Key, t.detailFor(w.periodAs, charge.Key),
		w.dayText)
	return args
}

// takeAnswered moves some ids of answered calls to the arguments. Should the call fail, the server forgets them later.
func (t *tally) takeAnswered(args []string) []string {
	n := min(len(t.answered), forgetAtOnce)
	args = append(args, t.answered[:n]...)
	t.answered = append(t.answered[:0], t.answered[n:]...)
	return args
}

// hasAnswered notes that the answer of a call has arrived, so that its id may be forgotten. One that was made more than
// once may still be on its way, and is forgotten later.
func (t *tally) hasAnswered(id string, a answer) {
	if a.again {
		return
	}
	if len(t.answered) == 0 {
		t.since = monotonic()
	}
	t.answered = append(t.answered, id)
}

// Record implements [quota.Counters].
func (s *Store) Record(charge quota.Charge, outcome quota.Outcome) quota.Settlement {
	c := s.counters
	if !c.enter() {
		return settledAlready{errClosed}
	}
	defer c.leave()
	if !changes(charge, outcome) {
		return settledAlready{}
	}
	t := c.lock(charge.Account)
	defer t.mu.Unlock()
	if err := c.allow(t); err != nil {
		if outcome.Refund {
			c.endLease(t)
		}
		return settledAlready{c.settleAlone(t, charge, outcome, "", err)}
	}
	settling := &settlement{counters: c, tally: t, charge: charge, outcome: outcome}
	t.recorded = append(t.recorded, settling)
	c.soil(t)
	return settling
}

// Settle implements [quota.Counters].
func (s *Store) Settle(_ context.Context, charge quota.Charge, outcome quota.Outcome) error {
	c := s.counters
	if !c.enter() {
		return errClosed
	}
	defer c.leave()
	if !changes(charge, outcome) {
		return nil
	}
	t := c.lock(charge.Account)
	t.mu.Unlock()
	return c.settle(t, charge, outcome)
}

// changes reports whether an outcome changes anything. The charge itself is at the server already.
func changes(charge quota.Charge, outcome quota.Outcome) bool {
	return outcome.Refund && charge.Requests > 0 || len(outcome.Flagged) > 0
}

// settledAlready is the settlement of an outcome that changes nothing, that is kept without the server, or of a closed
// store.
type settledAlready struct{ err error }

// Wait implements [quota.Settlement].
func (s settledAlready) Wait(context.Context) error { return s.err }

// settlement is a recorded outcome. Who waits for it first sends it; so does the next call of the account, which must
// see it, and the flush, if nobody waits.
type settlement struct {
	counters *counters
	tally    *tally
	charge   quota.Charge
	outcome  quota.Outcome

	mu   sync.Mutex
	done bool
	err  error
}

// Wait implements [quota.Settlement].
func (s *settlement) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.counters.enter() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.done {
			return s.err
		}
		return errClosed
	}
	defer s.counters.leave()
	return s.finish()
}

// finish sends the outcome if nobody has, and returns how that ended.
func (s *settlement) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return s.err
	}
	s.err = s.counters.settle(s.tally, s.charge, s.outcome)
	s.done = true
	t := s.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, other := range t.recorded {
		if other == s {
			t.recorded = append(t.recorded[:i], t.recorded[i+1:]...)
			break
		}
	}
	return s.err
}

// settle sends an outcome.
func (c *counters) settle(t *tally, charge quota.Charge, outcome quota.Outcome) error {
	if outcome.Refund {
		// The key of the call is counted when its lease ends.
		c.returnLease(t)
	}
	err := c.allow(t)
	if err == nil {
		// What is to be taken back or settled may be the journal's.
		err = c.drain(t, c.link.eval)
	}
	t.mu.Lock()
	if err != nil {
		defer t.mu.Unlock()
		return c.settleAlone(t, charge, outcome, "", err)
	}
	id, args := c.ids.next(), arguments.Get().(*[]string)
	ch := change{id: id, mode: modeDo, tag: t.tagFor(charge.Incarnation),
		items: []*item{c.outcomeOf(t, charge, outcome)}}
	*args = ch.arguments((*args)[:0], t)
	t.mu.Unlock()

	a, err := c.eval(t, applyScript, *args)
	putArguments(args, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(err, storage.ErrDamaged) {
		return err
	}
	if err != nil {
		return c.settleAlone(t, charge, outcome, sentID(id, a), err)
	}
	if a.code == '0' {
		t.hasAnswered(id, a)
	}
	return nil
}

// outcomeOf returns what an outcome changes. The tally is locked.
func (c *counters) outcomeOf(t *tally, charge quota.Charge, outcome quota.Outcome) *item {
	e := c.itemOf(t, charge)
	if outcome.Refund {
		e.back = charge.Requests
	}
	e.flag(outcome.Flagged)
	return e
}

// Counts implements [quota.Counters].
func (s *Store) Counts(
	ctx context.Context, account string, now time.Time, period quota.Period,
) (quota.Counts, error) {
	w := s.counters.windowsOf(now, period)
	n, err := s.readCounts(ctx, account, w.minuteAs, w.dayAs, w.periodAs)
	if err != nil {
		return quota.Counts{}, err
	}
	return quota.Counts{Minute: n[0], Day: n[1], Period: n[2]}, nil
}

// Days implements [quota.Counters].
func (s *Store) Days(ctx context.Context, account string, now time.Time, n int) ([]int64, error) {
	today := floorDiv(now.Unix(), daySeconds)
	days := make([]string, min(max(n, 0), maxDays))
	for i := range days {
		days[i] = dayName(today - int64(i))
	}
	return s.readCounts(ctx, account, days...)
}

// readCounts returns the counts of windows, 0 for those that do not exist.
func (s *Store) readCounts(ctx context.Context, account string, windows ...string) ([]int64, error) {
	counts := make([]int64, len(windows))
	err := s.readingOf(ctx, account, func(ctx context.Context) error {
		if len(windows) == 0 {
			return nil
		}
		b, err := s.link.b()
		if err != nil {
			return err
		}
		m, err := s.link.do(ctx, b.Hmget().Key(s.names.of(account, countsTable)).Field(windows...).Build())
		if err != nil {
			return err
		}
		values, err := m.ToArray()
		if err != nil || len(values) != len(windows) {
			return errAnswer
		}
		for i, value := range values {
			if value.IsNil() {
				continue
			}
			if counts[i], err = value.AsInt64(); err != nil {
				return fmt.Errorf("the counts of account %s: %w", account, storage.ErrDamaged)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// readingOf calls read after the server was told of all that this node knows of an account.
func (s *Store) readingOf(ctx context.Context, account string, read func(context.Context) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	c := s.counters
	if !c.enter() {
		return errClosed
	}
	defer c.leave()
	if t := c.find(account); t != nil {
		c.returnLease(t)
		t.mu.Lock()
		clean := t.clean()
		t.mu.Unlock()
		if !clean {
			if err := c.catchUp(t); err != nil {
				return err
			}
		}
	}
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return read(ctx)
}

// Flagged implements [quota.Counters].
func (s *Store) Flagged(ctx context.Context, account string, period quota.Period) (map[string]int64, error) {
	return s.details(ctx, account, 'f', period)
}

// KeyRequests implements [quota.Counters].
func (s *Store) KeyRequests(ctx context.Context, account string, period quota.Period) (map[string]int64, error) {
	return s.details(ctx, account, 'k', period)
}

// detailsAtOnce is how many details are read at once.
const detailsAtOnce = 1000

// details returns the details of one kind of a period by their names.
func (s *Store) details(
	ctx context.Context, account string, kind byte, period quota.Period,
) (map[string]int64, error) {
	details := map[string]int64{}
	prefix := string(kind) + periodName(period.Start)[1:] + "/"
	err := s.readingOf(ctx, account, func(ctx context.Context) error {
		for cursor := uint64(0); ; {
			b, err := s.link.b()
			if err != nil {
				return err
			}
			m, err := s.link.do(ctx, b.Hscan().Key(s.names.of(account, detailsTable)).Cursor(cursor).
				Match(prefix+"*").Count(detailsAtOnce).Build())
			if err != nil {
				return err
			}
			page, err := m.AsScanEntry()
			if err != nil {
				return errAnswer
			}
			for i := 0; i+1 < len(page.Elements); i += 2 {
				n, err := strconv.ParseInt(page.Elements[i+1], 10, 64)
				if err != nil {
					return fmt.Errorf("the counts of account %s: %w", account, storage.ErrDamaged)
				}
				if n > 0 {
					details[strings.TrimPrefix(page.Elements[i], prefix)] = n
				}
			}
			if cursor = page.Cursor; cursor == 0 {
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return details, nil
}

// Interface guards
var (
	_ quota.Settlement = (*settlement)(nil)
	_ quota.Settlement = settledAlready{}
	_ rueidis.Client   = (*client)(nil)
)
