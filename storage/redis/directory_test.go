// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// harm changes a byte in the middle of a record.
func harm(t *testing.T, server *redistest.Server, name string) {
	t.Helper()
	value, err := server.Text("GET", name)
	must(t, err)
	b := []byte(value)
	b[len(b)/2] ^= 1
	_, err = server.Do("SET", name, string(b))
	must(t, err)
}

// TestDamagedRecords changes a byte of each kind of record.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	s := openTest(t, Options{Addresses: []string{server.Addr()}})
	for _, id := range []string{"a", "b", "c"} {
		must(t, s.CreateAccount(background, quota.Account{ID: id}))
		must(t, s.CreateKey(background, testKey("key_"+id, "a")))
		must(t, s.AppendFeedback(background, testRecord(id, noon), feedback.Bound{}))
	}
	hash := testKey("key_b", "a").Hash
	harm(t, server, s.names.of("b", accountTable))
	harm(t, server, s.names.key(hash))
	_, err := server.Do("EVAL", `local e = redis.call('XRANGE', KEYS[1], '-', '+')[2]
		redis.call('XDEL', KEYS[1], e[1])
		local id = redis.call('XADD', KEYS[1], '*', 'r', string.sub(e[2][2], 1, -3))
		local old = redis.call('ZRANGE', KEYS[2], 1, 1)[1]
		redis.call('ZREM', KEYS[2], old)
		redis.call('ZADD', KEYS[2], 0, string.sub(old, 1, -1 - #e[1]) .. id)
		return 1`, "2", s.names.feedbackRecords(dayOf(noon)), s.names.feedbackOrder(dayOf(noon)))
	must(t, err)

	_, accountErr := s.Account(background, "b")
	_, updateErr := s.UpdateAccount(background, "b", func(*quota.Account) error { return nil })
	_, keyErr := s.Key(background, "key_b")
	_, hashErr := s.KeyByHash(background, hash)
	for what, err := range map[string]error{
		"Account": accountErr, "UpdateAccount": updateErr, "Key": keyErr, "KeyByHash": hashErr,
	} {
		if !errors.Is(err, storage.ErrDamaged) {
			t.Errorf("%s of a damaged record: got the error %v, want %v", what, err, storage.ErrDamaged)
		}
		if err != nil && strings.Contains(err.Error(), hexOf(hash)) {
			t.Errorf("%s: the error tells the hash: %v", what, err)
		}
	}
	if !strings.Contains(keyErr.Error(), "key_b") || !strings.Contains(accountErr.Error(), "account b") {
		t.Errorf("got the errors %v and %v, want them to name the records", keyErr, accountErr)
	}
	var seen []string
	note := func(id string, err error) {
		if errors.Is(err, storage.ErrDamaged) {
			id = "damaged"
		} else {
			must(t, err)
		}
		seen = append(seen, id)
	}
	for a, err := range s.Accounts(background) {
		note(a.ID, err)
	}
	for k, err := range s.Keys(background, "a") {
		note(k.ID, err)
	}
	for r, err := range s.Feedback(background, "") {
		note(r.ID, err)
	}
	if got, want := strings.Join(seen, " "), "a damaged c key_a key_c damaged a damaged c"; got != want {
		t.Errorf("the listings: got %s, want %s", got, want)
	}
	batch, err := s.NextFeedback(background, "x", 10)
	must(t, err)
	if len(batch.Records) != 2 || batch.Damaged != 1 {
		t.Errorf("NextFeedback: got %d records and %d damaged ones, want 2 and 1", len(batch.Records), batch.Damaged)
	}
	// They can be deleted.
	n, err := s.DeleteFeedback(background, testRecord("b", noon).Ref())
	if n != 1 || err != nil {
		t.Errorf("deleting a damaged record of feedback: got %d, %v; want 1", n, err)
	}
	must(t, s.DeleteAccount(background, "b"))
	must(t, s.DeleteAccount(background, "a"))
	if _, err := s.KeyByHash(background, hash); !errors.Is(err, quota.ErrNotFound) {
		t.Errorf("a damaged key of a deleted account: got the error %v, want %v", err, quota.ErrNotFound)
	}
	must(t, s.DeleteAccount(background, "c"))
	left, err := server.Do("KEYS", s.names.prefix+"{a:*")
	must(t, err)
	if len(left.([]any)) > 0 {
		t.Errorf("what is left of deleted accounts: got %v, want nothing", left)
	}
}

// TestSwappedRecords puts the value of one record in the place of another: both are intact, but not where they belong.
func TestSwappedRecords(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	s := openTest(t, Options{Addresses: []string{server.Addr()}})
	must(t, s.CreateAccount(background, quota.Account{ID: "a"}))
	must(t, s.CreateAccount(background, quota.Account{ID: "b"}))
	value, err := server.Text("GET", s.names.of("a", accountTable))
	must(t, err)
	_, err = server.Do("SET", s.names.of("b", accountTable), value)
	must(t, err)
	eventually(t, "the wrong value is found", func() bool {
		_, err := s.Account(background, "b")
		return errors.Is(err, storage.ErrDamaged)
	})
}

// TestDeathInBetween leaves what the death of a node leaves between the steps of adding a key: entries that lead
// nowhere. They harm nobody, and give way.
func TestDeathInBetween(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	s := openTest(t, Options{Addresses: []string{server.Addr()}})
	must(t, s.CreateAccount(background, quota.Account{ID: "a"}))
	k := testKey("key_a", "a")
	long := time.Now().Add(-time.Hour).UnixMilli()
	leave := func(until int64) {
		t.Helper()
		_, err := server.Do("HSET", s.names.of("a", keysTable), k.ID, hexOf(quota.Hash{1}))
		must(t, err)
		_, err = server.Do("SET", s.names.keyID(k.ID), newClaim(quota.Hash{1}, fmt.Sprint(until)))
		must(t, err)
	}
	leave(long)
	if _, err := s.Key(background, k.ID); !errors.Is(err, quota.ErrNotFound) {
		t.Errorf("a key that was only claimed: got the error %v, want %v", err, quota.ErrNotFound)
	}
	for range s.Keys(background, "") {
		t.Error("a key is listed that was only claimed")
	}
	must(t, s.CreateKey(background, k))
	if got, err := s.Key(background, k.ID); err != nil || got.Hash != k.Hash {
		t.Errorf("the key that took a claim that led nowhere: got %+v, %v", got, err)
	}
	n := 0
	for _, err := range s.Keys(background, "a") {
		must(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("listed keys: got %d, want 1", n)
	}
	must(t, s.DeleteAccount(background, "a"))
	if _, err := s.KeyByHash(background, k.Hash); !errors.Is(err, quota.ErrNotFound) {
		t.Errorf("the key of the deleted account: got the error %v, want %v", err, quota.ErrNotFound)
	}
	// Another node may be adding the key right now.
	leave(time.Now().Add(time.Hour).UnixMilli())
	if err := s.CreateKey(background, k); !errors.Is(err, quota.ErrExists) {
		t.Errorf("adding a key that another node is adding: got the error %v, want %v", err, quota.ErrExists)
	}
}

// TestUnknownOutcome has the server make a change and hides the answer until time is over: the change is taken back,
// and until then the store is not well.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call func(s *Store) error
		// after reports whether everything is as before.
		after func(s *Store) error
	}{
		"adding an account": {
			func(s *Store) error { return s.CreateAccount(background, quota.Account{ID: "new"}) },
			func(s *Store) error { _, err := s.Account(background, "new"); return gone(err) },
		},
		"changing an account": {
			func(s *Store) error {
				_, err := s.UpdateAccount(background, "a", func(a *quota.Account) error { a.Name = "new"; return nil })
				return err
			},
			func(s *Store) error {
				a, err := s.Account(background, "a")
				if err == nil && a.Name != "" {
					err = errors.New("the account has the new name")
				}
				return err
			},
		},
		"deleting an account": {
			func(s *Store) error { return s.DeleteAccount(background, "a") },
			func(s *Store) error {
				_, err := s.Key(background, "key_a")
				_, err2 := s.Account(background, "a")
				c, err3 := s.Counts(background, "a", noon, march)
				if c.Period != 1 {
					err3 = fmt.Errorf("the counts are %+v", c)
				}
				return errors.Join(err, err2, err3)
			},
		},
		"adding a key": {
			func(s *Store) error { return s.CreateKey(background, testKey("new", "a")) },
			func(s *Store) error {
				_, err := s.Key(background, "new")
				_, err2 := s.KeyByHash(background, testKey("new", "a").Hash)
				return errors.Join(gone(err), gone(err2))
			},
		},
		"adding a correction": {
			func(s *Store) error {
				return s.AppendFeedback(background, testRecord("new", noon), feedback.Bound{Records: 2})
			},
			func(s *Store) error {
				for r, err := range s.Feedback(background, "") {
					if err != nil || r.ID != "old" {
						return fmt.Errorf("the records: %q, %w", r.ID, err)
					}
				}
				if err := s.AppendFeedback(background, testRecord("next", noon), feedback.Bound{Records: 2}); err != nil {
					return fmt.Errorf("the bound: %w", err)
				}
				return nil
			},
		},
		"deleting a correction": {
			func(s *Store) error {
				_, err := s.DeleteFeedback(background, testRecord("old", noon).Ref())
				return err
			},
			func(s *Store) error {
				n := 0
				for _, err := range s.Feedback(background, "") {
					if err != nil {
						return err
					}
					n++
				}
				if n != 1 {
					return fmt.Errorf("there are %d records", n)
				}
				return nil
			},
		},
	} {
		for harming, harm := range map[string]func(*redistest.Proxy){
			"late arrival": func(p *redistest.Proxy) { p.Hang() },
			"late answer":  func(p *redistest.Proxy) { p.Delay(400 * time.Millisecond) },
		} {
			t.Run(name+", "+harming, func(t *testing.T) {
				t.Parallel()
				proxy := redistest.RunProxy(t, redistest.Run(t, redistest.Options{}).Addr())
				for commands := int64(1); unknownOutcome(t, proxy, commands, harm, test.call, test.after); commands++ {
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

// unknownOutcome makes a call of a store whose server is cut off when a number of commands were sent. It reports
// whether the call failed.
func unknownOutcome(
	t *testing.T, proxy *redistest.Proxy, commands int64, harm func(*redistest.Proxy), call, after func(*Store) error,
) bool {
	t.Helper()
	var armed atomic.Bool
	var sent atomic.Int64
	s := openTest(t, Options{
		Addresses: []string{proxy.Addr()}, Timeout: 500 * time.Millisecond, ClientClock: true, Outage: Deny,
		before: func() {
			if armed.Load() && sent.Add(1) == commands {
				harm(proxy)
			}
		},
	})
	defer func() { _ = s.Close() }()
	must(t, s.CreateAccount(background, quota.Account{ID: "a", Incarnation: "1"}))
	must(t, s.CreateKey(background, testKey("key_a", "a")))
	must(t, s.AppendFeedback(background, testRecord("old", noon), feedback.Bound{}))
	c := chargeOf("a", 1, quota.Limits{})
	c.Incarnation = "1"
	_, _, err := s.Take(background, c)
	must(t, err)
	armed.Store(true)
	err = call(s)
	armed.Store(false)
	must(t, proxy.Heal())
	if err == nil {
		if commands == 1 {
			t.Fatal("the call succeeds although the server does not answer")
		}
		return false
	}
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("cut off at command %d: got the error %v, want %v", commands, err, storage.ErrUnavailable)
	}
	well(t, s)
	if err := after(s); err != nil {
		t.Errorf("cut off at command %d, once the server answers again: %v", commands, err)
	}
	return true
}

// gone returns an error unless one says that something is not found.
func gone(err error) error {
	if errors.Is(err, quota.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("it is there: %w", err)
}
