// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

var (
	//go:embed scripts/bury.lua
	buryLua string
	//go:embed scripts/unbury.lua
	unburyLua string

	buryScript   = newRepeatable(buryLua)
	unburyScript = newRepeatable(unburyLua)
)

// DeleteAccount implements [quota.Directory]. It deletes the keys first, each in its own slot, and then the account
// with everything else at once. Each step is bounded in time: an account may have many keys.
func (s *Store) DeleteAccount(ctx context.Context, id string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	var steps []undone
	for {
		outcome, err := s.deleteOnce(ctx, id, &steps)
		if errors.Is(err, quota.ErrNotFound) {
			return err // there is none, or another call has deleted it while this one deleted its keys
		}
		if err != nil {
			for _, step := range steps {
				s.later(s.unlessDeleted(id, step))
			}
			return err
		}
		if outcome == done {
			break
		}
		// Keys were added meanwhile, or the account was changed.
	}
	s.counters.dropLease(id)
	return s.unlist(ctx, id)
}

// unlessDeleted takes something back if the account is there. If it is not, another call has deleted it.
func (s *Store) unlessDeleted(id string, what undone) undone {
	return undone{what.names, func(ctx context.Context) (bool, error) {
		value, err := s.value(ctx, s.names.of(id, accountTable))
		if err != nil || value == "" {
			return err == nil, err
		}
		return what.run(ctx)
	}}
}

// deleteOnce deletes what is there of an account. It appends what takes back its steps.
func (s *Store) deleteOnce(ctx context.Context, id string, steps *[]undone) (outcome string, err error) {
	step, cancel, err := s.beginChange(ctx)
	if err != nil {
		return "", err
	}
	defer func() { cancel() }()
	value, err := s.value(step, s.names.of(id, accountTable))
	if err != nil {
		return "", err
	}
	if value == "" {
		return "", notFound("account", id)
	}
	index, err := s.index(step, id)
	if err != nil {
		return "", err
	}
	ids := make([]string, 0, len(index))
	for keyID, digits := range index {
		ids = append(ids, keyID)
		cancel()
		if step, cancel, err = s.beginChange(ctx); err != nil {
			return "", err
		}
		if err := s.deleteKey(step, id, keyID, digits, steps); err != nil {
			return "", err
		}
	}
	cancel()
	if step, cancel, err = s.beginChange(ctx); err != nil {
		return "", err
	}
	return s.bury(step, id, value, ids)
}

// deleteKey deletes what an entry in the index of an account leads to, if it is a key of the account.
func (s *Store) deleteKey(ctx context.Context, account, id, digits string, steps *[]undone) error {
	hash, err := parseHash(digits)
	if err != nil {
		return nil // it leads nowhere
	}
	name := s.names.key(hash)
	for {
		value, err := s.value(ctx, name)
		if err != nil || value == "" {
			return err
		}
		if k, err := s.names.openKey(name, value); err == nil && (k.Account != account || k.ID != id) {
			return nil
		}
		outcome, err := s.remove(ctx, name, value, steps)
		if err != nil {
			return err
		}
		if outcome == done {
			break
		}
	}
	claimName := s.names.keyID(id)
	value, err := s.value(ctx, claimName)
	if err != nil || value == "" {
		return err
	}
	if c, err := openClaim(id, value); err == nil && c.hash != hash {
		return nil
	}
	_, err = s.remove(ctx, claimName, value, steps)
	return err
}

// remove deletes a record.
func (s *Store) remove(ctx context.Context, name, value string, steps *[]undone) (outcome string, err error) {
	becomes := tombstone()
	outcome, _, err = s.swap(ctx, name, value, becomes)
	if err == nil && outcome == done {
		*steps = append(*steps, s.undoing(unswapScript, []string{name}, []string{value, becomes, s.link.until(ctx)}))
	}
	return outcome, err
}

// tables are the tables of an account, those that [Store.bury] looks at first.
var tables = []string{accountTable, keysTable, usedTable, countsTable, detailsTable, boundsTable, callsTable}

// bury deletes an account with everything in its slot.
func (s *Store) bury(ctx context.Context, id, value string, ids []string) (outcome string, err error) {
	var names, others []string
	nonce := rand.Text()
	for _, table := range tables {
		names = append(names, s.names.of(id, table))
		others = append(others, s.names.of(id, "deleted:"+nonce+":"+table))
	}
	outcome, _, err = s.voidable(ctx, buryScript, unburyScript, append(names, others...),
		append([]string{value}, ids...))
	if err != nil || outcome != done {
		return outcome, err
	}
	// It is deleted. What stays of it goes by itself if this fails.
	if b, err := s.link.b(); err == nil {
		_, _ = s.link.do(ctx, b.Unlink().Key(others...).Build().ToRetryable())
	}
	return outcome, nil
}

// index returns the index of an account's keys: digits of hashes by key id.
func (s *Store) index(ctx context.Context, account string) (map[string]string, error) {
	b, err := s.link.b()
	if err != nil {
		return nil, err
	}
	m, err := s.link.do(ctx, b.Hgetall().Key(s.names.of(account, keysTable)).Build())
	if err != nil {
		return nil, err
	}
	index, err := m.AsStrMap()
	if err != nil {
		return nil, errAnswer
	}
	return index, nil
}

// unlist takes an id off the list if it has neither an account nor keys. The account is deleted already: it is no error
// if an id stays on the list that has nothing.
func (s *Store) unlist(ctx context.Context, id string) error {
	ctx, cancel := s.link.change(ctx)
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return nil
	}
	if _, err := s.link.do(ctx, b.Zrem().Key(s.names.ids(id)).Member(id).Build().ToRetryable()); err != nil {
		return nil
	}
	value, err := s.value(ctx, s.names.of(id, accountTable))
	if err == nil && value == "" {
		var m rueidis.RedisMessage
		m, err = s.link.do(ctx, b.Hlen().Key(s.names.of(id, keysTable)).Build())
		if n, _ := m.AsInt64(); err == nil && n == 0 {
			return nil
		}
	}
	if s.list(ctx, id) != nil {
		s.later(undone{[]string{s.names.ids(id)}, func(ctx context.Context) (bool, error) {
			err := s.list(ctx, id)
			return err == nil, err
		}})
	}
	return nil
}

func hexOf(hash quota.Hash) string { return hex.EncodeToString(hash[:]) }

func parseHash(digits string) (hash quota.Hash, err error) {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(hash) {
		return hash, errors.New("no hash")
	}
	return quota.Hash(b), nil
}
