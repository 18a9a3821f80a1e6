// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"
)

// DefaultTier is the tier of an account that is created without one.
const DefaultTier = "free"

// DefaultTiers returns the tiers of a gate that is configured without tiers.
func DefaultTiers() map[string]Limits {
	return map[string]Limits{
		"free":     {RequestsPerMonth: 1_000, RequestsPerMinute: 10},
		"starter":  {RequestsPerMonth: 25_000, RequestsPerMinute: 60},
		"growth":   {RequestsPerMonth: 150_000, RequestsPerMinute: 120},
		"business": {RequestsPerMonth: 500_000, RequestsPerMinute: 300},
	}
}

// Options configure a [Gate].
type Options struct {
	// Store keeps accounts, keys and counters. Required.
	Store Store
	// KeyPrefix is the beginning of new keys, before "_sk_": 1 to 20 letters and digits. Keys with another prefix
	// stay valid. Default: "mod".
	KeyPrefix string
	// Tiers are the configured tiers by name. Default: [DefaultTiers].
	Tiers map[string]Limits
	// Accounts and Keys are those that the configuration declares. They are never stored. While they are declared,
	// they hide stored accounts and keys with the same id or hash. An account without a status is [Active], one
	// without a tier has [DefaultTier].
	Accounts []Account
	Keys     []Key
	// Now is the clock. It must be that of the store if the store has one; see [ErrOtherMinute]. Default: time.Now.
	Now func() time.Time
	// Rand is the source of keys and ids, safe for concurrent use. Default: crypto/rand.Reader.
	Rand io.Reader
}

// Gate authenticates callers and admits or refuses their calls. It is safe for concurrent use and keeps no counts of
// its own, so gates may come and go over one [Store], as they do when Caddy reloads its configuration.
type Gate struct {
	store    Store
	prefix   string
	tiers    map[string]Limits
	declared declared
	now      func() time.Time
	rand     io.Reader
}

// New returns a gate. An error wraps [ErrInvalid] and names the tier, the account or the key that is wrong.
func New(o Options) (*Gate, error) {
	if o.Store == nil {
		return nil, invalid("a gate needs a store")
	}
	g := &Gate{store: o.Store, prefix: o.KeyPrefix, tiers: maps.Clone(o.Tiers), now: o.Now, rand: o.Rand}
	if g.prefix == "" {
		g.prefix = "mod"
	}
	if len(g.tiers) == 0 {
		g.tiers = DefaultTiers()
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.rand == nil {
		g.rand = rand.Reader
	}
	if err := ValidatePrefix(g.prefix); err != nil {
		return nil, err
	}
	if err := ValidateTiers(g.tiers); err != nil {
		return nil, err
	}
	return g, g.declare(o.Accounts, o.Keys)
}

// Tiers returns the configured tiers by name.
func (g *Gate) Tiers() map[string]Limits {
	return maps.Clone(g.tiers)
}

// Identity is a caller: the account and the key that were authenticated, and the limits that hold for them.
type Identity struct {
	Account Account
	Key     Key
	Limits  Limits
}

// Authenticate returns the holder of a key. It returns [ErrUnauthorized] for a key that is not valid now,
// [ErrInactive] for an account that is not served and [ErrUnknownTier] for a tier that is not configured. With
// ErrInactive and ErrUnknownTier the account and the key are filled in.
func (g *Gate) Authenticate(ctx context.Context, key string) (Identity, error) {
	if !isWellFormed(key) {
		return Identity{}, ErrUnauthorized
	}
	hash := HashKey(key)
	k, err := g.keyByHash(ctx, hash)
	if errors.Is(err, ErrNotFound) {
		return Identity{}, ErrUnauthorized
	}
	if err != nil {
		return Identity{}, err
	}
	// Stores may compare hashes in variable time. The one that was found is compared once more, in constant time, so
	// that a store that answers wrongly cannot open the gate.
	if subtle.ConstantTimeCompare(k.Hash[:], hash[:]) != 1 || k.refused(g.now()) {
		return Identity{}, ErrUnauthorized
	}
	account, err := g.account(ctx, k.Account)
	if errors.Is(err, ErrNotFound) {
		return Identity{}, ErrUnauthorized
	}
	if err != nil {
		return Identity{}, err
	}
	// Between the two lookups the account may have been deleted, with its keys, and created again.
	if _, err := g.keyByHash(ctx, hash); errors.Is(err, ErrNotFound) {
		return Identity{}, ErrUnauthorized
	}
	who := Identity{Account: account, Key: k}
	if !account.Status.Served() {
		return who, fmt.Errorf("%w: its status is %s", ErrInactive, account.Status)
	}
	who.Limits, err = g.limits(account)
	return who, err
}

// Identify returns the caller for calls that the operator makes on behalf of an account, without a key. It returns
// [ErrNotFound] if there is no such account, [ErrInactive] for one that is not served and [ErrUnknownTier] for a tier
// that is not configured. With the latter two the account is filled in.
func (g *Gate) Identify(ctx context.Context, account string) (Identity, error) {
	found, err := g.account(ctx, account)
	if err != nil {
		return Identity{}, err
	}
	who := Identity{Account: found}
	if !found.Status.Served() {
		return who, fmt.Errorf("%w: its status is %s", ErrInactive, found.Status)
	}
	who.Limits, err = g.limits(found)
	return who, err
}

// refused reports whether a key is revoked or expired at an instant.
func (k Key) refused(now time.Time) bool {
	return k.Revoked != nil || k.Expires != nil && !now.Before(*k.Expires)
}

// limits returns the limits of an account: its overrides, else its tier's.
func (g *Gate) limits(account Account) (Limits, error) {
	limits, ok := g.tiers[account.Tier]
	if !ok {
		return Limits{}, fmt.Errorf("%w: account %s has tier %q", ErrUnknownTier, account.ID, account.Tier)
	}
	if o := account.Overrides.RequestsPerMonth; o != nil {
		limits.RequestsPerMonth = *o
	}
	if o := account.Overrides.RequestsPerMinute; o != nil {
		limits.RequestsPerMinute = *o
	}
	return limits, nil
}

// Decision is the result of [Gate.Admit].
type Decision struct {
	// Refused names the window that is used up; [NoWindow] if the call is admitted.
	Refused Window
	// Limits and Counts are those after the decision. The RateLimit fields of HTTP report the minute and the period.
	// Counts.Basis says whether they are exact.
	Limits Limits
	Counts Counts
	// Now is the instant of the decision. The windows end at MinuteReset and Period.End.
	Now         time.Time
	MinuteReset time.Time
	Period      Period

	charge Charge
}

// admissions is how often a call is charged when its minute ends meanwhile, or when the store's clock corrects the
// gate's.
const admissions = 3

// Admit charges n requests, or refuses and charges nothing: either all of them count or none. A refusal is a
// [Decision], not an error. An admitted call must be settled. Admit returns [ErrNotFound] if the account was deleted
// after it was authenticated.
func (g *Gate) Admit(ctx context.Context, who Identity, n int64) (Decision, error) {
	if n < 1 {
		return Decision{}, invalid("a call counts 1 request or more")
	}
	for tries := 1; ; tries++ {
		d, err := g.admit(ctx, who, n)
		if tries == admissions || !errors.Is(err, ErrOtherMinute) {
			return d, err
		}
	}
}

// admit charges n requests now, or refuses.
func (g *Gate) admit(ctx context.Context, who Identity, n int64) (Decision, error) {
	now := g.now().UTC()
	charge := Charge{
		Account:     who.Account.ID,
		Incarnation: who.Account.Incarnation,
		Key:         who.Key.ID,
		Requests:    n,
		Now:         now,
		Period:      PeriodOf(who.Account.AnchorDay, now),
		Limits:      who.Limits,
	}
	counts, refused, err := g.store.Take(ctx, charge)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{
		Refused:     refused,
		Limits:      who.Limits,
		Counts:      counts,
		Now:         now,
		MinuteReset: minuteReset(now),
		Period:      charge.Period,
	}
	if refused == NoWindow {
		d.charge = charge
	}
	return d, nil
}

// Record records the outcome of an admitted call, and does not wait. Before the caller is answered, the result must
// be waited for. A refused call has nothing to wait for.
func (g *Gate) Record(admitted Decision, outcome Outcome) Settlement {
	if admitted.charge.Requests == 0 {
		return noSettlement{}
	}
	return g.store.Record(admitted.charge, outcome)
}

// noSettlement is the settlement of a refused call: there is nothing to wait for.
type noSettlement struct{}

// Wait implements [Settlement].
func (noSettlement) Wait(context.Context) error { return nil }

// Settle records the outcome of an admitted call, and waits. When it returns nil, charge and outcome survive the
// death of the process. A refused call has nothing to settle. The outcome is recorded even if ctx is done already,
// because the caller may have gone away. Then Settle returns nil or the context's error, without waiting.
func (g *Gate) Settle(ctx context.Context, admitted Decision, outcome Outcome) error {
	if admitted.charge.Requests == 0 {
		return nil
	}
	return g.store.Settle(ctx, admitted.charge, outcome)
}

// Flag adds what was flagged in a call after it was settled, such as in a response that is moderated while it is
// sent. Names count as in an [Outcome]. When it returns nil, they survive the death of the process. After an error
// the charge stays as it is.
func (g *Gate) Flag(ctx context.Context, settled Decision, flagged []string) error {
	if settled.charge.Requests == 0 || len(flagged) == 0 {
		return nil
	}
	charge := settled.charge
	charge.Requests = 0
	return g.store.Settle(ctx, charge, Outcome{Flagged: flagged})
}
