// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota/base62"
)

const (
	// secretLength characters of base62 are 190 bits, idLength are 95.
	secretLength = 32
	idLength     = 16
	// A declared key may have another form than those that are made here: it may be the key of a former service, so
	// that its clients change nothing but the address. OpenAI's keys have some 170 characters.
	minKey, maxKey = 16, 256
)

// KeySpec says which key to create.
type KeySpec struct {
	// Account is the id of the account that the key is for. Name and Environment are for people.
	Account, Name, Environment string
	// Expires is the instant from which the key is refused. Default: never.
	Expires *time.Time
	// Scopes are those of the key; see [Scopes].
	Scopes []string
}

// HashKey returns the SHA-256 of a key, which is what is kept of it.
func HashKey(key string) Hash {
	var buf [maxKey]byte
	if len(key) <= maxKey {
		// Keys that can be valid are hashed without an allocation.
		return sha256.Sum256(buf[:copy(buf[:], key)])
	}
	return sha256.Sum256([]byte(key))
}

// ValidateKey returns an error that wraps [ErrInvalid] unless key can be declared as a key. The error does not tell
// the key.
func ValidateKey(key string) error {
	if !isWellFormed(key) {
		return invalid("a key must be %d to %d visible ASCII characters long", minKey, maxKey)
	}
	return nil
}

// isWellFormed reports whether a text has the form of a key. Other texts need not be looked up.
func isWellFormed(key string) bool {
	if len(key) < minKey || len(key) > maxKey {
		return false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

// CreateKey makes a key and returns it, for the only time. It returns [ErrNotFound] if there is no such account and
// [ErrInvalid] if a field breaks a rule. A declared account can have stored keys.
func (g *Gate) CreateKey(ctx context.Context, wanted KeySpec) (secret string, key Key, err error) {
	now := g.now().UTC()
	key = Key{Account: wanted.Account, Name: wanted.Name, Environment: wanted.Environment,
		Scopes: wanted.Scopes, Created: now}
	if wanted.Expires != nil {
		expires := wanted.Expires.UTC()
		key.Expires = &expires
	}
	if err := key.validate(); err != nil {
		return "", Key{}, err
	}
	if err := validateExpiry(key.Expires, now); err != nil {
		return "", Key{}, err
	}
	account, err := g.account(ctx, wanted.Account)
	if err != nil {
		return "", Key{}, err
	}
	if secret, err = g.random(secretLength); err != nil {
		return "", Key{}, err
	}
	if key.ID, err = g.random(idLength); err != nil {
		return "", Key{}, err
	}
	secret = g.prefix + "_sk_" + secret
	key.ID = "key_" + key.ID
	key.Hash = HashKey(secret)
	if err := g.store.CreateKey(ctx, key); err != nil {
		return "", Key{}, err
	}
	if err := g.checkHolder(ctx, account); err != nil {
		return "", Key{}, g.withdraw(ctx, key, err)
	}
	return secret, key, nil
}

// checkHolder returns an error unless the account is still the one for which a key was made. Deleting an account
// deletes the keys that it has then. A key that is stored a moment later would belong to the next account with this
// id.
func (g *Gate) checkHolder(ctx context.Context, account Account) error {
	now, err := g.account(ctx, account.ID)
	if err != nil {
		return err
	}
	if now.Incarnation != account.Incarnation {
		return fmt.Errorf("account %s: %w", account.ID, ErrNotFound)
	}
	return nil
}

// withdraw revokes a key whose caller will not learn it because of an error. It returns the error.
func (g *Gate) withdraw(ctx context.Context, key Key, err error) error {
	if _, revokeErr := g.RevokeKey(context.WithoutCancel(ctx), key.ID); revokeErr != nil &&
		!errors.Is(revokeErr, ErrNotFound) {
		return fmt.Errorf("%w; the new key could not be revoked: %w", err, revokeErr)
	}
	return err
}

// Key returns the key with an id, declared or stored. It returns [ErrNotFound] if there is none.
func (g *Gate) Key(ctx context.Context, id string) (Key, error) {
	if k, ok := g.declared.keyIDs[id]; ok {
		return k, nil
	}
	return g.store.Key(ctx, id)
}

// RevokeKey revokes a key: it is refused from the next request on. A key that is revoked already keeps the instant at
// which it was. It returns [ErrNotFound] and [ErrDeclared].
func (g *Gate) RevokeKey(ctx context.Context, id string) (Key, error) {
	if err := g.changeableKey(id); err != nil {
		return Key{}, err
	}
	return g.store.UpdateKey(ctx, id, func(k *Key) error {
		if k.Revoked == nil {
			now := g.now().UTC()
			k.Revoked = &now
		}
		return nil
	})
}

// Rotation is the result of [Gate.RotateKey].
type Rotation struct {
	// Secret is the new key itself, for the only time.
	Secret string
	// Key is what is kept of the new key.
	Key Key
	// Old is the key that it replaces, with the expiry that it has now.
	Old Key
}

// RotateKey makes a new key with the same account, name, environment and expiry. The old key expires after overlap,
// or at its own expiry if that is sooner. The new one has the expiry that the old one had before any rotation.
//
// A key is replaced once: of concurrent rotations one succeeds, and a later one returns [ErrReplaced] while the key
// that replaces it is valid. Once that one is refused, such as revoked because it got lost, the old key can be rotated
// again while it is valid. A key that is revoked or expired cannot be rotated. It also returns [ErrNotFound],
// [ErrDeclared] and [ErrInvalid].
func (g *Gate) RotateKey(ctx context.Context, id string, overlap time.Duration) (Rotation, error) {
	if overlap < 0 {
		return Rotation{}, invalid("overlap must be 0 or more")
	}
	if err := g.changeableKey(id); err != nil {
		return Rotation{}, err
	}
	old, err := g.store.Key(ctx, id)
	if err != nil {
		return Rotation{}, err
	}
	if err := g.checkRotatable(ctx, old); err != nil {
		return Rotation{}, err
	}
	secret, key, err := g.CreateKey(ctx, KeySpec{
		Account: old.Account, Name: old.Name, Environment: old.Environment, Expires: old.originalExpires(),
		Scopes: old.Scopes,
	})
	if err != nil {
		return Rotation{}, err
	}
	// The new key is stored first: if the process dies in between, there is a key that nobody knows. The other way
	// round, the old key would end without another one to change to.
	replaced, err := g.store.UpdateKey(ctx, id, func(k *Key) error { return g.replace(k, old, key, overlap) })
	switch {
	case err == nil:
		return Rotation{Secret: secret, Key: key, Old: replaced}, nil
	case errors.Is(err, ErrReplaced), errors.Is(err, ErrInvalid):
		return Rotation{}, g.withdraw(ctx, key, err)
	}
	return Rotation{}, fmt.Errorf("key %s was not rotated: %w", id, g.withdraw(ctx, key, err))
}

// checkRotatable returns an error when a key cannot be rotated: it is refused, or a key that replaces it is valid.
func (g *Gate) checkRotatable(ctx context.Context, k Key) error {
	if k.refused(g.now()) {
		return errNotRotatable(k.ID)
	}
	valid := ""
	for last := k; last.Replaced != nil; {
		next, err := g.store.Key(ctx, last.Replaced.By)
		if errors.Is(err, ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		if !next.refused(g.now()) {
			valid = next.ID
		}
		last = next
	}
	if valid != "" {
		return errReplaced(k.ID, valid)
	}
	return nil
}

// replace turns k, which was found as old before key was made, into what its rotation leaves of it.
func (g *Gate) replace(k *Key, old, key Key, overlap time.Duration) error {
	now := g.now().UTC()
	if k.refused(now) {
		return errNotRotatable(k.ID)
	}
	if k.Replaced != nil && (old.Replaced == nil || k.Replaced.By != old.Replaced.By) {
		return errReplaced(k.ID, k.Replaced.By) // by another rotation, at the same time
	}
	k.Replaced = &Replacement{By: key.ID, At: now, OriginalExpires: k.originalExpires()}
	if end := now.Add(overlap); k.Expires == nil || end.Before(*k.Expires) {
		k.Expires = &end
	}
	return nil
}

// originalExpires returns the expiry that a key had before any rotation.
func (k Key) originalExpires() *time.Time {
	if k.Replaced != nil {
		return k.Replaced.OriginalExpires
	}
	return k.Expires
}

func errNotRotatable(id string) error {
	return invalid("key %s is revoked or expired; create a new one", id)
}

func errReplaced(id, by string) error {
	return fmt.Errorf("key %s: %w by %s; rotate %[3]s instead, or, if nobody has it, revoke it and rotate %[1]s again",
		id, ErrReplaced, by)
}

// Keys yields the keys of an account, or all keys if account is empty: first declared keys in the order of their ids,
// then stored ones as [Directory.Keys] does. Revoked and expired keys are included. After an error that wraps
// storage.ErrDamaged the listing goes on with the next key if the consumer does; any other error ends it.
func (g *Gate) Keys(ctx context.Context, account string) iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		for _, k := range g.declaredKeys(account) {
			if !yield(k, nil) {
				return
			}
		}
		for k, err := range g.store.Keys(ctx, account) {
			if err != nil {
				// The store ends the listing after an error that it cannot go on from.
				if !yield(Key{}, err) {
					return
				}
				continue
			}
			if !g.hides(k) && !yield(k, nil) {
				return
			}
		}
	}
}

func (g *Gate) declaredKeys(account string) []Key {
	var keys []Key
	for _, k := range g.declared.keyIDs {
		if account == "" || k.Account == account {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.ID, b.ID) })
	return keys
}

// hides reports whether a declared key hides a stored one.
func (g *Gate) hides(stored Key) bool {
	_, byID := g.declared.keyIDs[stored.ID]
	_, byHash := g.declared.keys[stored.Hash]
	return byID || byHash
}

func (g *Gate) changeableKey(id string) error {
	if _, ok := g.declared.keyIDs[id]; ok {
		return fmt.Errorf("key %s: %w", id, ErrDeclared)
	}
	return nil
}

// random returns n characters of base62, each equally likely.
func (g *Gate) random(n int) (string, error) {
	text, err := base62.Append(nil, g.rand, n)
	if err != nil {
		return "", fmt.Errorf("reading random bytes: %w", err)
	}
	return string(text), nil
}
