// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import "sync"

// Leftovers take what stores could not tell their database until they were closed, for the next store of the same
// database. So nothing is lost when a process replaces a store in an outage by one with other options, such as a new
// password. The stores of a process share one. The zero value is empty.
type Leftovers struct {
	mu sync.Mutex
	of map[string][]leftover // by the identity of the database
}

// leftover is the journal of an account.
type leftover struct {
	account string
	journal []*change
}

// put adds what was left.
func (l *Leftovers) put(database string, left []leftover) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string][]leftover{}
	}
	l.of[database] = append(l.of[database], left...)
}

// take returns what was left of a database, once.
func (l *Leftovers) take(database string) []leftover {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.of[database]
	delete(l.of, database)
	return left
}

// bequeath leaves to the next store of the database what it was not told. It reports whether there may be one.
func (c *counters) bequeath() bool {
	database := c.database()
	if c.leftovers == nil || database == "" {
		return false
	}
	var all []leftover
	for _, t := range c.dirtyTallies() {
		t.mu.Lock()
		c.seal(t)
		if len(t.journal) > 0 {
			all = append(all, leftover{t.account, t.journal})
		}
		t.mu.Unlock()
	}
	c.leftovers.put(database, all)
	return true
}

// inherit takes what former stores of the database have left.
func (c *counters) inherit() {
	if c.leftovers == nil {
		return
	}
	database := c.database()
	if database == "" {
		return // it was not reached yet
	}
	for _, left := range c.leftovers.take(database) {
		t := c.lock(left.account)
		c.seal(t)
		t.journal = append(t.journal, left.journal...)
		c.soil(t)
		t.mu.Unlock()
	}
}
