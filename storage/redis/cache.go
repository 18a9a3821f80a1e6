// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// For how long the caches keep what they have read.
const (
	// cacheTTL bounds how long a change of another node is not seen when the server's word of it is lost.
	cacheTTL = 5 * time.Second
	// untrackedTTL is instead of cacheTTL where the server does not tell of changes.
	untrackedTTL = time.Second
)

// What is read is kept twice: by the client, until the server says that it has changed, and decoded, by a [reader]. The
// latter saves the client's work and stands in while the database cannot be reached.

// cacheSize is how many accounts, and how many keys, are kept decoded.
const cacheSize = 100_000

// kept is a record that was read, with what it was decoded to.
type kept[V any] struct {
	value string
	// decoded is nil for a record that is absent, which is kept only where the server does not tell of changes.
	decoded *V
	// read is when the database last said that this is the record, and until is until when it is taken for that
	// without asking, unless the server says otherwise; both by the monotonic clock. Epoch is the one in which it was
	// read.
	read, until, epoch atomic.Int64
}

// reader reads records of one kind, by their names.
type reader[V any] struct {
	store *Store
	// what is the kind of record, for errors.
	what   string
	decode func(name, value string) (*V, error)
	kept   *otter.Cache[string, *kept[V]]
}

func newReader[V any](s *Store, what string, decode func(name, value string) (*V, error)) *reader[V] {
	return &reader[V]{
		store: s, what: what, decode: decode,
		kept: otter.Must(&otter.Options[string, *kept[V]]{MaximumSize: cacheSize}),
	}
}

// heard is what the server has said of changes.
type heard struct {
	// said counts how often it said that records have changed.
	said atomic.Int64
	// epoch counts how often all that was read before had to be asked for again: because everything has changed, or
	// because a connection ended over which the server would have said what has.
	epoch atomic.Int64
}

// read returns the record with a name. If there is none, the error wraps [quota.ErrNotFound].
func (r *reader[V]) read(ctx context.Context, name string) (*V, error) {
	s := r.store
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	now := int64(monotonic())
	said, changes, epoch := s.heard.said.Load(), s.fresh.changes.Load(), s.heard.epoch.Load()
	k, _ := r.kept.GetIfPresent(name)
	if k != nil && now < k.until.Load() && k.epoch.Load() == epoch && !s.fresh.has(name) {
		return k.result(r.what)
	}
	value, ttl, err := s.lookup(ctx, name)
	if err != nil {
		if k != nil && k.decoded != nil && errors.Is(err, storage.ErrUnavailable) &&
			s.standsIn(name, time.Duration(k.read.Load())) {
			return k.decoded, nil
		}
		return nil, err
	}
	if k == nil || k.value != value {
		k = &kept[V]{value: value}
		if value != "" {
			if k.decoded, err = r.decode(name, value); err != nil {
				return nil, err
			}
		}
	}
	k.read.Store(now)
	k.epoch.Store(epoch)
	k.until.Store(now + int64(ttl))
	if value == "" && s.tracks() {
		r.kept.Invalidate(name) // the client keeps that
		return k.result(r.what)
	}
	r.kept.Set(name, k)
	if s.heard.said.Load() != said || s.fresh.changes.Load() != changes {
		// What was read may have been replaced before it was kept.
		r.kept.Invalidate(name)
	}
	return k.result(r.what)
}

// result returns what was decoded.
func (k *kept[V]) result(what string) (*V, error) {
	if k.decoded == nil {
		return nil, fmt.Errorf("%s: %w", what, quota.ErrNotFound)
	}
	return k.decoded, nil
}

// lookup returns the value of a record, which is empty if there is none, and for how long it may be kept.
func (s *Store) lookup(ctx context.Context, name string) (value string, ttl time.Duration, err error) {
	ctx, cancel := s.link.begin(ctx)
	defer cancel()
	c, err := s.link.connected()
	if err != nil {
		return "", 0, err
	}
	var m rueidis.RedisMessage
	switch {
	case s.fresh.has(name):
		if err := s.undoneAll(ctx); err != nil {
			return "", 0, err
		}
		m, err = s.link.do(ctx, c.B().Get().Key(name).Build())
	case c.tracks:
		m, err = s.link.cached(ctx, c.B().Get().Key(name).Cache(), cacheTTL)
		// What the client had kept before is kept only as long as the client keeps it.
		ttl = time.Duration(max(m.CachePTTL(), 0)) * time.Millisecond
	default:
		m, err = s.link.do(ctx, c.B().Get().Key(name).Build())
		ttl = untrackedTTL
	}
	if err != nil {
		return "", 0, err
	}
	if !m.IsNil() {
		if value, err = m.ToString(); err != nil {
			return "", 0, errAnswer
		}
		value = present(value)
	}
	if value == "" {
		return "", ttl, s.checkIdentity(ctx)
	}
	return value, ttl, nil
}

// present returns a value, or nothing if it is that of a deleted record.
func present(value string) string {
	if value != "" && value[0] == deleted {
		return ""
	}
	return value
}

// tracks reports whether the server tells of changes.
func (s *Store) tracks() bool {
	c, err := s.link.connected()
	return err == nil && c.tracks
}

// standsIn reports whether what was read at an instant of the monotonic clock stands in for a record while the database
// cannot be reached. What this node has changed since does not.
func (s *Store) standsIn(name string, read time.Duration) bool {
	return s.options.Outage != Deny && monotonic()-read < s.options.StaleKeys && !s.fresh.changedSince(name, read) &&
		!s.closed.Load()
}

// invalidated takes what the server says of changes: the names of the records, or nil for all of them. The client also
// calls it with nil when a connection has ended.
func (s *Store) invalidated(names []rueidis.RedisMessage) {
	s.heard.said.Add(1)
	if names == nil {
		s.heard.epoch.Add(1)
	}
	for i := range names {
		if name, err := names[i].ToString(); err == nil {
			s.accounts.kept.Invalidate(name)
			s.keys.kept.Invalidate(name)
		}
	}
}
