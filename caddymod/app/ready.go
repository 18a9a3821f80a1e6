// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Readiness says how ready the service is.
type Readiness struct {
	// Mode is the mode of a store that several nodes share, such as "normal", also while the service is not ready.
	// Empty without such a store.
	Mode Mode
	// Trouble says to the operator why the store does not answer, while the service goes on without it.
	Trouble error
}

// Ready returns no error when the service can do its work: it has started, and its store can be read and keeps what it
// must, or goes on without its server as it is configured to. Without a store it is always ready, because handlers that
// need none do not wait for the start. Otherwise the error says why it is not ready, to its operator: it may name a
// directory. While the service starts, Ready waits until ctx ends or the start timeout is over; the error then wraps
// [ErrStarting].
func (a *App) Ready(ctx context.Context) (Readiness, error) {
	services, err := a.Acquire(ctx)
	switch {
	case errors.Is(err, ErrNoStore):
		return Readiness{}, nil
	case err != nil:
		return Readiness{}, err
	}
	defer services.Release()
	err = services.Store.Health()
	if err == nil {
		// Health is about writing, this is about reading.
		_, err = services.Store.Seeded(ctx)
	}
	mode := modeOf(services.pooled.Store)
	if err != nil && mode.GoesOn() && !errors.Is(err, storage.ErrReadOnly) {
		return Readiness{Mode: mode, Trouble: err}, nil
	}
	return Readiness{Mode: mode}, err
}
