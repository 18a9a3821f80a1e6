// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/version"
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
	readiness, err := running.Ready(ctx)
	switch {
	case errors.Is(err, app.ErrStarting):
		return notReady(w, r, "the moderation app has not started")
	case err != nil:
		// Nothing is logged: a probe asks every few seconds, and the store's trouble is logged when it begins and ends.
		w.Header().Set("Retry-After", "1")
		return encode(w, r, http.StatusServiceUnavailable,
			health{Status: "not ready", Mode: string(readiness.Mode), Reason: err.Error()})
	}
	answer := healthy(running)
	answer.Mode = string(readiness.Mode)
	if readiness.Trouble != nil {
		answer.Reason = readiness.Trouble.Error()
	}
	return encode(w, r, http.StatusOK, answer)
}

// healthy returns the answer for an app that is ready.
func healthy(running *app.App) health {
	h := health{
		Status: "ready", Version: version.Version(),
		Model: running.Engine().Version(), CalibratedFor: running.Engine().HarmShare(),
	}
	if h.CalibratedFor != 0 {
		h.HarmShare = cmp.Or(running.HarmShareOf(nil), h.CalibratedFor)
	}
	return h
}

func notReady(w http.ResponseWriter, r *http.Request, reason string) error {
	w.Header().Set("Retry-After", "1")
	return encode(w, r, http.StatusServiceUnavailable, health{Status: "not ready", Reason: reason})
}
