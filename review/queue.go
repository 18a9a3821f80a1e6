// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/sortid"
)

// collection is the collection of all documents of the queue:
//
//	i/ id                               item, with the names of the documents below that lead to it
//	s/pending/ id                       waiting items, the oldest first; the value is the account
//	o/harm/ rank / id                   waiting items, the most harmful first; the value is the account
//	o/doubt/ rank / id                  waiting items, the least sure first; the value is the account
//	s/ status / inverted time / id      decided items, the latest decision first; the value is the account
//	a/ account / s/... or o/...         the same four of an account, so that nobody reads those of all others
//	h/ hash of the texts / id           items with these texts
//	u/ hash of the author / id          items of an author
//	r/ hash of the request's id / id    items of a request
//	n/ hash of the letters / id         waiting items with nearly these texts
//	c/ id                               who has the item now, until when
//	k/ hash of the reviewer / id        the reviewer has skipped the item, or has decided it as the first of two
//	e/ id of the decision               event, for those who want to know of decisions
//	m/secret                            what keys the hashes
const collection = "review"

// ErrDamaged says that an item or an event is not what was written, be it the store or the queue that notices. It is
// [documents.ErrDamaged].
var ErrDamaged = documents.ErrDamaged

// Options configure a [Queue].
type Options struct {
	// Store keeps the documents. Required.
	Store documents.Store
	// Keep is for how long an item is kept, whatever has become of it. Default: 30 days.
	Keep time.Duration
	// Max is how many items are kept: with more, the oldest decided ones are erased, then the oldest. Default: 100,000.
	Max int
	// Key encrypts what people wrote. Default: it is not encrypted.
	Key *Key
	// FormerKeys are those that items may be encrypted with from before. They only decrypt, see [Queue.Reseal].
	// Default: none.
	FormerKeys []Key
	// Claim is for how long an item that was served to a reviewer is served to nobody else. Default: 10 minutes.
	Claim time.Duration
	// Twice is the share of items that two reviewers are to decide, from 0 to 1.
	Twice float64
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
	// Random makes ids. Default: that of crypto/rand.
	Random io.Reader
}

// Queue keeps items for review. It is safe for concurrent use, by several nodes with one store, too.
type Queue struct {
	options Options
	store   documents.Store
	sealer  sealer

	hashes atomic.Pointer[hashes] // nil until the secret is known
}

// New returns a queue. It reads nothing from the store yet.
func New(o Options) (*Queue, error) {
	o.Keep = cmp.Or(o.Keep, 30*24*time.Hour)
	o.Max = cmp.Or(o.Max, 100_000)
	o.Claim = cmp.Or(o.Claim, 10*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	s, err := newSealer(o.Key, o.FormerKeys...)
	if err != nil {
		return nil, err
	}
	return &Queue{options: o, store: o.Store, sealer: s}, nil
}

func (q *Queue) now() time.Time { return q.options.Now().UTC() }

// secretKey is the key of the document that keys the hashes.
const secretKey = "m/secret"

// keyed returns the hashes. The secret is made by whoever comes first. It is encrypted as soon as there is a key.
func (q *Queue) keyed(ctx context.Context) (hashes, error) {
	if h := q.hashes.Load(); h != nil {
		return *h, nil
	}
	// No lock is held meanwhile: a store that hangs must not let one caller wait for the other.
	for range 3 {
		found, err := q.store.Documents(ctx, collection, secretKey)
		if err != nil {
			return hashes{}, err
		}
		var secret []byte
		known := found[0].Revision != 0
		if known {
			if err := q.sealer.open(secretKey, found[0].Value, &secret); err != nil {
				return hashes{}, err
			}
		} else {
			secret = make([]byte, KeyBytes)
			_, _ = rand.Read(secret) // it never fails
		}
		if !known || !q.sealer.current(found[0].Value) {
			value, err := q.sealer.seal(secretKey, secret)
			if err != nil {
				return hashes{}, err
			}
			err = q.store.ChangeDocuments(ctx, collection,
				documents.Change{Key: secretKey, Value: value, If: found[0].Unchanged()})
			if errors.Is(err, documents.ErrConflict) {
				continue
			}
			if err != nil {
				return hashes{}, err
			}
		}
		h := hashes{secret}
		q.hashes.Store(&h)
		return h, nil
	}
	return hashes{}, fmt.Errorf("the secret of the review queue: %w", documents.ErrConflict)
}

func itemKey(id string) string { return "i/" + id }

func claimKey(id string) string { return "c/" + id }

// AuthorPrefix begins what [Queue.HashAuthor] returns.
const AuthorPrefix = "author_"

// HashAuthor returns what an item says of its author instead of the name: a keyed hash, the same for the same name.
func (q *Queue) HashAuthor(ctx context.Context, name string) (string, error) {
	h, err := q.keyed(ctx)
	if err != nil || name == "" {
		return "", err
	}
	return AuthorPrefix + h.of("author", name), nil
}

// Add keeps an item and returns its id. ID, Time, Status, Twice and Decisions are set by the queue. When it returns
// nil, the item survives the loss of power. The error wraps [ErrInvalid] if a member breaks a rule.
func (q *Queue) Add(ctx context.Context, item Item) (id string, err error) {
	h, err := q.keyed(ctx)
	if err != nil {
		return "", err
	}
	changes, err := q.add(h, &item)
	if err != nil {
		return "", err
	}
	return item.ID, q.store.ChangeDocuments(ctx, collection, changes...)
}

// AddAll keeps items as [Queue.Add] does, several with each write, and returns how many are kept: the first ones.
func (q *Queue) AddAll(ctx context.Context, items []Item) (kept int, err error) {
	h, err := q.keyed(ctx)
	if err != nil {
		return 0, err
	}
	var waiting []documents.Change
	bytes := 0
	for i, item := range items {
		changes, err := q.add(h, &item)
		if err != nil {
			return kept, err
		}
		size := 0
		for _, c := range changes {
			size += len(c.Key) + len(c.Value)
		}
		if len(waiting)+len(changes) > documents.MaxChanges || bytes+size > documents.MaxChangeBytes {
			if err := q.store.ChangeDocuments(ctx, collection, waiting...); err != nil {
				return kept, err
			}
			kept, waiting, bytes = i, nil, 0
		}
		waiting, bytes = append(waiting, changes...), bytes+size
	}
	if err := q.store.ChangeDocuments(ctx, collection, waiting...); err != nil {
		return kept, err
	}
	return len(items), nil
}

// add returns the changes that keep a new item, and sets what the queue sets.
func (q *Queue) add(h hashes, item *Item) (changes []documents.Change, err error) {
	if err := item.validate(); err != nil {
		return nil, err
	}
	item.Time, item.Status, item.Decisions = q.now(), Pending, []Decision{}
	if item.ID, err = sortid.New("rev_", item.Time, q.options.Random); err != nil {
		return nil, err
	}
	var chance [4]byte
	if _, err := io.ReadFull(q.options.Random, chance[:]); err != nil {
		return nil, err
	}
	item.Twice = float64(binary.BigEndian.Uint32(chance[:]))/(1<<32) < q.options.Twice
	return q.write(h, nil, item, documents.Absent())
}

// names returns the keys of the documents that lead to an item.
func (q *Queue) names(h hashes, i *Item) []string {
	names := []string{"h/" + h.of("text", TextHash(i.Texts)) + "/" + i.ID}
	scopes := []string{""}
	if i.Account != "" {
		scopes = append(scopes, ofAccount(i.Account))
	}
	for _, scope := range scopes {
		if i.Status != Pending {
			names = append(names, fmt.Sprintf("%ss/%s/%s/%s", scope, i.Status, invertedTime(i.decided()), i.ID))
			continue
		}
		names = append(names,
			scope+"s/pending/"+i.ID,
			fmt.Sprintf("%so/harm/%04d/%s", scope, 9999-rank(i.harm()), i.ID),
			fmt.Sprintf("%so/doubt/%04d/%s", scope, rank(i.Confidence), i.ID))
	}
	if i.Author != "" {
		names = append(names, "u/"+h.of("author of an item", i.Author)+"/"+i.ID)
	}
	if i.RequestID != "" {
		names = append(names, "r/"+h.of("request", i.RequestID)+"/"+i.ID)
	}
	if i.Status == Pending {
		names = append(names, "n/"+h.of("letters", alike(i.Texts))+"/"+i.ID)
	}
	return names
}

// ofAccount begins the keys of the documents that lead to the items of an account, or to all items if account is empty.
func ofAccount(account string) string {
	if account == "" {
		return ""
	}
	return "a/" + account + "/"
}

// rank turns a number from 0 to 1 into one from 0 to 9999.
func rank(p float64) int { return min(max(int(p*9999), 0), 9999) }

// harm is the largest probability of an item.
func (i *Item) harm() (most float64) {
	for _, p := range i.Probabilities {
		most = max(most, p)
	}
	return most
}

// decided is when the status was decided.
func (i *Item) decided() time.Time {
	if d := i.Final(); d != nil {
		return d.Time
	}
	return i.Time
}

// write returns the changes that keep an item, in place of what led to it before.
func (q *Queue) write(
	h hashes, before []string, item *Item, condition documents.Condition,
) ([]documents.Change, error) {
	sealed, err := q.sealer.seal(itemKey(item.ID), item)
	if err != nil {
		return nil, err
	}
	names := q.names(h, item)
	changes := []documents.Change{{Key: itemKey(item.ID), Value: pack(names, sealed), If: condition}}
	for _, name := range names {
		if !slices.Contains(before, name) {
			changes = append(changes, documents.Change{Key: name, Value: []byte(item.Account)})
		}
	}
	for _, name := range before {
		if !slices.Contains(names, name) {
			changes = append(changes, documents.Change{Key: name, Delete: true})
		}
	}
	return changes, nil
}

// pack puts the names before an item, so that it can be erased without the key that it is encrypted with.
func pack(names []string, sealed []byte) []byte {
	list := strings.Join(names, "\n")
	b := binary.AppendUvarint(nil, uint64(len(list)))
	return append(append(b, list...), sealed...)
}

// unpack is the reverse of pack.
func unpack(value []byte) (names []string, sealed []byte, err error) {
	n, size := binary.Uvarint(value)
	if size <= 0 || n > uint64(len(value)-size) {
		return nil, nil, fmt.Errorf("review item: %w", ErrDamaged)
	}
	value = value[size:]
	if n > 0 {
		names = strings.Split(string(value[:n]), "\n")
	}
	return names, value[n:], nil
}

// kept is an item with what is needed to change it.
type kept struct {
	Item
	names    []string
	document documents.Document
}

// decode decodes the document of an item. The names are there even with [ErrKey].
func (q *Queue) decode(d documents.Document) (k kept, err error) {
	k.document = d
	if d.Revision == 0 {
		return k, ErrNotFound
	}
	names, sealed, err := unpack(d.Value)
	if err != nil {
		return k, err
	}
	k.names = names
	return k, q.sealer.open(d.Key, sealed, &k.Item)
}

func (q *Queue) read(ctx context.Context, id string) (kept, error) {
	if _, ok := sortid.Time("rev_", id); !ok {
		return kept{}, ErrNotFound
	}
	found, err := q.store.Documents(ctx, collection, itemKey(id))
	if err != nil {
		return kept{}, err
	}
	return q.decode(found[0])
}

// Item returns an item. The error is [ErrNotFound] if there is none, and [ErrKey] if it cannot be decrypted.
func (q *Queue) Item(ctx context.Context, id string) (Item, error) {
	k, err := q.read(ctx, id)
	return k.Item, err
}

// items returns the items with these ids that there still are, in their order. Damaged ones are left out: one of them
// must not keep a page from being shown.
func (q *Queue) items(ctx context.Context, ids []string) ([]Item, error) {
	all := make([]Item, 0, len(ids))
	for part := range slices.Chunk(ids, documents.MaxChanges) {
		keys := make([]string, len(part))
		for i, id := range part {
			keys[i] = itemKey(id)
		}
		found, _, err := q.undamaged(ctx, keys)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			k, err := q.decode(d)
			if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) {
				continue
			}
			if err != nil {
				return nil, err
			}
			all = append(all, k.Item)
		}
	}
	return all, nil
}

// undamaged returns the documents with these keys in their order, without those that the store finds damaged, and how
// many these are.
func (q *Queue) undamaged(ctx context.Context, keys []string) (found []documents.Document, damaged int, err error) {
	found, err = q.store.Documents(ctx, collection, keys...)
	if !errors.Is(err, ErrDamaged) {
		return found, 0, err
	}
	found = nil
	for _, key := range keys {
		one, err := q.store.Documents(ctx, collection, key)
		switch {
		case errors.Is(err, ErrDamaged):
			damaged++
		case err != nil:
			return nil, damaged, err
		default:
			found = append(found, one...)
		}
	}
	return found, damaged, nil
}

// Order is the order in which waiting items are served.
type Order string

// The orders.
const (
	// ByAge has the oldest first.
	ByAge Order = "age"
	// ByHarm has the most harmful first: the one with the largest probability.
	ByHarm Order = "harm"
	// ByDoubt has the one first of which the service is least sure.
	ByDoubt Order = "doubt"
)

// Orders returns all orders, [ByAge] first.
func Orders() []Order { return []Order{ByAge, ByHarm, ByDoubt} }

func (o Order) prefix() string {
	if o == ByAge || o == "" {
		return "s/pending/"
	}
	return "o/" + string(o) + "/"
}

// Query says which items are listed.
type Query struct {
	// Status is theirs. Default: [Pending].
	Status Status
	// Account is theirs. Default: any.
	Account string
	// Order is that of waiting items. Others have the latest decision first.
	Order Order
	// After is the cursor that the page before has returned. Default: the first page.
	After string
	// Limit is how many items are returned at most, 1 to 100. Default: 20.
	Limit int
}

func (query *Query) prefix() (string, error) {
	query.Status = cmp.Or(query.Status, Pending)
	query.Limit = min(max(cmp.Or(query.Limit, 20), 1), 100)
	if !slices.Contains(Statuses(), query.Status) {
		return "", invalid("status is pending, escalated, approved or rejected")
	}
	if query.Order != "" && !slices.Contains(Orders(), query.Order) {
		return "", invalid("order is age, harm or doubt")
	}
	if query.Status == Pending {
		return ofAccount(query.Account) + query.Order.prefix(), nil
	}
	return ofAccount(query.Account) + "s/" + string(query.Status) + "/", nil
}

// List returns a page of items and the cursor of the next one, which is empty after the last.
func (q *Queue) List(ctx context.Context, query Query) (items []Item, next string, err error) {
	prefix, err := query.prefix()
	if err != nil {
		return nil, "", err
	}
	var ids []string
	last := ""
	for d, err := range q.store.ListDocuments(ctx, collection, after(prefix, query.After)) {
		if err != nil {
			return nil, "", err
		}
		if len(ids) == query.Limit {
			next = last
			break
		}
		last = strings.TrimPrefix(d.Key, prefix)
		ids = append(ids, idOf(d.Key))
	}
	items, err = q.items(ctx, ids)
	return items, next, err
}

// after is the range of what follows a cursor.
func after(prefix, cursor string) documents.Range {
	r := documents.Prefix(prefix)
	if cursor != "" {
		r.From = prefix + cursor + "\x00"
	}
	return r
}

// idOf returns the id at the end of a key.
func idOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// OfAuthor returns the newest items of an author in one account, at most limit, the latest first, and how many
// there are in all. An empty account is that of the items without one.
func (q *Queue) OfAuthor(ctx context.Context, author, account string, limit int) ([]Item, int, error) {
	h, err := q.keyed(ctx)
	if err != nil || author == "" {
		return nil, 0, err
	}
	var ids []string
	prefix := documents.Prefix("u/" + h.of("author of an item", author) + "/")
	for d, err := range q.store.ListDocuments(ctx, collection, prefix) {
		if err != nil {
			return nil, 0, err
		}
		if string(d.Value) == account {
			ids = append(ids, idOf(d.Key))
		}
	}
	newest := slices.Clone(ids[max(len(ids)-limit, 0):])
	slices.Reverse(newest)
	items, err := q.items(ctx, newest)
	return items, len(ids), err
}

// OfRequest returns the items of a request in one account, by the id of its answer. An empty account is that of the
// items without one. There is more than one if several texts of the request were kept.
func (q *Queue) OfRequest(ctx context.Context, requestID, account string) ([]Item, error) {
	h, err := q.keyed(ctx)
	if err != nil || requestID == "" {
		return nil, err
	}
	var ids []string
	prefix := documents.Prefix("r/" + h.of("request", requestID) + "/")
	for d, err := range q.store.ListDocuments(ctx, collection, prefix) {
		if err != nil {
			return nil, err
		}
		if string(d.Value) == account {
			ids = append(ids, idOf(d.Key))
		}
	}
	return q.items(ctx, ids)
}

// Known reports whether there is an item of the same account with the same texts as an item, which need not be kept. An
// empty account is that of the items without one.
func (q *Queue) Known(ctx context.Context, item *Item) (bool, error) {
	h, err := q.keyed(ctx)
	if err != nil {
		return false, err
	}
	prefix := documents.Prefix("h/" + h.of("text", TextHash(item.Texts)) + "/")
	for d, err := range q.store.ListDocuments(ctx, collection, prefix) {
		if err != nil || string(d.Value) == item.Account {
			return err == nil, err
		}
	}
	return false, nil
}

// Alike returns the waiting items whose texts are nearly those of an item, without it, at most 100.
func (q *Queue) Alike(ctx context.Context, item Item) ([]Item, error) {
	h, err := q.keyed(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := q.ids(ctx, "n/"+h.of("letters", alike(item.Texts))+"/", item.Account)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == item.ID })
	return q.items(ctx, ids[:min(len(ids), 100)])
}

// ids returns the ids of the items that documents with a prefix lead to; those of an account unless it is empty.
func (q *Queue) ids(ctx context.Context, prefix, account string) (ids []string, err error) {
	for d, err := range q.store.ListDocuments(ctx, collection, documents.Prefix(prefix)) {
		if err != nil {
			return nil, err
		}
		if account == "" || string(d.Value) == account {
			ids = append(ids, idOf(d.Key))
		}
	}
	return ids, nil
}

// Decided yields the items of an account that have a status, or of all accounts if account is empty: the latest
// decision first, back to a point in time. An item that cannot be read is an error, after which the sequence goes on if
// the consumer does. The status is not [Pending].
func (q *Queue) Decided(ctx context.Context, status Status, account string, since time.Time) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		prefix := ofAccount(account) + "s/" + string(status) + "/"
		// What was decided at a later time has a smaller key.
		r := documents.Range{From: prefix, To: prefix + invertedTime(since.Add(-time.Millisecond)) + "/"}
		var keys []string
		// read yields the items that are known by their keys, and reports whether the consumer goes on.
		read := func() bool {
			found, damaged, err := q.undamaged(ctx, keys)
			keys = keys[:0]
			if err != nil {
				return yield(Item{}, err)
			}
			for range damaged {
				if !yield(Item{}, fmt.Errorf("review item: %w", ErrDamaged)) {
					return false
				}
			}
			for _, d := range found {
				k, err := q.decode(d)
				if errors.Is(err, ErrNotFound) {
					continue // it was erased since it was listed
				}
				if !yield(k.Item, err) {
					return false
				}
			}
			return true
		}
		for d, err := range q.store.ListDocuments(ctx, collection, r) {
			if err != nil {
				yield(Item{}, err)
				return
			}
			if keys = append(keys, itemKey(idOf(d.Key))); len(keys) == documents.MaxChanges && !read() {
				return
			}
		}
		read()
	}
}

// invertedTime returns a point in time as keys have it: a later one is before an earlier one.
func invertedTime(at time.Time) string {
	return fmt.Sprintf("%012x", uint64(1<<48-1)-uint64(max(at.UnixMilli(), 0)))
}

// Stats is how many items there are.
type Stats struct {
	// Items is the number of items by status.
	Items map[Status]int `json:"items"`
	// Oldest is the time of the oldest waiting item. Default: there is none.
	Oldest *time.Time `json:"oldest,omitempty"`
}

// NoStats is how many items there are where there are none.
func NoStats() Stats {
	s := Stats{Items: make(map[Status]int)}
	for _, status := range Statuses() {
		s.Items[status] = 0
	}
	return s
}

// Stats counts all items, and those of each account that has any. It reads an entry for each item.
func (q *Queue) Stats(ctx context.Context) (all Stats, accounts map[string]Stats, err error) {
	all, accounts = NoStats(), map[string]Stats{}
	for d, err := range q.store.ListDocuments(ctx, collection, documents.Prefix("s/")) {
		if err != nil {
			return Stats{}, nil, err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(d.Key, "s/"), "/")
		status := Status(name)
		all.count(status, d.Key)
		if len(d.Value) == 0 {
			continue
		}
		own, ok := accounts[string(d.Value)]
		if !ok {
			own = NoStats()
		}
		own.count(status, d.Key)
		accounts[string(d.Value)] = own
	}
	return all, accounts, nil
}

// count counts one more item, whose key has its id. Waiting items come in the order of their age.
func (s *Stats) count(status Status, key string) {
	s.Items[status]++
	if at, ok := sortid.Time("rev_", idOf(key)); ok && s.Oldest == nil && status == Pending {
		s.Oldest = &at
	}
}

// All yields all items of an account, or all if account is empty, the oldest first. An item that cannot be read is an
// error, after which the sequence goes on if the consumer does.
func (q *Queue) All(ctx context.Context, account string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for d, err := range q.store.ListDocuments(ctx, collection, documents.Prefix("i/")) {
			var k kept
			if err == nil {
				k, err = q.decode(d)
			}
			if err == nil && account != "" && k.Account != account {
				continue
			}
			if !yield(k.Item, err) {
				return
			}
		}
	}
}
