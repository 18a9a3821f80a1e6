// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/storage/redis"
)

// Guard is a guard of the configuration.
type Guard struct {
	*metrics.Guarded
	Direction metrics.Direction
	Shadow    bool
}

// AddGuard notes that the configuration has a guard, and returns its counts. It must be called while the guard is
// provisioned.
func (a *App) AddGuard(direction metrics.Direction, shadow bool) *metrics.Guarded {
	added := Guard{metrics.NewGuarded(), direction, shadow}
	a.guards = append(a.guards, added)
	return added.Guarded
}

// Guards returns the guards of the configuration, in the order in which they were provisioned.
func (a *App) Guards() []Guard { return a.guards }

// leaveGuards gives up the counts of the guards, which others may have.
func (a *App) leaveGuards() {
	for _, guard := range a.guards {
		a.metrics.Sites().Leave(guard.Guarded)
	}
}

// StoreKind returns the name of the storage module, and what the configuration says about an outage if the module has
// such an option. Without a store, both are empty.
func (a *App) StoreKind() (kind, outage string) {
	if a.storage == nil || !a.needsStore {
		return "", ""
	}
	if module, ok := a.storage.(caddy.Module); ok {
		kind = module.CaddyModule().ID.Name()
	}
	if shared, ok := a.storage.(*Redis); ok {
		outage = cmp.Or(shared.Outage, string(redis.Local))
	}
	return kind, outage
}
