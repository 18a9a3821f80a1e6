// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// tally is what a node knows of an account: how its records are named, what the server said last, and what the server
// does not know yet.
type tally struct {
	account string
	keys    []string // of the scripts
	calls   string
	part    int // of the slots, for the breaker

	// draining is held while changes are under way to the server, so that they come one after the other.
	draining sync.Mutex

	mu sync.Mutex
	// used is when the tally was used last, and dropped says that it is no longer in the table.
	used    time.Duration
	dropped bool
	// known are the counts that the server said last, and local is what this node has admitted since then without the
	// server.
	known, local windowCounts
	// knownTag is the tag of the account that known and local are of.
	knownTag string
	// answered are ids of calls whose answers have arrived; the server may forget them. Since is when the first came.
	answered []string
	since    time.Duration
	// recorded are outcomes that nobody has sent yet.
	recorded []*settlement
	// journal is what the server must be told once it answers, oldest first, and open what is gathered after that.
	journal []*change
	open    *gathered
	// lease is what the server has charged already, to be admitted without asking. Leasing is closed when the one that
	// is asked for now is there, nil if none is.
	lease   *lease
	leasing chan struct{}
	// drops is how often the account was deleted here.
	drops int64

	// names are the windows of the last call.
	names *windowNames
	// What was made last for arguments, because it is mostly the same.
	tagOf, tag       string
	keyOf, detailOf  string
	detail           string
	limitsOf         quota.Limits
	minuteMax, month string
}

// clean reports whether the server knows all that it must be told. The tally is locked.
func (t *tally) clean() bool { return len(t.journal) == 0 && t.open == nil && len(t.recorded) == 0 }

// tagFor returns what the record of an account has for an incarnation: its length and itself. The tally is locked.
func (t *tally) tagFor(incarnation string) string {
	if incarnation == "" {
		return ""
	}
	if t.tagOf != incarnation || t.tag == "" {
		t.tagOf, t.tag = incarnation, string([]byte{byte(len(incarnation))})+incarnation
	}
	return t.tag
}

// detailFor returns the name of a key's requests in a period, as it is in details. The tally is locked.
func (t *tally) detailFor(period, key string) string {
	if key == "" {
		return ""
	}
	if t.keyOf != key || t.detailOf != period {
		t.keyOf, t.detailOf, t.detail = key, period, keyDetail(period, key)
	}
	return t.detail
}

// limitsFor returns limits as texts. The tally is locked.
func (t *tally) limitsFor(limits quota.Limits) (minute, month string) {
	if t.limitsOf != limits || t.minuteMax == "" {
		t.limitsOf = limits
		t.minuteMax = strconv.FormatInt(limits.RequestsPerMinute, 10)
		t.month = strconv.FormatInt(limits.RequestsPerMonth, 10)
	}
	return t.minuteMax, t.month
}

// keyDetail names the requests of a key in a period, whose name in counts is given.
func keyDetail(period, key string) string { return "k" + period[1:] + "/" + key }

// windowNames are the windows of an instant as they are named in counts.
type windowNames struct {
	minute, day     int64 // numbers since 1970
	minuteText      string
	dayText         string
	minuteAs, dayAs string
	periodStart     time.Time
	periodAs        string
}

const (
	minuteSeconds = 60
	daySeconds    = 24 * 60 * 60
)

// floorDiv divides and rounds down: windows before 1970 have negative numbers.
func floorDiv(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

// windowsOf returns the windows of an instant. The names of its minute and day are mostly those of the last instant.
func (c *counters) windowsOf(now time.Time, period quota.Period) *windowNames {
	w := &windowNames{}
	minute, day := floorDiv(now.Unix(), minuteSeconds), floorDiv(now.Unix(), daySeconds)
	if last := c.names.Load(); last != nil && last.minute == minute && last.day == day {
		*w = *last
	} else {
		w.minute, w.day = minute, day
		w.minuteText, w.dayText = strconv.FormatInt(minute, 10), strconv.FormatInt(day, 10)
		w.minuteAs, w.dayAs = "m"+w.minuteText, "d"+w.dayText
		c.names.Store(w)
		w = &windowNames{minute, day, w.minuteText, w.dayText, w.minuteAs, w.dayAs, period.Start, ""}
	}
	w.periodStart, w.periodAs = period.Start, periodName(period.Start)
	return w
}

// windows returns the windows of an instant, mostly those of the account's last call. The tally is locked.
func (c *counters) windows(t *tally, now time.Time, period quota.Period) *windowNames {
	w := t.names
	if w != nil && w.minute == floorDiv(now.Unix(), minuteSeconds) && w.periodStart.Equal(period.Start) {
		return w
	}
	t.names = c.windowsOf(now, period)
	return t.names
}

func periodName(start time.Time) string {
	name := "p" + strconv.FormatInt(start.Unix(), 10)
	if ns := start.Nanosecond(); ns != 0 {
		name += "." + strconv.Itoa(1e9 + ns)[1:]
	}
	return name
}

func dayName(day int64) string { return "d" + strconv.FormatInt(day, 10) }

// tallyShards is the number of locks of the table of tallies.
const tallyShards = 64

type tallyShard struct {
	mu      sync.RWMutex
	tallies map[string]*tally
}

func (c *counters) shard(account string) *tallyShard {
	return &c.shards[maphash.String(c.seed, account)%tallyShards]
}

// find returns the tally of an account, if there is one.
func (c *counters) find(account string) *tally {
	shard := c.shard(account)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	return shard.tallies[account]
}

// lock returns the tally of an account, locked. The caller unlocks it.
func (c *counters) lock(account string) *tally {
	for {
		shard := c.shard(account)
		shard.mu.RLock()
		t := shard.tallies[account]
		shard.mu.RUnlock()
		if t == nil {
			t = c.add(shard, account)
		}
		t.mu.Lock()
		if !t.dropped {
			t.used = monotonic()
			return t
		}
		t.mu.Unlock()
	}
}

func (c *counters) add(shard *tallyShard, account string) *tally {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if t := shard.tallies[account]; t != nil {
		return t
	}
	t := &tally{account: account}
	for _, table := range []string{accountTable, keysTable, usedTable, countsTable, detailsTable, callsTable} {
		t.keys = append(t.keys, c.records.of(account, table))
	}
	t.calls = t.keys[5]
	t.part = partOf(account, len(c.circuit.parts))
	shard.tallies[account] = t
	return t
}

const (
	// sweepEvery is how often unused tallies are dropped, and idleAfter after what time one is unused. What they know
	// of counts is what the policy local begins with.
	sweepEvery = time.Minute
	idleAfter  = time.Hour
	// manyTallies is from how many on they are dropped sooner.
	manyTallies = 100_000
)

// sweep drops unused tallies.
func (c *counters) sweep() {
	idle := idleAfter
	if c.tallies() > manyTallies {
		idle = 2 * sweepEvery
	}
	now := monotonic()
	for i := range c.shards {
		shard := &c.shards[i]
		shard.mu.Lock()
		for account, t := range shard.tallies {
			t.mu.Lock()
			if now-t.used > idle && t.clean() && len(t.answered) == 0 && t.lease == nil {
				delete(shard.tallies, account)
				t.dropped = true
			}
			t.mu.Unlock()
		}
		shard.mu.Unlock()
	}
}

func (c *counters) tallies() (n int) {
	for i := range c.shards {
		c.shards[i].mu.RLock()
		n += len(c.shards[i].tallies)
		c.shards[i].mu.RUnlock()
	}
	return n
}
