// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// prefixes numbers the stores of tests: each has a prefix of its own, so that many can share a server.
var prefixes atomic.Int64

// patient are options for tests that do not test what happens when time is over: machines that run many tests are slow.
func patient(o Options) Options {
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Prefix == "" {
		o.Prefix = fmt.Sprintf("t%d", prefixes.Add(1))
	}
	return o
}

// openTest opens a store for a test, which closes it.
func openTest(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(patient(o))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// opener returns what opens stores for the conformance suite. Stores have a server in common and a prefix each.
func opener(o Options) storagetest.Open {
	return func(t *testing.T) (storage.Store, func() storage.Store) {
		t.Helper()
		o := patient(o)
		o.ClientClock = true
		// A test may reopen the store in a subtest that runs at the same time as others.
		var mu sync.Mutex
		s := openTest(t, o)
		return s, func() storage.Store {
			mu.Lock()
			defer mu.Unlock()
			if err := s.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			s = openTest(t, o)
			return s
		}
	}
}

func standalone(t *testing.T) Options {
	t.Helper()
	server := redistest.Run(t, redistest.Options{})
	return Options{Addresses: []string{server.Addr()}}
}

func TestStore(t *testing.T) {
	t.Parallel()
	o := standalone(t)
	t.Run("tracking", func(t *testing.T) {
		t.Parallel()
		storagetest.Run(t, opener(o))
	})
	t.Run("no tracking", func(t *testing.T) {
		t.Parallel()
		o := o
		o.DisableCache = true
		storagetest.Run(t, opener(o))
	})
}

func TestStoreOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1})
	storagetest.Run(t, opener(Options{Addresses: cluster.Addrs(), Topology: Cluster}))
}

func TestProperties(t *testing.T) {
	t.Parallel()
	storagetest.RunProperties(t, opener(standalone(t)))
}

// background is the context of most tests.
var background = context.Background()
