// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Storage is what a guest module of the namespace moderation.storage offers: a place for the service's records.
type Storage interface {
	// Identity names the place in a way that is equal for two configurations exactly when they mean the same place: they
	// then share one open store, also across reloads. Options that only tune the store are no part of it.
	Identity() (string, error)
	// Open opens the store. It is called when a configuration starts and no running one has the place open, never
	// while a configuration is only checked. An error that wraps [ErrLocked] is tried again for some seconds. The
	// store lives on when the configuration that opened it is replaced.
	Open(ctx context.Context, logger *zap.Logger) (storage.Store, error)
}

// ErrLocked is wrapped by an error of [Storage].Open that says that somebody else has the place open.
var ErrLocked = errors.New("the storage is in use")

// loadStorage loads the guest module, Badger in Caddy's data directory by default.
func (a *App) loadStorage(ctx caddy.Context) error {
	if a.StorageRaw == nil {
		a.StorageRaw = caddyconfig.JSONModuleObject(&Badger{}, "module", "badger", nil)
	}
	module, err := ctx.LoadModule(a, "StorageRaw")
	if err != nil {
		return fmt.Errorf("loading the storage: %w", err)
	}
	guest, ok := module.(Storage)
	if !ok {
		return fmt.Errorf("the module %T is not a storage for moderation", module)
	}
	a.storage = guest
	return nil
}

// Locks outlive their holder for a moment: when a server was killed and its database's process has not ended yet, and when a
// configuration is replaced by one that is loaded outside of a reload, as tests and other programs do.
const (
	lockAttempts = 20
	lockPause    = 250 * time.Millisecond
)

// openStore takes the configuration's store.
func (a *App) openStore() (*pooledStore, error) {
	identity, err := a.storage.Identity()
	if err != nil {
		return nil, fmt.Errorf("finding the storage: %w", err)
	}
	return stores.acquire(identity, func() (storage.Store, error) {
		logger := processLogger("moderation.storage")
		for attempt := 1; ; attempt++ {
			store, err := a.storage.Open(a.ctx, logger)
			if err == nil {
				// Decoding the model and reading what the last process left in its logs makes garbage that is far more than
				// what a server needs afterwards; an idle one would keep it for long.
				go debug.FreeOSMemory()
				return store, nil
			}
			if !errors.Is(err, ErrLocked) || attempt == lockAttempts {
				return nil, fmt.Errorf("opening the storage: %w", err)
			}
			if attempt == 1 {
				logger.Info("somebody else has the storage open; it is waited for", zap.Duration("at_most", lockAttempts*lockPause), zap.Error(err))
			}
			time.Sleep(lockPause)
		}
	})
}
