// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

const (
	// breaksAfter is how many commands in a row fail, over breaksIn at least, until the server is no longer asked. Many
	// fail at once when a connection breaks, and that says little.
	breaksAfter = 5
	breaksIn    = 50 * time.Millisecond
	// firstProbe is after what time the server is tried again, and lastProbe what that grows to.
	firstProbe = 20 * time.Millisecond
	lastProbe  = time.Second
)

// errOpen is wrapped by the errors of commands that were not sent because those before failed.
var errOpen = errors.New("not asked, because it did not answer before")

// circuit is the breaker. Closed, it lets commands through; after some failures in a row it opens and refuses them at
// once. Then it is half open from time to time: the store itself tries whether the server is back, so that callers
// never wait for that.
//
// In a cluster each part of the slots has a breaker of its own, so that the death of a master is that of its part only.
type circuit struct {
	// now is the clock.
	now   func() time.Duration
	parts []part
	// row is how many commands of any kind have failed in a row. In a cluster it says nothing.
	row streak
	// opened is how many parts are open.
	opened atomic.Int64
	// failing says that a command failed, and that since then not everything was found to be well.
	failing atomic.Bool
	// failed wakes the one who probes.
	failed chan struct{}

	mu    sync.Mutex
	last  error // the last failure
	fails int64 // how many there were
	delay time.Duration
	due   time.Duration // when to probe
}

// part is the breaker of a part of the slots.
type part struct {
	open atomic.Bool
	// row is how many commands have failed in a row, and calls is the same of calls that change counts: a server may
	// answer those who read, but not these.
	row, calls streak
}

// streak counts failures in a row.
type streak struct{ n, since atomic.Int64 }

// fails counts a failure, and reports whether there are too many.
func (s *streak) fails(now time.Duration) bool {
	n := s.n.Add(1)
	if n == 1 {
		s.since.Store(int64(now))
	}
	return n >= breaksAfter && now-time.Duration(s.since.Load()) >= breaksIn
}

// ends notes a success.
func (s *streak) ends() {
	if s.n.Load() != 0 {
		s.n.Store(0)
	}
}

func newCircuit(now func() time.Duration, parts int) *circuit {
	return &circuit{now: now, parts: make([]part, parts), failed: make(chan struct{}, 1)}
}

// allow implements breaker. In a cluster it refuses only when no part answers.
func (c *circuit) allow() error {
	if c.opened.Load() < int64(len(c.parts)) {
		return nil
	}
	return c.refusal()
}

// allowAt implements breaker.
func (c *circuit) allowAt(i int) error {
	if !c.parts[i].open.Load() {
		return nil
	}
	return c.refusal()
}

// refusal is the error for calls while the server is not asked.
func (c *circuit) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return fmt.Errorf("%w: the database was %w", storage.ErrUnavailable, errOpen)
	}
	return fmt.Errorf("%w; %w", c.last, errOpen)
}

// report implements breaker. In a cluster it does not know the part.
func (c *circuit) report(err error) {
	if err == nil {
		c.row.ends()
		return
	}
	c.fail(err)
	if c.row.fails(c.now()) && len(c.parts) == 1 {
		c.open(0)
	}
}

// reportAt implements breaker.
func (c *circuit) reportAt(i int, err error) { c.count(i, &c.parts[i].row, err) }

// reportCall tells how a call of a part ended that changes counts, after report.
func (c *circuit) reportCall(i int, err error) { c.count(i, &c.parts[i].calls, err) }

func (c *circuit) count(i int, row *streak, err error) {
	if err == nil {
		row.ends()
		return
	}
	if row.fails(c.now()) {
		c.open(i)
	}
}

// open opens a part.
func (c *circuit) open(i int) {
	if c.parts[i].open.CompareAndSwap(false, true) {
		c.opened.Add(1)
	}
}

// fail notes a failure and wakes the one who probes.
func (c *circuit) fail(err error) {
	c.mu.Lock()
	c.last = err
	c.fails++
	if !c.failing.Load() {
		c.delay, c.due = firstProbe, c.now()
		c.failing.Store(true)
	}
	c.mu.Unlock()
	select {
	case c.failed <- struct{}{}:
	default:
	}
}

// trip opens all parts: the database cannot be used.
func (c *circuit) trip(err error) {
	c.fail(err)
	for i := range c.parts {
		c.open(i)
	}
}

// wait returns how long to wait before the next probe.
func (c *circuit) wait() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.due-c.now(), 0)
}

// failures returns how many commands have failed, to be told to probed.
func (c *circuit) failures() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fails
}

// probedAt tells how the probe of a part ended: it closes or opens.
func (c *circuit) probedAt(i int, err error) {
	p := &c.parts[i]
	if err != nil {
		c.open(i)
		return
	}
	c.row.ends()
	p.row.ends()
	p.calls.ends()
	if p.open.CompareAndSwap(true, false) {
		c.opened.Add(-1)
	}
}

// probed tells how a probe of all parts ended, and how many commands had failed when it began. After a failure the next
// one is later. After a success, unless others have failed meanwhile, all is well.
func (c *circuit) probed(err error, failures int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.last = err
		c.failing.Store(true)
		c.delay = min(max(2*c.delay, firstProbe), lastProbe)
	case c.fails == failures:
		c.failing.Store(false)
		c.last = nil
		return
	}
	c.due = c.now() + c.delay
}

// health returns why not everything was found to be well, or nil.
func (c *circuit) health() error {
	if !c.failing.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
