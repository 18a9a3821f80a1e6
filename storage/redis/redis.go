// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package redis keeps the service's records in a Redis or Valkey server, in a master that sentinels watch, or in a
// cluster, so that several nodes share them.
//
// # Changes
//
// Everything that changes a record is a script which the server runs in one piece. A script may be sent again when its
// answer is lost, and knows what it has done. There are two kinds:
//
//   - Counts change by calls, which have ids (counters.go, calls.go). What cannot be said to the server now is kept in
//     memory, and said later.
//   - Accounts, keys and corrections change by scripts that do nothing after an instant of the server's clock
//     (change.go). When that has passed without an answer, what they may have done is taken back. Until this is done,
//     [Store.Health] returns an error and other changes wait. A change of several records in different slots of a
//     cluster has several scripts, of which all or none remain.
//
// # Reading accounts and keys
//
// The client keeps what it reads until the server says that it has changed, or for 5 seconds at most (cache.go). Where
// the server does not say so, the store keeps it for a second. A record that this store itself has changed is read past
// the caches for a while, so that each node sees its own changes at once. Beside that the store keeps what it has
// decoded, which stands in while the server cannot be reached.
//
// When something is not found, the database must be the one that it was: it has an identity (identity.go), and so has
// each part of a cluster. A database that was emptied is unavailable, because nobody can say what was in it.
//
// # Errors and outages
//
// All commands pass the link (link.go), which bounds them in time, maps errors, and asks a breaker (breaker.go). It
// opens after some failures in a row, for each part of a cluster by itself. Then calls are admitted by the policy for
// outages (outage.go), and known keys stand in. A server that does not do what it is asked (no memory, read-only) is
// taken for one that does not answer.
//
// # Permissions
//
// The user needs the commands in [LeastRights] on all names that begin with the prefix and a colon, and no channels:
//
//	ACL SETUSER moderation on >password resetkeys ~mod:* resetchannels -@all <LeastRights>
//
// In a cluster it needs [ClusterRights], too, on the master of sentinels [SentinelRights], and to wait for replicas
// [ReplicaRights]. With +info the store warns of a server that evicts records. On sentinels it needs
// "+sentinel|sentinels +sentinel|get-master-addr-by-name +subscribe +unsubscribe +ping", and all channels.
package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Store is the records of one prefix in the database. It is safe for concurrent use. [Store.Close] must be called.
type Store struct {
	options Options
	logger  *zap.Logger
	names   names
	link    *link
	// counters is the part that counts.
	counters *counters

	known known
	// held is why nothing may be changed, and freezing the hold of this node.
	held     held
	freezing freezing
	// mistake is what hinders the use of a database that was not reached when the store was opened, nil if nothing.
	mistake atomic.Pointer[error]

	// shortOfReplicas says that the last change did not reach as many replicas as it should.
	shortOfReplicas atomic.Bool

	heard    heard
	accounts *reader[quota.Account]
	keys     *reader[quota.Key]
	fresh    fresh
	locks    stripes
	undos    undos
	// noted has when this store has added a collection to the set of all, by the monotonic clock.
	noted sync.Map

	closed  atomic.Bool
	closing chan struct{}
	close   func() error
	// background are the goroutines of the store, which end when closing is closed.
	background sync.WaitGroup
}

// validPrefix is what may begin the names of a store. Braces would decide the slots of a cluster.
var validPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]{1,20}$`)

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	if len(o.Addresses) == 0 {
		return errors.New("no address is given")
	}
	if o.Topology == "" {
		o.Topology = Standalone
	}
	if o.Outage == "" {
		o.Outage = Local
	}
	if o.Prefix == "" {
		o.Prefix = "mod"
	}
	if !validPrefix.MatchString(o.Prefix) {
		return errors.New("the prefix must be 1 to 20 letters, digits, '.', '_' and '-'")
	}
	switch o.Topology {
	case Standalone:
		if len(o.Addresses) > 1 {
			return errors.New("several addresses are those of a cluster or of sentinels: say which")
		}
	case Cluster:
		if o.Database != 0 {
			return errors.New("a cluster has only the database 0")
		}
	case Sentinel:
		if o.Master == "" {
			return errors.New("the name of the master is missing, which the sentinels know")
		}
	default:
		return fmt.Errorf("there is no topology %q", o.Topology)
	}
	switch o.Outage {
	case Local, Deny, Allow:
	default:
		return fmt.Errorf("there is no policy %q for outages", o.Outage)
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&o.Timeout, 250 * time.Millisecond}, {&o.DialTimeout, 5 * time.Second}, {&o.StaleKeys, 15 * time.Minute},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	if o.ReplicaTimeout <= 0 {
		o.ReplicaTimeout = o.Timeout
	}
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.Connections > 256 || o.Connections&(o.Connections-1) != 0 {
		return errors.New("the number of connections must be a power of two up to 256")
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return nil
}

// Open opens the store. A database that cannot be reached is no error: the store goes on trying, and meanwhile does
// what Options.Outage says. The error is a [MistakeError] if the database was reached and cannot be used.
func Open(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("redis storage: %w", err)
	}
	s := &Store{options: o, logger: o.Logger, names: newNames(o.Prefix), closing: make(chan struct{})}
	s.close = sync.OnceValue(s.shut)
	s.link = newLink(o)
	s.counters = newCounters(s.link, s.names, o, s.usable)
	s.counters.database = s.known.database
	s.accounts = newReader(s, "account", s.names.openAccount)
	s.keys = newReader(s, "key", s.names.openKey)
	s.locks.init()
	s.undos.init()
	err := s.connect()
	if err != nil && refusesOpen(err) {
		s.link.close()
		s.stopCaches()
		return nil, fmt.Errorf("redis storage: %w", err)
	}
	if err != nil {
		s.logger.Warn("the database cannot be reached; it is tried again", zap.Strings("addresses", o.Addresses),
			zap.String("outage", string(o.Outage)), zap.Error(err))
		s.background.Go(s.keepConnecting)
	}
	s.counters.start()
	s.background.Go(s.runUndos)
	s.background.Go(s.watch)
	return s, nil
}

// Close implements [storage.Store].
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	s.closed.Store(true)
	close(s.closing)
	s.background.Wait()
	err := s.counters.close()
	s.link.close()
	s.stopCaches()
	return err
}

func (s *Store) stopCaches() {
	s.accounts.kept.StopAllGoroutines()
	s.keys.kept.StopAllGoroutines()
}

// errClosed is returned by every call after Close.
var errClosed = fmt.Errorf("%w: closed", storage.ErrUnavailable)

// ready returns an error when ctx is done or the store is closed.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// Interface guards
var _ storage.Store = (*Store)(nil)
