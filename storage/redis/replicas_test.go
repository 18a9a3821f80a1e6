// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestReplicas changes things that as many replicas must have as there are.
func TestReplicas(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) Options{
		"standalone": func(t *testing.T) Options {
			set := redistest.RunSentinel(t, redistest.SentinelOptions{Replicas: 1})
			return Options{Addresses: []string{set.Servers[0].Addr()}}
		},
		"sentinel with least rights": func(t *testing.T) Options {
			set := redistest.RunSentinel(t, redistest.SentinelOptions{Replicas: 1, Options: redistest.Options{
				Users: []string{user(LeastRights + SentinelRights + ReplicaRights)},
			}})
			return Options{Addresses: set.Addrs(), Topology: Sentinel, Master: redistest.MasterName,
				Username: "app", Password: "secret", Prefix: "mod"}
		},
		"cluster": func(t *testing.T) Options {
			cluster := redistest.RunCluster(t, redistest.ClusterOptions{Replicas: 1})
			return Options{Addresses: cluster.Addrs(), Topology: Cluster}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			o.Replicas, o.ReplicaTimeout = 1, 30*time.Second
			runMost(t, o)
		})
	}
}

// TestTooFewReplicas asks for more replicas than there are: nothing is changed, and the caller knows.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	o := patient(Options{Addresses: []string{server.Addr()}, Timeout: time.Second, Outage: Deny})
	alone := openTest(t, o)
	must(t, alone.CreateAccount(background, quota.Account{ID: "a"}))
	must(t, alone.AppendFeedback(background, testRecord("old", noon), feedback.Bound{}))
	o.Replicas, o.ReplicaTimeout = 1, 100*time.Millisecond
	s := openTest(t, o)
	_, updateErr := s.UpdateAccount(background, "a", func(a *quota.Account) error { a.Name = "new"; return nil })
	_, deleteErr := s.DeleteFeedback(background, testRecord("old", noon).Ref())
	for what, err := range map[string]error{
		"UpdateAccount": updateErr, "DeleteFeedback": deleteErr,
		"CreateAccount":  s.CreateAccount(background, quota.Account{ID: "b"}),
		"CreateKey":      s.CreateKey(background, testKey("key_a", "a")),
		"DeleteAccount":  s.DeleteAccount(background, "a"),
		"AppendFeedback": s.AppendFeedback(background, testRecord("new", noon), feedback.Bound{}),
	} {
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s without replicas: got the error %v, want %v", what, err, storage.ErrUnavailable)
		}
	}
	if err := s.Health(); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Health without replicas: got the error %v, want %v", err, storage.ErrUnavailable)
	}
	if s.Mode() != Normal {
		t.Error("calls are not admitted by the server because there are too few replicas for other things")
	}
	eventually(t, "all is taken back", func() bool { return s.undos.count.Load() == 0 })
	if a, err := alone.Account(background, "a"); err != nil || a.Name != "" {
		t.Errorf("the account after refused changes: got %+v, %v; want it as it was", a, err)
	}
	_, err := alone.Account(background, "b")
	_, err2 := alone.Key(background, "key_a")
	if err := errors.Join(gone(err), gone(err2)); err != nil {
		t.Errorf("after refused additions: %v", err)
	}
	for r, err := range alone.Feedback(background, "") {
		must(t, err)
		if r.ID != "old" {
			t.Errorf("the corrections after refused changes: got %s, want the old one", r.ID)
		}
	}
}
