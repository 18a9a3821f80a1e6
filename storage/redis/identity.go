// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/internal/stored"
)

// identity is the record by which a database is known: it is made with the database and never again. When it is
// missing or another one, the database was emptied or replaced, and what is not found may have been there before.
type identity struct {
	Schema int    `json:"schema"`
	ID     string `json:"id"`
	Seeded bool   `json:"seeded,omitempty"`
	// State is one of those in state.go, and Why says why, or where to everything was moved.
	State string `json:"state,omitempty"`
	Why   string `json:"why,omitempty"`
}

// known is what a store knows of its database's identity.
type known struct {
	id atomic.Pointer[string]
	// lost is an error that says that the database is not the one that it was, nil while it is.
	lost atomic.Pointer[error]
	// sure says until when it need not be asked for, unless the server says that something has changed.
	sure atomic.Pointer[assurance]
}

// assurance is that the database was the one that it was, when the server had said so much of changes (see [heard]),
// and until when that is taken for true, by the monotonic clock.
type assurance struct{ said, epoch, until int64 }

// check returns an error while the database is not the one that it was.
func (k *known) check() error {
	if err := k.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// database returns the identity of the database, "" before it was reached.
func (k *known) database() string {
	if id := k.id.Load(); id != nil {
		return *id
	}
	return ""
}

// errEmptied is wrapped by all errors that say that the database is not the one that it was.
var errEmptied = fmt.Errorf("%w: the database was emptied or replaced: restore it, or restart to begin anew",
	storage.ErrUnavailable)

// readIdentity returns the identity and its value. Both are empty if there is none.
func (s *Store) readIdentity(ctx context.Context) (i identity, value string, err error) {
	b, err := s.link.b()
	if err != nil {
		return i, "", err
	}
	name := s.names.store()
	m, err := s.link.do(ctx, b.Get().Key(name).Build())
	if err != nil || m.IsNil() {
		return i, "", err
	}
	if value, err = m.ToString(); err != nil {
		return i, "", errAnswer
	}
	i, err = openIdentity(name, value)
	return i, value, err
}

func openIdentity(name, value string) (i identity, err error) {
	_, payload, err := open(name, value)
	if err == nil {
		err = stored.Decode(payload, &i)
	}
	if err != nil {
		return i, fmt.Errorf("%w: the identity of the store", errDamaged)
	}
	if i.Schema > schema {
		return i, &MistakeError{fmt.Sprintf("a newer version of this software wrote the database: its schema is %d, "+
			"and this version knows %d", i.Schema, schema)}
	}
	return i, nil
}

func (s *Store) sealIdentity(i identity) (string, error) {
	b, err := stored.Append(nil, i)
	if err != nil {
		return "", err
	}
	return seal(s.names.store(), "", b), nil
}

// identify reads the identity of the database, or makes it if the database has none. It is called when the database
// was reached for the first time.
func (s *Store) identify(ctx context.Context) error {
	i, value, err := s.readIdentity(ctx)
	if err != nil {
		return err
	}
	for value == "" {
		fresh := identity{Schema: schema, ID: rand.Text()}
		becomes, err := s.sealIdentity(fresh)
		if err != nil {
			return err
		}
		outcome, is, err := s.swap(ctx, s.names.store(), "", becomes)
		if err != nil {
			return err
		}
		if outcome == done {
			i = fresh
			break
		}
		if i, err = openIdentity(s.names.store(), is); err != nil {
			return err
		}
		value = is
	}
	if err := i.check(); err != nil {
		return err
	}
	s.held.note(i, "") // the first look, within a second, sees a hold
	missing, err := s.mark(ctx, i.ID)
	if err != nil {
		return err
	}
	if missing > 0 && missing < shards {
		s.logger.Warn("a part of the database was emptied or replaced before this start; accounts, keys or counts "+
			"may be missing", zap.Int("parts", missing), zap.Int("of", shards))
	}
	s.known.id.Store(&i.ID)
	return s.look(ctx)
}

// mark makes the marks of the database where they are missing or others.
func (s *Store) mark(ctx context.Context, id string) (missing int, err error) {
	b, err := s.link.b()
	if err != nil {
		return 0, err
	}
	marks, err := s.link.many(ctx, s.marks(b)...)
	if err != nil {
		return 0, err
	}
	var set []rueidis.Completed
	for n, m := range marks {
		if is, err := m.ToString(); err != nil || is != id {
			set = append(set, b.Set().Key(s.names.mark(n)).Value(id).Build().ToRetryable())
		}
	}
	_, err = s.link.many(ctx, set...)
	return len(set), err
}

// marks returns the commands that read all marks.
func (s *Store) marks(b rueidis.Builder) (all []rueidis.Completed) {
	for n := range shards {
		all = append(all, b.Get().Key(s.names.mark(n)).Build())
	}
	return all
}

// checkIdentity is called when a record is not found. It returns an error if that may be because the database was
// emptied or replaced. Who empties a database, or a part of a cluster, ends or invalidates all that was read from
// there, and the client hears of that before it gets the answer that something is not found. Only the connection of
// that answer must have heard it: the identity that was read over another one may look kept for a moment longer, so
// that after everything has changed it is asked for.
func (s *Store) checkIdentity(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	c, err := s.link.connected()
	if err != nil {
		return err
	}
	if !c.tracks {
		// The store looks after the marks each second.
		m, err := s.link.do(ctx, c.B().Get().Key(s.names.store()).Build())
		return s.compareWith(m, err)
	}
	said, epoch, now := s.heard.said.Load(), s.heard.epoch.Load(), int64(monotonic())
	sure := s.known.sure.Load()
	if sure != nil && *sure == (assurance{said, epoch, sure.until}) && now < sure.until {
		return nil
	}
	if err := s.compareIdentity(ctx, c, sure != nil && sure.epoch == epoch); err != nil {
		return err
	}
	s.known.sure.Store(&assurance{said, epoch, now + int64(cacheTTL)})
	return nil
}

// confirmIdentity is checkIdentity for what is rare: where the server does not tell of changes, it looks after all
// parts.
func (s *Store) confirmIdentity(ctx context.Context) error {
	ctx, cancel := s.link.begin(ctx)
	defer cancel()
	c, err := s.link.connected()
	if err != nil {
		return err
	}
	if c.tracks {
		return s.checkIdentity(ctx)
	}
	return s.compareIdentity(ctx, c, false)
}

// compareIdentity reads the identity, and in a cluster the marks, and compares them. What the client has kept will do
// if cached is true.
func (s *Store) compareIdentity(ctx context.Context, c *client, cached bool) error {
	read := func(name string) (rueidis.RedisMessage, error) {
		if cached {
			return s.link.cached(ctx, c.B().Get().Key(name).Cache(), cacheTTL)
		}
		return s.link.do(ctx, c.B().Get().Key(name).Build())
	}
	if err := s.compareWith(read(s.names.store())); err != nil || s.options.Topology != Cluster {
		return err
	}
	id := s.known.database()
	if !cached {
		marks, err := s.link.many(ctx, s.marks(c.B())...)
		if err != nil {
			return err
		}
		for _, m := range marks {
			if is, err := m.ToString(); err != nil || is != id {
				return s.lose()
			}
		}
		return nil
	}
	for n := range shards {
		m, err := read(s.names.mark(n))
		if err != nil {
			return err
		}
		if is, err := m.ToString(); err != nil || is != id {
			return s.lose()
		}
	}
	return nil
}

// compareWith compares the identity that was read.
func (s *Store) compareWith(m rueidis.RedisMessage, err error) error {
	if err == nil && !s.isIdentity(m, s.names.store(), s.known.database()) {
		err = s.lose()
	}
	return err
}

func (s *Store) isIdentity(m rueidis.RedisMessage, name, id string) bool {
	value, err := m.ToString()
	if err != nil {
		return false
	}
	i, err := openIdentity(name, value)
	return err == nil && i.ID == id
}

// noteState notes what the identity and the hold say.
func (s *Store) noteState(m, hold rueidis.RedisMessage) {
	value, err := m.ToString()
	if err != nil {
		return
	}
	if i, err := openIdentity(s.names.store(), value); err == nil {
		why, _ := hold.ToString() // nothing without a hold
		s.held.note(i, why)
	}
}

// lose notes that the database is not the one that it was.
func (s *Store) lose() error {
	err := errEmptied
	if s.known.lost.CompareAndSwap(nil, &err) {
		s.counters.circuit.trip(err)
		s.logger.Error("the database was emptied or replaced; it is taken for unavailable until its records are back " +
			"or the service is restarted")
	}
	return err
}

// look checks the identity and the marks, whether the breaker lets it or not: it may be open because of them.
func (s *Store) look(ctx context.Context) error {
	id := s.known.id.Load()
	c, err := s.link.connected()
	if err != nil || id == nil {
		return err
	}
	name := s.names.store()
	answers, err := s.link.ask(ctx, c, append(s.marks(c.B()), c.B().Get().Key(name).Build(),
		c.B().Get().Key(s.names.hold()).Build()))
	if err != nil {
		return err
	}
	same := s.isIdentity(answers[shards], name, *id)
	s.noteState(answers[shards], answers[shards+1])
	for _, m := range answers[:shards] {
		if is, err := m.ToString(); err != nil || is != *id {
			same = false
		}
	}
	if !same {
		return s.lose()
	}
	if s.known.lost.Swap(nil) != nil {
		s.logger.Info("the database is again the one that it was")
	}
	return nil
}

// watchInterval is how often the store looks after its database.
const watchInterval = time.Second

// watch looks after the database until the store is closed.
func (s *Store) watch() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-ticker.C:
		}
		ctx, cancel := s.link.change(context.Background())
		_ = s.look(ctx) // if it cannot look, others notice
		s.lookForReplicas(ctx)
		cancel()
	}
}

// Health implements [storage.Store].
func (s *Store) Health() error {
	if s.closed.Load() {
		return errClosed
	}
	if err := s.mistake.Load(); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, *err)
	}
	if err := s.known.check(); err != nil {
		return err
	}
	if _, err := s.link.connected(); err != nil {
		return err
	}
	if err := s.counters.circuit.health(); err != nil {
		return err
	}
	if s.undos.count.Load() > 0 {
		return errInDoubt
	}
	if s.shortOfReplicas.Load() {
		return errTooFewReplicas
	}
	return s.held.err()
}

// Seeded implements [storage.Store].
func (s *Store) Seeded(ctx context.Context) (bool, error) {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return false, err
	}
	defer cancel()
	i, value, err := s.readIdentity(ctx)
	if err != nil {
		return false, err
	}
	if id := s.known.id.Load(); value == "" || id == nil || i.ID != *id {
		return false, s.lose()
	}
	return i.Seeded, nil
}

// MarkSeeded implements [storage.Store].
func (s *Store) MarkSeeded(ctx context.Context) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	for {
		i, value, err := s.readIdentity(ctx)
		if err != nil {
			return err
		}
		if id := s.known.id.Load(); value == "" || id == nil || i.ID != *id {
			return s.lose()
		}
		i.Seeded = true
		becomes, err := s.sealIdentity(i)
		if err != nil {
			return err
		}
		if outcome, _, err := s.swap(ctx, s.names.store(), value, becomes); err != nil || outcome == done {
			return err
		}
	}
}

// MistakeError says that the database cannot be used as it is configured. Its text says what to do.
type MistakeError struct{ text string }

func (e *MistakeError) Error() string { return e.text }

// mistaken returns the mistake in err, nil if there is none.
func mistaken(err error) *MistakeError {
	var m *MistakeError
	if errors.As(err, &m) {
		return m
	}
	return nil
}

// refusesOpen reports whether because of an error the store is not opened, where others are tried again.
func refusesOpen(err error) bool {
	return mistaken(err) != nil || errors.Is(err, errDamaged) || errors.As(err, new(*stateError))
}

// firstLine returns what an error says up to the end of the line.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
