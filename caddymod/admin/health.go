// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
)

// readyTimeout bounds the question whether the service is ready: a probe that waits is no probe.
const readyTimeout = 2 * time.Second

// live: GET /moderation/health/live. The process answers; nothing else is asked.
func (a *API) live(w http.ResponseWriter, _ *http.Request) error {
	return encode(w, http.StatusOK, health{Status: "live"})
}

// ready: GET /moderation/health/ready. The service has started and its store answers.
func (a *API) ready(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	running, err := a.active()
	if err != nil {
		return notReady(w, "the running configuration does not use the moderation app")
	}
	services, err := running.Services(ctx)
	if errors.Is(err, app.ErrNoStore) {
		// Guards alone are ready when they are there.
		return encode(w, http.StatusOK, health{Status: "ready", Model: running.Engine().Version()})
	}
	if err != nil {
		return notReady(w, "the moderation app has not started")
	}
	if _, err := services.Store.Seeded(ctx); err != nil {
		a.logger.Warn("the store is not ready", zap.Error(err))
		return notReady(w, "the store cannot answer")
	}
	return encode(w, http.StatusOK, health{Status: "ready", Model: services.Engine.Version()})
}

func notReady(w http.ResponseWriter, reason string) error {
	w.Header().Set("Retry-After", "1")
	return encode(w, http.StatusServiceUnavailable, health{Status: "not ready", Reason: reason})
}
