// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// Movable is a [Storage] whose place can be filled with the contents of another store. Its Open returns a store that is
// a [contents.Source].
type Movable interface {
	Storage
	// Place names the place for people, such as "badger /var/lib/moderation", without a password.
	Place() string
	// SamePlace reports whether another storage keeps its records in the same place.
	SamePlace(other Storage) bool
	// Named reports whether another storage, which may lack options, is meant to be this place.
	Named(by Storage) bool
	// Fill begins to fill the place. The error wraps [contents.ErrNotEmpty] if something is kept there.
	Fill(ctx context.Context, logger *zap.Logger) (contents.Target, error)
	// Reopen takes back that everything was moved from the place, which no server has open.
	Reopen(ctx context.Context) error
}

// A store may have these methods. Package storage/badger has both, package storage/redis all.
type (
	// movedMarker keeps a store that was moved from being opened as the truth.
	movedMarker interface {
		MarkMoved(ctx context.Context, text string) error
		UnmarkMoved(ctx context.Context) error
	}
	// freezer makes a store read-only that other servers use, too. Thaw may be called without Freeze.
	freezer interface {
		Freeze(ctx context.Context, why string) error
		Thaw(ctx context.Context) error
	}
	// tracker tells what any server changes from then on, until stop is called.
	tracker interface {
		Track(ctx context.Context) (
			changes func(context.Context) (*contents.Selection, error), stop func(), err error)
	}
)

// Errors of a migration.
var (
	// ErrMigration says that a migration cannot begin, has failed, or cannot be undone. The text of the error is for
	// the operator.
	ErrMigration = errors.New("a migration is refused or has failed")
	// ErrNotMovable says that a storage can neither give nor take everything.
	ErrNotMovable = errors.New("this storage cannot be moved")
)

// migrationError is an [ErrMigration] with a text of its own.
type migrationError struct{ error }

func (migrationError) Is(target error) bool { return target == ErrMigration }

func (e migrationError) Unwrap() error { return e.error }

func refusedMigration(text string, args ...any) error {
	return migrationError{fmt.Errorf(text, args...)}
}

// migrationPatience is how long calls that were charged before the read-only phase may take to end.
const migrationPatience = 5 * time.Second

// Migration is how far a migration is.
type Migration struct {
	// From and To name the stores.
	From string `json:"from"`
	To   string `json:"to"`
	// Phase is one of those of a [contents.Move]; "failed" and "undone" end it otherwise.
	Phase contents.Phase `json:"phase"`
	// Items is how many items were read in this phase.
	Items int64 `json:"items,omitempty"`
	// Report is there when the migration is finished.
	Report *contents.Report `json:"report,omitempty"`
	// Error says why it failed, or what could not be undone.
	Error string `json:"error,omitempty"`
	// LeftOut are the damaged records that are left out.
	LeftOut []string `json:"left_out,omitempty"`
}

// The phases that end a migration.
const (
	migrationFailed contents.Phase = "failed"
	migrationUndone contents.Phase = "undone"
)

// migration is a migration of a pooled store.
type migration struct {
	mu    sync.Mutex
	state Migration
	// target is there once the migration is finished.
	target contents.Target
	// tell is called with each new state until quiet is called. It may be nil.
	tell func(Migration)
}

// set changes the state.
func (m *migration) set(change func(*Migration)) {
	m.mu.Lock()
	change(&m.state)
	state, tell := m.state, m.tell
	m.mu.Unlock()
	if tell != nil {
		tell(state)
	}
}

func (m *migration) get() Migration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// quiet ends the telling of states.
func (m *migration) quiet() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell = nil
}

// ends reports whether a migration in this phase goes on no more.
func (m Migration) ends() bool { return m.Phase == migrationFailed || m.Phase == migrationUndone }

// ParseStorage loads a storage module from its JSON, with the member "module", outside of a configuration. The caller
// calls release when it is no longer needed. The storage is [Movable], or the error wraps [ErrNotMovable].
func ParseStorage(raw json.RawMessage) (guest Movable, release func(), err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, nil, fmt.Errorf("the storage: %w", err)
	}
	var name string
	if err := json.Unmarshal(members["module"], &name); err != nil || name == "" {
		return nil, nil, errors.New("the storage names no module")
	}
	delete(members, "module")
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	module, err := ctx.LoadModuleByID("moderation.storage."+name, rest)
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("the storage %s: %w", name, err)
	}
	guest, ok := module.(Movable)
	if !ok {
		cancel()
		return nil, nil, fmt.Errorf("%w: %s", ErrNotMovable, name)
	}
	return guest, cancel, nil
}

// MigrateOptions say what is moved where.
type MigrateOptions struct {
	// From must name the storage of the running configuration: nothing else is moved. To is the new one. Both are
	// JSON as in the configuration.
	From, To json.RawMessage
	// LeaveOutDamaged leaves damaged records out. Otherwise one ends the migration.
	LeaveOutDamaged bool
	// Tell is called with each change of the state. Nil: nobody is told.
	Tell func(Migration)
}

// Migrate copies everything from the store of the running configuration to another one, at the end of it in a read-only
// phase, and compares. When it returns nil, the store stays read-only until the configuration is replaced by one with
// the other store, or [App.UndoMigration] is called. After an error everything is as before; the other store is marked
// as unfinished.
func (a *App) Migrate(ctx context.Context, o MigrateOptions) error {
	to, release, err := ParseStorage(o.To)
	if err != nil {
		return refusedMigration("the target: %w", err)
	}
	defer release()
	services, err := a.Acquire(ctx)
	if err != nil {
		return err
	}
	defer services.Release()
	from, err := a.migratesFrom(o.From, to)
	if err != nil {
		return err
	}
	m := &migration{tell: o.Tell, state: Migration{From: from.Place(), To: to.Place(), Phase: contents.Copying}}
	pooled := services.pooled
	old := pooled.migration.Load()
	if old != nil && !old.get().ends() || !pooled.migration.CompareAndSwap(old, m) {
		return refusedMigration("there is a migration already; --status shows it, and --undo ends one that is finished")
	}
	defer m.quiet() // whoever is told does not listen any more
	logger := a.logger.With(zap.String("from", m.state.From), zap.String("to", m.state.To))
	logger.Info("a migration begins: everything is copied while the service goes on")
	err = pooled.migrate(ctx, m, to, o.LeaveOutDamaged, logger)
	if err != nil {
		logger.Error("the migration failed: the service goes on with the store that it has", zap.Error(err))
		m.set(func(s *Migration) { s.Phase, s.Error = migrationFailed, err.Error() })
		return refusedMigration("%w", err)
	}
	return nil
}

// migratesFrom returns the storage of the running configuration, if it is the one that is to be moved.
func (a *App) migratesFrom(raw json.RawMessage, to Movable) (Movable, error) {
	from, ok := a.storage.(Movable)
	if !ok {
		return nil, refusedMigration("%w: the one that the server runs with", ErrNotMovable)
	}
	named, release, err := ParseStorage(raw)
	if err != nil {
		return nil, refusedMigration("the source: %w", err)
	}
	defer release()
	if !from.Named(named) {
		return nil, refusedMigration("the server runs with %s, not with %s", from.Place(), named.Place())
	}
	if from.SamePlace(to) {
		return nil, refusedMigration("%s is the store that the server runs with", to.Place())
	}
	return from, nil
}

// migrate does what [App.Migrate] says.
func (s *pooledStore) migrate(
	ctx context.Context, m *migration, to Movable, leaveOut bool, logger *zap.Logger,
) (err error) {
	m.set(func(*Migration) {}) // it has begun
	source, ok := s.Store.(contents.Source)
	if !ok {
		return fmt.Errorf("%w: the one that the server runs with", ErrNotMovable)
	}
	target, err := to.Fill(ctx, logger)
	if err != nil {
		return fmt.Errorf("%s: %w", to.Place(), err)
	}
	changes, stop, err := s.track(ctx)
	if err != nil {
		return errors.Join(err, target.Close())
	}
	defer stop()
	move := contents.Move{
		From: source, To: target, Changes: changes,
		Freeze: func(ctx context.Context) error { return s.freeze(ctx, m, logger) },
		Progress: func(phase contents.Phase, items int64) {
			if phase != contents.Finished {
				m.set(func(state *Migration) { state.Phase, state.Items = phase, items })
			}
		},
	}
	if leaveOut {
		named := make(map[string]bool)
		move.LeaveOut = func(err error) {
			_, what, _ := strings.Cut(err.Error(), storage.ErrDamaged.Error()+": ")
			if !named[what] && len(named) < 100 {
				named[what] = true
				m.set(func(state *Migration) { state.LeftOut = append(state.LeftOut, cmp.Or(what, "a record")) })
			}
		}
	}
	report, err := move.Run(ctx)
	if err == nil {
		err = s.markMoved(ctx, m.get().To)
		if err != nil {
			err = errors.Join(err, target.Void(context.WithoutCancel(ctx)))
		}
	}
	if err != nil {
		s.thaw(ctx, logger)
		return errors.Join(err, target.Close())
	}
	if err := target.Close(); err != nil {
		logger.Error("closing the copy", zap.Error(err)) // it is finished
	}
	logger.Warn("the migration is finished: the service stays read-only until a configuration with the new storage "+
		"is loaded, or the migration is undone (caddy moderation migrate --undo)",
		zap.Float64("read_only_seconds", report.ReadOnly), zap.Stringer("moved", report.Target))
	m.target = target
	m.set(func(state *Migration) { state.Phase, state.Report = contents.Finished, &report })
	return nil
}

// track tells what is changed from now on.
func (s *pooledStore) track(
	ctx context.Context,
) (changes func(context.Context) (*contents.Selection, error), stop func(), err error) {
	if t, ok := s.Store.(tracker); ok {
		return t.Track(ctx)
	}
	if _, ok := s.Store.(freezer); ok {
		return nil, func() {}, nil // other servers change it, too
	}
	changes, stop = s.service.track()
	return changes, stop, nil
}

// freeze begins the read-only phase.
func (s *pooledStore) freeze(ctx context.Context, m *migration, logger *zap.Logger) error {
	why := "everything is moved to " + m.get().To
	logger.Warn("the service is read-only while the migration ends: what must be counted or kept is refused")
	m.set(func(state *Migration) { state.Phase, state.Items = contents.ReadOnly, 0 })
	if err := s.statistics.Flush(ctx); err != nil { // otherwise those of the last half minute would not move
		logger.Warn("the latest statistics could not be written; they are not moved", zap.Error(err))
	}
	left, err := s.service.hold(ctx, why, migrationPatience)
	if err != nil {
		return err
	}
	if left > 0 {
		logger.Warn("calls that were charged have not ended; they are refused when they do",
			zap.Int64("calls", left), zap.Duration("after", migrationPatience))
	}
	if f, ok := s.Store.(freezer); ok {
		return f.Freeze(ctx, why)
	}
	return nil
}

// thaw ends the read-only phase, if there is one.
func (s *pooledStore) thaw(ctx context.Context, logger *zap.Logger) {
	if s.service.reason() == nil {
		return
	}
	if f, ok := s.Store.(freezer); ok {
		if err := f.Thaw(context.WithoutCancel(ctx)); err != nil {
			logger.Error("the store could not be told that it is read-only no longer; other servers still refuse what "+
				"must be counted or kept", zap.Error(err))
		}
	}
	s.service.release()
	logger.Warn("the service is read-only no longer")
}

// markMoved keeps the store from being opened again as the truth.
func (s *pooledStore) markMoved(ctx context.Context, to string) error {
	marker, ok := s.Store.(movedMarker)
	if !ok {
		return nil
	}
	return marker.MarkMoved(ctx, fmt.Sprintf("to %s, at %s", to, time.Now().UTC().Format(time.RFC3339)))
}

// Migration returns how far the migration of the store of the running configuration is, and false without one.
func (a *App) Migration(ctx context.Context) (Migration, bool, error) {
	services, err := a.Acquire(ctx)
	if err != nil {
		return Migration{}, false, err
	}
	defer services.Release()
	m := services.pooled.migration.Load()
	if m == nil {
		return Migration{}, false, nil
	}
	return m.get(), true, nil
}

// UndoMigration ends the read-only phase after a finished migration: the service goes on with the store that it has,
// and the copy is marked as unfinished, because it is not the truth any more.
func (a *App) UndoMigration(ctx context.Context) (Migration, error) {
	services, err := a.Acquire(ctx)
	if err != nil {
		return Migration{}, err
	}
	defer services.Release()
	pooled := services.pooled
	m := pooled.migration.Load()
	if m == nil || m.get().Phase != contents.Finished {
		return Migration{}, refusedMigration("there is no finished migration that could be undone; if the configuration " +
			"with the new storage is loaded, migrate back")
	}
	logger := a.logger.With(zap.String("from", m.state.From), zap.String("to", m.state.To))
	// First: as long as the copy may be opened, the store must not be written.
	if err := m.target.Void(ctx); err != nil {
		return Migration{}, refusedMigration("the copy could not be marked as one that must not be used, so that the "+
			"service stays read-only: %w", err)
	}
	if marker, ok := pooled.Store.(movedMarker); ok {
		if err := marker.UnmarkMoved(ctx); err != nil {
			return Migration{}, refusedMigration("%w", err)
		}
	}
	pooled.thaw(ctx, logger)
	logger.Warn("the migration is undone: the service goes on with the store that it had")
	m.set(func(state *Migration) { state.Phase = migrationUndone })
	return m.get(), nil
}

// Migrate moves everything between two storages that no server uses, in this process.
func Migrate(ctx context.Context, o MigrateOptions, logger *zap.Logger) (report contents.Report, err error) {
	from, releaseFrom, err := ParseStorage(o.From)
	if err != nil {
		return report, fmt.Errorf("the source: %w", err)
	}
	defer releaseFrom()
	to, releaseTo, err := ParseStorage(o.To)
	if err != nil {
		return report, fmt.Errorf("the target: %w", err)
	}
	defer releaseTo()
	if from.SamePlace(to) {
		return report, fmt.Errorf("%s is both the source and the target", to.Place())
	}
	store, err := from.Open(ctx, logger)
	if err != nil {
		return report, err
	}
	s := &pooledStore{Store: store, service: &holdable{Store: store}}
	m := &migration{tell: o.Tell, state: Migration{From: from.Place(), To: to.Place(), Phase: contents.Copying}}
	err = errors.Join(s.migrate(ctx, m, to, o.LeaveOutDamaged, logger), store.Close())
	if err != nil {
		return report, err
	}
	return *m.get().Report, nil
}

// Reopen takes back that everything was moved from a storage that no server uses, and returns the name of its place.
func Reopen(ctx context.Context, from json.RawMessage) (place string, err error) {
	guest, release, err := ParseStorage(from)
	if err != nil {
		return "", err
	}
	defer release()
	return guest.Place(), guest.Reopen(ctx)
}

// Restore fills a storage that no server uses with what [contents.Writer] has written.
func Restore(ctx context.Context, into json.RawMessage, from io.Reader, logger *zap.Logger) (place string, err error) {
	to, release, err := ParseStorage(into)
	if err != nil {
		return "", err
	}
	defer release()
	target, err := to.Fill(ctx, logger)
	if err != nil {
		return "", fmt.Errorf("%s: %w", to.Place(), err)
	}
	err = contents.Load(ctx, target, from)
	return to.Place(), errors.Join(err, target.Close())
}
