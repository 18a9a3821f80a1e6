// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"context"
	"fmt"
	"iter"
)

// AccountChange says what [Gate.UpdateAccount] changes. A nil field is left as it is.
type AccountChange struct {
	Name      *string    `json:"name,omitempty"`
	Tier      *string    `json:"tier,omitempty"`
	Status    *Status    `json:"status,omitempty"`
	AnchorDay *int       `json:"anchor_day,omitempty"`
	Overrides *Overrides `json:"overrides,omitempty"`
}

// CreateAccount adds an account and returns it as it is stored. Without a status it is [Active], without a tier it has
// [DefaultTier]. It returns [ErrExists] if the id is taken and [ErrInvalid] if a field breaks a rule.
func (g *Gate) CreateAccount(ctx context.Context, account Account) (Account, error) {
	now := g.now().UTC()
	account.Created, account.Updated, account.Declared = now, now, false
	account.Tier = cmp.Or(account.Tier, DefaultTier)
	account.Status = cmp.Or(account.Status, Active)
	if err := account.validate(); err != nil {
		return Account{}, err
	}
	if err := g.validateTier(account.Tier); err != nil {
		return Account{}, err
	}
	if _, taken := g.declared.accounts[account.ID]; taken {
		return Account{}, fmt.Errorf("account %s: %w", account.ID, ErrExists)
	}
	var err error
	if account.Incarnation, err = g.random(idLength); err != nil {
		return Account{}, err
	}
	if err := g.store.CreateAccount(ctx, account); err != nil {
		return Account{}, err
	}
	return account, nil
}

// Account returns an account, declared or stored. It returns [ErrNotFound] if there is none.
func (g *Gate) Account(ctx context.Context, id string) (Account, error) {
	return g.account(ctx, id)
}

// UpdateAccount changes an account and returns what is stored then. Only what is changed is checked, so that an
// account whose tier is no longer configured can still be renamed. A new anchor day takes effect at once: requests
// count in the period that starts on the new day, whose count is at first 0 unless the account had this anchor day
// before.
//
// It returns [ErrNotFound], [ErrDeclared] and [ErrInvalid].
func (g *Gate) UpdateAccount(ctx context.Context, id string, change AccountChange) (Account, error) {
	if err := g.changeable(id); err != nil {
		return Account{}, err
	}
	return g.store.UpdateAccount(ctx, id, func(a *Account) error {
		if change.Name != nil {
			a.Name = *change.Name
		}
		if change.Status != nil {
			a.Status = *change.Status
		}
		if change.AnchorDay != nil {
			a.AnchorDay = *change.AnchorDay
		}
		if change.Overrides != nil {
			a.Overrides = *change.Overrides
		}
		if change.Tier != nil {
			if err := g.validateTier(*change.Tier); err != nil {
				return err
			}
			a.Tier = *change.Tier
		}
		a.Updated = g.now().UTC()
		return a.validate()
	})
}

// ChangeOverrides changes what a stored account replaces, as [Gate.UpdateAccount] does, but so that nothing is lost
// that somebody else changes at the same time: change may be called several times, each time with the present
// overrides, and must change no map or slice in them but put another in its place.
func (g *Gate) ChangeOverrides(ctx context.Context, id string, change func(*Overrides)) (Account, error) {
	if err := g.changeable(id); err != nil {
		return Account{}, err
	}
	return g.store.UpdateAccount(ctx, id, func(a *Account) error {
		change(&a.Overrides)
		a.Updated = g.now().UTC()
		return a.validate()
	})
}

// DeleteAccount deletes an account, its keys and its counts. Its feedback is kept. It returns [ErrNotFound] and
// [ErrDeclared].
func (g *Gate) DeleteAccount(ctx context.Context, id string) error {
	if err := g.changeable(id); err != nil {
		return err
	}
	return g.store.DeleteAccount(ctx, id)
}

// Accounts yields all accounts, declared and stored, in the order of their ids. An error that wraps storage.ErrDamaged
// stands for one account: the listing goes on if the consumer does. After any other error, stored accounts are missing.
func (g *Gate) Accounts(ctx context.Context) iter.Seq2[Account, error] {
	return func(yield func(Account, error) bool) {
		rest := g.declared.byID
		for a, err := range g.store.Accounts(ctx) {
			if err != nil {
				if !yield(Account{}, err) {
					return
				}
				continue
			}
			for len(rest) > 0 && rest[0].ID <= a.ID {
				if !yield(rest[0], nil) {
					return
				}
				rest = rest[1:]
			}
			if _, hidden := g.declared.accounts[a.ID]; !hidden && !yield(a, nil) {
				return
			}
		}
		for _, a := range rest {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// changeable returns [ErrDeclared] for a declared account.
func (g *Gate) changeable(account string) error {
	if _, ok := g.declared.accounts[account]; ok {
		return fmt.Errorf("account %s: %w", account, ErrDeclared)
	}
	return nil
}
