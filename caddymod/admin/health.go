// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
)

// readyTimeout bounds the check of readiness: a probe must be answered soon.
const readyTimeout = 2 * time.Second

// live handles GET /moderation/health/live. The process answers; nothing else is asked.
func (a *API) live(w http.ResponseWriter, r *http.Request) error {
	return encode(w, r, http.StatusOK, health{Status: "live"})
}

// ready handles GET /moderation/health/ready. The service has started, and its store keeps what it must and can be
// read.
func (a *API) ready(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	running, err := a.active()
	if none := (caddy.APIError{}); errors.As(err, &none) {
		return notReady(w, r, none.Message)
	}
	if err != nil {
		return notReady(w, r, "the running configuration does not use the moderation app")
	}
	services, err := running.Acquire(ctx)
	if errors.Is(err, app.ErrNoStore) {
		// Guards alone need nothing else.
		return encode(w, r, http.StatusOK, health{Status: "ready", Model: running.Engine().Version()})
	}
	if err != nil {
		return notReady(w, r, "the moderation app has not started")
	}
	defer services.Release()
	err = services.Store.Health()
	if err == nil {
		_, err = services.Store.Seeded(ctx) // Health is about writing, this is about reading
	}
	if err != nil {
		// Nothing is logged: a probe asks every few seconds, and the store's trouble is logged when it begins and ends.
		return notReady(w, r, err.Error())
	}
	return encode(w, r, http.StatusOK, health{Status: "ready", Model: services.Engine.Version()})
}

func notReady(w http.ResponseWriter, r *http.Request, reason string) error {
	w.Header().Set("Retry-After", "1")
	return encode(w, r, http.StatusServiceUnavailable, health{Status: "not ready", Reason: reason})
}
