// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"sync"
	"sync/atomic"
	"time"
)

// drift is by how much the clocks of two machines may part, in parts of a million.
const drift = 200

// epoch is the instant from which monotonic time is counted.
var epoch = time.Now()

// monotonic is the time since the process began. Nobody sets it.
func monotonic() time.Duration { return time.Since(epoch) }

// serverClock estimates the time of the server from its answers and the monotonic clock of this machine, so that nodes
// with wrong clocks agree. Before the first answer it is the clock of this machine.
type serverClock struct {
	estimate atomic.Pointer[estimate]
	mu       sync.Mutex
}

// estimate says between which bounds the server's clock is ahead of the monotonic one. The bounds part with time.
type estimate struct {
	at             time.Duration
	earliest, last time.Duration // of the server's time since 1970, less the monotonic time
}

// at returns the estimate as it is at a later instant.
func (e estimate) later(at time.Duration) estimate {
	parted := (at - e.at) * drift / 1e6
	return estimate{at, e.earliest - parted, e.last + parted}
}

// observe takes what the server's clock said at an instant between two, rounded down to a step.
func (c *serverClock) observe(sent, received time.Duration, server time.Time, step time.Duration) {
	since := time.Duration(server.UnixNano())
	seen := estimate{received, since - received, since + step - sent}
	known := c.estimate.Load()
	if known != nil {
		if now := known.later(received); now.within(seen) {
			return // nothing new, as almost always
		}
	}
	c.learn(seen, received)
}

// learn narrows the estimate by another one, or begins anew if they do not agree.
func (c *serverClock) learn(seen estimate, received time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := seen
	if known := c.estimate.Load(); known != nil {
		now := known.later(received)
		next.earliest, next.last = max(seen.earliest, now.earliest), min(seen.last, now.last)
		if next.earliest > next.last {
			next = seen // the server's clock was set, or another server is the master now
		}
	}
	c.estimate.Store(&next)
}

// within reports whether an estimate is at least as narrow as another one, and agrees with it.
func (e estimate) within(other estimate) bool {
	return e.earliest >= other.earliest && e.last <= other.last
}

// now returns the server's time now.
func (c *serverClock) now() time.Time {
	e := c.estimate.Load()
	if e == nil {
		return time.Now()
	}
	return time.Unix(0, int64(e.earliest+(e.last-e.earliest)/2+monotonic()))
}

// Now returns the server's time, as far as this node knows it: the clock for a gate over the store. Before the server
// has answered for the first time it is the clock of this machine.
func (s *Store) Now() time.Time {
	if s.options.ClientClock {
		return time.Now()
	}
	return s.link.clock.now()
}
