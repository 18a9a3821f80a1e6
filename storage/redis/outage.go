// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// Normal is the mode of a store whose server answers; see [Store.Mode].
const Normal = "normal"

// Mode says how calls are admitted now: "normal" while the server answers, else the policy for outages: "local", "deny"
// or "allow".
func (s *Store) Mode() string {
	if s.counters.circuit.failing.Load() || s.usable() != nil {
		return string(s.counters.policy)
	}
	return Normal
}

// Failures returns how often the server could no longer be reached since the store was opened.
func (s *Store) Failures() uint64 { return s.counters.outages.Load() }

// windowCounts are counts and the windows that they are of.
type windowCounts struct {
	minute, day int64
	period      time.Time
	counts      quota.Counts
}

// in returns the counts that are of given windows, 0 for others.
func (k windowCounts) in(w *windowNames) (counts quota.Counts) {
	if k.minute == w.minute {
		counts.Minute = k.counts.Minute
	}
	if k.day == w.day {
		counts.Day = k.counts.Day
	}
	if k.period.Equal(w.periodStart) {
		counts.Period = k.counts.Period
	}
	return counts
}

// learn takes the counts that the server said. What was admitted without it is in them. The tally is locked.
func (t *tally) learn(charge quota.Charge, w *windowNames, counts quota.Counts) {
	if !t.clean() {
		return
	}
	t.knownTag = t.tagFor(charge.Incarnation)
	t.known = windowCounts{w.minute, w.day, w.periodStart, counts}
	t.local = windowCounts{}
}

// sentID returns the id of a call that may have come, nothing for one that certainly has not.
func sentID(id string, a answer) string {
	if a.sent {
		return id
	}
	return ""
}

// takeAlone decides without the server, which failed with an error, whether a call is admitted. Id is that of a charge
// that the server may have got or may still get. The tally is locked.
func (c *counters) takeAlone(
	t *tally, charge quota.Charge, id string, err error,
) (quota.Counts, quota.Window, error) {
	tag := t.tagFor(charge.Incarnation)
	e := c.itemOf(t, charge)
	e.charge = charge.Requests
	if c.policy == Deny {
		if id != "" {
			c.note(t, id, modeUndo, tag, e)
		}
		return quota.Counts{}, quota.NoWindow, err
	}
	counts, refused := t.admit(charge, tag, c.windows(t, charge.Now, charge.Period), c.share())
	switch {
	case refused == quota.NoWindow && id != "":
		c.note(t, id, modeDo, tag, e)
	case refused == quota.NoWindow:
		known := c.gather(t, tag, &item{at: e.at})
		known.charge += charge.Requests
	case id != "":
		c.note(t, id, modeUndo, tag, e)
	}
	counts.Basis = quota.LocalCounts
	if c.policy == Allow {
		counts.Basis = quota.UnknownCounts
	}
	return counts, refused, nil
}

// share is by what the limits' rest is divided: the number of nodes, or 0 if no limit holds.
func (c *counters) share() int64 {
	if c.policy == Allow {
		return 0
	}
	return c.live.Load()
}

// admit decides from what this node knows. The tally is locked.
func (t *tally) admit(
	charge quota.Charge, tag string, w *windowNames, nodes int64,
) (quota.Counts, quota.Window) {
	if t.knownTag != tag {
		t.knownTag, t.known, t.local = tag, windowCounts{}, windowCounts{}
	}
	known, local := t.known.in(w), t.local.in(w)
	n, limits := charge.Requests, charge.Limits
	refused := quota.NoWindow
	if nodes > 0 && !fits(limits.RequestsPerMinute, known.Minute, local.Minute, n, nodes) {
		refused = quota.MinuteWindow
	}
	if nodes > 0 && !fits(limits.RequestsPerMonth, known.Period, local.Period, n, nodes) {
		refused = quota.MonthWindow
	}
	if refused == quota.NoWindow {
		local = quota.Counts{Minute: local.Minute + n, Day: local.Day + n, Period: local.Period + n}
		t.local = windowCounts{w.minute, w.day, w.periodStart, local}
	}
	return quota.Counts{
		Minute: known.Minute + local.Minute, Day: known.Day + local.Day, Period: known.Period + local.Period,
	}, refused
}

// fits reports whether a node's share of what a limit leaves has room for n requests. A share is 1 or more while
// anything is left.
func fits(limit, known, local, n, nodes int64) bool {
	if limit <= 0 {
		return true
	}
	left := limit - known
	return left > 0 && n <= max(left/nodes, 1)-local
}

// settleAlone keeps an outcome without the server, which failed with an error. Id is that of an outcome that the server
// may have got or may still get. The tally is locked.
func (c *counters) settleAlone(
	t *tally, charge quota.Charge, outcome quota.Outcome, id string, err error,
) error {
	tag, e := t.tagFor(charge.Incarnation), c.outcomeOf(t, charge, outcome)
	if c.policy == Deny {
		e.charge = charge.Requests
		if id == "" {
			id = c.ids.next()
		}
		c.note(t, id, modeBack, tag, e)
		return err
	}
	if outcome.Refund {
		t.giveBack(charge, c.windows(t, charge.Now, charge.Period))
	}
	if id != "" {
		c.note(t, id, modeDo, tag, e)
		return nil
	}
	known := c.gather(t, tag, &item{at: e.at})
	known.back += e.back
	for category, n := range e.flagged {
		if known.flagged == nil {
			known.flagged = map[string]int64{}
		}
		known.flagged[category] += n
	}
	return nil
}

// giveBack gives requests back that this node has admitted without the server.
func (t *tally) giveBack(charge quota.Charge, w *windowNames) {
	if t.local.day == w.day {
		t.local.counts.Day = max(t.local.counts.Day-charge.Requests, 0)
	}
	if t.local.period.Equal(w.periodStart) {
		t.local.counts.Period = max(t.local.counts.Period-charge.Requests, 0)
	}
}
