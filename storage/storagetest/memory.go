// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Memory is the reference store: everything in maps under one lock. It is for tests and examples of code that uses a
// store. It keeps nothing beyond its own life.
type Memory struct {
	mu       sync.Mutex
	closed   bool
	seeded   bool
	accounts map[string]quota.Account
	keys     map[string]quota.Key
	counts   map[counter]int64
	flagged  map[counter]map[string]int64
	byKey    map[counter]map[string]int64
	feedback []feedback.Record
	bounds   map[counter]feedback.Bound
	// documents are those of each collection by their keys, and revision is the last one that was given.
	documents map[string]map[string]documents.Document
	revision  uint64
}

// counter names a window of an account. The table keeps minutes, days and periods apart.
type counter struct {
	table   byte
	account string
	at      int64
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		accounts: map[string]quota.Account{},
		keys:     map[string]quota.Key{},
		counts:   map[counter]int64{},
		flagged:  map[counter]map[string]int64{},
		byKey:    map[counter]map[string]int64{},
		bounds:   map[counter]feedback.Bound{},

		documents: map[string]map[string]documents.Document{},
	}
}

// lock takes the lock unless ctx is done or the store is closed. After nil the caller unlocks.
func (m *Memory) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return fmt.Errorf("%w: closed", storage.ErrUnavailable)
	}
	return nil
}

func missing(what, id string) error { return fmt.Errorf("%s %s: %w", what, id, quota.ErrNotFound) }
func taken(what, id string) error   { return fmt.Errorf("%s %s: %w", what, id, quota.ErrExists) }

// CreateAccount implements [quota.Directory].
func (m *Memory) CreateAccount(ctx context.Context, a quota.Account) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if _, ok := m.accounts[a.ID]; ok {
		return taken("account", a.ID)
	}
	a.Declared = false
	m.accounts[a.ID] = a
	return nil
}

// Account implements [quota.Directory].
func (m *Memory) Account(ctx context.Context, id string) (quota.Account, error) {
	if err := m.lock(ctx); err != nil {
		return quota.Account{}, err
	}
	defer m.mu.Unlock()
	a, ok := m.accounts[id]
	if !ok {
		return quota.Account{}, missing("account", id)
	}
	return a, nil
}

// UpdateAccount implements [quota.Directory].
func (m *Memory) UpdateAccount(
	ctx context.Context, id string, change func(*quota.Account) error,
) (quota.Account, error) {
	if err := m.lock(ctx); err != nil {
		return quota.Account{}, err
	}
	defer m.mu.Unlock()
	a, ok := m.accounts[id]
	if !ok {
		return quota.Account{}, missing("account", id)
	}
	if err := change(&a); err != nil {
		return quota.Account{}, err
	}
	a.ID, a.Incarnation, a.Declared = id, m.accounts[id].Incarnation, false
	m.accounts[id] = a
	return a, nil
}

// DeleteAccount implements [quota.Directory].
func (m *Memory) DeleteAccount(ctx context.Context, id string) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if _, ok := m.accounts[id]; !ok {
		return missing("account", id)
	}
	delete(m.accounts, id)
	maps.DeleteFunc(m.keys, func(_ string, k quota.Key) bool { return k.Account == id })
	maps.DeleteFunc(m.counts, func(c counter, _ int64) bool { return c.account == id })
	maps.DeleteFunc(m.flagged, func(c counter, _ map[string]int64) bool { return c.account == id })
	maps.DeleteFunc(m.byKey, func(c counter, _ map[string]int64) bool { return c.account == id })
	maps.DeleteFunc(m.bounds, func(c counter, _ feedback.Bound) bool { return c.account == id })
	return nil
}

// Accounts implements [quota.Directory].
func (m *Memory) Accounts(ctx context.Context) iter.Seq2[quota.Account, error] {
	return sequence(ctx, m, func() []quota.Account {
		return slices.SortedFunc(maps.Values(m.accounts),
			func(a, b quota.Account) int { return strings.Compare(a.ID, b.ID) })
	})
}

// sequence yields what collect returns. Collect is called with the lock held, the consumer without.
func sequence[T any](ctx context.Context, m *Memory, collect func() []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		if err := m.lock(ctx); err != nil {
			yield(zero, err)
			return
		}
		all := collect()
		m.mu.Unlock()
		for _, v := range all {
			if err := ctx.Err(); err != nil {
				yield(zero, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// CreateKey implements [quota.Directory].
func (m *Memory) CreateKey(ctx context.Context, k quota.Key) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, other := range m.keys {
		if other.ID == k.ID || other.Hash == k.Hash {
			return taken("key", k.ID)
		}
	}
	k.Declared, k.LastUsed = false, ""
	m.keys[k.ID] = k
	return nil
}

// KeyByHash implements [quota.Directory].
func (m *Memory) KeyByHash(ctx context.Context, hash quota.Hash) (quota.Key, error) {
	if err := m.lock(ctx); err != nil {
		return quota.Key{}, err
	}
	defer m.mu.Unlock()
	for _, k := range m.keys {
		if k.Hash == hash {
			k.LastUsed = ""
			return k, nil
		}
	}
	return quota.Key{}, missing("key", "with this hash")
}

// Key implements [quota.Directory].
func (m *Memory) Key(ctx context.Context, id string) (quota.Key, error) {
	if err := m.lock(ctx); err != nil {
		return quota.Key{}, err
	}
	defer m.mu.Unlock()
	k, ok := m.keys[id]
	if !ok {
		return quota.Key{}, missing("key", id)
	}
	return k, nil
}

// UpdateKey implements [quota.Directory].
func (m *Memory) UpdateKey(ctx context.Context, id string, change func(*quota.Key) error) (quota.Key, error) {
	if err := m.lock(ctx); err != nil {
		return quota.Key{}, err
	}
	defer m.mu.Unlock()
	was, ok := m.keys[id]
	if !ok {
		return quota.Key{}, missing("key", id)
	}
	k := was
	if err := change(&k); err != nil {
		return quota.Key{}, err
	}
	k.ID, k.Account, k.Hash, k.Created = id, was.Account, was.Hash, was.Created
	k.LastUsed, k.Declared = was.LastUsed, false
	m.keys[id] = k
	return k, nil
}

// Keys implements [quota.Directory].
func (m *Memory) Keys(ctx context.Context, account string) iter.Seq2[quota.Key, error] {
	return sequence(ctx, m, func() []quota.Key {
		var keys []quota.Key
		for _, k := range m.keys {
			if account == "" || k.Account == account {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, func(a, b quota.Key) int {
			return cmp.Or(strings.Compare(a.Account, b.Account), a.Created.Compare(b.Created),
				strings.Compare(a.ID, b.ID))
		})
		return keys
	})
}

func windows(account string, now time.Time, p quota.Period) (minute, day, period counter) {
	minute = counter{'m', account, unixDiv(now, 60)}
	day = counter{'d', account, unixDiv(now, 24*60*60)}
	return minute, day, counter{'p', account, p.Start.Unix()}
}

func unixDiv(t time.Time, by int64) int64 {
	n := t.Unix()
	return (n - ((n%by)+by)%by) / by
}

// Take implements [quota.Counters].
func (m *Memory) Take(ctx context.Context, c quota.Charge) (quota.Counts, quota.Window, error) {
	if err := m.lock(ctx); err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	defer m.mu.Unlock()
	if m.stale(c) {
		return quota.Counts{}, quota.NoWindow, missing("account", c.Account)
	}
	minute, day, period := windows(c.Account, c.Now, c.Period)
	if limit := c.Limits.RequestsPerMonth; limit > 0 && m.counts[period]+c.Requests > limit {
		return m.read(minute, day, period), quota.MonthWindow, nil
	}
	if limit := c.Limits.RequestsPerMinute; limit > 0 && m.counts[minute]+c.Requests > limit {
		return m.read(minute, day, period), quota.MinuteWindow, nil
	}
	for w, keep := range map[counter]int{minute: quota.KeptMinutes, day: quota.KeptDays, period: quota.KeptPeriods} {
		if _, ok := m.counts[w]; !ok {
			for _, old := range evicted(m.counts, w, keep) {
				delete(m.counts, old)
				delete(m.flagged, old)
				delete(m.byKey, old)
			}
		}
		m.counts[w] += c.Requests
	}
	if c.Key != "" {
		if m.byKey[period] == nil {
			m.byKey[period] = map[string]int64{}
		}
		m.byKey[period][c.Key] += c.Requests
	}
	if k, ok := m.keys[c.Key]; ok {
		k.LastUsed = c.Now.UTC().Format(time.DateOnly)
		m.keys[c.Key] = k
	}
	return m.read(minute, day, period), quota.NoWindow, nil
}

// stale reports whether the account of a charge is not stored with its incarnation.
func (m *Memory) stale(c quota.Charge) bool {
	a, ok := m.accounts[c.Account]
	return c.Incarnation != "" && (!ok || a.Incarnation != c.Incarnation)
}

// evicted returns the windows that are not kept beside a new one; see [quota.KeptDays].
func evicted[V any](all map[counter]V, w counter, keep int) []counter {
	var before, after []counter
	for other := range all {
		switch {
		case other.table != w.table || other.account != w.account:
		case other.at < w.at:
			before = append(before, other)
		case other.at > w.at:
			after = append(after, other)
		}
	}
	byTime := func(a, b counter) int { return cmp.Compare(a.at, b.at) }
	slices.SortFunc(before, byTime)
	slices.SortFunc(after, byTime)
	return append(before[:max(len(before)-keep, 0)], after[:max(len(after)-keep, 0)]...)
}

func (m *Memory) read(minute, day, period counter) quota.Counts {
	return quota.Counts{Minute: m.counts[minute], Day: m.counts[day], Period: m.counts[period]}
}

// Record implements [quota.Counters].
func (m *Memory) Record(c quota.Charge, o quota.Outcome) quota.Settlement {
	return recorded{m.record(c, o)}
}

// Settle implements [quota.Counters].
func (m *Memory) Settle(_ context.Context, c quota.Charge, o quota.Outcome) error {
	return m.record(c, o)
}

// recorded is a settlement that need not be waited for.
type recorded struct{ err error }

// Wait implements [quota.Settlement].
func (r recorded) Wait(context.Context) error { return r.err }

// record records how a call ended.
func (m *Memory) record(c quota.Charge, o quota.Outcome) error {
	if err := m.lock(context.Background()); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.stale(c) {
		return nil
	}
	_, day, period := windows(c.Account, c.Now, c.Period)
	for _, w := range []counter{day, period} {
		if count, ok := m.counts[w]; ok && o.Refund {
			m.counts[w] = max(count-c.Requests, 0)
		}
	}
	if count, ok := m.byKey[period][c.Key]; ok && o.Refund {
		m.byKey[period][c.Key] = max(count-c.Requests, 0)
	}
	if _, ok := m.counts[period]; !ok {
		return nil
	}
	for _, category := range o.Flagged {
		if m.flagged[period] == nil {
			m.flagged[period] = map[string]int64{}
		}
		m.flagged[period][category]++
	}
	return nil
}

// Counts implements [quota.Counters].
func (m *Memory) Counts(ctx context.Context, account string, now time.Time, p quota.Period) (quota.Counts, error) {
	if err := m.lock(ctx); err != nil {
		return quota.Counts{}, err
	}
	defer m.mu.Unlock()
	return m.read(windows(account, now, p)), nil
}

// Days implements [quota.Counters].
func (m *Memory) Days(ctx context.Context, account string, now time.Time, n int) ([]int64, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	days := make([]int64, min(max(n, 0), 40))
	_, today, _ := windows(account, now, quota.Period{})
	for i := range days {
		days[i] = m.counts[counter{'d', account, today.at - int64(i)}]
	}
	return days, nil
}

// Flagged implements [quota.Counters].
func (m *Memory) Flagged(ctx context.Context, account string, p quota.Period) (map[string]int64, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	_, _, period := windows(account, time.Time{}, p)
	flagged := map[string]int64{}
	maps.Copy(flagged, m.flagged[period])
	return flagged, nil
}

// KeyRequests implements [quota.Counters].
func (m *Memory) KeyRequests(ctx context.Context, account string, p quota.Period) (map[string]int64, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	_, _, period := windows(account, time.Time{}, p)
	requests := map[string]int64{}
	maps.Copy(requests, m.byKey[period])
	maps.DeleteFunc(requests, func(_ string, n int64) bool { return n == 0 })
	return requests, nil
}

// AppendFeedback implements [feedback.Store].
func (m *Memory) AppendFeedback(ctx context.Context, r feedback.Record, bound feedback.Bound) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	size, err := encodedSize(r)
	if err != nil {
		return fmt.Errorf("feedback record: %w: %w", quota.ErrInvalid, err)
	}
	if size > feedback.MaxRecordBytes {
		return feedback.ErrTooLarge
	}
	if r.ID == "" {
		return fmt.Errorf("feedback record: %w: it has no id", quota.ErrInvalid)
	}
	at, found := slices.BinarySearchFunc(m.feedback, r, byTimeAndID)
	if found {
		return taken("feedback record", r.ID)
	}
	_, day, _ := windows(r.Account, r.Time, quota.Period{})
	used, ok := m.bounds[day]
	used.Records++
	used.Bytes += size
	if bound.Records > 0 && used.Records > bound.Records || bound.Bytes > 0 && used.Bytes > bound.Bytes {
		return feedback.ErrBound
	}
	if !ok {
		for _, old := range evicted(m.bounds, day, feedback.KeptDays) {
			delete(m.bounds, old)
		}
	}
	m.bounds[day] = used
	m.feedback = slices.Insert(m.feedback, at, r)
	return nil
}

// encodedSize returns what a record counts against a bound in bytes.
func encodedSize(r feedback.Record) (int64, error) {
	var encoded strings.Builder
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false)
	err := e.Encode(r)
	return int64(encoded.Len() - len("\n")), err
}

// byTimeAndID is the order in which feedback is kept.
func byTimeAndID(a, b feedback.Record) int {
	return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID))
}

// Feedback implements [feedback.Store].
func (m *Memory) Feedback(ctx context.Context, account string) iter.Seq2[feedback.Record, error] {
	return sequence(ctx, m, func() []feedback.Record {
		var records []feedback.Record
		for _, r := range m.feedback {
			if account == "" || r.Account == account {
				records = append(records, r)
			}
		}
		return records
	})
}

// DeleteFeedback implements [feedback.Store].
func (m *Memory) DeleteFeedback(ctx context.Context, records ...feedback.Ref) (deleted int, err error) {
	if err := m.lock(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	if len(records) > feedback.MaxDelete {
		return 0, feedback.ErrTooMany
	}
	for _, ref := range records {
		at, found := slices.BinarySearchFunc(m.feedback, feedback.Record{Time: ref.Time, ID: ref.ID}, byTimeAndID)
		if found {
			m.feedback = slices.Delete(m.feedback, at, at+1)
			deleted++
		}
	}
	return deleted, nil
}

// Seeded implements [storage.Store].
func (m *Memory) Seeded(ctx context.Context) (bool, error) {
	if err := m.lock(ctx); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	return m.seeded, nil
}

// MarkSeeded implements [storage.Store].
func (m *Memory) MarkSeeded(ctx context.Context) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.seeded = true
	return nil
}

// Backup implements [storage.Store]. It always fails: there is nothing to restore into.
func (m *Memory) Backup(context.Context, io.Writer) error { return errors.ErrUnsupported }

// Health implements [storage.Store].
func (m *Memory) Health() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("%w: closed", storage.ErrUnavailable)
	}
	return nil
}

// Close implements [storage.Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

var _ storage.Store = (*Memory)(nil)

// ChangeDocuments implements [documents.Store].
func (m *Memory) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	if err := documents.Validate(collection, changes); err != nil {
		return err
	}
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	kept := m.documents[collection]
	for _, c := range changes {
		if c.If.Checked && kept[c.Key].Revision != c.If.Revision {
			return documents.ErrConflict
		}
	}
	if kept == nil {
		kept = map[string]documents.Document{}
		m.documents[collection] = kept
	}
	for _, c := range changes {
		if c.Delete {
			delete(kept, c.Key)
			continue
		}
		m.revision++
		kept[c.Key] = documents.Document{Key: c.Key, Value: bytes.Clone(c.Value), Revision: m.revision}
	}
	return nil
}

// Documents implements [documents.Store].
func (m *Memory) Documents(ctx context.Context, collection string, keys ...string) ([]documents.Document, error) {
	if err := documents.ValidateCollection(collection); err != nil {
		return nil, err
	}
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	found := make([]documents.Document, len(keys))
	for i, key := range keys {
		found[i] = m.documents[collection][key]
		found[i].Key = key
	}
	return found, nil
}

// ListDocuments implements [documents.Store].
func (m *Memory) ListDocuments(
	ctx context.Context, collection string, r documents.Range,
) iter.Seq2[documents.Document, error] {
	if err := documents.ValidateCollection(collection); err != nil {
		return func(yield func(documents.Document, error) bool) { yield(documents.Document{}, err) }
	}
	return sequence(ctx, m, func() (all []documents.Document) {
		for key, d := range m.documents[collection] {
			if key >= r.From && (r.To == "" || key < r.To) {
				all = append(all, d)
			}
		}
		slices.SortFunc(all, func(a, b documents.Document) int { return strings.Compare(a.Key, b.Key) })
		return all
	})
}
