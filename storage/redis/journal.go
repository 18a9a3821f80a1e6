// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// The journal of a tally holds, in memory, what the server must be told once it answers: changes of which nobody knows
// whether they came, with the ids that they had, and what was admitted and settled without the server, gathered by
// windows and keys. Each change has an id and is applied once.

// Modes of the script apply.
const (
	modeDo   = "do"
	modeUndo = "undo"
	modeBack = "back"
)

// change is one call of the script apply. Once it is in the journal it stays as it is.
type change struct {
	id    string
	mode  string
	tag   string
	items []*item
	// sent says that it was sent before, so that it may still be on its way.
	sent bool
}

// item is what a change does to the windows of one instant and one key.
type item struct {
	leased  bool // of a lease
	at      spot
	charge  int64
	back    int64
	flagged map[string]int64
}

// spot names windows and a key.
type spot struct{ minute, day, period, key, dayText string }

// itemOf returns an item for the windows and the key of a charge. The tally is locked.
func (c *counters) itemOf(t *tally, charge quota.Charge) *item {
	w := c.windows(t, charge.Now, charge.Period)
	return &item{at: spot{w.minuteAs, w.dayAs, w.periodAs, charge.Key, w.dayText}}
}

// flag adds categories.
func (e *item) flag(categories []string) {
	for _, category := range categories {
		if e.flagged == nil {
			e.flagged = map[string]int64{}
		}
		e.flagged[category]++
	}
}

// arguments appends the arguments of the script apply. The tally is locked.
func (ch *change) arguments(args []string, t *tally) []string {
	args = append(args, ch.id, ch.tag, ch.mode, strconv.Itoa(min(len(t.answered), forgetAtOnce)))
	args = t.takeAnswered(args)
	for _, e := range ch.items {
		kind := "c"
		if e.leased {
			kind = "l"
		}
		args = append(args, kind, e.at.minute, e.at.day, e.at.period, e.at.key, e.at.dayText,
			strconv.FormatInt(e.charge, 10), strconv.FormatInt(e.back, 10), strconv.Itoa(len(e.flagged)))
		for category, n := range e.flagged {
			args = append(args, category, strconv.FormatInt(n, 10))
		}
	}
	return args
}

// itemsAtOnce is how many items a change has at most.
const itemsAtOnce = 100

// gathered is what was admitted and settled without the server since the last change of the journal.
type gathered struct {
	tag   string
	items []*item
	by    map[spot]*item
}

// gather returns the item for a spot, to be added to. The tally is locked.
func (c *counters) gather(t *tally, tag string, e *item) *item {
	if t.open != nil && (t.open.tag != tag || t.open.by[e.at] == nil && len(t.open.items) == itemsAtOnce) {
		c.seal(t)
	}
	if t.open == nil {
		t.open = &gathered{tag: tag, by: map[spot]*item{}}
		c.soil(t)
	}
	if known := t.open.by[e.at]; known != nil {
		return known
	}
	t.open.items = append(t.open.items, e)
	t.open.by[e.at] = e
	return e
}

// seal moves what is gathered to the journal. The tally is locked.
func (c *counters) seal(t *tally) {
	if t.open == nil {
		return
	}
	ch := &change{id: c.ids.next(), mode: modeDo, tag: t.open.tag, items: t.open.items}
	t.open = nil
	t.journal = append(t.journal, ch)
}

// note puts a change into the journal. The tally is locked.
func (c *counters) note(t *tally, id, mode, tag string, e *item) {
	c.seal(t)
	t.journal = append(t.journal, &change{id: id, mode: mode, tag: tag, items: []*item{e}, sent: true})
	c.soil(t)
}

// soil notes that the server does not know all of a tally. The tally is locked.
func (c *counters) soil(t *tally) {
	c.dirtyMu.Lock()
	defer c.dirtyMu.Unlock()
	c.dirty[t.part][t] = struct{}{}
}

// cleaned takes a tally of which the server knows all from the dirty ones.
func (c *counters) cleaned(t *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.clean() {
		return
	}
	c.dirtyMu.Lock()
	defer c.dirtyMu.Unlock()
	delete(c.dirty[t.part], t)
}

// dirtyTallies returns the tallies of which the server does not know all.
func (c *counters) dirtyTallies() (all []*tally) {
	for i := range c.dirty {
		all = append(all, c.dirtyIn(i)...)
	}
	return all
}

// dirtyIn returns those of a part.
func (c *counters) dirtyIn(part int) []*tally {
	c.dirtyMu.Lock()
	defer c.dirtyMu.Unlock()
	all := make([]*tally, 0, len(c.dirty[part]))
	for t := range c.dirty[part] {
		all = append(all, t)
	}
	return all
}

// dirtyAsked returns those of the parts that are asked now.
func (c *counters) dirtyAsked() (all []*tally) {
	for i := range c.dirty {
		if c.circuit.allowAt(i) == nil {
			all = append(all, c.dirtyIn(i)...)
		}
	}
	return all
}

// catchUp tells the server all that it does not know of an account.
func (c *counters) catchUp(t *tally) error {
	t.mu.Lock()
	recorded := append([]*settlement(nil), t.recorded...)
	t.mu.Unlock()
	for _, s := range recorded {
		_ = s.finish() // the error is for the one who waits
	}
	if err := c.drain(t, c.link.eval); err != nil {
		return err
	}
	c.cleaned(t)
	return nil
}

// drain tells the server what is in the journal of an account.
func (c *counters) drain(t *tally, via evaluate) error {
	t.mu.Lock()
	empty := len(t.journal) == 0 && t.open == nil
	t.mu.Unlock()
	if empty {
		return nil
	}
	if err := c.usable(); err != nil {
		return err
	}
	t.draining.Lock()
	defer t.draining.Unlock()
	for {
		args := arguments.Get().(*[]string)
		t.mu.Lock()
		if len(t.journal) == 0 {
			c.seal(t)
		}
		if len(t.journal) == 0 {
			t.mu.Unlock()
			return nil
		}
		ch := t.journal[0]
		*args = ch.arguments((*args)[:0], t)
		t.mu.Unlock()
		ctx, cancel := c.link.begin(context.Background())
		a, err := c.evalIn(ctx, t, applyScript, *args, via)
		cancel()
		putArguments(args, err)
		if errors.Is(err, storage.ErrDamaged) {
			c.logger.Error("what was counted without the database cannot be added to a damaged record",
				zap.String("account", t.account), zap.Error(err))
			err = nil
		}
		if err != nil {
			ch.sent = ch.sent || a.sent
			return err
		}
		t.mu.Lock()
		t.journal = t.journal[1:]
		if !ch.sent && a.code == '0' {
			t.hasAnswered(ch.id, a)
		}
		t.mu.Unlock()
	}
}

// drainers is how many accounts are told to the server at the same time.
const drainers = 16

// drainAll tells the server all that it does not know of some tallies. It ends at the first error.
func drainAll(queue []*tally, each func(*tally) error) error {
	var mu sync.Mutex
	var failed error
	next := func() *tally {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil || len(queue) == 0 {
			return nil
		}
		t := queue[0]
		queue = queue[1:]
		return t
	}
	var wg sync.WaitGroup
	for range min(drainers, len(queue)) {
		wg.Go(func() {
			for t := next(); t != nil; t = next() {
				if err := each(t); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return failed
}
