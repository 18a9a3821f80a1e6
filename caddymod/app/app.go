// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package app is the Caddy app "moderation". It owns the engine, the gate and the store, and hands them to the
// handlers.
//
// # Guest modules
//
// Two namespaces take modules of others: moderation.classifiers and moderation.storage. Such a module is a Go package
// that calls [caddy.RegisterModule] in its init function, and is built into Caddy with another --with of xcaddy. It
// needs a method UnmarshalCaddyfile to be named in the Caddyfile. If it has Provision, Validate or Cleanup, Caddy
// calls them as for all modules.
//
// A classifier module implements [engine.Classifier], and [engine.Explainer] if it can say which words count, and in
// which passage. The example "Classifier" is a whole one. The module may have a method
//
//	Classifier() engine.Classifier
//
// which is called once after Provision: what it returns is used in place of the module. A module that wraps
// [engine.Embedded] needs it, because the engine tokenizes once for all that it does with such a classifier.
//
// A storage module implements [Storage], which opens a [storage.Store], and [Movable] if everything can be moved to and
// from it. The example "Storage" is a whole one. The documentation of package storage says what a store must do, and
// package storage/storagetest tests it.
package app

import (
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

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/version"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/sessions"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

func init() {
	caddy.RegisterModule(new(App))
}

// ErrStarting means that the app has not finished starting within its start timeout. Handlers answer 503.
var ErrStarting = errors.New("the moderation app has not started yet")

// ErrNoStore means that the configuration has no store: it names none, declares no account, and has no handler that
// needs accounts. A guard alone needs none.
var ErrNoStore = errors.New("this configuration keeps no accounts: it serves nothing that needs them; " +
	"the option storage of the global option moderation changes that")

// App is the moderation service itself: the classifier, the policy, the accounts with their limits, and the store. All
// moderation handlers of a configuration share it. Every option has a default. A configuration that does not mention
// the app gets one with the defaults.
//
// The first start on an empty database creates the account "demo" and prints its key to standard error, once.
//
// In the Caddyfile the app is a global option. Syntax:
//
//	moderation {
//		storage <module> ...                          # default: badger <Caddy's data directory>/moderation
//		classifier <module> ...                       # default: embedded
//		key_prefix <prefix>                           # default: mod
//		tier <name> <per month> <per minute>          # 0 = unlimited; any tier replaces all default ones
//		threshold <category> <probability>
//		reject_level <category> <probability>
//		harm_share <share>                            # of the texts that are harmful, such as 2% or 0.02
//		feedback {
//			max_records_per_day <number>              # for each account; default 10000, 0 = no limit
//			max_bytes_per_day <size>                  # for each account; default 64MiB, 0 = no limit
//			keep <age>                                # a duration such as 90d; default for ever
//		}
//		review {                                      # keep texts for people to decide; default: none
//			of review|reject...                       # default review
//			sample <share>                            # of all texts, such as 1%; default none
//			keep <age>                                # default 30d
//			max <number>                              # of items; default 100000
//			twice <share>                             # that two reviewers decide; default 5%
//			key {env.NAME} | {file.PATH} [<former>...] # encrypt them; former keys only decrypt
//			plain_authors                             # name authors as the site does
//			webhook <url> {                           # is told what reviewers decide
//				secret {env.NAME} | {file.PATH}
//				account <id>                          # default: all
//			}
//		}
//		demo on|off                                   # default on
//		start_timeout <duration>                      # default 10s
//		account <id> {
//			name <text>
//			tier <name>
//			status <status>
//			anchor_day <day>
//			threshold <category> <probability>
//			harm_share <share>
//			allow <expression>...                     # does not count
//			block <expression>...                     # rejects
//			languages <tag>...                        # that texts are expected to be in, such as en, es or pt-BR
//			other_language pass|review|reject         # default pass; for text that is clearly in another language
//			requests_per_month <number>
//			requests_per_minute <number>
//			key {env.NAME} | {file.PATH} | sha256:<hex> {
//				name <text>
//				environment <text>
//				expires <date or instant>
//				scope review                          # it may decide the account's review items
//			}
//		}
//	}
//
// The categories are hate, harassment, self-harm, sexual and violence.
//
// The app emits the events moderation_refused and moderation_flagged, and the metrics caddy_moderation_*.
type App struct {
	// The storage module, which keeps accounts, keys, counts and feedback. Default: the module "badger" with its
	// default directory.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=moderation.storage inline_key=module"`

	// The classifier module, which turns text into probabilities. Default: the module "embedded", the model in the
	// binary.
	ClassifierRaw json.RawMessage `json:"classifier,omitempty" caddy:"namespace=moderation.classifiers inline_key=module"`

	// The prefix of new keys, before "_sk_": 1 to 20 letters and digits. Keys that were created with another prefix
	// stay valid. Default: "mod".
	KeyPrefix string `json:"key_prefix,omitempty"`

	// The tiers that accounts can have, by name. They replace all default tiers. A limit of 0 means unlimited. Default:
	// free (1,000 requests a month, 10 a minute), starter (25,000 and 60), growth (150,000 and 120) and business
	// (500,000 and 300).
	Tiers map[string]quota.Limits `json:"tiers,omitempty"`

	// The probabilities above which a category is flagged, by category: greater than 0 and less than 1. Default: hate
	// 0.7, harassment 0.7, self-harm 0.5, sexual 0.8, violence 0.6.
	Thresholds map[string]float64 `json:"thresholds,omitempty"`

	// The probabilities at or above which a flagged category is rejected instead of reviewed, by category: at least the
	// threshold and at most 1. Default: half-way from the threshold to 1.
	RejectLevels map[string]float64 `json:"reject_levels,omitempty"`

	// The share of the texts that are harmful, from 0.0001 to 0.99, where neither an account nor a guard has a share of
	// its own. The probabilities of the embedded classifier are moved to it: where harm is rarer, fewer harmless texts
	// are flagged, and fewer harmful ones. Those of other classifiers, of themes and of the Perspective API's
	// operations are not moved. Default: the share that the weights are calibrated for.
	HarmShare *float64 `json:"harm_share,omitempty"`

	// The limits on the feedback that each account may store, and how long it is kept.
	Feedback FeedbackOptions `json:"feedback,omitzero"`

	// The review queue: which texts are kept for people to decide, and for how long. Default: none.
	Review *ReviewOptions `json:"review,omitempty"`

	// The accounts that are declared in the configuration. They can only be changed there, and hide stored accounts
	// with the same id. Other accounts can be created while the server runs.
	Accounts []Account `json:"accounts,omitempty"`

	// Whether the first start on an empty database creates the account "demo" and prints its key to standard error,
	// once. It has no effect if accounts are declared. Default: true.
	Demo *bool `json:"demo,omitempty"`

	// The maximum time that a request waits while the app starts, before it is answered 503. Default: 10s.
	StartTimeout caddy.Duration `json:"start_timeout,omitempty"`

	ctx        caddy.Context
	logger     *zap.Logger
	metrics    *metrics.Metrics
	hasMetrics bool // metrics are acquired and not yet released
	storage    Storage
	classifier any // the module
	engine     *engine.Engine
	declared   declarations
	events     emitter

	// needsStore is set when a handler needs accounts, or the configuration is about them.
	needsStore bool
	pooled     *pooledStore // what this configuration holds
	services   atomic.Pointer[Services]
	sweeper    *sweeper // nil before the start
	senders    *senders // nil without webhooks
	signsIn    atomic.Bool
	guards     []Guard
	words      accountWords
	// startChecks are what AtStart has registered, by key.
	startChecks map[string]func()
	// started is closed when Start has ended or the configuration is given up.
	started   chan struct{}
	startOnce sync.Once

	// clocked says that now is not time.Now, so that the clock of the store does not take its place.
	clocked bool

	// Tests set these before Provision.
	now    func() time.Time
	random io.Reader
	notice io.Writer // gets the key of the first start
	sweeps sweepTiming
}

// FeedbackOptions are the limits of what one account may store on one UTC day, so that no caller can fill the disk, and
// the retention.
type FeedbackOptions struct {
	// The maximum number of records an account may store on one UTC day. 0 means no limit. Default: 10,000.
	MaxRecordsPerDay *int64 `json:"max_records_per_day,omitempty"`

	// The maximum sum of the encoded sizes of these records, in bytes. 0 means no limit. Default: 64 MiB.
	MaxBytesPerDay *int64 `json:"max_bytes_per_day,omitempty"`

	// How long feedback is kept: at least 1 day. Records are deleted on the UTC day after they have reached this age,
	// once the server has run for 10 minutes; what is deleted cannot be brought back. 0 means for ever. Default: 0.
	Keep caddy.Duration `json:"keep,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision prepares everything but the store, which [App.Start] opens: Caddy also provisions configurations that it
// only validates, beside the server that has the store open.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.logger = ctx, sampled.Logger(ctx.Logger())
	a.needsStore = a.StorageRaw != nil || len(a.Accounts) > 0 || a.Review != nil
	a.started = make(chan struct{})
	a.setDefaults()
	collectors, err := metrics.Acquire(ctx.GetMetricsRegistry(), metrics.State{
		Store: stores.health, Model: modelInForce, Room: stores.observe,
	})
	if err != nil {
		return err
	}
	a.metrics, a.hasMetrics = collectors, true
	if err := metrics.RegisterStore(ctx.GetMetricsRegistry(), stores.observe); err != nil {
		return err
	}
	if err := a.loadStorage(ctx); err != nil {
		return err
	}
	if err := a.loadEngine(ctx); err != nil {
		return err
	}
	a.warnOfHarmShare()
	if a.declared, err = a.resolveAccounts(); err != nil {
		return err
	}
	return a.loadEvents(ctx)
}

// setDefaults fills in what neither the configuration nor a test has set.
func (a *App) setDefaults() {
	a.clocked = a.now != nil
	if a.now == nil {
		a.now = time.Now
	}
	if a.random == nil {
		a.random = rand.Reader
	}
	if a.notice == nil {
		a.notice = os.Stderr
	}
	if a.sweeps == (sweepTiming{}) {
		a.sweeps = defaultSweeps
	}
	if a.StartTimeout == 0 {
		a.StartTimeout = caddy.Duration(10 * time.Second)
	}
	if len(a.Tiers) == 0 {
		a.Tiers = quota.DefaultTiers()
	}
}

// AtStart registers a check that runs once all modules of the configuration are provisioned and the store is open. A
// second check with the same key replaces the first. AtStart must be called while a module is provisioned.
func (a *App) AtStart(key string, check func()) {
	if a.startChecks == nil {
		a.startChecks = map[string]func(){}
	}
	a.startChecks[key] = check
}

// Start opens the store, or joins the one that the running configuration has open, and lets requests in.
func (a *App) Start() error {
	defer a.markStarted()
	if err := a.startStore(); err != nil {
		return err
	}
	for _, check := range a.startChecks {
		check()
	}
	a.logger.Info("the moderation service has started",
		zap.String("version", version.Version()), zap.String("model", a.engine.Version()))
	return nil
}

// startStore opens the store, unless nothing needs one, and builds the services on it.
func (a *App) startStore() error {
	if !a.needsStore {
		return nil
	}
	store, err := a.openStore()
	if err != nil {
		return err
	}
	a.pooled = store
	now := a.clockOf(store.Store)
	gate, err := a.newGate(store.service, now)
	if err != nil {
		return err
	}
	services := &Services{
		Engine: a.engine, Gate: gate, Store: store.service.store(), FeedbackBound: a.feedbackBound(), Now: now,
		Statistics: store.statistics, pooled: store,
	}
	services.Sessions = &sessions.Sessions{Store: services.Store, Now: now, Random: a.random}
	services.Audit = &Audit{Log: &audit.Log{Store: services.Store, Now: now}, logger: a.logger}
	if services.Reviews, err = a.newReviews(services); err != nil {
		return err
	}
	if err := a.firstStart(services); err != nil {
		return fmt.Errorf("preparing the first start: %w", err)
	}
	a.services.Store(services)
	store.introduce(version.Version(), a.engine.Version())
	a.startSweeper(now)
	return a.startSenders(services)
}

// clockOf returns the clock by which requests and corrections are counted: that of the store if it has one, so that
// nodes with different clocks agree.
func (a *App) clockOf(store storage.Store) func() time.Time {
	if clock, ok := store.(interface{ Now() time.Time }); ok && !a.clocked {
		return clock.Now
	}
	return a.now
}

// newGate returns the gate that the configuration describes, over a store with a clock.
func (a *App) newGate(store quota.Store, now func() time.Time) (*quota.Gate, error) {
	return quota.New(quota.Options{
		Store: store, KeyPrefix: a.KeyPrefix, Tiers: a.Tiers,
		Accounts: a.declared.accounts, Keys: a.declared.keys,
		Now: now, Rand: a.random,
	})
}

// markStarted wakes the requests that wait for the app.
func (a *App) markStarted() {
	a.startOnce.Do(func() { close(a.started) })
}

// Stop ends what this configuration does by itself. Its requests may still run: [App.Cleanup] releases the store.
func (a *App) Stop() error {
	a.stopSweeper()
	a.senders.stop()
	return nil
}

// stopSweeper ends the sweeper, if there is one.
func (a *App) stopSweeper() {
	if a.sweeper != nil {
		a.sweeper.stop()
	}
}

// Cleanup releases what this configuration acquired, and only that.
func (a *App) Cleanup() error {
	if a.started != nil {
		a.markStarted()
	}
	if a.hasMetrics {
		a.hasMetrics = false
		a.leaveGuards()
		metrics.Release()
	}
	a.senders.stop()
	a.stopSweeper() // Caddy does not stop what has started in a configuration that fails
	if a.pooled == nil {
		return nil
	}
	store := a.pooled
	a.pooled = nil
	return stores.release(store)
}

// Engine returns the engine. It exists once the app is provisioned, before it has started: a handler that needs no
// accounts need not wait for the store.
func (a *App) Engine() *engine.Engine { return a.engine }

// modelInForce returns the version of the classifier of the configuration that runs now, if it uses the app.
func modelInForce() (version string, ok bool) {
	running := caddy.ActiveContext()
	loaded, err := running.AppIfConfigured("moderation")
	if err != nil {
		return "", false
	}
	return loaded.(*App).engine.Version(), true
}

// Metrics returns the service's collectors.
func (a *App) Metrics() *metrics.Metrics { return a.metrics }

// Logger returns the app's logger, for errors that a handler cannot tell the client. It is sampled: many requests
// with the same trouble do not write a line each (see [sampled.Logger]).
func (a *App) Logger() *zap.Logger { return a.logger }

// Now returns the time of this machine's clock, for what nothing is counted by. See [Services.Now].
func (a *App) Now() time.Time { return a.now() }

// Random returns the app's source of randomness.
func (a *App) Random() io.Reader { return a.random }

// Load returns the app of the configuration that ctx belongs to, for a module that only needs the engine. A
// configuration that does not name the app gets one with the defaults. Load must be called while the module is
// provisioned.
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
		owner.needsStore = true
	}
	return owner, err
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
