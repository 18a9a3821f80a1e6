// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// declared holds the declared accounts and keys. They are looked up before those in the store, and so hide them. They
// do not change after New.
type declared struct {
	accounts map[string]Account
	keys     map[Hash]Key
	keyIDs   map[string]Key
	// byID are the accounts in the order of their ids.
	byID []Account
}

// declare checks and adds the declared accounts and keys. It reports all mistakes at once.
func (g *Gate) declare(accounts []Account, keys []Key) error {
	g.declared = declared{
		accounts: make(map[string]Account, len(accounts)),
		keys:     make(map[Hash]Key, len(keys)),
		keyIDs:   make(map[string]Key, len(keys)),
	}
	var mistakes []error
	for _, a := range accounts {
		if err := g.declareAccount(a); err != nil {
			mistakes = append(mistakes, fmt.Errorf("account %q: %w", a.ID, err))
		}
	}
	for _, k := range keys {
		if err := g.declareKey(k); err != nil {
			mistakes = append(mistakes, fmt.Errorf("key %q: %w", k.ID, err))
		}
	}
	slices.SortFunc(g.declared.byID, func(a, b Account) int { return strings.Compare(a.ID, b.ID) })
	return errors.Join(mistakes...)
}

func (g *Gate) declareAccount(a Account) error {
	a.Declared = true
	a.Tier = cmp.Or(a.Tier, DefaultTier)
	a.Status = cmp.Or(a.Status, Active)
	if err := a.validate(); err != nil {
		return err
	}
	if err := g.validateTier(a.Tier); err != nil {
		return err
	}
	if _, twice := g.declared.accounts[a.ID]; twice {
		return invalid("declared twice")
	}
	g.declared.accounts[a.ID] = a
	g.declared.byID = append(g.declared.byID, a)
	return nil
}

// declareKey checks and adds a key. Its account may be a stored one, which is not looked up here.
func (g *Gate) declareKey(k Key) error {
	k.Declared = true
	if err := ValidateID(k.ID); err != nil {
		return err
	}
	if err := ValidateID(k.Account); err != nil {
		return fmt.Errorf("account: %w", err)
	}
	if err := k.validate(); err != nil {
		return err
	}
	if k.Hash == (Hash{}) {
		return invalid("declared without the key or its hash")
	}
	if _, twice := g.declared.keyIDs[k.ID]; twice {
		return invalid("declared twice")
	}
	if other, twice := g.declared.keys[k.Hash]; twice {
		return invalid("the same key is declared as %q", other.ID)
	}
	g.declared.keys[k.Hash] = k
	g.declared.keyIDs[k.ID] = k
	return nil
}

// account returns a declared account, else the stored one.
func (g *Gate) account(ctx context.Context, id string) (Account, error) {
	if a, ok := g.declared.accounts[id]; ok {
		return a, nil
	}
	return g.store.Account(ctx, id)
}

// keyByHash returns a declared key, else the stored one unless a declared key hides it.
func (g *Gate) keyByHash(ctx context.Context, hash Hash) (Key, error) {
	if k, ok := g.declared.keys[hash]; ok {
		return k, nil
	}
	k, err := g.store.KeyByHash(ctx, hash)
	if err != nil {
		return Key{}, err
	}
	if _, hidden := g.declared.keyIDs[k.ID]; hidden {
		return Key{}, ErrNotFound
	}
	return k, nil
}
