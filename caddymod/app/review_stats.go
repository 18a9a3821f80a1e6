// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/review"
)

const (
	// ReviewStatsAge is for how long [Reviews.Stats] gives the same answer: an entry is read for each item.
	ReviewStatsAge = 5 * time.Second
	// reviewStatsTime is how long it may take to count.
	reviewStatsTime = 30 * time.Second
)

// reviewStats is what was counted last, for all who ask.
type reviewStats struct {
	mu     sync.Mutex
	known  *reviewCount // nil until the first count
	coming *reviewCount // nil while nobody counts
}

// reviewCount is one count of all items.
type reviewCount struct {
	done     chan struct{} // closed when the rest is there
	at       time.Time
	all      review.Stats
	accounts map[string]review.Stats
	err      error
}

// of returns the count of an account, or of all items if account is empty.
func (c *reviewCount) of(account string) (review.Stats, error) {
	switch own, ok := c.accounts[account]; {
	case c.err != nil:
		return review.Stats{}, c.err
	case account == "":
		return c.all, nil
	case ok:
		return own, nil
	}
	return review.NoStats(), nil
}

// Stats returns how many items of an account there are, or of all items if account is empty. The counts are up to
// [ReviewStatsAge] old. Of several callers one counts, and the others get what is known; they wait only for the first
// count. Nobody writes to what is returned.
func (r *Reviews) Stats(ctx context.Context, account string) (review.Stats, error) {
	s, now := &r.stats, r.app.Now()
	s.mu.Lock()
	known, coming, mine := s.known, s.coming, false
	if coming == nil && (known == nil || now.Sub(known.at) >= ReviewStatsAge) {
		coming, mine = &reviewCount{done: make(chan struct{}), at: now, err: errUncounted}, true
		s.coming = coming
	}
	s.mu.Unlock()
	switch {
	case mine:
		r.count(ctx, coming)
		return coming.of(account)
	case known != nil:
		return known.of(account)
	}
	select {
	case <-coming.done:
		return coming.of(account)
	case <-ctx.Done():
		return review.Stats{}, ctx.Err()
	}
}

// errUncounted is the error of a count that has ended in a panic.
var errUncounted = errors.New("the review items could not be counted")

// count counts. Whatever happens, nobody goes on waiting for it.
func (r *Reviews) count(ctx context.Context, c *reviewCount) {
	defer func() {
		r.stats.mu.Lock()
		r.stats.coming = nil
		if c.err == nil {
			r.stats.known = c
		}
		r.stats.mu.Unlock()
		close(c.done)
	}()
	// Others may wait for it when this caller has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewStatsTime)
	defer cancel()
	c.all, c.accounts, c.err = r.Queue.Stats(ctx)
}
