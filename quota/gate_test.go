// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// clock is a clock that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) Set(t time.Time)         { c.at.Store(t.UnixNano()) }
func (c *clock) Advance(d time.Duration) { c.at.Add(int64(d)) }

var start = time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)

// fixture is a gate with its clock and its store.
type fixture struct {
	*quota.Gate
	clock *clock
	store *storagetest.Memory
}

// newGate returns a gate at start with an account "a" on the free tier.
func newGate(t testing.TB, o quota.Options) fixture {
	t.Helper()
	h := fixture{clock: new(clock), store: storagetest.NewMemory()}
	h.clock.Set(start)
	o.Store, o.Now = h.store, h.clock.Now
	var err error
	if h.Gate, err = quota.New(o); err != nil {
		t.Fatal(err)
	}
	if _, err := h.CreateAccount(context.Background(), quota.Account{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h fixture) key(t testing.TB, account string) (string, quota.Key) {
	t.Helper()
	secret, key, err := h.CreateKey(context.Background(), quota.KeySpec{Account: account})
	if err != nil {
		t.Fatal(err)
	}
	return secret, key
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error, says ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want one that is %v", err, want)
		return
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		must(t, err)
		all = append(all, v)
	}
	return all
}

func ptr[T any](v T) *T { return &v }

func TestAuthenticateFindsTheHolder(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{})
	secret, key := h.key(t, "a")
	who, err := h.Authenticate(context.Background(), secret)
	must(t, err)
	if who.Account.ID != "a" || who.Key.ID != key.ID ||
		who.Limits != (quota.Limits{RequestsPerMonth: 1000, RequestsPerMinute: 10}) {
		t.Fatalf("Authenticate: got %+v, want account a, key %s and the limits of the free tier", who, key.ID)
	}
}

func TestAuthenticateRefusesAlike(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	valid, _ := h.key(t, "a")
	revoked, key := h.key(t, "a")
	_, err := h.RevokeKey(ctx, key.ID)
	must(t, err)
	expired, _, err := h.CreateKey(ctx, quota.KeySpec{Account: "a", Expires: ptr(start.Add(time.Minute))})
	must(t, err)
	_, err = h.CreateAccount(ctx, quota.Account{ID: "gone"})
	must(t, err)
	orphan, _ := h.key(t, "gone")
	must(t, h.DeleteAccount(ctx, "gone"))
	h.clock.Advance(time.Minute)
	for name, secret := range map[string]string{
		"unknown":          valid[:len(valid)-1] + "_",
		"revoked":          revoked,
		"expired just now": expired,
		"of no account":    orphan,
		"empty":            "",
		"short":            "mod_sk_x",
		"long":             valid + strings.Repeat("x", 1000),
		"with a newline":   valid + "\n",
		"with a space":     " " + valid,
		"not ASCII":        valid + "é",
		"hash":             fmt.Sprintf("%x", quota.HashKey(valid)),
	} {
		who, err := h.Authenticate(ctx, secret)
		if err != quota.ErrUnauthorized { //nolint:errorlint // nothing may tell the cases apart
			t.Errorf("%s: error is %v, want exactly %v", name, err, quota.ErrUnauthorized)
		}
		if !reflect.DeepEqual(who, quota.Identity{}) {
			t.Errorf("%s: tells %+v", name, who)
		}
	}
	_, err = h.Authenticate(ctx, valid)
	must(t, err)
}

func TestOnlyServedStatusesAreServed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	secret, key := h.key(t, "a")
	for status, want := range map[quota.Status]error{
		quota.Active: nil, quota.Trialing: nil, quota.PastDue: nil,
		quota.Canceled: quota.ErrInactive, quota.Paused: quota.ErrInactive, "incomplete_expired": quota.ErrInactive,
	} {
		_, err := h.UpdateAccount(ctx, "a", quota.AccountChange{Status: &status})
		must(t, err)
		who, err := h.Authenticate(ctx, secret)
		if !errors.Is(err, want) {
			t.Errorf("%s: error is %v, want %v", status, err, want)
		}
		if who.Account.Status != status || who.Key.ID != key.ID {
			t.Errorf("%s: tells %+v", status, who)
		}
	}
}

func TestUnknownTierAdmitsNobody(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	secret, _ := h.key(t, "a")
	// The configuration changes, and with it the gate; the store stays.
	next, err := quota.New(quota.Options{Store: h.store, Tiers: map[string]quota.Limits{"gold": {}, "silver": {}}})
	must(t, err)
	who, err := next.Authenticate(ctx, secret)
	wantErr(t, err, quota.ErrUnknownTier, `account a`, `"free"`)
	if who.Account.ID != "a" {
		t.Errorf("tells %+v", who)
	}
	_, err = next.UpdateAccount(ctx, "a", quota.AccountChange{Name: ptr("renamed")})
	must(t, err)
	_, err = next.UpdateAccount(ctx, "a", quota.AccountChange{Tier: ptr("free")})
	wantErr(t, err, quota.ErrInvalid, "gold, silver")
	usage, err := next.Usage(ctx, "a")
	wantErr(t, err, quota.ErrUnknownTier)
	if usage.Account.Name != "renamed" || len(usage.Days) != 30 {
		t.Errorf("usage tells %+v", usage)
	}
}

func TestOverridesReplaceTheTier(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	secret, _ := h.key(t, "a")
	for _, test := range []struct {
		overrides quota.Overrides
		want      quota.Limits
	}{
		{quota.Overrides{}, quota.Limits{RequestsPerMonth: 1000, RequestsPerMinute: 10}},
		{quota.Overrides{RequestsPerMonth: ptr(int64(7))}, quota.Limits{RequestsPerMonth: 7, RequestsPerMinute: 10}},
		{quota.Overrides{RequestsPerMinute: ptr(int64(0))}, quota.Limits{RequestsPerMonth: 1000}},
	} {
		_, err := h.UpdateAccount(ctx, "a", quota.AccountChange{Overrides: &test.overrides})
		must(t, err)
		who, err := h.Authenticate(ctx, secret)
		must(t, err)
		if who.Limits != test.want {
			t.Errorf("limits are %+v, want %+v", who.Limits, test.want)
		}
	}
}

// TestCallsCount follows one account through calls of every kind, and over a minute's and a month's end.
func TestCallsCount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{Tiers: map[string]quota.Limits{"free": {RequestsPerMonth: 6, RequestsPerMinute: 3}}})
	secret, _ := h.key(t, "a")
	_, err := h.UpdateAccount(ctx, "a", quota.AccountChange{AnchorDay: ptr(16)})
	must(t, err)
	for i, step := range []struct {
		after   time.Duration
		n       int64
		outcome quota.Outcome
		refused quota.Window
		counts  quota.Counts // after the decision
	}{
		{n: 1, outcome: quota.Outcome{Flagged: []string{"hate"}}, counts: quota.Counts{Minute: 1, Day: 1, Period: 1}},
		{n: 2, outcome: quota.Outcome{Refund: true}, counts: quota.Counts{Minute: 3, Day: 3, Period: 3}},
		{n: 1, refused: quota.MinuteWindow, counts: quota.Counts{Minute: 3, Day: 1, Period: 1}},
		{after: 30*time.Second - 1, n: 1, refused: quota.MinuteWindow,
			counts: quota.Counts{Minute: 3, Day: 1, Period: 1}},
		{after: 1, n: 4, refused: quota.MinuteWindow, counts: quota.Counts{Day: 1, Period: 1}},
		{n: 3, counts: quota.Counts{Minute: 3, Day: 4, Period: 4}},
		{after: time.Minute, n: 3, refused: quota.MonthWindow, counts: quota.Counts{Day: 4, Period: 4}},
		{n: 2, counts: quota.Counts{Minute: 2, Day: 6, Period: 6}},
		{n: 1, refused: quota.MonthWindow, counts: quota.Counts{Minute: 2, Day: 6, Period: 6}},
		{after: 12 * time.Hour, n: 1, counts: quota.Counts{Minute: 1, Day: 1, Period: 1}},
	} {
		h.clock.Advance(step.after)
		who, err := h.Authenticate(ctx, secret)
		must(t, err)
		d, err := h.Admit(ctx, who, step.n)
		must(t, err)
		if d.Refused != step.refused || d.Counts != step.counts || d.Limits != who.Limits ||
			!d.Now.Equal(h.clock.Now()) {
			t.Errorf("step %d: %+v, want %+v refused by %q", i, d, step.counts, step.refused)
		}
		if !d.MinuteReset.After(d.Now) || d.MinuteReset.Sub(d.Now) > time.Minute || d.MinuteReset.Second() != 0 ||
			!d.Period.End.After(d.Now) {
			t.Errorf("step %d: at %s windows reset at %s and %s", i, d.Now, d.MinuteReset, d.Period.End)
		}
		must(t, h.Settle(ctx, d, step.outcome))
	}
	usage, err := h.Usage(ctx, "a")
	must(t, err)
	if usage.Counts != (quota.Counts{Minute: 1, Day: 1, Period: 1}) || len(usage.Flagged) != 0 {
		t.Errorf("usage is %+v", usage)
	}
	if len(usage.Days) != 30 || usage.Days[0] != (quota.DayCount{Date: "2026-03-16", Requests: 1}) ||
		usage.Days[1] != (quota.DayCount{Date: "2026-03-15", Requests: 6}) ||
		usage.Days[29] != (quota.DayCount{Date: "2026-02-15"}) {
		t.Errorf("days are %+v", usage.Days)
	}
	h.clock.Set(start)
	if usage, err = h.Usage(ctx, "a"); err != nil || usage.Flagged["hate"] != 1 {
		t.Errorf("in the period before, flagged is %v, %v", usage.Flagged, err)
	}
}

// TestUsageByKey guards against a key that is missing in a bill, whether it is stored, declared, unused, or was removed
// from the configuration since.
func TestUsageByKey(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	declare := func(id, secret string) quota.Key {
		return quota.Key{ID: id, Account: "a", Hash: quota.HashKey(secret)}
	}
	const kept, removed = "a_declared_key_that_stays", "a_declared_key_that_goes"
	h := newGate(t, quota.Options{Keys: []quota.Key{declare("key_kept", kept), declare("key_removed", removed)}})
	secret, stored := h.key(t, "a")
	_, unused := h.key(t, "a")
	for secret, n := range map[string]int64{secret: 1, kept: 2, removed: 3} {
		who, err := h.Authenticate(ctx, secret)
		must(t, err)
		d, err := h.Admit(ctx, who, n)
		must(t, err)
		must(t, h.Settle(ctx, d, quota.Outcome{}))
	}
	next, err := quota.New(quota.Options{Store: h.store, Now: h.clock.Now, Keys: []quota.Key{declare("key_kept", kept)}})
	must(t, err)
	usage, err := next.Usage(ctx, "a")
	must(t, err)
	keys, err := next.KeyUsage(ctx, "a", usage.Period)
	must(t, err)
	got, sum := map[string]string{}, int64(0)
	for _, k := range keys {
		got[k.Key.ID] = fmt.Sprintf("%d %t %t %s", k.Requests, k.Removed, k.Key.Declared, k.Key.LastUsed)
		sum += k.Requests
	}
	want := map[string]string{
		stored.ID: "1 false false 2026-03-15", unused.ID: "0 false false ", "key_kept": "2 false true ",
		"key_removed": "3 true false ",
	}
	if !reflect.DeepEqual(got, want) || sum != usage.Counts.Period {
		t.Errorf("usage by key: got %v, want %v, and %d requests in all", got, want, usage.Counts.Period)
	}
	if keys[0].Key.ID != "key_kept" || keys[3].Key.ID != "key_removed" {
		t.Errorf("usage by key: got %v, want declared keys first and removed ones last", keys)
	}
	if keys, err = next.KeyUsage(ctx, "nobody", usage.Period); err != nil || len(keys) != 0 {
		t.Errorf("usage by key of no account: got %v, %v; want nothing", keys, err)
	}
}

func TestACallCountsAtLeastOne(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{})
	for _, n := range []int64{0, -1} {
		_, err := h.Admit(context.Background(), quota.Identity{Account: quota.Account{ID: "a"}}, n)
		wantErr(t, err, quota.ErrInvalid)
	}
}

func TestRacingCallsAdmitExactlyTheLimit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	secret, _ := h.key(t, "a")
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			who, err := h.Authenticate(ctx, secret)
			if err != nil {
				t.Errorf("Authenticate: got the error %v, want none", err)
				return
			}
			d, err := h.Admit(ctx, who, 1)
			if err := errors.Join(err, h.Settle(ctx, d, quota.Outcome{})); err != nil {
				t.Errorf("taking and settling: got the error %v, want none", err)
			}
			if d.Refused == quota.NoWindow {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 10 {
		t.Fatalf("%d of 64 are admitted, want 10", n)
	}
}

// TestSettleAfterTheCallerLeft guards against counts that are lost because a client hung up.
func TestSettleAfterTheCallerLeft(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{})
	secret, _ := h.key(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	who, err := h.Authenticate(ctx, secret)
	must(t, err)
	d, err := h.Admit(ctx, who, 1)
	must(t, err)
	cancel()
	if err := h.Settle(ctx, d, quota.Outcome{Refund: true}); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("Settle: got the error %v, want none or %v", err, context.Canceled)
	}
	usage, err := h.Usage(context.Background(), "a")
	must(t, err)
	if usage.Counts != (quota.Counts{Minute: 1}) {
		t.Fatalf("counts are %+v", usage.Counts)
	}
}

func TestStoreErrorsAreNotRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	secret, _ := h.key(t, "a")
	who, err := h.Authenticate(ctx, secret)
	must(t, err)
	d, err := h.Admit(ctx, who, 1)
	must(t, err)
	must(t, h.store.Close())
	_, err = h.Authenticate(ctx, secret)
	wantErr(t, err, storage.ErrUnavailable)
	_, err = h.Admit(ctx, who, 1)
	wantErr(t, err, storage.ErrUnavailable)
	wantErr(t, h.Settle(ctx, d, quota.Outcome{}), storage.ErrUnavailable)
	_, err = h.Usage(ctx, "a")
	wantErr(t, err, storage.ErrUnavailable)
}

func TestKeysLookLikeKeys(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{KeyPrefix: "acme"})
	seen := map[string]bool{}
	var all strings.Builder
	for range 200 {
		secret, key := h.key(t, "a")
		body, ok := strings.CutPrefix(secret, "acme_sk_")
		id, ok2 := strings.CutPrefix(key.ID, "key_")
		if !ok || !ok2 || len(body) != 32 || len(id) != 16 ||
			strings.Trim(strings.ToLower(body+id), "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
			t.Fatalf("a key looks like %q, its id like %q", secret, key.ID)
		}
		if seen[body] || seen[id] || strings.Contains(fmt.Sprintf("%+v", key), body) {
			t.Fatal("keys repeat or are told")
		}
		seen[body], seen[id] = true, true
		all.WriteString(body)
	}
	// 6,400 characters miss one of 62 with a probability below 1e-43.
	for _, c := range "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		if !strings.ContainsRune(all.String(), c) {
			t.Errorf("no key contains %q", c)
		}
	}
	old, _ := h.key(t, "a")
	renamed, err := quota.New(quota.Options{Store: h.store, KeyPrefix: "other", Now: h.clock.Now})
	must(t, err)
	if _, err := renamed.Authenticate(ctx, old); err != nil {
		t.Errorf("after the prefix changed, an old key: %v", err)
	}
}

// TestKeyCharactersAreFair counts characters: a remainder of a byte's division by 62 would yield the first 8 of them
// five times for each four of the others.
func TestKeyCharactersAreFair(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{Rand: rand.NewChaCha8([32]byte{1})})
	first, others := 0.0, 0.0
	for range 400 {
		secret, key := h.key(t, "a")
		for _, c := range strings.TrimPrefix(secret, "mod_sk_") + strings.TrimPrefix(key.ID, "key_") {
			if c >= '0' && c <= '7' {
				first++
			} else {
				others++
			}
		}
	}
	if ratio := (first / 8) / (others / 54); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("the first 8 characters come %.2f times as often as the others", ratio)
	}
}

func TestNoKeyWithoutRandomness(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{Rand: bytes.NewReader(make([]byte, 40))})
	if secret, _, err := h.CreateKey(context.Background(), quota.KeySpec{Account: "a"}); err == nil {
		t.Fatalf("made %q", secret)
	}
	if keys := collect(t, h.Keys(context.Background(), "")); len(keys) != 0 {
		t.Fatalf("kept %+v", keys)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	valid := func(secret string) bool {
		_, err := h.Authenticate(ctx, secret)
		return err == nil
	}
	old, key, err := h.CreateKey(ctx, quota.KeySpec{Account: "a", Name: "n", Environment: "live",
		Expires: ptr(start.Add(24 * time.Hour))})
	must(t, err)
	first, err := h.RotateKey(ctx, key.ID, time.Hour)
	must(t, err)
	next, nextKey := first.Secret, first.Key
	if nextKey.ID == key.ID || nextKey.Account != "a" || nextKey.Name != "n" || nextKey.Environment != "live" ||
		!nextKey.Expires.Equal(*key.Expires) {
		t.Errorf("the new key is %+v", nextKey)
	}
	want := &quota.Replacement{By: nextKey.ID, At: start, OriginalExpires: key.Expires}
	if first.Old.ID != key.ID || !first.Old.Expires.Equal(start.Add(time.Hour)) ||
		!reflect.DeepEqual(first.Old.Replaced, want) {
		t.Errorf("the old key is %+v, want one that ends in an hour and is replaced by %+v", first.Old, want)
	}
	h.clock.Advance(time.Hour - 1)
	if !valid(old) || !valid(next) {
		t.Error("a key is refused during the overlap")
	}
	h.clock.Advance(1)
	if valid(old) || !valid(next) {
		t.Error("after the overlap the old key is valid or the new one is not")
	}
	// A long overlap does not outlive the key's own expiry.
	second, err := h.RotateKey(ctx, nextKey.ID, 1000*time.Hour)
	must(t, err)
	after, err := h.Key(ctx, nextKey.ID)
	must(t, err)
	if !after.Expires.Equal(*key.Expires) || !second.Key.Expires.Equal(*key.Expires) {
		t.Errorf("expire at %s and %s, want both at %s", after.Expires, second.Key.Expires, key.Expires)
	}
	_, err = h.RotateKey(ctx, key.ID, 0)
	wantErr(t, err, quota.ErrInvalid, "revoked or expired")
	_, err = h.RotateKey(ctx, nextKey.ID, -1)
	wantErr(t, err, quota.ErrInvalid, "overlap")
	_, err = h.RotateKey(ctx, "key_none", 0)
	wantErr(t, err, quota.ErrNotFound)
	current, currentKey := h.key(t, "a")
	_, err = h.RotateKey(ctx, currentKey.ID, 0)
	must(t, err)
	if valid(current) {
		t.Error("without an overlap the old key is valid")
	}
}

// TestAKeyIsReplacedOnce: a second rotation made a second successor, with the shortened expiry of the old key. It ended
// with the overlap, and its users with it.
func TestAKeyIsReplacedOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, expires := range map[string]*time.Time{"expires": ptr(start.AddDate(0, 3, 0)), "never expires": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newGate(t, quota.Options{})
			_, a, err := h.CreateKey(ctx, quota.KeySpec{Account: "a", Expires: expires})
			must(t, err)
			rotate := func(id string, overlap time.Duration) quota.Key {
				t.Helper()
				h.clock.Advance(time.Minute)
				r, err := h.RotateKey(ctx, id, overlap)
				must(t, err)
				original := r.Old.Replaced.OriginalExpires
				if !reflect.DeepEqual(r.Key.Expires, expires) || !reflect.DeepEqual(original, expires) {
					t.Errorf("the new key expires at %v, the old one expired at %v; want both at %v",
						r.Key.Expires, original, expires)
				}
				return r.Key
			}
			b := rotate(a.ID, 48*time.Hour)
			_, err = h.RotateKey(ctx, a.ID, 24*time.Hour)
			wantErr(t, err, quota.ErrReplaced, "key "+a.ID, "by "+b.ID, "rotate "+b.ID)
			if n := len(collect(t, h.Keys(ctx, ""))); n != 2 {
				t.Errorf("after a refused rotation there are %d keys, want 2", n)
			}
			// The end of a chain counts, whether what is between is valid or not.
			c := rotate(b.ID, 0)
			_, err = h.RotateKey(ctx, a.ID, 24*time.Hour)
			wantErr(t, err, quota.ErrReplaced, "by "+c.ID)
			_, err = h.RotateKey(ctx, b.ID, 24*time.Hour)
			wantErr(t, err, quota.ErrInvalid, "revoked or expired")
			// A new key that got lost is revoked, and the old one rotated again.
			_, err = h.RevokeKey(ctx, c.ID)
			must(t, err)
			d := rotate(a.ID, 12*time.Hour)
			_, err = h.RotateKey(ctx, a.ID, 0)
			wantErr(t, err, quota.ErrReplaced, "by "+d.ID)
		})
	}
}

// TestRacingRotations: of several rotations at a time one makes a key, and nobody is told another one.
func TestRacingRotations(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	_, key := h.key(t, "a")
	var all sync.WaitGroup
	var told atomic.Int64
	for range 16 {
		all.Go(func() {
			r, err := h.RotateKey(ctx, key.ID, time.Hour)
			if err == nil {
				told.Add(1)
				return
			}
			wantErr(t, err, quota.ErrReplaced)
			if r.Secret != "" {
				t.Error("a rotation that failed tells a key")
			}
		})
	}
	all.Wait()
	valid := 0
	for _, k := range collect(t, h.Keys(ctx, "")) {
		if k.Revoked == nil && k.ID != key.ID {
			valid++
		}
	}
	if told.Load() != 1 || valid != 1 {
		t.Errorf("16 rotations told %d keys and left %d, want 1 each", told.Load(), valid)
	}
}

// TestRevokedWhileRotated revokes a key while its successor is made: a key that must not be used has no successor.
func TestRevokedWhileRotated(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := &busy{Memory: storagetest.NewMemory()}
	gate, err := quota.New(quota.Options{Store: store})
	must(t, err)
	_, err = gate.CreateAccount(ctx, quota.Account{ID: "a"})
	must(t, err)
	store.first = func() {}
	_, key, err := gate.CreateKey(ctx, quota.KeySpec{Account: "a"})
	must(t, err)
	store.first = func() {
		_, err := gate.RevokeKey(ctx, key.ID)
		must(t, err)
	}
	r, err := gate.RotateKey(ctx, key.ID, time.Hour)
	wantErr(t, err, quota.ErrInvalid, "revoked or expired")
	for _, k := range collect(t, gate.Keys(ctx, "")) {
		if k.Revoked == nil || r.Secret != "" {
			t.Errorf("%s is valid, or told", k.ID)
		}
	}
}

func TestRevocationKeepsItsInstant(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	_, key := h.key(t, "a")
	first, err := h.RevokeKey(ctx, key.ID)
	must(t, err)
	h.clock.Advance(time.Hour)
	second, err := h.RevokeKey(ctx, key.ID)
	must(t, err)
	if !first.Revoked.Equal(start) || !second.Revoked.Equal(start) {
		t.Errorf("revoked at %s, then at %s", first.Revoked, second.Revoked)
	}
	_, err = h.RevokeKey(ctx, "key_none")
	wantErr(t, err, quota.ErrNotFound)
}

// otherMinutes is a store that has another minute than the charge for some calls.
type otherMinutes struct {
	quota.Store
	left int
}

func (o *otherMinutes) Take(ctx context.Context, charge quota.Charge) (quota.Counts, quota.Window, error) {
	if o.left > 0 {
		o.left--
		return quota.Counts{}, quota.NoWindow, quota.ErrOtherMinute
	}
	return o.Store.Take(ctx, charge)
}

// TestAdmitFollowsTheStoresClock guards against a call that is refused because its minute has ended meanwhile, and
// against a gate that tries for ever with a clock that is not the store's.
func TestAdmitFollowsTheStoresClock(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		others int
		fails  bool
	}{{0, false}, {1, false}, {2, false}, {3, true}, {1000, true}} {
		now := time.Date(2026, 3, 15, 12, 0, 59, 0, time.UTC)
		store := &otherMinutes{storagetest.NewMemory(), test.others}
		gate, err := quota.New(quota.Options{Store: store, Accounts: []quota.Account{{ID: "a"}}, Now: func() time.Time {
			now = now.Add(time.Second)
			return now
		}})
		if err != nil {
			t.Fatal(err)
		}
		who, err := gate.Identify(context.Background(), "a")
		if err != nil {
			t.Fatal(err)
		}
		d, err := gate.Admit(context.Background(), who, 1)
		if test.fails != errors.Is(err, quota.ErrOtherMinute) {
			t.Errorf("after %d other minutes: got the error %v, want one: %t", test.others, err, test.fails)
		}
		if !test.fails && (!d.Now.Equal(now) || d.Counts.Minute != 1) {
			t.Errorf("after %d other minutes: got %+v, want it charged with the last time, %s", test.others, d, now)
		}
	}
}
