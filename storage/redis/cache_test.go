// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// revoke revokes a key.
func revoke(t testing.TB, s *Store, id string) {
	t.Helper()
	_, err := s.UpdateKey(background, id, func(k *quota.Key) error { k.Revoked = &noon; return nil })
	must(t, err)
}

// revoked reports whether a store sees that a key is revoked.
func revoked(t testing.TB, s *Store, k quota.Key) bool {
	t.Helper()
	got, err := s.KeyByHash(background, k.Hash)
	must(t, err)
	return got.Revoked != nil
}

// TestRevocationIsSeenElsewhere revokes keys on one node and measures after what time another one sees it. The server
// says it at once; the bound here is generous, because a machine that runs tests may stop for a while.
func TestRevocationIsSeenElsewhere(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) Options{
		"standalone": func(t *testing.T) Options {
			return Options{Addresses: []string{redistest.Run(t, redistest.Options{}).Addr()}}
		},
		"cluster": func(t *testing.T) Options {
			return Options{Topology: Cluster,
				Addresses: redistest.RunCluster(t, redistest.ClusterOptions{Replicas: -1}).Addrs()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := patient(open(t))
			here, there := openTest(t, o), openTest(t, o)
			var took []time.Duration
			for i := range 100 {
				k := testKey(fmt.Sprint("key_", i), "a")
				must(t, here.CreateKey(background, k))
				for range 3 {
					if revoked(t, there, k) {
						t.Fatal("a key is revoked from the beginning")
					}
				}
				began := time.Now()
				revoke(t, here, k.ID)
				acknowledged := time.Now()
				for !revoked(t, there, k) {
					if time.Since(began) > cacheTTL-time.Second {
						t.Fatalf("after %v another node does not see that a key is revoked", time.Since(began))
					}
				}
				took = append(took, time.Since(acknowledged))
			}
			slices.Sort(took)
			t.Logf("after the acknowledgment another node saw it within %v (median), %v (the worst of %d)",
				took[len(took)/2], took[len(took)-1], len(took))
		})
	}
}

// TestLostInvalidations cuts a node off from what the server says of changes, while it can still ask: it sees a change
// when what it has read expires.
func TestLostInvalidations(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	o := patient(Options{Addresses: []string{server.Addr()}, Connections: 1})
	here, there := openTest(t, o), openTest(t, o)
	k := testKey("key_a", "a")
	must(t, here.CreateKey(background, k))
	if revoked(t, there, k) {
		t.Fatal("the key is revoked from the beginning")
	}
	c, err := there.link.connected()
	must(t, err)
	must(t, c.Do(background, c.B().Arbitrary("CLIENT", "TRACKING", "OFF").Build()).Error())
	began := time.Now()
	revoke(t, here, k.ID)
	if revoked(t, there, k) {
		t.Error("the server told of the change: the test is wrong")
	}
	eventually(t, "the revocation is seen", func() bool { return revoked(t, there, k) })
	t.Logf("without the server's word it was seen after %v", time.Since(began))
}

// TestUntracked sees changes of another node within a second or so where the server does not tell of them.
func TestUntracked(t *testing.T) {
	t.Parallel()
	o := patient(Options{Addresses: []string{redistest.Run(t, redistest.Options{}).Addr()}, DisableCache: true})
	here, there := openTest(t, o), openTest(t, o)
	k := testKey("key_a", "a")
	must(t, here.CreateKey(background, k))
	if revoked(t, there, k) {
		t.Fatal("the key is revoked from the beginning")
	}
	if _, err := there.KeyByHash(background, quota.Hash{1}); !errors.Is(err, quota.ErrNotFound) {
		t.Fatalf("an unknown key: got the error %v, want %v", err, quota.ErrNotFound)
	}
	began := time.Now()
	revoke(t, here, k.ID)
	eventually(t, "the revocation is seen", func() bool { return revoked(t, there, k) })
	t.Logf("it was seen after %v", time.Since(began))
}

// TestStaleKeys cuts a node off: keys that it has read stand in, for as long as the options say; what it does not know
// is not taken for missing.
func TestStaleKeys(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outage Outage
		stale  time.Duration
		want   error
	}{
		"local":   {Local, time.Hour, nil},
		"allow":   {Allow, time.Hour, nil},
		"deny":    {Deny, time.Hour, storage.ErrUnavailable},
		"too old": {Local, time.Nanosecond, storage.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.RunProxy(t, redistest.Run(t, redistest.Options{}).Addr())
			s := openTest(t, Options{
				Addresses: []string{proxy.Addr()}, Outage: test.outage, StaleKeys: test.stale, Timeout: time.Second,
			})
			must(t, s.CreateAccount(background, quota.Account{ID: "a"}))
			k, other := testKey("key_a", "a"), testKey("key_b", "a")
			must(t, s.CreateKey(background, k))
			must(t, s.CreateKey(background, other))
			// What this node has changed is not kept for a while; another one has only read it.
			reader := openTest(t, Options{
				Addresses: []string{proxy.Addr()}, Outage: test.outage, StaleKeys: test.stale, Timeout: time.Second,
				Prefix: s.options.Prefix,
			})
			for _, hash := range []quota.Hash{k.Hash, other.Hash} {
				_, err := reader.KeyByHash(background, hash)
				must(t, err)
			}
			_, err := reader.Account(background, "a")
			must(t, err)
			revoke(t, s, other.ID)
			_, err = s.KeyByHash(background, k.Hash)
			must(t, err)
			time.Sleep(100 * time.Millisecond) // until the reader has heard of it, most likely
			proxy.Refuse()
			eventually(t, "the server is not there", func() bool {
				_, err := reader.KeyByHash(background, quota.Hash{1})
				return errors.Is(err, storage.ErrUnavailable)
			})
			_, keyErr := reader.KeyByHash(background, k.Hash)
			_, accountErr := reader.Account(background, "a")
			if !errors.Is(keyErr, test.want) || !errors.Is(accountErr, test.want) {
				t.Errorf("KeyByHash and Account: got the errors %v and %v, want %v", keyErr, accountErr, test.want)
			}
			if _, err := reader.KeyByHash(background, quota.Hash{1}); errors.Is(err, quota.ErrNotFound) {
				t.Errorf("an unknown key: got the error %v, want %v", err, storage.ErrUnavailable)
			}
			if got, err := reader.KeyByHash(background, other.Hash); err == nil && got.Revoked == nil {
				t.Error("a key stands in of whose revocation the server has told")
			}
			// A node that has changed a record knows it, too, once it has read it again.
			_, keyErr = s.KeyByHash(background, k.Hash)
			if !errors.Is(keyErr, test.want) {
				t.Errorf("KeyByHash on the node that made the key: got the error %v, want %v", keyErr, test.want)
			}
		})
	}
}
