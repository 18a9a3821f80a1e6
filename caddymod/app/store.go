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

// Storage is a guest module of the namespace moderation.storage: a place for the service's records. See the
// documentation of the package for how to write one.
type Storage interface {
	// Identity names the place. Two configurations with equal identities mean the same place, and share one open
	// store, also across reloads. It begins with the name of the module, such as "badger:/var/lib/moderation", because
	// the identities of different modules must differ. Options that only tune the store are not part of it.
	Identity() (string, error)
	// Open opens the store. It is called when a configuration starts and no running one has the place open, never
	// while a configuration is only checked. An error that wraps [ErrLocked] is retried for some seconds. The store
	// lives on when the configuration that opened it is replaced.
	Open(ctx context.Context, logger *zap.Logger) (storage.Store, error)
}

// sharedStorage is a [Storage] whose place several servers may use at once. The first start makes no account "demo"
// there: each of the servers that start together would make one, and show a key.
type sharedStorage interface {
	// Shared reports that the place is shared.
	Shared() bool
}

// isShared reports whether a storage is one that several servers may use at once.
func isShared(guest Storage) bool {
	shared, ok := guest.(sharedStorage)
	return ok && shared.Shared()
}

// ErrLocked is wrapped by errors of [Storage].Open when somebody else has the place open.
var ErrLocked = errors.New("the storage is in use")

// loadStorage loads the storage module, by default Badger in Caddy's data directory.
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

// A lock outlives its holder for a moment: after a server was killed and the process of its database has not ended
// yet, and when a configuration is replaced by one that is loaded outside of a reload, as tests and other programs
// do.
const (
	lockAttempts = 20
	lockPause    = 250 * time.Millisecond
)

// openStore acquires the configuration's store from the pool of the process.
func (a *App) openStore() (*pooledStore, error) {
	identity, err := a.storage.Identity()
	if err != nil {
		return nil, fmt.Errorf("finding the storage: %w", err)
	}
	return stores.acquire(identity, func() (storage.Store, error) {
		return a.openWithRetries(processLogger("moderation.storage"))
	})
}

// openWithRetries opens the store, and waits for whoever still has it open.
func (a *App) openWithRetries(logger *zap.Logger) (storage.Store, error) {
	for attempt := 1; ; attempt++ {
		store, err := a.storage.Open(a.ctx, logger)
		if err == nil {
			// Decoding the model and replaying the logs of the last process leave far more garbage than a server needs
			// afterwards; an idle one would keep it for long.
			go debug.FreeOSMemory()
			return store, nil
		}
		if !errors.Is(err, ErrLocked) || attempt == lockAttempts {
			return nil, fmt.Errorf("opening the storage: %w", err)
		}
		if attempt == 1 {
			logger.Info("somebody else has the storage open; it is waited for",
				zap.Duration("at_most", lockAttempts*lockPause), zap.Error(err))
		}
		time.Sleep(lockPause)
	}
}
