// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// beatEvery is how often a node says that it lives, and deadAfter after what time of silence it is not counted.
	beatEvery = time.Second
	deadAfter = 5 * time.Second
	// flushEvery is how often outcomes are sent that nobody waits for.
	flushEvery = 50 * time.Millisecond
)

// start begins the store's own work.
func (c *counters) start() {
	if err := c.usable(); err != nil {
		c.circuit.trip(err)
	}
	go c.run()
}

// run is the store's own work: it says that the node lives, sends what nobody waits for, tries whether the server is
// back, and tells it then what it has missed.
func (c *counters) run() {
	defer close(c.stopped)
	beat, swept, open := -beatEvery, monotonic(), false
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		now := monotonic()
		if now-swept >= sweepEvery {
			swept = now
			c.sweep()
		}
		if err := c.usable(); err != nil && !c.circuit.failing.Load() {
			c.circuit.fail(err)
		}
		if c.circuit.failing.Load() && c.circuit.wait() == 0 {
			c.heal()
		}
		// Also while a part of a cluster is gone: the others go on.
		if now-beat >= beatEvery {
			beat = now
			c.beatOnce()
		}
		c.returnLeases(now)
		if c.circuit.opened.Load() < int64(len(c.circuit.parts)) {
			_ = drainAll(c.dirtyAsked(), c.catchUp) // what fails is tried again
			c.flush()
		}
		c.inherit()
		open = c.tell(open)
		wait := tick.C
		if c.circuit.failing.Load() {
			wait = time.After(min(max(c.circuit.wait(), time.Millisecond), flushEvery))
		}
		select {
		case <-c.stop:
			return
		case <-wait:
		case <-c.circuit.failed:
		}
	}
}

// tell logs when the server is no longer asked and when it answers again. It is given and returns which it was.
func (c *counters) tell(was bool) bool {
	is := c.circuit.opened.Load() > 0
	switch {
	case is && !was:
		c.outages.Add(1)
		c.logger.Warn("the database does not answer; calls are admitted by the policy for outages",
			zap.String("policy", string(c.policy)), zap.Error(c.circuit.health()))
	case was && !is:
		c.logger.Info("the database answers again and was told what was counted meanwhile")
	}
	return is
}

// heal tries whether the server is back, tells it what it has missed, and lets commands through again.
func (c *counters) heal() {
	failures := c.circuit.failures()
	if err := c.usable(); err != nil {
		c.circuit.probed(err, failures)
		return
	}
	errs := make([]error, len(c.circuit.parts))
	var wg sync.WaitGroup
	for i := range c.circuit.parts {
		wg.Go(func() {
			errs[i] = c.probe(i)
			c.circuit.probedAt(i, errs[i])
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		// This also tries a command that all nodes write with.
		ctx, cancel := c.link.begin(context.Background())
		defer cancel()
		err = c.beat(ctx, c.link.asked)
	}
	c.circuit.probed(err, failures)
}

// probe tries whether the master of a part of the slots answers and writes, and tells it what it has missed.
func (c *counters) probe(i int) error {
	client, err := c.link.connected()
	if err != nil {
		return err
	}
	ctx, cancel := c.link.begin(context.Background())
	defer cancel()
	// It changes an element of what does not exist.
	command := client.B().Zadd().Key(c.probes[i]).Xx().ScoreMember().ScoreMember(0, "").Build()
	err, late := bounded(ctx, c.link, func() error { return client.Do(ctx, command).Error() }, nil)
	if err == nil {
		err = late
	}
	if err != nil {
		return mapError(err)
	}
	return drainAll(c.dirtyIn(i), func(t *tally) error {
		err := c.drain(t, c.link.asked)
		if err == nil {
			c.cleaned(t)
		}
		return err
	})
}

// beatOnce says that this node lives.
func (c *counters) beatOnce() {
	ctx, cancel := c.link.begin(context.Background())
	defer cancel()
	_ = c.beat(ctx, c.link.eval) // the breaker knows
}

// beat says that this node lives, and learns how many nodes there are and what time it is.
func (c *counters) beat(ctx context.Context, via evaluate) error {
	sent := monotonic()
	m, err := via(ctx, heartbeatScript, []string{c.records.nodes()},
		[]string{c.node, strconv.FormatInt(deadAfter.Milliseconds(), 10)})
	if err != nil {
		return err
	}
	text, err := m.ToString()
	if err != nil {
		return errAnswer
	}
	words := strings.Fields(text)
	if len(words) != 3 {
		return errAnswer
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return errAnswer
		}
	}
	c.live.Store(max(numbers[0], 1))
	c.link.clock.observe(sent, monotonic(), time.Unix(numbers[1], numbers[2]*1000), time.Microsecond)
	return nil
}

// flush lets the server forget calls whose answers have arrived and that no other call has told it.
func (c *counters) flush() {
	now := monotonic()
	if now-c.flushed < forgetAfter/10 {
		return
	}
	c.flushed = now
	c.forgetSince(now - forgetAfter)
}

// How many accounts the server is told of at once that have calls to be forgotten, and for how long at most. What is
// left is told the next time.
const (
	forgetAccounts = 500
	forgetTime     = 500 * time.Millisecond
)

// forgetSince lets the server forget calls of accounts of which one has waited for that since an instant.
func (c *counters) forgetSince(instant time.Duration) {
	var due []*tally
	for i := range c.shards {
		due = append(due, c.waiting(i, instant)...)
	}
	end := monotonic() + forgetTime
	for some := range slices.Chunk(due, forgetAccounts) {
		if monotonic() > end || !c.forget(some) {
			return
		}
	}
}

// waiting returns the tallies of a shard with calls that have waited to be forgotten since an instant.
func (c *counters) waiting(shard int, instant time.Duration) (due []*tally) {
	c.shards[shard].mu.RLock()
	defer c.shards[shard].mu.RUnlock()
	for _, t := range c.shards[shard].tallies {
		t.mu.Lock()
		if len(t.answered) > 0 && t.since <= instant && c.circuit.allowAt(t.part) == nil {
			due = append(due, t)
		}
		t.mu.Unlock()
	}
	return due
}

// closeTime is how long a store that is closed tries to tell the server what it does not know.
const closeTime = 5 * time.Second

// close ends the calls under way, tells the server what it does not know, and says that this node is gone.
func (c *counters) close() error {
	c.calling.Lock()
	c.closed = true
	c.calling.Unlock()
	close(c.stop)
	<-c.stopped
	c.returnLeases(0)
	var err error
	for end := monotonic() + closeTime; ; {
		if err = drainAll(c.dirtyTallies(), c.catchUpOnce); err == nil || monotonic() > end {
			break
		}
		time.Sleep(lastPause)
	}
	if err != nil {
		left := len(c.dirtyTallies())
		if c.bequeath() {
			return fmt.Errorf("closed with requests of %d accounts that the database was not told; "+
				"the next store of this process that reaches it tells it: %w", left, err)
		}
		return fmt.Errorf("closed with requests of %d accounts that the database was not told: %w", left, err)
	}
	c.forgetSince(monotonic())
	ctx, cancel := c.link.begin(context.Background())
	defer cancel()
	if b, err := c.link.b(); err == nil {
		_, _ = c.link.do(ctx, b.Zrem().Key(c.records.nodes()).Member(c.node).Build())
	}
	return nil
}

// catchUpOnce is catchUp, whether the breaker lets it or not.
func (c *counters) catchUpOnce(t *tally) error {
	t.mu.Lock()
	recorded := append([]*settlement(nil), t.recorded...)
	t.mu.Unlock()
	for _, s := range recorded {
		_ = s.finish()
	}
	err := c.drain(t, c.link.asked)
	if err == nil {
		c.cleaned(t)
	}
	return err
}
