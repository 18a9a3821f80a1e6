// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// usable returns an error while the database was not reached yet, or is not the one that it was.
func (s *Store) usable() error {
	if err := s.known.check(); err != nil {
		return err
	}
	if s.known.id.Load() == nil {
		if err := s.mistake.Load(); err != nil {
			return notSent{fmt.Errorf("%w: %w", storage.ErrUnavailable, *err)}
		}
		return notSent{errNotConnected}
	}
	return nil
}

// beginRead begins a call that reads past the caches.
func (s *Store) beginRead(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return s.beginCall(ctx, s.link.begin)
}

// beginChange begins a call that changes something.
func (s *Store) beginChange(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := s.ready(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.held.err(); err != nil {
		return nil, nil, err
	}
	return s.beginCall(ctx, s.link.change)
}

// beginCall begins a call once nothing is to be taken back. Its own time begins after that.
func (s *Store) beginCall(
	ctx context.Context, begin func(context.Context) (context.Context, context.CancelFunc),
) (context.Context, context.CancelFunc, error) {
	if err := s.ready(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.usable(); err != nil {
		return nil, nil, err
	}
	if s.undos.count.Load() > 0 {
		waiting, cancel := begin(ctx)
		err := s.undoneAsked(waiting)
		cancel()
		if err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := begin(ctx)
	return ctx, cancel, nil
}

func notFound(what, id string) error { return fmt.Errorf("%s %s: %w", what, id, quota.ErrNotFound) }

func exists(what, id string) error { return fmt.Errorf("%s %s: %w", what, id, quota.ErrExists) }

// value reads a record past the caches. It is empty if there is none.
func (s *Store) value(ctx context.Context, name string) (string, error) {
	b, err := s.link.b()
	if err != nil {
		return "", err
	}
	m, err := s.link.do(ctx, b.Get().Key(name).Build())
	if err != nil || m.IsNil() {
		return "", err
	}
	value, err := m.ToString()
	if err != nil {
		return "", errAnswer
	}
	return present(value), nil
}

// list notes that an id has an account or keys.
func (s *Store) list(ctx context.Context, id string) error {
	b, err := s.link.b()
	if err != nil {
		return err
	}
	_, err = s.link.do(ctx, b.Zadd().Key(s.names.ids(id)).ScoreMember().ScoreMember(0, id).Build().ToRetryable())
	return err
}

// CreateAccount implements [quota.Directory].
func (s *Store) CreateAccount(ctx context.Context, account quota.Account) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	account.Declared = false
	becomes, err := s.names.sealAccount(account)
	if err != nil {
		return err
	}
	if err := s.list(ctx, account.ID); err != nil {
		return err
	}
	outcome, _, err := s.swap(ctx, s.names.of(account.ID, accountTable), "", becomes)
	if err != nil {
		return err
	}
	if outcome == other {
		return exists("account", account.ID)
	}
	// A deletion of the account that came before may have taken the id off the list since.
	return s.finish(ctx, s.list(ctx, account.ID), s.names.of(account.ID, accountTable), "", becomes)
}

// finish takes a swap back if what must follow it has failed.
func (s *Store) finish(ctx context.Context, err error, name, was, becomes string) error {
	if err != nil {
		s.undo(unswapScript, []string{name}, []string{was, becomes, s.link.until(ctx)})
	}
	return err
}

// Account implements [quota.Directory].
func (s *Store) Account(ctx context.Context, id string) (quota.Account, error) {
	a, err := s.accounts.read(ctx, s.names.of(id, accountTable))
	if errors.Is(err, quota.ErrNotFound) {
		return quota.Account{}, notFound("account", id)
	}
	if err != nil {
		return quota.Account{}, err
	}
	return *a, nil
}

// UpdateAccount implements [quota.Directory].
func (s *Store) UpdateAccount(
	ctx context.Context, id string, change func(*quota.Account) error,
) (quota.Account, error) {
	name := s.names.of(id, accountTable)
	var a *quota.Account
	err := s.update(ctx, name, notFound("account", id), func(value string) (string, error) {
		var err error
		if a, err = s.names.openAccount(name, value); err != nil {
			return "", err
		}
		incarnation := a.Incarnation
		if err := change(a); err != nil {
			return "", err
		}
		a.ID, a.Incarnation, a.Declared = id, incarnation, false
		return s.names.sealAccount(*a)
	})
	if err != nil {
		return quota.Account{}, err
	}
	return *a, nil
}

// update replaces a record by what change makes of it, again and again until nothing has come in between.
func (s *Store) update(
	ctx context.Context, name string, missing error, change func(value string) (string, error),
) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	unlock, err := s.locks.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	value, err := s.value(ctx, name)
	for {
		if err != nil {
			return err
		}
		if value == "" {
			return missing
		}
		becomes, err := change(value)
		if err != nil {
			return err
		}
		outcome, is, err := s.swap(ctx, name, value, becomes)
		if err != nil || outcome == done {
			return err
		}
		value = is
	}
}

// CreateKey implements [quota.Directory].
//
// What names the key comes before the key: a death in between leaves entries that lead nowhere, but no key that is not
// listed or is not deleted with its account.
func (s *Store) CreateKey(ctx context.Context, key quota.Key) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	key.Declared, key.LastUsed = false, ""
	becomes, err := s.names.sealKey(key)
	if err != nil {
		return err
	}
	indexed, err := s.indexKey(ctx, key)
	if err != nil {
		return err
	}
	claimName, claimed := s.names.keyID(key.ID), newClaim(key.Hash, s.link.until(ctx))
	was, err := s.claim(ctx, key, claimed)
	if err != nil {
		s.release(ctx, key, indexed)
		return err
	}
	outcome, _, err := s.swap(ctx, s.names.key(key.Hash), "", becomes)
	if err == nil && outcome == other {
		err = exists("key", key.ID)
	}
	if err == nil {
		// A deletion of the account that came before may have taken these since.
		err = s.finish(ctx, s.reindexKey(ctx, key), s.names.key(key.Hash), "", becomes)
	}
	if err == nil {
		return nil
	}
	s.release(ctx, key, indexed)
	released := was
	if was == "" {
		released = tombstone()
	}
	if _, _, failed := s.swap(ctx, claimName, claimed, released); failed != nil {
		s.undo(unswapScript, []string{claimName}, []string{was, claimed, s.link.until(ctx)})
	}
	return err
}

// indexKey adds a key to what its account lists, unless a key with its id is there.
func (s *Store) indexKey(ctx context.Context, key quota.Key) (added bool, err error) {
	b, err := s.link.b()
	if err != nil {
		return false, err
	}
	m, err := s.link.do(ctx, b.Hsetnx().Key(s.names.of(key.Account, keysTable)).Field(key.ID).
		Value(hexOf(key.Hash)).Build())
	if err != nil {
		return false, err
	}
	n, err := m.AsInt64()
	if err != nil {
		return false, errAnswer
	}
	return n == 1, s.list(ctx, key.Account)
}

// reindexKey adds a key to what its account lists.
func (s *Store) reindexKey(ctx context.Context, key quota.Key) error {
	b, err := s.link.b()
	if err != nil {
		return err
	}
	_, err = s.link.do(ctx, b.Hset().Key(s.names.of(key.Account, keysTable)).FieldValue().
		FieldValue(key.ID, hexOf(key.Hash)).Build().ToRetryable())
	if err != nil {
		return err
	}
	return s.list(ctx, key.Account)
}

// release takes a key off what its account lists, if it was added. Where that fails, an entry stays that leads nowhere.
func (s *Store) release(ctx context.Context, key quota.Key, indexed bool) {
	if b, err := s.link.b(); err == nil && indexed {
		_, _ = s.link.do(ctx, b.Hdel().Key(s.names.of(key.Account, keysTable)).Field(key.ID).Build().ToRetryable())
	}
}

// claim takes an id for a key. It returns what was there before: a claim that led nowhere.
func (s *Store) claim(ctx context.Context, key quota.Key, claimed string) (was string, err error) {
	for {
		outcome, is, err := s.swap(ctx, s.names.keyID(key.ID), was, claimed)
		if err != nil || outcome == done {
			return was, err
		}
		if is == "" {
			was = ""
			continue
		}
		held, err := openClaim(key.ID, is)
		if err != nil {
			return "", err
		}
		value, err := s.value(ctx, s.names.key(held.hash))
		if err != nil {
			return "", err
		}
		// Whoever claimed the id may still add the key.
		if value != "" && s.isKey(held.hash, value, key.ID) || s.link.clock.now().UnixMilli() <= held.until+claimGrace {
			return "", exists("key", key.ID)
		}
		was = is
	}
}

// claimGrace is for how many milliseconds longer than it holds a claim is heeded. The node's idea of the server's clock
// may be wrong by that.
const claimGrace = 5_000

// isKey reports whether the value of a key's record is that of a certain key. A damaged one counts as such.
func (s *Store) isKey(hash quota.Hash, value, id string) bool {
	k, err := s.names.openKey(s.names.key(hash), value)
	return err != nil || k.ID == id
}

// KeyByHash implements [quota.Directory].
func (s *Store) KeyByHash(ctx context.Context, hash quota.Hash) (quota.Key, error) {
	k, err := s.keys.read(ctx, s.names.key(hash))
	if errors.Is(err, quota.ErrNotFound) {
		return quota.Key{}, notFound("key", "with this hash")
	}
	if err != nil {
		return quota.Key{}, err
	}
	return *k, nil
}

// claimedHash returns the hash that an id is claimed for.
func (s *Store) claimedHash(ctx context.Context, id string) (quota.Hash, error) {
	value, err := s.value(ctx, s.names.keyID(id))
	if err != nil {
		return quota.Hash{}, err
	}
	if value == "" {
		return quota.Hash{}, notFound("key", id)
	}
	c, err := openClaim(id, value)
	return c.hash, err
}

// openKeyWithID decodes the record of a key, which must have an id.
func (s *Store) openKeyWithID(hash quota.Hash, value, id string) (*quota.Key, error) {
	if value == "" {
		return nil, notFound("key", id)
	}
	k, err := s.names.openKey(s.names.key(hash), value)
	if err != nil {
		return nil, fmt.Errorf("%w: key %s", errDamaged, id)
	}
	if k.ID != id {
		return nil, notFound("key", id) // the claim leads nowhere
	}
	return k, nil
}

// Key implements [quota.Directory].
func (s *Store) Key(ctx context.Context, id string) (quota.Key, error) {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return quota.Key{}, err
	}
	defer cancel()
	hash, err := s.claimedHash(ctx, id)
	if err != nil {
		return quota.Key{}, err
	}
	value, err := s.value(ctx, s.names.key(hash))
	if err != nil {
		return quota.Key{}, err
	}
	k, err := s.openKeyWithID(hash, value, id)
	if err != nil {
		return quota.Key{}, err
	}
	k.LastUsed, err = s.lastUsed(ctx, k)
	return *k, err
}

// lastUsed returns the day of the last use of a key.
func (s *Store) lastUsed(ctx context.Context, k *quota.Key) (string, error) {
	b, err := s.link.b()
	if err != nil {
		return "", err
	}
	m, err := s.link.do(ctx, b.Hget().Key(s.names.of(k.Account, usedTable)).Field(k.ID).Build())
	if err != nil || m.IsNil() {
		return "", err
	}
	day, err := m.ToString()
	if err != nil {
		return "", errAnswer
	}
	return dateOf(k.ID, day)
}

// dateOf returns a day as it is shown.
func dateOf(id, day string) (string, error) {
	n, err := strconv.ParseInt(day, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%w: the last use of key %s", errDamaged, id)
	}
	return time.Unix(n*secondsPerDay, 0).UTC().Format(time.DateOnly), nil
}

// UpdateKey implements [quota.Directory].
func (s *Store) UpdateKey(ctx context.Context, id string, change func(*quota.Key) error) (quota.Key, error) {
	reading, cancel, err := s.beginRead(ctx)
	if err != nil {
		return quota.Key{}, err
	}
	hash, err := s.claimedHash(reading, id)
	cancel()
	if err != nil {
		return quota.Key{}, err
	}
	var k *quota.Key
	err = s.update(ctx, s.names.key(hash), notFound("key", id), func(value string) (string, error) {
		var err error
		if k, err = s.openKeyWithID(hash, value, id); err != nil {
			return "", err
		}
		account, created := k.Account, k.Created
		if err := change(k); err != nil {
			return "", err
		}
		k.ID, k.Account, k.Hash, k.Created, k.Declared, k.LastUsed = id, account, hash, created, false, ""
		return s.names.sealKey(*k)
	})
	if err != nil {
		return quota.Key{}, err
	}
	// The key is changed. Returning an error now would say that it is not.
	if ctx, cancel, err := s.beginRead(context.WithoutCancel(ctx)); err == nil {
		defer cancel()
		k.LastUsed, _ = s.lastUsed(ctx, k)
	}
	return *k, nil
}
