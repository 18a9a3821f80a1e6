// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package app is the Caddy app "moderation": it owns the judge, the gate and the store, and hands them to the handlers.
//
// Two namespaces take guest modules: moderation.storage (interface [Storage]) and moderation.classifiers (interface
// [engine.Classifier]).
package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

func init() {
	caddy.RegisterModule(new(App))
}

// ErrStarting says that the app has not finished starting within its start timeout. Handlers answer 503.
var ErrStarting = errors.New("the moderation app has not started yet")

// ErrNoStore says that the configuration has no store: it names none, declares no account, and has no handler that needs
// accounts. A guard alone needs none.
var ErrNoStore = errors.New("this configuration keeps no accounts: it serves nothing that needs them; the option storage of the global option moderation changes that")

// App holds what every moderation handler of the configuration shares: the judge, the accounts with their limits, and
// the store. All of it has defaults, so that an empty app works.
type App struct {
	// StorageRaw is where accounts, keys, counts and feedback are kept. Default: the module "badger" in the folder
	// "moderation" of Caddy's data directory. One directory serves one Caddy process.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=moderation.storage inline_key=module"`

	// ClassifierRaw is what turns text into probabilities. Default: the module "embedded", the model in the binary.
	ClassifierRaw json.RawMessage `json:"classifier,omitempty" caddy:"namespace=moderation.classifiers inline_key=module"`

	// KeyPrefix is what new keys begin with, before _sk_: 1 to 20 letters and digits. Default "mod". Keys that were made
	// with another prefix stay valid.
	KeyPrefix string `json:"key_prefix,omitempty"`

	// Tiers are the tiers that accounts can be on, by name. They replace the default ones: free (1,000 requests a month,
	// 10 a minute), starter (25,000, 60), growth (150,000, 120) and business (500,000, 300). 0 means unlimited.
	Tiers map[string]quota.Limits `json:"tiers,omitempty"`

	// Thresholds are the probabilities above which a category is flagged, by category: greater than 0 and less than 1.
	// Defaults: hate 0.7, harassment 0.7, self-harm 0.5, sexual 0.8, violence 0.6.
	Thresholds map[string]float64 `json:"thresholds,omitempty"`

	// RejectLevels are the probabilities from which a flagged category is rejected and not only reviewed, by category:
	// at least the threshold and at most 1. Default: half-way from the threshold to 1.
	RejectLevels map[string]float64 `json:"reject_levels,omitempty"`

	// Feedback bounds what one account may store.
	Feedback FeedbackBounds `json:"feedback,omitzero"`

	// Accounts are declared here instead of being made while the server runs. They can only be changed here, and hide a
	// stored account with the same id.
	Accounts []Account `json:"accounts,omitempty"`

	// Demo says whether the first start on an empty database, with no declared account, creates the account "demo" and
	// prints its key to the standard error output, once. Default true.
	Demo *bool `json:"demo,omitempty"`

	// StartTimeout is how long a request that arrives while the app starts waits before it is answered 503. Default 10s.
	StartTimeout caddy.Duration `json:"start_timeout,omitempty"`

	ctx      caddy.Context
	logger   *zap.Logger
	metrics  *metrics.Metrics
	counting bool // metrics are acquired and not yet released
	storage  Storage
	engine   *engine.Engine
	declared declared
	events   emitter

	// stored says that there is a store: a handler needs accounts, or the configuration is about them.
	stored   bool
	store    *shared // what this configuration holds
	services atomic.Pointer[Services]
	// atStart is what is still to be done, by its key.
	atStart map[string]func()
	// started is closed when Start has ended or the configuration is given up.
	started chan struct{}
	once    sync.Once

	now    func() time.Time
	random io.Reader
	notice io.Writer
}

// FeedbackBounds limit what one account may store on one UTC day, so that no caller can fill the disk.
type FeedbackBounds struct {
	// MaxRecordsPerDay is the largest number of records. Default 10,000; 0 means no limit.
	MaxRecordsPerDay *int64 `json:"max_records_per_day,omitempty"`
	// MaxBytesPerDay is the largest sum of the records' encoded sizes, in bytes. Default 64 MiB; 0 means no limit.
	MaxBytesPerDay *int64 `json:"max_bytes_per_day,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision checks the configuration and prepares everything but the store, which [App.Start] opens: Caddy also
// provisions configurations that it only validates, beside the server that has the store open.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.logger = ctx, sampled.Logger(ctx.Logger())
	a.stored = a.StorageRaw != nil || len(a.Accounts) > 0
	a.started = make(chan struct{})
	a.setDefaults()
	collectors, err := metrics.Acquire(ctx.GetMetricsRegistry(), stores.up)
	if err != nil {
		return err
	}
	a.metrics, a.counting = collectors, true
	if err := a.loadStorage(ctx); err != nil {
		return err
	}
	if err := a.loadEngine(ctx); err != nil {
		return err
	}
	if a.declared, err = a.resolve(); err != nil {
		return err
	}
	return a.loadEvents(ctx)
}

// setDefaults fills in what tests may have set before.
func (a *App) setDefaults() {
	if a.now == nil {
		a.now = time.Now
	}
	if a.random == nil {
		a.random = rand.Reader
	}
	if a.notice == nil {
		a.notice = os.Stderr
	}
	if a.StartTimeout == 0 {
		a.StartTimeout = caddy.Duration(10 * time.Second)
	}
	if len(a.Tiers) == 0 {
		a.Tiers = quota.DefaultTiers()
	}
}

// Start opens the store, or joins the one that the running configuration has open, and lets requests in.
func (a *App) Start() error {
	defer a.open()
	if err := a.startStore(); err != nil {
		return err
	}
	for _, check := range a.atStart {
		check()
	}
	return nil
}

// AtStart has a check called when all of the configuration is provisioned and the store is open; once for each key. It must be
// called while a module is provisioned.
func (a *App) AtStart(key string, check func()) {
	if a.atStart == nil {
		a.atStart = map[string]func(){}
	}
	a.atStart[key] = check
}

// startStore opens the store, where there is one.
func (a *App) startStore() error {
	if !a.stored {
		return nil
	}
	store, err := a.openStore()
	if err != nil {
		return err
	}
	a.store = store
	gate, err := a.newGate(store.Store)
	if err != nil {
		return err
	}
	services := &Services{Engine: a.engine, Gate: gate, Store: store.Store, FeedbackBound: a.feedbackBound(), shared: store}
	if err := a.firstStart(services); err != nil {
		return fmt.Errorf("preparing the first start: %w", err)
	}
	a.services.Store(services)
	return nil
}

// newGate returns the gate that the configuration describes, over a store.
func (a *App) newGate(store quota.Store) (*quota.Gate, error) {
	return quota.New(quota.Options{
		Store: store, KeyPrefix: a.KeyPrefix, Tiers: a.Tiers,
		Accounts: a.declared.accounts, Keys: a.declared.keys,
		Now: a.now, Rand: a.random,
	})
}

// open wakes the requests that wait for the app.
func (a *App) open() {
	a.once.Do(func() { close(a.started) })
}

// Stop does nothing: requests of this configuration may still run. [App.Cleanup] lets go of the store.
func (a *App) Stop() error { return nil }

// Cleanup gives back what this configuration took, and only that.
func (a *App) Cleanup() error {
	if a.started != nil {
		a.open()
	}
	if a.counting {
		a.counting = false
		metrics.Release()
	}
	if a.store == nil {
		return nil
	}
	store := a.store
	a.store = nil
	return stores.drop(store)
}

// Acquire returns the app's services for one request, which calls [Services.Release] when it does not use them any more: the
// store stays open until then, also when the configuration is replaced meanwhile. It waits like [App.Services].
func (a *App) Acquire(ctx context.Context) (*Services, error) {
	services, err := a.Services(ctx)
	if err != nil {
		return nil, err
	}
	services.shared.acquire()
	return services, nil
}

// Hold is [App.Acquire] for a request that may need the services later. It does not wait, and returns nil when there are none.
func (a *App) Hold() *Services {
	services := a.services.Load()
	if services != nil {
		services.shared.acquire()
	}
	return services
}

// Services returns the app's services, for as long as the configuration runs; requests use [App.Acquire]. While the app starts it waits, until ctx ends or the start timeout is over, and
// then returns an error that wraps [ErrStarting]. Without a store the error is [ErrNoStore].
func (a *App) Services(ctx context.Context) (*Services, error) {
	if services := a.services.Load(); services != nil {
		return services, nil
	}
	if !a.stored {
		return nil, ErrNoStore
	}
	timeout := time.NewTimer(time.Duration(a.StartTimeout))
	defer timeout.Stop()
	select {
	case <-a.started:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrStarting, context.Cause(ctx))
	case <-timeout.C:
	}
	if services := a.services.Load(); services != nil {
		return services, nil
	}
	return nil, ErrStarting
}

// Engine returns the judge. It is there once the app is provisioned, before it has started: whoever needs no accounts need
// not wait for the store.
func (a *App) Engine() *engine.Engine { return a.engine }

// Metrics returns the service's collectors.
func (a *App) Metrics() *metrics.Metrics { return a.metrics }

// Logger returns the app's logger, for what a handler cannot tell the client. It does not write a line for every request of many
// that meet the same trouble: see [sampled.Logger].
func (a *App) Logger() *zap.Logger { return a.logger }

// Now returns the time of the app's clock.
func (a *App) Now() time.Time { return a.now() }

// Random returns the app's source of randomness.
func (a *App) Random() io.Reader { return a.random }

// Load returns the app of the configuration that ctx belongs to, for a module that only needs the engine. A configuration
// that does not name the app gets one with the defaults. Load must be called while the module is provisioned.
func Load(ctx caddy.Context) (*App, error) {
	loaded, err := ctx.App("moderation")
	if err != nil {
		return nil, err
	}
	return loaded.(*App), nil
}

// LoadWithStore is [Load] for a module that needs accounts, limits or corrections: the app then opens its store when it
// starts.
func LoadWithStore(ctx caddy.Context) (*App, error) {
	owner, err := Load(ctx)
	if err == nil {
		owner.stored = true
	}
	return owner, err
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
