// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// TestAnAccountMadeAgainBeginsWithNothing guards against counts of requests in flight: an account that was deleted
// and made again began with them. The clock stands still, so no time tells the two accounts apart.
func TestAnAccountMadeAgainBeginsWithNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	secret, _ := h.key(t, "a")
	who, err := h.Authenticate(ctx, secret)
	must(t, err)
	inFlight, err := h.Admit(ctx, who, 3)
	must(t, err)
	must(t, h.DeleteAccount(ctx, "a"))
	for _, again := range []bool{false, true} {
		if again {
			_, err = h.CreateAccount(ctx, quota.Account{ID: "a"})
			must(t, err)
		}
		_, err = h.Admit(ctx, who, 1)
		wantErr(t, err, quota.ErrNotFound)
		must(t, h.Settle(ctx, inFlight, quota.Outcome{Flagged: []string{"hate"}}))
	}
	usage, err := h.Usage(ctx, "a")
	must(t, err)
	if usage.Counts != (quota.Counts{}) || len(usage.Flagged) != 0 || usage.Days[0].Requests != 0 {
		t.Errorf("the new account begins with %+v, flagged %v, days %v", usage.Counts, usage.Flagged, usage.Days[0])
	}
}

// busy is a store in which something happens just before a key is stored.
type busy struct {
	*storagetest.Memory
	first func()
}

func (b *busy) CreateKey(ctx context.Context, key quota.Key) error {
	b.first()
	return b.Memory.CreateKey(ctx, key)
}

// TestAKeyIsForOneAccount guards against a key that is stored for an account while that is deleted, and would be
// valid for the next account with this id.
func TestAKeyIsForOneAccount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, again := range map[string]bool{"deleted": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &busy{Memory: storagetest.NewMemory()}
			gate, err := quota.New(quota.Options{Store: store})
			must(t, err)
			_, err = gate.CreateAccount(ctx, quota.Account{ID: "a"})
			must(t, err)
			store.first = func() {
				err := gate.DeleteAccount(ctx, "a")
				if again {
					_, createErr := gate.CreateAccount(ctx, quota.Account{ID: "a"})
					err = errors.Join(err, createErr)
				}
				must(t, err)
			}
			secret, _, err := gate.CreateKey(ctx, quota.KeySpec{Account: "a"})
			wantErr(t, err, quota.ErrNotFound)
			if secret != "" {
				t.Error("the key is told")
			}
			for _, k := range collect(t, gate.Keys(ctx, "")) {
				if k.Revoked == nil {
					t.Errorf("%s is valid", k.ID)
				}
			}
		})
	}
}

// slow is a store in which something happens just before an account is looked up.
type slow struct {
	*storagetest.Memory
	first func()
}

func (s *slow) Account(ctx context.Context, id string) (quota.Account, error) {
	s.first()
	return s.Memory.Account(ctx, id)
}

// TestAnOldKeyDoesNotIdentifyANewAccount deletes an account and makes it again between the lookup of a key and that
// of its account.
func TestAnOldKeyDoesNotIdentifyANewAccount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := &slow{Memory: storagetest.NewMemory(), first: func() {}}
	gate, err := quota.New(quota.Options{Store: store})
	must(t, err)
	_, err = gate.CreateAccount(ctx, quota.Account{ID: "a"})
	must(t, err)
	secret, _, err := gate.CreateKey(ctx, quota.KeySpec{Account: "a"})
	must(t, err)
	store.first = func() {
		store.first = func() {}
		must(t, gate.DeleteAccount(ctx, "a"))
		_, err := gate.CreateAccount(ctx, quota.Account{ID: "a"})
		must(t, err)
	}
	_, err = gate.Authenticate(ctx, secret)
	wantErr(t, err, quota.ErrUnauthorized)
}

// TestAWrongClockPasses says what a clock does that is wrong by 400 days for a while and then right again: what was
// counted meanwhile stands in windows of its own, and everything else is as it was.
func TestAWrongClockPasses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, wrong := range map[string]time.Duration{"ahead": 400 * 24 * time.Hour, "behind": -400 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newGate(t, quota.Options{})
			secret, _, err := h.CreateKey(ctx, quota.KeySpec{Account: "a", Expires: ptr(start.Add(24 * time.Hour))})
			must(t, err)
			forever, _ := h.key(t, "a")
			call := func(secret string, n int64) {
				t.Helper()
				who, err := h.Authenticate(ctx, secret)
				must(t, err)
				d, err := h.Admit(ctx, who, n)
				must(t, err)
				must(t, h.Settle(ctx, d, quota.Outcome{Flagged: []string{"hate"}}))
			}
			call(secret, 3)
			before, err := h.Usage(ctx, "a")
			must(t, err)

			h.clock.Advance(wrong)
			_, err = h.Authenticate(ctx, secret)
			if refused := wrong > 0; errors.Is(err, quota.ErrUnauthorized) != refused {
				t.Errorf("the key that expires tomorrow: %v", err)
			}
			for range 2 {
				call(forever, 1)
				h.clock.Advance(24 * time.Hour)
			}
			usage, err := h.Usage(ctx, "a")
			must(t, err)
			if usage.Counts.Day != 0 || usage.Days[1].Requests != 1 || usage.Days[2].Requests != 1 ||
				usage.Counts.Period != 2 {
				t.Errorf("with the wrong clock %+v, %v", usage.Counts, usage.Days)
			}

			h.clock.Set(start)
			after, err := h.Usage(ctx, "a")
			must(t, err)
			if !reflect.DeepEqual(after, before) {
				t.Errorf("afterwards %+v, before %+v", after, before)
			}
			call(secret, 1)
		})
	}
}
