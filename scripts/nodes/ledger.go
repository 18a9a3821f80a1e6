// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// bounds are the bounds of a number: what was acknowledged, and what was sent and may have been done.
type bounds struct{ low, high int64 }

// ledger holds what the clients know of all nodes: what was acknowledged, and what may have been done.
type ledger struct {
	mu       sync.Mutex
	counts   map[string]*counts
	feedback map[string]*suggestion
	keys     map[string]*heldKey
	// answers are the acknowledged requests, with the time of the answer, for those who want to know what is lost.
	answers []answered
}

// counts are those of an account.
type counts struct {
	requests bounds
	minutes  map[int64]*bounds
	limited  int64            // answers of 429 and 402
	refused  int64            // answers of 503
	marked   map[string]int64 // good answers by X-RateLimit-Status, if they had any
}

// answered is a request that was acknowledged.
type answered struct {
	account string
	at      time.Time
}

// suggestion is a record of feedback.
type suggestion struct {
	account string
	sum     [sha256.Size]byte
	acked   bool
	unsent  bool // surely not stored
	at      time.Time
}

// heldKey is a key whose creation was acknowledged.
type heldKey struct {
	secret      string
	created     time.Time // of the acknowledgement
	revoking    bool
	revoked     bool
	revokedAt   time.Time // of the acknowledgement
	revokedNode int
}

func newLedger() *ledger {
	return &ledger{counts: map[string]*counts{}, feedback: map[string]*suggestion{}, keys: map[string]*heldKey{}}
}

func (l *ledger) with(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// of returns the counts of an account. The ledger is locked.
func (l *ledger) of(account string) *counts {
	c := l.counts[account]
	if c == nil {
		c = &counts{minutes: map[int64]*bounds{}, marked: map[string]int64{}}
		l.counts[account] = c
	}
	return c
}

func (c *counts) minute(m int64) *bounds {
	if c.minutes[m] == nil {
		c.minutes[m] = new(bounds)
	}
	return c.minutes[m]
}

// get returns a copy of the counts of an account.
func (l *ledger) get(account string) (c counts) {
	l.with(func() {
		held := l.of(account)
		c = *held
		c.marked = maps.Clone(held.marked)
		c.minutes = map[int64]*bounds{}
		for m, b := range held.minutes {
			b := *b
			c.minutes[m] = &b
		}
	})
	return c
}

// outcome is what an answer means for a request that counts.
type outcome int

const (
	counted  outcome = iota // it was answered, and counts
	limited                 // 429 or 402: it counts nowhere
	refused                 // 503: it counts nowhere
	unknown                 // nobody knows
	unsent                  // it never left the client
	refunded                // it was answered with an error of the caller, and counts in the minute only
)

// request is a request under way.
type request struct {
	ledger  *ledger
	account string
	minute  int64
	sent    time.Time
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// sending notes that a request is about to be sent.
func (l *ledger) sending(account string) *request {
	now := time.Now()
	r := &request{ledger: l, account: account, minute: minuteOf(now), sent: now}
	l.with(func() {
		c := l.of(account)
		c.requests.high++
		c.minute(r.minute).high++
	})
	return r
}

// ended notes the outcome of a request, and what the answer says about the counts.
func (r *request) ended(o outcome, mark string) {
	at := time.Now()
	now := minuteOf(at)
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	c := r.ledger.of(r.account)
	switch o {
	case counted, refunded:
		if o == refunded {
			c.requests.high--
		} else {
			c.requests.low++
			r.ledger.answers = append(r.ledger.answers, answered{r.account, at})
			if mark != "" {
				c.marked[mark]++
			}
		}
		if r.minute == now {
			c.minute(now).low++
		}
	case limited:
		c.limited++
	case refused:
		c.refused++
	}
	if o != counted && o != refunded && o != unknown {
		c.requests.high--
		c.minute(r.minute).high--
		return
	}
	// It may have been counted in a minute that began after it was sent.
	for m := r.minute + 1; m <= now; m++ {
		c.minute(m).high++
	}
}

// total returns the sum over all accounts.
func (l *ledger) total() (all counts) {
	all.marked = map[string]int64{}
	l.with(func() {
		for _, c := range l.counts {
			all.requests.low += c.requests.low
			all.requests.high += c.requests.high
			all.limited += c.limited
			all.refused += c.refused
			for mark, n := range c.marked {
				all.marked[mark] += n
			}
		}
	})
	return all
}

// clone returns what the ledger holds at this instant.
func (l *ledger) clone() *ledger {
	c := newLedger()
	for _, account := range l.accounts() {
		held := l.get(account)
		c.counts[account] = &held
	}
	l.with(func() {
		for token, s := range l.feedback {
			s := *s
			c.feedback[token] = &s
		}
		for id, k := range l.keys {
			k := *k
			c.keys[id] = &k
		}
	})
	return c
}

// until returns what must be in something that began at the instant of one ledger and was done at that of another: what
// was acknowledged in the first, and at most what was sent in the second.
func (l *ledger) until(done *ledger) *ledger {
	for account, c := range done.counts {
		low := l.of(account).requests.low
		c.requests.low = low
		c.minutes = map[int64]*bounds{}
	}
	for token, s := range done.feedback {
		before := l.feedback[token]
		s.acked = before != nil && before.acked
	}
	for id, k := range done.keys {
		before := l.keys[id]
		if before == nil {
			delete(done.keys, id)
			continue
		}
		k.revoked = before.revoked
	}
	return done
}

// accounts returns the ids of all accounts that were used.
func (l *ledger) accounts() (all []string) {
	l.with(func() { all = slices.Sorted(maps.Keys(l.counts)) })
	return all
}

// ackedSince returns how many requests of an account were acknowledged in an interval.
func (l *ledger) ackedBetween(account string, from, to time.Time) (n int64) {
	l.with(func() {
		for _, a := range l.answers {
			if a.account == account && a.at.After(from) && !a.at.After(to) {
				n++
			}
		}
	})
	return n
}

// lossAge returns how long before an instant the n-th last acknowledged request of an account was answered: so much
// time its loss would span.
func (l *ledger) lossAge(account string, instant time.Time, n int64) (age time.Duration) {
	l.with(func() {
		for _, a := range slices.Backward(l.answers) {
			if n <= 0 {
				return
			}
			if a.account == account && !a.at.After(instant) {
				age = instant.Sub(a.at)
				n--
			}
		}
	})
	return age
}

// difference compares a number with its bounds, and returns a sentence if it is outside.
func (b bounds) difference(got int64) string {
	switch {
	case got < b.low:
		return fmt.Sprintf("acknowledged %d, stored %d, sent %d (%d lost)", b.low, got, b.high, b.low-got)
	case got > b.high:
		return fmt.Sprintf("acknowledged %d, stored %d, sent %d (%d too many)", b.low, got, b.high, got-b.high)
	}
	return ""
}
