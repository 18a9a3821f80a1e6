// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
)

// askTimeout bounds the time in which the service must say that it is ready. Many probes wait for a second.
const askTimeout = 800 * time.Millisecond

// readiness remembers for a moment whether the service is ready. It is safe for concurrent use.
type readiness struct {
	// ask returns no error when the service is ready.
	ask func(context.Context) (app.Readiness, error)
	// freshFor is how long an answer is given again: anybody may ask, and asking must not load the store.
	freshFor time.Duration
	// staleFor is how long it is given while somebody asks for a new one. It is longer than freshFor.
	staleFor time.Duration

	latest atomic.Pointer[answer] // nil before the first
	asking sync.Mutex             // held by the one who asks
}

// answer is an answer and the time at which it was given.
type answer struct {
	ready bool
	mode  app.Mode // of the store
	at    time.Time
}

// now returns whether the service is ready. One probe at a time asks; until it has its answer, the others get the one
// before, if that is young enough, and wait otherwise.
func (r *readiness) now() *answer {
	latest := r.latest.Load()
	if youngerThan(latest, r.freshFor) {
		return latest
	}
	if !r.asking.TryLock() {
		if youngerThan(latest, r.staleFor) {
			return latest
		}
		r.asking.Lock()
	}
	defer r.asking.Unlock()
	if latest = r.latest.Load(); youngerThan(latest, r.freshFor) {
		return latest
	}
	// Not the context of the probe: what it learns is for the others, too, also when it is gone.
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	readiness, err := r.ask(ctx)
	latest = &answer{ready: err == nil, mode: readiness.Mode, at: time.Now()}
	r.latest.Store(latest)
	return latest
}

// youngerThan reports whether there is an answer, and it was given less than a time ago.
func youngerThan(a *answer, age time.Duration) bool { return a != nil && time.Since(a.at) < age }
