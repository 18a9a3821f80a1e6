// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestEmptiedDatabase guards against a database that loses everything and has all keys be refused as unknown, and all
// limits begin anew: what is not found then may have been there.
func TestEmptiedDatabase(t *testing.T) {
	t.Parallel()
	for name, cacheless := range map[string]bool{"tracking": false, "no tracking": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Run(t, redistest.Options{})
			o := patient(Options{Addresses: []string{server.Addr()}, DisableCache: cacheless, ClientClock: true})
			s := openTest(t, o)
			must(t, s.CreateAccount(background, quota.Account{ID: "a"}))
			k := testKey("key_a", "a")
			must(t, s.CreateKey(background, k))
			_, err := s.KeyByHash(background, k.Hash)
			must(t, err)
			identity, err := server.Text("GET", s.names.store())
			must(t, err)
			mark, err := server.Text("GET", s.names.mark(0))
			must(t, err)
			_, err = server.Do("FLUSHALL")
			must(t, err)
			eventually(t, "the store notices", func() bool { return errors.Is(s.Health(), errEmptied) })
			_, keyErr := s.KeyByHash(background, quota.Hash{1})
			_, accountErr := s.Account(background, "b")
			_, seededErr := s.Seeded(background)
			for what, err := range map[string]error{
				"KeyByHash": keyErr, "Account": accountErr, "Seeded": seededErr,
				"CreateAccount": s.CreateAccount(background, quota.Account{ID: "b"}),
				"MarkSeeded":    s.MarkSeeded(background),
			} {
				if !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, quota.ErrNotFound) {
					t.Errorf("%s of an emptied database: got the error %v, want %v", what, err, storage.ErrUnavailable)
				}
			}
			if n, err := server.Int("EXISTS", s.names.store()); err != nil || n != 0 {
				t.Errorf("an emptied database has an identity again: %v", err)
			}
			// It is back.
			_, err = server.Do("SET", s.names.store(), identity)
			must(t, err)
			for i := range shards {
				_, err = server.Do("SET", s.names.mark(i), mark)
				must(t, err)
			}
			well(t, s)
			must(t, s.CreateAccount(background, quota.Account{ID: "b"}))
			// Or it is to be begun anew.
			_, err = server.Do("FLUSHALL")
			must(t, err)
			must(t, s.Close())
			s = openTest(t, o)
			must(t, s.Health())
			if _, err := s.Account(background, "a"); !errors.Is(err, quota.ErrNotFound) {
				t.Errorf("Account after beginning anew: got the error %v, want %v", err, quota.ErrNotFound)
			}
		})
	}
}

// TestEmptiedAtOnce asks for a key directly after the database was emptied: before anybody could look after it.
func TestEmptiedAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	for range 20 {
		s := openTest(t, Options{Addresses: []string{server.Addr()}})
		k := testKey("key_a", "a")
		must(t, s.CreateKey(background, k))
		_, err := s.KeyByHash(background, k.Hash)
		must(t, err)
		_, err = server.Do("FLUSHALL")
		must(t, err)
		if _, err := s.KeyByHash(background, k.Hash); errors.Is(err, quota.ErrNotFound) {
			t.Fatalf("a key of a database that was emptied: got the error %v, want %v", err, storage.ErrUnavailable)
		}
		must(t, s.Close())
		_, err = server.Do("FLUSHALL")
		must(t, err)
	}
}

// TestEmptiedMaster empties one of three masters.
func TestEmptiedMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1})
	s := openTest(t, Options{Addresses: cluster.Addrs(), Topology: Cluster})
	k := testKey("key_a", "a")
	must(t, s.CreateKey(background, k))
	_, err := s.KeyByHash(background, k.Hash)
	must(t, err)
	master, err := cluster.MasterOf(s.names.key(k.Hash))
	must(t, err)
	_, err = master.Do("FLUSHALL")
	must(t, err)
	if _, err := s.KeyByHash(background, k.Hash); errors.Is(err, quota.ErrNotFound) {
		t.Errorf("a key of a master that was emptied: got the error %v, want %v", err, storage.ErrUnavailable)
	}
	eventually(t, "the store notices", func() bool { return errors.Is(s.Health(), errEmptied) })
}

// TestNewerSchema opens a database that a newer version has written.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	o := patient(Options{Addresses: []string{server.Addr()}})
	s := openTest(t, o)
	value, err := s.sealIdentity(identity{Schema: schema + 1, ID: "x"})
	must(t, err)
	must(t, s.Close())
	_, err = server.Do("SET", s.names.store(), value)
	must(t, err)
	if _, err := Open(o); mistaken(err) == nil {
		t.Errorf("Open: got the error %v, want one that says that the schema is newer", err)
	}
	_, err = server.Do("SET", s.names.store(), value+"x")
	must(t, err)
	if _, err := Open(o); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("Open: got the error %v, want %v", err, storage.ErrDamaged)
	}
}

// TestNothingIsUnknownWhenEmptied guards against the moment in which one connection has heard that the database was
// emptied, and another one, over which the identity was read, has not.
func TestNothingIsUnknownWhenEmptied(t *testing.T) {
	t.Parallel()
	for name, cacheless := range map[string]bool{"tracking": false, "no tracking": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Run(t, redistest.Options{})
			for range 40 {
				s := openTest(t, patient(Options{Addresses: []string{server.Addr()}, DisableCache: cacheless}))
				keys := make([]quota.Key, 8)
				for i := range keys {
					keys[i] = testKey(fmt.Sprintf("key_%d", i), "a")
					must(t, s.CreateKey(background, keys[i]))
				}
				// Keys that were read before go on to be known, so the readers are told when everybody knows.
				var noticed atomic.Bool
				var using sync.WaitGroup
				for _, k := range keys {
					using.Go(func() {
						for !noticed.Load() {
							_, err := s.KeyByHash(background, k.Hash)
							if errors.Is(err, quota.ErrNotFound) {
								t.Errorf("a key of an emptied database is unknown: %v", err)
							}
							if err != nil {
								return
							}
						}
					})
				}
				_, err := server.Do("FLUSHALL")
				must(t, err)
				eventually(t, "the store notices", func() bool { return errors.Is(s.Health(), errEmptied) })
				noticed.Store(true)
				using.Wait()
				must(t, s.Close())
			}
		})
	}
}
