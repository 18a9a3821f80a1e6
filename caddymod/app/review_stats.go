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
	// reviewStatsWait is how long a caller waits for new counts before it gets the old ones, unless these are older
	// than reviewStatsOld.
	reviewStatsWait = 100 * time.Millisecond
	reviewStatsOld  = time.Minute
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

// Stats returns how many items of an account there are, or of all items if account is empty. The counts are as a rule
// up to [ReviewStatsAge] old. Of several callers one counts. Where counting takes long, callers get counts that are up
// to a minute old, and the next get the new ones; without such counts they wait. Nobody writes to what is returned.
func (r *Reviews) Stats(ctx context.Context, account string) (review.Stats, error) {
	s, now := &r.stats, r.app.Now()
	s.mu.Lock()
	known, coming := s.known, s.coming
	if known != nil && now.Sub(known.at) < ReviewStatsAge {
		s.mu.Unlock()
		return known.of(account)
	}
	if coming == nil {
		coming = &reviewCount{done: make(chan struct{}), at: now, err: errUncounted}
		s.coming = coming
		// The caller may have got old counts, and have left, before it is done. The store stays open until then.
		go r.count(context.WithoutCancel(ctx), r.app.TryAcquire(), coming)
	}
	s.mu.Unlock()
	var enough <-chan time.Time
	if known != nil && now.Sub(known.at) < reviewStatsOld {
		wait := time.NewTimer(reviewStatsWait)
		defer wait.Stop()
		enough = wait.C
	}
	select {
	case <-coming.done:
		return coming.of(account)
	case <-enough:
		return known.of(account)
	case <-ctx.Done():
		return review.Stats{}, ctx.Err()
	}
}

// errUncounted is the error of a count that has ended in a panic.
var errUncounted = errors.New("the review items could not be counted")

// count counts. Whatever happens, nobody goes on waiting for it.
func (r *Reviews) count(ctx context.Context, services *Services, c *reviewCount) {
	defer func() {
		r.stats.mu.Lock()
		r.stats.coming = nil
		if c.err == nil {
			r.stats.known = c
		}
		r.stats.mu.Unlock()
		close(c.done)
	}()
	if services == nil {
		c.err = ErrStarting // or ending
		return
	}
	defer services.Release()
	ctx, cancel := context.WithTimeout(ctx, reviewStatsTime)
	defer cancel()
	c.all, c.accounts, c.err = r.Queue.Stats(ctx)
}
