// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// page is how many records are read at a time.
const page = 128

// ids yields pages of the ids that have an account or keys, in their order: it merges the parts of the list. Each page
// is bounded in time.
func (s *Store) ids(ctx context.Context) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		var parts [shards][]string
		var ended [shards]bool
		after := [shards]string{}
		for i := range after {
			after[i] = "-"
		}
		for {
			if err := s.fillParts(ctx, &parts, &ended, &after); err != nil {
				yield(nil, err)
				return
			}
			ids := mergeParts(&parts, &ended)
			if len(ids) > 0 && !yield(ids, nil) {
				return
			}
			if len(ids) == 0 && !slices.Contains(ended[:], false) {
				return
			}
		}
	}
}

// fillParts reads more of the parts that are empty and not at their end.
func (s *Store) fillParts(
	ctx context.Context, parts *[shards][]string, ended *[shards]bool, after *[shards]string,
) error {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return err
	}
	var which []int
	var cmds []rueidis.Completed
	for i := range parts {
		if len(parts[i]) == 0 && !ended[i] {
			which = append(which, i)
			cmds = append(cmds, b.Zrange().Key(s.names.shard(i)).Min(after[i]).Max("+").Bylex().Limit(0, page).Build())
		}
	}
	answers, err := s.link.many(ctx, cmds...)
	if err != nil {
		return err
	}
	for n, i := range which {
		if parts[i], err = answers[n].AsStrSlice(); err != nil {
			return errAnswer
		}
		ended[i] = len(parts[i]) < page
		if len(parts[i]) > 0 {
			after[i] = "(" + parts[i][len(parts[i])-1]
		}
	}
	return nil
}

// mergeParts takes up to a page of ids from the parts, in their order, until one must be filled again.
func mergeParts(parts *[shards][]string, ended *[shards]bool) (ids []string) {
	for len(ids) < page {
		least := -1
		for i, part := range parts {
			switch {
			case len(part) == 0 && !ended[i]:
				return ids
			case len(part) > 0 && (least < 0 || part[0] < parts[least][0]):
				least = i
			}
		}
		if least < 0 {
			return ids
		}
		ids, parts[least] = append(ids, parts[least][0]), parts[least][1:]
	}
	return ids
}

// values reads records, a page of them at once. Those that are absent are empty.
func (s *Store) values(ctx context.Context, names []string) ([]string, error) {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return nil, err
	}
	cmds := make([]rueidis.Completed, len(names))
	for i, name := range names {
		cmds[i] = b.Get().Key(name).Build()
	}
	answers, err := s.link.many(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	values := make([]string, len(names))
	for i, m := range answers {
		if m.IsNil() {
			continue
		}
		if values[i], err = m.ToString(); err != nil {
			return nil, errAnswer
		}
		values[i] = present(values[i])
	}
	return values, nil
}

// Accounts implements [quota.Directory].
func (s *Store) Accounts(ctx context.Context) iter.Seq2[quota.Account, error] {
	return func(yield func(quota.Account, error) bool) {
		for ids, err := range s.ids(ctx) {
			var values, names []string
			if err == nil {
				for _, id := range ids {
					names = append(names, s.names.of(id, accountTable))
				}
				values, err = s.values(ctx, names)
			}
			if err != nil {
				yield(quota.Account{}, err)
				return
			}
			for i, value := range values {
				if value == "" {
					continue
				}
				if err := s.ready(ctx); err != nil {
					yield(quota.Account{}, err)
					return
				}
				a, err := s.names.openAccount(names[i], value)
				if err != nil {
					a = &quota.Account{}
				}
				if !yield(*a, err) {
					return
				}
			}
		}
	}
}

// Keys implements [quota.Directory].
func (s *Store) Keys(ctx context.Context, account string) iter.Seq2[quota.Key, error] {
	return func(yield func(quota.Key, error) bool) {
		if account != "" {
			s.keysOf(ctx, account, yield)
			return
		}
		for ids, err := range s.ids(ctx) {
			if err != nil {
				yield(quota.Key{}, err)
				return
			}
			for _, id := range ids {
				if !s.keysOf(ctx, id, yield) {
					return
				}
			}
		}
	}
}

// keysOf yields the keys of an account, the damaged ones last. It reports whether the listing goes on.
func (s *Store) keysOf(ctx context.Context, account string, yield func(quota.Key, error) bool) bool {
	keys, damaged, err := s.readKeys(ctx, account)
	if err != nil {
		yield(quota.Key{}, err)
		return false
	}
	for _, k := range keys {
		if err := s.ready(ctx); err != nil {
			yield(quota.Key{}, err)
			return false
		}
		if !yield(k, nil) {
			return false
		}
	}
	for _, id := range damaged {
		if !yield(quota.Key{}, fmt.Errorf("%w: key %s", errDamaged, id)) {
			return false
		}
	}
	return true
}

// readKeys reads the keys of an account, in their order, and the ids of those that are damaged.
func (s *Store) readKeys(ctx context.Context, account string) (keys []quota.Key, damaged []string, err error) {
	index, used, err := s.readIndex(ctx, account)
	if err != nil {
		return nil, nil, err
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(index)), page) {
		var hashes []quota.Hash
		var names []string
		for _, id := range ids {
			hash, err := parseHash(index[id])
			if err != nil {
				damaged = append(damaged, id)
			}
			hashes = append(hashes, hash)
			names = append(names, s.names.key(hash))
		}
		values, err := s.values(ctx, names)
		if err != nil {
			return nil, nil, err
		}
		for i, id := range ids {
			k, err := s.openKeyWithID(hashes[i], values[i], id)
			if err == nil && used[id] != "" {
				k.LastUsed, err = dateOf(id, used[id])
			}
			switch {
			case errors.Is(err, quota.ErrNotFound): // deleted meanwhile, or not added yet
			case err != nil:
				damaged = append(damaged, id)
			case k.Account == account:
				keys = append(keys, *k)
			}
		}
	}
	slices.SortFunc(keys, func(a, b quota.Key) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return keys, damaged, nil
}

// readIndex reads the index of an account's keys and the days of their last use.
func (s *Store) readIndex(ctx context.Context, account string) (index, used map[string]string, err error) {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return nil, nil, err
	}
	answers, err := s.link.many(ctx, b.Hgetall().Key(s.names.of(account, keysTable)).Build(),
		b.Hgetall().Key(s.names.of(account, usedTable)).Build())
	if err != nil {
		return nil, nil, err
	}
	index, err = answers[0].AsStrMap()
	used, err2 := answers[1].AsStrMap()
	if errors.Join(err, err2) != nil {
		return nil, nil, errAnswer
	}
	return index, used, nil
}
