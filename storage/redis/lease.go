// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"strconv"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// A lease is a block of requests that the server has charged to an account's windows at once, and that a node admits
// from memory. What is not used is given back: when the windows or the limits are others, after leaseTime, when the
// node needs the account's exact counts, and when the store is closed.
//
// So no more are admitted than the limits say, ever. But while nodes hold leases, the counts are too high, by less than
// a block for each node, and a call may be refused that much before its limit. To keep this small near the limit, a
// lease takes at most half of a node's share of what is left. A node that dies leaves the rest of its leases charged:
// less than a block for each account. An account that is deleted on another node, or whose limits change, may be
// admitted for leaseTime longer.

// leaseTime is after what time what is left of a lease is given back.
const leaseTime = time.Second

// lease is what is left of a block.
type lease struct {
	until   time.Duration
	tag     string
	limits  quota.Limits
	windows *windowNames
	left    int64
	// counts are those of the server, with the whole lease.
	counts quota.Counts
	// used is how many requests were admitted for each key since the lease began.
	used map[string]int64
}

// appendLease appends the arguments of a lease.
func (c *counters) appendLease(args []string, leases bool) []string {
	if !leases {
		return append(args, "0", "1")
	}
	return append(args, strconv.FormatInt(c.block, 10), strconv.FormatInt(2*c.live.Load(), 10))
}

// newLease notes a lease, and returns the counts without it. The tally is locked.
func (c *counters) newLease(
	t *tally, charge quota.Charge, w *windowNames, counts quota.Counts, left int64,
) quota.Counts {
	t.lease = &lease{
		until: monotonic() + leaseTime, tag: t.tagFor(charge.Incarnation), limits: charge.Limits, windows: w,
		left:   left,
		counts: counts, used: map[string]int64{},
	}
	c.dirtyMu.Lock()
	defer c.dirtyMu.Unlock()
	c.leased[t] = struct{}{}
	return t.lease.rest()
}

// rest returns the counts without what is left.
func (l *lease) rest() quota.Counts {
	return quota.Counts{Minute: l.counts.Minute - l.left, Day: l.counts.Day - l.left, Period: l.counts.Period - l.left}
}

// takeLeased admits a call by the lease, if that is for its windows and limits and has enough left. Else it ends the
// lease. The tally is locked.
func (c *counters) takeLeased(t *tally, charge quota.Charge, w *windowNames) (quota.Counts, bool) {
	l := t.lease
	if l.tag != t.tagFor(charge.Incarnation) || l.limits != charge.Limits || !l.windows.same(w) ||
		l.left < charge.Requests {
		c.endLease(t)
		return quota.Counts{}, false
	}
	l.left -= charge.Requests
	l.used[charge.Key] += charge.Requests
	return l.rest(), true
}

// same reports whether windows are the same.
func (w *windowNames) same(other *windowNames) bool {
	return w == other ||
		w.minute == other.minute && w.day == other.day && w.periodStart.Equal(other.periodStart)
}

// takesForLeases is how often a refused call is tried again because its node holds requests.
const takesForLeases = 3

// heldHere reports whether this node holds, or is about to hold, requests of an account that a refused call may need.
// The tally is locked.
func (c *counters) heldHere(t *tally) bool {
	return c.block > 0 && (t.leasing != nil || t.lease != nil || !t.clean())
}

// takeHeld tries again to take for a call that was refused, when the requests that this node holds are there. The tally
// is locked, and is so again afterwards.
func (c *counters) takeHeld(t *tally, charge quota.Charge, again int) (quota.Counts, quota.Window, error) {
	leasing := t.leasing
	t.mu.Unlock()
	defer t.mu.Lock()
	if leasing != nil {
		<-leasing
	}
	return c.take(charge, again)
}

// endLease puts into the journal what was used of a lease and what is given back. The tally is locked.
func (c *counters) endLease(t *tally) {
	l := t.lease
	if l == nil {
		return
	}
	t.lease = nil
	c.dirtyMu.Lock()
	delete(c.leased, t)
	c.dirtyMu.Unlock()
	at := spot{l.windows.minuteAs, l.windows.dayAs, l.windows.periodAs, "", l.windows.dayText}
	var items []*item
	if l.left > 0 {
		items = append(items, &item{leased: true, at: at, back: l.left})
	}
	for key, n := range l.used {
		if at.key = key; key != "" {
			items = append(items, &item{leased: true, at: at, charge: n})
		}
	}
	if len(items) == 0 {
		return
	}
	c.seal(t)
	for len(items) > 0 {
		n := min(len(items), itemsAtOnce)
		t.journal = append(t.journal, &change{id: c.ids.next(), mode: modeDo, tag: l.tag, items: items[:n]})
		items = items[n:]
	}
	c.soil(t)
}

// returnLease ends the lease of an account.
func (c *counters) returnLease(t *tally) {
	if c.block == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.endLease(t)
}

// returnLeases ends the leases that are old at an instant; all of them at 0.
func (c *counters) returnLeases(now time.Duration) {
	if c.block == 0 {
		return
	}
	c.dirtyMu.Lock()
	all := make([]*tally, 0, len(c.leased))
	for t := range c.leased {
		all = append(all, t)
	}
	c.dirtyMu.Unlock()
	for _, t := range all {
		t.mu.Lock()
		if t.lease != nil && (now == 0 || now > t.lease.until) {
			c.endLease(t)
		}
		t.mu.Unlock()
	}
}

// dropLease forgets the lease of an account that was deleted.
func (c *counters) dropLease(account string) {
	if t := c.find(account); t != nil && c.block > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		c.endLease(t)
		t.drops++
	}
}
