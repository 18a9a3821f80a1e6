// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// get decodes the record of a key. An error wraps quota.ErrNotFound when there is none; what names it then.
func (s *Store) get(key []byte, what, id string, decode func([]byte) error) error {
	records, err := s.keeper.get(key)
	if err != nil {
		return err
	}
	if absent(records[0]) {
		return fmt.Errorf("%s %s: %w", what, id, quota.ErrNotFound)
	}
	return record(records[0]).decode(decode)
}

// free returns an error that wraps quota.ErrExists when there is a record under one of the keys.
func (s *Store) free(what, id string, keys ...[]byte) error {
	records, err := s.keeper.get(keys...)
	if err != nil {
		return err
	}
	for _, r := range records {
		if !absent(r) {
			return fmt.Errorf("%s %s: %w", what, id, quota.ErrExists)
		}
	}
	return nil
}

// set encodes a record.
func set(key []byte, v any) (disk.Entry, error) {
	b, err := encodeJSON(v)
	return disk.Entry{Key: key, Value: b}, err
}

// changeDirectory changes accounts and keys: prepare says how while nobody else changes any, and forget empties the caches while nobody
// fills them. It returns when the change survives power loss.
func (s *Store) changeDirectory(ctx context.Context, prepare func() ([]disk.Entry, error), forget func()) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	c, err := s.changeLocked(prepare, forget)
	if err != nil {
		return err
	}
	return c.wait()
}

func (s *Store) changeLocked(prepare func() ([]disk.Entry, error), forget func()) (*change, error) {
	s.directory.Lock()
	defer s.directory.Unlock()
	c, err := s.changed(prepare)
	if err == nil && forget != nil {
		forget()
	}
	return c, err
}

// CreateAccount implements [quota.Directory].
func (s *Store) CreateAccount(ctx context.Context, account quota.Account) error {
	account.Declared = false
	return s.changeDirectory(ctx, func() ([]disk.Entry, error) {
		if err := s.free("account", account.ID, accountKey(account.ID)); err != nil {
			return nil, err
		}
		e, err := setAccount(account)
		return []disk.Entry{e}, err
	}, nil)
}

// Account implements [quota.Directory].
func (s *Store) Account(ctx context.Context, id string) (quota.Account, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Account{}, err
	}
	if a, ok := s.accounts.GetIfPresent(id); ok {
		return *a, nil
	}
	s.directory.RLock()
	defer s.directory.RUnlock()
	return fill(s, s.accounts, id, s.readAccount)
}

func (s *Store) readAccount(id string, into *quota.Account) error {
	return s.get(accountKey(id), "account", id, func(v []byte) error { return decodeAccount(v, into) })
}

// setAccount encodes an account.
func setAccount(a quota.Account) (disk.Entry, error) {
	return set(accountKey(a.ID), storedAccount{a, a.Incarnation})
}

// UpdateAccount implements [quota.Directory].
func (s *Store) UpdateAccount(ctx context.Context, id string, change func(*quota.Account) error) (quota.Account, error) {
	var a quota.Account
	err := s.changeDirectory(ctx, func() ([]disk.Entry, error) {
		a = quota.Account{} // this may be the second time
		if err := s.readAccount(id, &a); err != nil {
			return nil, err
		}
		incarnation := a.Incarnation
		if err := change(&a); err != nil {
			return nil, err
		}
		a.ID, a.Incarnation, a.Declared = id, incarnation, false
		e, err := setAccount(a)
		return []disk.Entry{e}, err
	}, func() { s.accounts.Invalidate(id) })
	if err != nil {
		return quota.Account{}, err
	}
	return a, nil
}

// DeleteAccount implements [quota.Directory]. Keys and counts go first and the account last, so that a deletion that was
// interrupted can be done again.
func (s *Store) DeleteAccount(ctx context.Context, id string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	c, err := s.deleteAccount(id)
	if err != nil {
		return err
	}
	return c.wait()
}

func (s *Store) deleteAccount(id string) (*change, error) {
	s.directory.Lock()
	defer s.directory.Unlock()
	// No batch is on its way that could bring the counts back, and none takes them over.
	s.counters.committing.Lock()
	defer s.counters.committing.Unlock()
	if err := s.readAccount(id, new(quota.Account)); err != nil {
		return nil, err
	}
	// No feedback is counted for it meanwhile.
	s.appending.Lock()
	defer s.appending.Unlock()
	// The tally stays locked until the database is clear: who asks for it meanwhile must not read old counts.
	t := s.counters.lock(id)
	defer t.mu.Unlock()
	// What was counted and is not committed yet goes first: a deletion that is refused brings back what the database had.
	var c *change
	pending, _ := t.entries(nil, nil)
	err := s.keep(pending)
	if err == nil {
		c, err = s.changed(func() ([]disk.Entry, error) { return s.deletions(id) })
	}
	if err != nil {
		// The account is still there, and so are its counts in memory: they go back to where they were.
		t.redirty()
		_ = s.counters.changed(t) // fails only when the store is closed
		return nil, err
	}
	s.counters.remove(t)
	s.accounts.Invalidate(id)
	return c, nil
}

// deletions remove everything of an account but its feedback, the account last.
func (s *Store) deletions(id string) (entries []disk.Entry, err error) {
	for k, err := range s.storedKeys(id) {
		if err != nil {
			return nil, err
		}
		for _, key := range [][]byte{hashKey(k.Hash), keyIDKey(k.ID), lastUsedKey(k.ID), keyOfAccount(k)} {
			entries = append(entries, disk.Entry{Key: key, Delete: true})
		}
		// It is not read again before it is gone: who fills the cache waits for this.
		s.keys.Invalidate(k.Hash)
	}
	for _, table := range []byte("mdpb") {
		for r, err := range s.scan(ownedPrefix(table, id), nil) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, disk.Entry{Key: r.Key, Delete: true})
		}
	}
	return append(entries, disk.Entry{Key: accountKey(id), Delete: true}), nil
}

// Accounts implements [quota.Directory]. Accounts that are made or removed meanwhile may or may not be among them.
func (s *Store) Accounts(ctx context.Context) iter.Seq2[quota.Account, error] {
	return func(yield func(quota.Account, error) bool) {
		for r, err := range s.scan([]byte("a/"), nil) {
			var a quota.Account
			if err == nil {
				err = s.ready(ctx)
			}
			if err == nil {
				err = r.decode(func(v []byte) error { return decodeAccount(v, &a) })
			}
			if !yield(a, err) || err != nil && !errors.Is(err, errDamaged) {
				return
			}
		}
	}
}

// CreateKey implements [quota.Directory].
func (s *Store) CreateKey(ctx context.Context, key quota.Key) error {
	key.Declared, key.LastUsed = false, ""
	return s.changeDirectory(ctx, func() ([]disk.Entry, error) {
		if err := s.free("key", key.ID, keyIDKey(key.ID), hashKey(key.Hash)); err != nil {
			return nil, err
		}
		e, err := set(hashKey(key.Hash), key)
		return []disk.Entry{e, {Key: keyIDKey(key.ID), Value: key.Hash[:]}, {Key: keyOfAccount(key), Value: key.Hash[:]}}, err
	}, nil)
}

// KeyByHash implements [quota.Directory].
func (s *Store) KeyByHash(ctx context.Context, hash quota.Hash) (quota.Key, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Key{}, err
	}
	if k, ok := s.keys.GetIfPresent(hash); ok {
		return *k, nil
	}
	s.directory.RLock()
	defer s.directory.RUnlock()
	return fill(s, s.keys, hash, s.readKey)
}

// readKey reads a key record. Its error does not tell the hash.
func (s *Store) readKey(hash quota.Hash, into *quota.Key) error {
	err := s.get(hashKey(hash), "key", "with this hash", func(v []byte) error { return decodeJSON(v, into) })
	into.Hash = hash
	return err
}

// readHash returns the hash of the key with an id.
func (s *Store) readHash(id string) (hash quota.Hash, err error) {
	err = s.get(keyIDKey(id), "key", id, func(v []byte) error { return decodeHash(v, &hash) })
	return hash, err
}

// Key implements [quota.Directory].
func (s *Store) Key(ctx context.Context, id string) (quota.Key, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Key{}, err
	}
	var k quota.Key
	hash, err := s.readHash(id)
	if err == nil {
		err = s.readKey(hash, &k)
	}
	if err != nil {
		return quota.Key{}, err
	}
	k.LastUsed, err = s.lastUsed(k)
	return k, err
}

// UpdateKey implements [quota.Directory].
func (s *Store) UpdateKey(ctx context.Context, id string, change func(*quota.Key) error) (quota.Key, error) {
	var k quota.Key
	err := s.changeDirectory(ctx, func() ([]disk.Entry, error) {
		hash, err := s.readHash(id)
		if err != nil {
			return nil, err
		}
		k = quota.Key{} // this may be the second time
		if err := s.readKey(hash, &k); err != nil {
			return nil, err
		}
		account, created := k.Account, k.Created
		if err := change(&k); err != nil {
			return nil, err
		}
		k.ID, k.Account, k.Hash, k.Created, k.Declared, k.LastUsed = id, account, hash, created, false, ""
		e, err := set(hashKey(hash), k)
		return []disk.Entry{e}, err
	}, func() { s.keys.Invalidate(k.Hash) })
	if err != nil {
		return quota.Key{}, err
	}
	// The key is changed: an error now would say that it is not.
	k.LastUsed, _ = s.lastUsed(k)
	return k, nil
}

// Keys implements [quota.Directory]. Keys that are made or removed meanwhile may or may not be among them.
func (s *Store) Keys(ctx context.Context, account string) iter.Seq2[quota.Key, error] {
	return func(yield func(quota.Key, error) bool) {
		for k, err := range s.storedKeys(account) {
			if err == nil {
				err = s.ready(ctx)
			}
			if err == nil {
				k.LastUsed, err = s.lastUsed(k)
			}
			if !yield(k, err) || err != nil && !errors.Is(err, errDamaged) {
				return
			}
		}
	}
}

// storedKeys yields keys without the day of their last use.
func (s *Store) storedKeys(account string) iter.Seq2[quota.Key, error] {
	prefix := []byte("u/")
	if account != "" {
		prefix = ownedPrefix('u', account)
	}
	return func(yield func(quota.Key, error) bool) {
		for r, err := range s.scan(prefix, nil) {
			var hash quota.Hash
			var k quota.Key
			if err == nil {
				err = r.decode(func(v []byte) error { return decodeHash(v, &hash) })
			}
			if err == nil {
				err = s.readKey(hash, &k)
			}
			if errors.Is(err, quota.ErrNotFound) {
				continue // removed meanwhile
			}
			if !yield(k, err) || err != nil && !errors.Is(err, errDamaged) {
				return
			}
		}
	}
}

// Seeded implements [storage.Store].
func (s *Store) Seeded(ctx context.Context) (bool, error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	records, err := s.keeper.get(seededKey)
	if err != nil {
		return false, err
	}
	return !absent(records[0]), nil
}

// MarkSeeded implements [storage.Store].
func (s *Store) MarkSeeded(ctx context.Context) error {
	return s.changeDirectory(ctx, func() ([]disk.Entry, error) { return []disk.Entry{{Key: seededKey, Value: []byte{}}}, nil }, nil)
}
