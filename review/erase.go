// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/sortid"
)

// Selection says which items are erased: those that fulfil all of its conditions. The zero value has none and is not
// valid.
type Selection struct {
	// ID is that of one item.
	ID string
	// TextHash is the SHA-256 of the texts, as [TextHash] makes it.
	TextHash string
	// Account is that of the items.
	Account string
	// Author is that of the items, as they have it.
	Author string
	// Before is an instant; the items were kept before it.
	Before time.Time
}

// Erase erases items and everything that leads to them, decided ones included. It returns how many.
func (q *Queue) Erase(ctx context.Context, s Selection) (erased int, err error) {
	ids, all, h, err := q.selected(ctx, s)
	if err != nil {
		return 0, err
	}
	if all {
		return q.eraseBefore(ctx, s.Before)
	}
	return q.eraseIDs(ctx, h, ids, s)
}

// Count returns how many items [Queue.Erase] would erase.
func (q *Queue) Count(ctx context.Context, s Selection) (n int, err error) {
	ids, all, h, err := q.selected(ctx, s)
	if err != nil {
		return 0, err
	}
	if all {
		end, err := sortid.New("", s.Before, zeros{})
		if err != nil {
			return 0, err
		}
		for _, err := range q.store.ListDocuments(ctx, collection, documents.Range{From: "i/", To: "i/rev_" + end}) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	for part := range slices.Chunk(ids, erasedAtOnce) {
		changes, found, err := q.erasures(ctx, h, part, s)
		if err != nil {
			return n, err
		}
		if len(changes) > 0 {
			n += found
		}
	}
	return n, nil
}

// selected returns the ids that a selection leads to, or that all items before an instant are meant.
func (q *Queue) selected(ctx context.Context, s Selection) (ids []string, before bool, h hashes, err error) {
	if h, err = q.keyed(ctx); err != nil {
		return nil, false, h, err
	}
	switch {
	case s.ID != "":
		ids = []string{s.ID}
	case s.TextHash != "":
		ids, err = q.ids(ctx, "h/"+h.of("text", strings.ToLower(s.TextHash))+"/", s.Account)
	case s.Author != "":
		ids, err = q.ids(ctx, "u/"+h.of("author of an item", s.Author)+"/", s.Account)
	case s.Account != "":
		// Several documents of an account lead to a waiting item.
		ids, err = q.ids(ctx, ofAccount(s.Account), "")
		slices.Sort(ids)
		ids = slices.Compact(ids)
	case !s.Before.IsZero():
		return nil, true, h, nil
	default:
		err = invalid("at least one condition is required: an id, the hash of a text, an account, an author or a time")
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		at, ok := sortid.Time("rev_", id)
		return !ok || !s.Before.IsZero() && !at.Before(s.Before)
	})
	return ids, false, h, err
}

// erasedAtOnce is how many items are erased at once: each has up to twelve documents.
const erasedAtOnce = 20

// eraseIDs erases items that fulfil the other conditions.
func (q *Queue) eraseIDs(ctx context.Context, h hashes, ids []string, s Selection) (erased int, err error) {
	for part := range slices.Chunk(ids, erasedAtOnce) {
		for tries := 1; ; tries++ {
			n, err := q.eraseSome(ctx, h, part, s)
			if errors.Is(err, documents.ErrConflict) && tries < decideTries {
				continue // one of them was decided meanwhile
			}
			if err != nil {
				return erased, err
			}
			erased += n
			break
		}
	}
	return erased, nil
}

// eraseSome erases some items at once.
func (q *Queue) eraseSome(ctx context.Context, h hashes, ids []string, s Selection) (erased int, err error) {
	changes, erased, err := q.erasures(ctx, h, ids, s)
	if err != nil || len(changes) == 0 {
		return 0, err
	}
	return erased, q.store.ChangeDocuments(ctx, collection, changes...)
}

// erasures returns the changes that erase those of some items that fulfil a selection, and how many items these are.
func (q *Queue) erasures(
	ctx context.Context, h hashes, ids []string, s Selection,
) (changes []documents.Change, items int, err error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = itemKey(id)
	}
	found, err := q.store.Documents(ctx, collection, keys...)
	if err != nil {
		return nil, 0, err
	}
	for i, d := range found {
		// What cannot be decrypted, or is damaged, is erased like others.
		k, err := q.decode(d)
		if errors.Is(err, ErrNotFound) || !q.fulfils(h, k, s) {
			continue
		}
		items++
		changes = append(changes, documents.Change{Key: d.Key, Delete: true, Erase: true, If: d.Unchanged()},
			documents.Change{Key: claimKey(ids[i]), Delete: true})
		for _, name := range k.names {
			changes = append(changes, documents.Change{Key: name, Delete: true})
		}
	}
	return changes, items, nil
}

// fulfils reports whether what leads to an item fulfils a selection.
func (q *Queue) fulfils(h hashes, k kept, s Selection) bool {
	has := func(prefix string) bool {
		return slices.ContainsFunc(k.names, func(name string) bool { return strings.HasPrefix(name, prefix) })
	}
	return (s.TextHash == "" || has("h/"+h.of("text", strings.ToLower(s.TextHash))+"/")) &&
		(s.Account == "" || has(ofAccount(s.Account))) &&
		(s.Author == "" || has("u/"+h.of("author of an item", s.Author)+"/"))
}

// eraseBefore erases all items and events before an instant.
func (q *Queue) eraseBefore(ctx context.Context, before time.Time) (erased int, err error) {
	end, err := sortid.New("", before, zeros{})
	if err != nil {
		return 0, err
	}
	var ids []string
	r := documents.Range{From: "i/", To: "i/rev_" + end}
	for d, err := range q.store.ListDocuments(ctx, collection, r) {
		if err != nil {
			return erased, err
		}
		if ids = append(ids, idOf(d.Key)); len(ids) == erasedAtOnce {
			n, err := q.eraseIDs(ctx, hashes{}, ids, Selection{})
			if erased += n; err != nil {
				return erased, err
			}
			ids = ids[:0]
		}
	}
	n, err := q.eraseIDs(ctx, hashes{}, ids, Selection{})
	if err != nil {
		return erased + n, err
	}
	for _, prefix := range []string{"e/dec_", "k/"} {
		if err := q.eraseDocuments(ctx, prefix, end); err != nil {
			return erased + n, err
		}
	}
	return erased + n, nil
}

// eraseDocuments erases documents whose keys end in an id from before another one.
func (q *Queue) eraseDocuments(ctx context.Context, prefix, end string) error {
	var changes []documents.Change
	for d, err := range q.store.ListDocuments(ctx, collection, documents.Prefix(prefix)) {
		if err != nil {
			return err
		}
		if id := idOf(d.Key); id[min(4, len(id)):] >= end {
			if prefix == "k/" {
				continue // they are sorted by reviewer
			}
			break
		}
		if changes = append(changes, documents.Change{Key: d.Key, Delete: true}); len(changes) == documents.MaxChanges {
			if err := q.store.ChangeDocuments(ctx, collection, changes...); err != nil {
				return err
			}
			changes = changes[:0]
		}
	}
	return q.store.ChangeDocuments(ctx, collection, changes...)
}

// zeros is a source of the least random there is.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Sweep erases what is older than the queue keeps it, and what is too much: the items that were decided first, then the
// oldest. Call it now and then, on one node or on all. It returns how many items were erased.
func (q *Queue) Sweep(ctx context.Context) (erased int, err error) {
	old, err := q.eraseBefore(ctx, q.now().Add(-q.options.Keep))
	if err != nil {
		return old, err
	}
	tooMuch, err := q.Trim(ctx)
	return old + tooMuch, err
}

// Trim erases what is too much, and nothing because of its age.
func (q *Queue) Trim(ctx context.Context) (erased int, err error) {
	var waiting, decided []string
	for d, err := range q.store.ListDocuments(ctx, collection, documents.Prefix("s/")) {
		if err != nil {
			return 0, err
		}
		if strings.HasPrefix(d.Key, "s/pending/") {
			waiting = append(waiting, idOf(d.Key))
			continue
		}
		decided = append(decided, idOf(d.Key))
	}
	slices.Sort(decided)
	tooMany := max(len(waiting)+len(decided)-q.options.Max, 0)
	all := append(decided, waiting...)
	return q.eraseIDs(ctx, hashes{}, all[:tooMany], Selection{})
}
