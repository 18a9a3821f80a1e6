// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
	"github.com/caddy-moderation/caddy-moderation/storage/internal/stored"
)

// get decodes the record with a key. If there is none, the error names what is missing and wraps [quota.ErrNotFound].
func (s *Store) get(key []byte, what, id string, decode func([]byte) error) error {
	records, err := s.supervisor.get(key)
	if err != nil {
		return err
	}
	if absent(records[0]) {
		return fmt.Errorf("%s %s: %w", what, id, quota.ErrNotFound)
	}
	return record(records[0]).decode(decode)
}

// requireAbsent returns nil if there is no record with any of the keys. Otherwise the error wraps [quota.ErrExists].
func (s *Store) requireAbsent(what, id string, keys ...[]byte) error {
	records, err := s.supervisor.get(keys...)
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

// set returns the entry that stores v as JSON.
func set(key []byte, v any) (disk.Entry, error) {
	b, err := encodeJSON(v)
	return disk.Entry{Key: key, Value: b}, err
}

// changeDirectory changes accounts and keys, and returns when the change survives power loss. It calls prepare, which
// returns the entries to write, while nobody else changes accounts or keys, and invalidate, which may be nil, while
// nobody fills the caches.
func (s *Store) changeDirectory(ctx context.Context, prepare func() ([]disk.Entry, error), invalidate func()) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	c, err := s.changeLocked(prepare, invalidate)
	if err != nil {
		return err
	}
	return c.wait()
}

func (s *Store) changeLocked(prepare func() ([]disk.Entry, error), invalidate func()) (*change, error) {
	s.directory.Lock()
	defer s.directory.Unlock()
	c, err := s.apply(prepare)
	if err == nil && invalidate != nil {
		invalidate()
	}
	return c, err
}

// CreateAccount implements [quota.Directory].
func (s *Store) CreateAccount(ctx context.Context, account quota.Account) error {
	account.Declared = false
	return s.changeDirectory(ctx, func() ([]disk.Entry, error) {
		if err := s.requireAbsent("account", account.ID, accountKey(account.ID)); err != nil {
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

// setAccount returns the entry that stores an account.
func setAccount(a quota.Account) (disk.Entry, error) {
	return set(accountKey(a.ID), stored.Of(a))
}

// UpdateAccount implements [quota.Directory].
func (s *Store) UpdateAccount(
	ctx context.Context, id string, change func(*quota.Account) error,
) (quota.Account, error) {
	var a quota.Account
	err := s.changeDirectory(ctx, func() ([]disk.Entry, error) {
		a = quota.Account{} // prepare may be called twice
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

// DeleteAccount implements [quota.Directory]. It deletes keys and counts first and the account last, so that an
// interrupted deletion can be repeated.
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
	// No batch is under way that could write the counts again, and none takes them over.
	s.counters.committing.Lock()
	defer s.counters.committing.Unlock()
	if err := s.readAccount(id, new(quota.Account)); err != nil {
		return nil, err
	}
	// No feedback is counted for the account meanwhile.
	s.appending.Lock()
	defer s.appending.Unlock()
	// The tally stays locked until the records are deleted: otherwise a caller could read the old counts into a new
	// one.
	t := s.counters.lock(id)
	defer t.mu.Unlock()
	// Counts that are not committed yet are written first: undoing the deletion restores what the database held.
	var c *change
	pending, _, err := s.changes(t, nil, nil)
	if err == nil {
		err = s.writeCounts(pending)
	}
	if err == nil {
		c, err = s.apply(func() ([]disk.Entry, error) { return s.deletions(id) })
	}
	if err != nil {
		// The account and its counts in memory stay. The counts must be written once more.
		t.markAllDirty()
		_ = s.counters.enqueue(t) // fails only when the store is closed
		return nil, err
	}
	s.counters.remove(t)
	s.accounts.Invalidate(id)
	return c, nil
}

// deletions returns the entries that delete everything of an account but its feedback, the account last.
func (s *Store) deletions(id string) (entries []disk.Entry, err error) {
	for k, err := range s.storedKeys(id) {
		if err != nil {
			return nil, err
		}
		for _, key := range [][]byte{hashKey(k.Hash), keyIDKey(k.ID), lastUsedKey(k.ID), keyOfAccount(k)} {
			entries = append(entries, disk.Entry{Key: key, Delete: true})
		}
		// It is not cached again before it is deleted: filling the cache takes the lock that the caller holds.
		s.keys.Invalidate(k.Hash)
	}
	for _, table := range []byte("mdpqb") {
		for r, err := range s.scan(ownedPrefix(table, id), nil) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, disk.Entry{Key: r.Key, Delete: true})
		}
	}
	return append(entries, disk.Entry{Key: accountKey(id), Delete: true}), nil
}

// Accounts implements [quota.Directory].
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
		if err := s.requireAbsent("key", key.ID, keyIDKey(key.ID), hashKey(key.Hash)); err != nil {
			return nil, err
		}
		e, err := set(hashKey(key.Hash), key)
		byID := disk.Entry{Key: keyIDKey(key.ID), Value: key.Hash[:]}
		byAccount := disk.Entry{Key: keyOfAccount(key), Value: key.Hash[:]}
		return []disk.Entry{e, byID, byAccount}, err
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

// readKey reads a key. Its error does not tell the hash.
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
		k = quota.Key{} // prepare may be called twice
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
	// The key is changed. Returning an error now would say that it is not.
	k.LastUsed, _ = s.lastUsed(k)
	return k, nil
}

// Keys implements [quota.Directory].
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
				if errors.Is(err, errDamaged) {
					// The record has the hash as its key, which tells nobody which key it is.
					id := string(r.Key[bytes.IndexByte(r.Key, 0)+1+timeSize:])
					err = unavailable(fmt.Errorf("%w: %s", errDamaged, describe(keyIDKey(id))))
				}
			}
			if errors.Is(err, quota.ErrNotFound) {
				continue // deleted meanwhile
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
	records, err := s.supervisor.get(seededKey)
	if err != nil {
		return false, err
	}
	return !absent(records[0]), nil
}

// MarkSeeded implements [storage.Store].
func (s *Store) MarkSeeded(ctx context.Context) error {
	return s.changeDirectory(ctx, func() ([]disk.Entry, error) {
		return []disk.Entry{{Key: seededKey, Value: []byte{}}}, nil
	}, nil)
}
