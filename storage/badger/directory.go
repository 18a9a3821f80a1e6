// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// get decodes the record of a key. An error wraps quota.ErrNotFound when there is none; what names it then.
func get(txn *badger.Txn, key []byte, what, id string, decode func([]byte) error) error {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return own(fmt.Errorf("%s %s: %w", what, id, quota.ErrNotFound))
	}
	if err != nil {
		return err
	}
	return item.Value(decode)
}

// absent returns an error that wraps quota.ErrExists when there is a record.
func absent(txn *badger.Txn, key []byte, what, id string) error {
	_, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return own(fmt.Errorf("%s %s: %w", what, id, quota.ErrExists))
}

// set encodes a record.
func set(txn *badger.Txn, key []byte, v any) error {
	b, err := encodeJSON(v)
	if err != nil {
		return err
	}
	return txn.Set(key, b)
}

// changeDirectory changes accounts and keys: write in one transaction, then forget while nobody fills a cache. It returns when the
// change survives power loss.
func (s *Store) changeDirectory(ctx context.Context, write func(*badger.Txn) error, forget func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.directory.Lock()
	r, err := s.change(write)
	if err == nil && forget != nil {
		forget()
	}
	s.directory.Unlock()
	if err != nil {
		return err
	}
	return r.wait()
}

// CreateAccount implements [quota.Directory].
func (s *Store) CreateAccount(ctx context.Context, account quota.Account) error {
	account.Declared = false
	return s.changeDirectory(ctx, func(txn *badger.Txn) error {
		if err := absent(txn, accountKey(account.ID), "account", account.ID); err != nil {
			return err
		}
		return set(txn, accountKey(account.ID), account)
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
	a := new(quota.Account)
	err := s.view(func(txn *badger.Txn) error { return readAccount(txn, id, a) })
	if err != nil {
		return quota.Account{}, err
	}
	s.accounts.Set(id, a)
	return *a, nil
}

func readAccount(txn *badger.Txn, id string, into *quota.Account) error {
	return get(txn, accountKey(id), "account", id, func(v []byte) error { return decodeJSON(v, into) })
}

// UpdateAccount implements [quota.Directory].
func (s *Store) UpdateAccount(ctx context.Context, id string, change func(*quota.Account) error) (quota.Account, error) {
	var a quota.Account
	err := s.changeDirectory(ctx, func(txn *badger.Txn) error {
		if err := readAccount(txn, id, &a); err != nil {
			return err
		}
		if err := change(&a); err != nil {
			return own(err)
		}
		a.ID, a.Declared = id, false
		return set(txn, accountKey(id), a)
	}, func() { s.accounts.Invalidate(id) })
	if err != nil {
		return quota.Account{}, err
	}
	return a, nil
}

// DeleteAccount implements [quota.Directory]. Keys and counts go first and the account last, so that a deletion that was
// interrupted can be done again.
func (s *Store) DeleteAccount(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := s.deleteAccount(id)
	if err != nil {
		return err
	}
	return r.wait()
}

func (s *Store) deleteAccount(id string) (*round, error) {
	s.directory.Lock()
	defer s.directory.Unlock()
	// No batch is on its way that could bring the counts back, and none takes them over.
	s.counters.committing.Lock()
	defer s.counters.committing.Unlock()
	if err := s.view(func(txn *badger.Txn) error { return readAccount(txn, id, new(quota.Account)) }); err != nil {
		return nil, err
	}
	// The tally stays locked until the database is clear: who asks for it meanwhile must not read old counts.
	t := s.counters.lock(id)
	defer t.mu.Unlock()
	r, err := s.deleteRecords(id)
	if err != nil {
		// The account is still there, and so are its counts in memory: they go back to where they were.
		t.redirty()
		_ = s.counters.changed(t) // fails only when the store is closed
		return nil, err
	}
	s.counters.remove(t)
	s.accounts.Invalidate(id)
	return r, nil
}

// deleteRecords removes everything of an account but its feedback.
func (s *Store) deleteRecords(id string) (*round, error) {
	if err := s.deleteKeys(id); err != nil {
		return nil, err
	}
	for _, table := range []byte("mdp") {
		if err := s.deleteAll(ownedPrefix(table, id)); err != nil {
			return nil, err
		}
	}
	return s.change(func(txn *badger.Txn) error { return txn.Delete(accountKey(id)) })
}

// deleteKeys removes the keys of an account, a transaction each: they belong together, and there are few.
func (s *Store) deleteKeys(account string) error {
	var keys []quota.Key
	for k, err := range s.storedKeys(account) {
		if err != nil {
			return err
		}
		keys = append(keys, k)
	}
	for _, k := range keys {
		_, err := s.change(func(txn *badger.Txn) error {
			return errors.Join(txn.Delete(hashKey(k.Hash)), txn.Delete(keyIDKey(k.ID)), txn.Delete(lastUsedKey(k.ID)), txn.Delete(keyOfAccount(k)))
		})
		if err != nil {
			return err
		}
		s.keys.Invalidate(k.Hash)
	}
	return nil
}

// deleteAll removes the records whose keys begin with prefix.
func (s *Store) deleteAll(prefix []byte) error {
	for r, err := range s.scan(prefix, false) {
		if err != nil {
			return err
		}
		if _, err := s.change(func(txn *badger.Txn) error { return txn.Delete(r.key) }); err != nil {
			return err
		}
	}
	return nil
}

// Accounts implements [quota.Directory]. Accounts that are made or removed meanwhile may or may not be among them.
func (s *Store) Accounts(ctx context.Context) iter.Seq2[quota.Account, error] {
	return func(yield func(quota.Account, error) bool) {
		for r, err := range s.scan([]byte("a/"), true) {
			var a quota.Account
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				if err = decodeJSON(r.value, &a); err != nil {
					err = unavailable(err)
				}
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// CreateKey implements [quota.Directory].
func (s *Store) CreateKey(ctx context.Context, key quota.Key) error {
	key.Declared, key.LastUsed = false, ""
	return s.changeDirectory(ctx, func(txn *badger.Txn) error {
		if err := absent(txn, keyIDKey(key.ID), "key", key.ID); err != nil {
			return err
		}
		if err := absent(txn, hashKey(key.Hash), "key", key.ID); err != nil {
			return err
		}
		return errors.Join(
			set(txn, hashKey(key.Hash), key),
			txn.Set(keyIDKey(key.ID), key.Hash[:]),
			txn.Set(keyOfAccount(key), key.Hash[:]),
		)
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
	k := new(quota.Key)
	err := s.view(func(txn *badger.Txn) error { return readKey(txn, hash, k) })
	if err != nil {
		return quota.Key{}, err
	}
	s.keys.Set(hash, k)
	return *k, nil
}

// readKey reads a key record. Its error does not tell the hash.
func readKey(txn *badger.Txn, hash quota.Hash, into *quota.Key) error {
	err := get(txn, hashKey(hash), "key", "with this hash", func(v []byte) error { return decodeJSON(v, into) })
	into.Hash = hash
	return err
}

// readHash returns the hash of the key with an id.
func readHash(txn *badger.Txn, id string) (hash quota.Hash, err error) {
	err = get(txn, keyIDKey(id), "key", id, func(v []byte) error {
		if copy(hash[:], v) != len(hash) {
			return errDamaged
		}
		return nil
	})
	return hash, err
}

// Key implements [quota.Directory].
func (s *Store) Key(ctx context.Context, id string) (quota.Key, error) {
	if err := s.ready(ctx); err != nil {
		return quota.Key{}, err
	}
	var k quota.Key
	err := s.view(func(txn *badger.Txn) error {
		hash, err := readHash(txn, id)
		if err != nil {
			return err
		}
		return readKey(txn, hash, &k)
	})
	if err != nil {
		return quota.Key{}, err
	}
	k.LastUsed, err = s.lastUsed(k)
	return k, err
}

// UpdateKey implements [quota.Directory].
func (s *Store) UpdateKey(ctx context.Context, id string, change func(*quota.Key) error) (quota.Key, error) {
	var k quota.Key
	err := s.changeDirectory(ctx, func(txn *badger.Txn) error {
		hash, err := readHash(txn, id)
		if err != nil {
			return err
		}
		if err := readKey(txn, hash, &k); err != nil {
			return err
		}
		account, created := k.Account, k.Created
		if err := change(&k); err != nil {
			return own(err)
		}
		k.ID, k.Account, k.Hash, k.Created, k.Declared, k.LastUsed = id, account, hash, created, false, ""
		return set(txn, hashKey(hash), k)
	}, func() { s.keys.Invalidate(k.Hash) })
	if err != nil {
		return quota.Key{}, err
	}
	k.LastUsed, err = s.lastUsed(k)
	return k, err
}

// Keys implements [quota.Directory]. Keys that are made or removed meanwhile may or may not be among them.
func (s *Store) Keys(ctx context.Context, account string) iter.Seq2[quota.Key, error] {
	return func(yield func(quota.Key, error) bool) {
		for k, err := range s.storedKeys(account) {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				k.LastUsed, err = s.lastUsed(k)
			}
			if !yield(k, err) || err != nil {
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
		for r, err := range s.scan(prefix, true) {
			var k quota.Key
			if err == nil {
				err = s.view(func(txn *badger.Txn) error { return readKey(txn, quota.Hash(r.value), &k) })
			}
			if errors.Is(err, quota.ErrNotFound) {
				continue // removed meanwhile
			}
			if !yield(k, err) || err != nil {
				return
			}
		}
	}
}

// ready returns an error when ctx is done or the store is closed.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// Seeded implements [storage.Store].
func (s *Store) Seeded(ctx context.Context) (bool, error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	seeded := false
	err := s.view(func(txn *badger.Txn) error {
		_, err := txn.Get(seededKey)
		seeded = err == nil
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		return err
	})
	return seeded, err
}

// MarkSeeded implements [storage.Store].
func (s *Store) MarkSeeded(ctx context.Context) error {
	return s.changeDirectory(ctx, func(txn *badger.Txn) error { return txn.Set(seededKey, nil) }, nil)
}
