// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// The events that the service emits through Caddy's events app. Their data is bounded, and never holds a key or
// content.
const (
	// RefusedEvent is emitted when a request is refused before any work is done. Its data: operation, reason (a
	// problem's code) and, where they are known, account and key (the key's public id).
	RefusedEvent = "moderation_refused"
	// FlaggedEvent is emitted when content is flagged. Its data: id, account, key, recommendation, confidence and
	// categories.
	FlaggedEvent = "moderation_flagged"
)

// emitter emits events on behalf of the app.
type emitter struct {
	ctx    caddy.Context
	events *caddyevents.App
}

func (a *App) loadEvents(ctx caddy.Context) error {
	events, err := ctx.App("events")
	if err != nil {
		return err
	}
	a.events = emitter{ctx: ctx, events: events.(*caddyevents.App)}
	return nil
}

// Emit emits an event if anything subscribes to it, and calls data only then. The handlers of the event run before Emit
// returns.
func (a *App) Emit(name string, data func() map[string]any) {
	if a.events.events == nil || !a.events.events.ShouldEmit(name) {
		return
	}
	a.events.events.Emit(a.events.ctx, name, data())
}
