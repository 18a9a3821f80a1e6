// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// filler returns what fills prefixes of a server, for the tests of moving.
func filler(o Options) storagetest.Fill {
	return func(t *testing.T) (contents.Target, func() (storage.Store, error)) {
		t.Helper()
		o := patient(o)
		o.ClientClock = true
		to, err := NewTarget(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = to.Close() })
		return to, func() (storage.Store, error) {
			s, err := Open(o)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = s.Close() })
			return s, nil
		}
	}
}

// badgerFiller fills directories of badger.
func badgerFiller(t *testing.T) (contents.Target, func() (storage.Store, error)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "target")
	to, err := badger.NewTarget(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	return to, func() (storage.Store, error) {
		s, err := badger.Open(badger.Options{Dir: dir, InProcess: true})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = s.Close() })
		return s, nil
	}
}

// badgerOpener opens empty stores of badger.
func badgerOpener(t *testing.T) (storage.Store, func() storage.Store) {
	t.Helper()
	s, err := badger.Open(badger.Options{Dir: t.TempDir(), InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, nil
}

func restorer(o Options) storagetest.Restore {
	return func(t *testing.T, backup []byte) storage.Store {
		t.Helper()
		o := patient(o)
		o.ClientClock = true
		if err := Restore(t.Context(), o, bytes.NewReader(backup)); err != nil {
			t.Fatal(err)
		}
		return openTest(t, o)
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	o := standalone(t)
	storagetest.RunBackup(t, opener(o), restorer(o))
}

func TestBackupOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1})
	o := Options{Addresses: cluster.Addrs(), Topology: Cluster}
	storagetest.RunBackup(t, opener(o), restorer(o))
}

func TestMove(t *testing.T) {
	t.Parallel()
	o := standalone(t)
	t.Run("redis to redis", func(t *testing.T) {
		t.Parallel()
		storagetest.RunMove(t, opener(o), filler(o))
	})
	t.Run("badger to redis", func(t *testing.T) {
		t.Parallel()
		storagetest.RunMove(t, badgerOpener, filler(o))
	})
	t.Run("redis to badger", func(t *testing.T) {
		t.Parallel()
		storagetest.RunMove(t, opener(o), badgerFiller)
	})
}

func TestMoveOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1})
	o := Options{Addresses: cluster.Addrs(), Topology: Cluster}
	t.Run("cluster to cluster", func(t *testing.T) {
		t.Parallel()
		storagetest.RunMove(t, opener(o), filler(o))
	})
	t.Run("cluster to one server", func(t *testing.T) {
		t.Parallel()
		storagetest.RunMove(t, opener(o), filler(standalone(t)))
	})
}
