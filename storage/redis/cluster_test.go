// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

func TestPropertiesOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1})
	storagetest.RunProperties(t, opener(Options{Addresses: cluster.Addrs(), Topology: Cluster}))
}

// TestFailingCluster has all masters of a cluster refuse to write.
func TestFailingCluster(t *testing.T) {
	t.Parallel()
	storagetest.RunFailing(t, func(t *testing.T) (storage.Store, func(bool), func() storage.Store) {
		cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1})
		s, reopen := opener(Options{
			Addresses: cluster.Addrs(), Topology: Cluster, Outage: Deny, Timeout: 2 * time.Second,
		})(t)
		return s, func(fail bool) {
			for _, node := range cluster.Nodes {
				must(t, node.Configure("maxmemory", map[bool]string{true: "1", false: "0"}[fail]))
			}
		}, reopen
	})
}

// TestADeadMasterHasNoOtherVictims stops one of three masters. The accounts of the others are counted as before, at
// once; those of its own by the policy, and at the master once it is back.
func TestADeadMasterHasNoOtherVictims(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, policy := range []Outage{Deny, Local} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			cluster := redistest.RunCluster(t, redistest.ClusterOptions{
				Options:  redistest.Options{Config: []string{"cluster-require-full-coverage no"}},
				Replicas: -1, NodeTimeout: time.Minute,
			})
			s := openAt(t, cluster.Nodes[0].Addr(), withPolicy(policy), withTimeout(time.Second), func(o *Options) {
				o.Topology, o.Addresses = Cluster, cluster.Addrs()
			})
			victim, err := cluster.MasterOf(s.names.of("a", countsTable))
			must(t, err)
			lives := ""
			for i := 0; lives == ""; i++ {
				master, err := cluster.MasterOf(s.names.of(fmt.Sprint("b", i), countsTable))
				must(t, err)
				if master != victim {
					lives = fmt.Sprint("b", i)
				}
			}
			take := func(account string) (quota.Counts, error) {
				counts, _, err := s.Take(ctx, chargeOf(account, 1, quota.Limits{RequestsPerMonth: 1000}))
				return counts, err
			}
			for range 10 {
				for _, account := range []string{"a", lives} {
					_, err := take(account)
					must(t, err)
				}
			}
			must(t, victim.Pause())
			eventually(t, "calls of the victim's account are no longer tried", func() bool {
				_, _ = take("a")
				tally := s.counters.lock("a")
				defer tally.mu.Unlock()
				return s.counters.circuit.allowAt(tally.part) != nil
			})
			before, err := take(lives)
			must(t, err)
			for i := range 200 {
				counts, err := take(lives)
				if err != nil || counts.Basis != quota.ExactCounts || counts.Period != before.Period+int64(i)+1 {
					t.Fatalf("an account of another master: got %+v, %v; want it counted exactly", counts, err)
				}
				counts, err = take("a")
				if policy == Deny && !errors.Is(err, storage.ErrUnavailable) ||
					policy == Local && (err != nil || counts.Basis != quota.LocalCounts) {
					t.Fatalf("an account of the dead master: got %+v, %v", counts, err)
				}
			}
			must(t, victim.Resume())
			well(t, s)
			if policy == Deny {
				totalOf(t, s, "a").check(t, "when the master is back", 10, 10, 0)
				return
			}
			counts, err := take("a")
			must(t, err)
			if counts.Basis != quota.ExactCounts || counts.Period < 10+200 {
				t.Errorf("when the master is back: got %+v, want 210 or more, exact", counts)
			}
		})
	}
}
