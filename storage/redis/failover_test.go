// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestFailover kills the master that has a key. The key stands in meanwhile, changes are refused, and later all is well
// again on the replica. Both replicas have the key before: of two, the one that was not waited for may be elected.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (o Options, kill func(name string)){
		"sentinel": func(t *testing.T) (Options, func(string)) {
			set := redistest.RunSentinel(t, redistest.SentinelOptions{})
			return Options{Addresses: set.Addrs(), Topology: Sentinel, Master: redistest.MasterName},
				func(string) {
					master, err := set.Master()
					must(t, err)
					must(t, master.WaitReplicated(2))
					master.Kill()
				}
		},
		"cluster": func(t *testing.T) (Options, func(string)) {
			cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: 2})
			return Options{Addresses: cluster.Addrs(), Topology: Cluster}, func(name string) {
				master, err := cluster.MasterOf(name)
				must(t, err)
				must(t, master.WaitReplicated(2))
				master.Kill()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, kill := open(t)
			o.Replicas, o.Timeout, o.ReplicaTimeout = 1, time.Second, 30*time.Second
			s := openTest(t, o)
			o.Prefix = s.options.Prefix
			reader := openTest(t, o)
			k := testKey("key_a", "a")
			must(t, s.CreateAccount(background, quota.Account{ID: "a"}))
			must(t, s.CreateKey(background, k))
			_, err := reader.KeyByHash(background, k.Hash)
			must(t, err)
			began := time.Now()
			kill(s.names.key(k.Hash))
			n := 0
			for ; ; n++ {
				if got, err := reader.KeyByHash(background, k.Hash); err != nil || got.ID != k.ID {
					t.Errorf("a key that was read before, while there is no master: got the error %v, want none", err)
				}
				_, err := s.UpdateKey(background, k.ID, func(k *quota.Key) error { k.Name = fmt.Sprint(n); return nil })
				if err == nil {
					break
				}
				if !errors.Is(err, storage.ErrUnavailable) {
					t.Fatalf("UpdateKey: got the error %v, want none or %v", err, storage.ErrUnavailable)
				}
				if time.Since(began) > time.Minute {
					t.Fatalf("a minute after the death of the master: %v", err)
				}
			}
			t.Logf("changes are made again after %v", time.Since(began))
			well(t, s)
			well(t, reader)
			t.Logf("both nodes are well after %v", time.Since(began))
			eventually(t, "the change is seen", func() bool {
				got, err := reader.KeyByHash(background, k.Hash)
				must(t, err)
				return got.Name == fmt.Sprint(n)
			})
		})
	}
}
