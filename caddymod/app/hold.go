// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// holdable is a store whose changes can be held back for a read-only phase: then whatever would change something
// returns an error that wraps [storage.ErrReadOnly]. Reading goes on.
type holdable struct {
	storage.Store

	// under counts the changes under way. A call that was charged is one until it is recorded.
	under atomic.Int64
	// held is why changes are refused, nil while they are not.
	held atomic.Pointer[error]
	// sealed says that calls that were charged before are refused, too, when they are recorded. recording counts those
	// that are being recorded.
	sealed    atomic.Bool
	recording atomic.Int64

	// log notes what is changed, while somebody wants to know.
	log atomic.Pointer[changeLog]

	mu sync.Mutex
	// late are charges whose outcome came too late. They are given back when changes are let in again.
	late []quota.Charge
}

// store returns the store as handlers use it, with what it can do beside being a store.
func (h *holdable) store() storage.Store {
	if consumers, ok := h.Store.(feedback.Consumers); ok {
		return struct {
			*holdable
			feedback.Consumers
		}{h, consumers}
	}
	return h
}

// enter begins a change, which leave ends.
func (h *holdable) enter() error {
	h.under.Add(1)
	if err := h.held.Load(); err != nil {
		h.under.Add(-1)
		return *err
	}
	return nil
}

func (h *holdable) leave() { h.under.Add(-1) }

// reason returns why changes are refused, nil if they are not. H may be nil.
func (h *holdable) reason() error {
	if h == nil {
		return nil
	}
	if err := h.held.Load(); err != nil {
		return *err
	}
	return nil
}

// drainPause is how often hold looks whether something is under way.
const drainPause = time.Millisecond

// hold refuses changes from now on, and returns when none is under way. Calls that were charged have until the patience
// is over to be recorded; after that they are refused and given back by release. It returns how many were under way
// then.
func (h *holdable) hold(ctx context.Context, why string, patience time.Duration) (left int64, err error) {
	reason := fmt.Errorf("%w: %s", storage.ErrReadOnly, why)
	if !h.held.CompareAndSwap(nil, &reason) {
		return 0, errors.New("the store is read-only already")
	}
	for deadline := time.Now().Add(patience); h.under.Load() > 0 && time.Now().Before(deadline); {
		if err := sleep(ctx, drainPause); err != nil {
			h.release()
			return 0, err
		}
	}
	left = h.under.Load()
	h.sealed.Store(true)
	for h.recording.Load() > 0 {
		if err := sleep(ctx, drainPause); err != nil {
			h.release()
			return 0, err
		}
	}
	return left, nil
}

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release lets changes in again, and gives back what came too late.
func (h *holdable) release() {
	h.mu.Lock()
	late := h.late
	h.late = nil
	h.sealed.Store(false)
	h.held.Store(nil)
	h.mu.Unlock()
	for _, charge := range late {
		h.Store.Record(charge, quota.Outcome{Refund: true})
		h.leave()
	}
}

// Health implements [storage.Store].
func (h *holdable) Health() error {
	if err := h.reason(); err != nil {
		return err
	}
	return h.Store.Health()
}

// Mode is that of the store; empty if it has none.
func (h *holdable) Mode() string { return string(modeOf(h.Store)) }

// changeLog is what was changed.
type changeLog struct {
	mu          sync.Mutex
	owners      map[string]bool
	days        map[int64]bool
	collections map[string]bool
	// unknown says that something was changed of which nobody knows what.
	unknown bool
}

// errUnknownChange says that it is not known what was changed.
var errUnknownChange = errors.New("something was changed of which it is not known what")

// track notes what is changed from now on. Take returns what was changed since the last time.
func (h *holdable) track() (take func(context.Context) (*contents.Selection, error), stop func()) {
	log := &changeLog{
		owners: make(map[string]bool), days: make(map[int64]bool), collections: make(map[string]bool),
	}
	h.log.Store(log)
	return log.take, func() { h.log.CompareAndSwap(log, nil) }
}

func (l *changeLog) take(context.Context) (*contents.Selection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := &contents.Selection{
		Owners: slices.Sorted(maps.Keys(l.owners)), Days: slices.Sorted(maps.Keys(l.days)),
		Collections: slices.Sorted(maps.Keys(l.collections)),
	}
	clear(l.owners)
	clear(l.days)
	clear(l.collections)
	if l.unknown {
		return nil, errUnknownChange
	}
	return changed, nil
}

// note notes a change that has been made, or tried.
func (h *holdable) note(owner string, days ...int64) {
	log := h.log.Load()
	if log == nil {
		return
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if owner != "" {
		log.owners[owner] = true
	}
	for _, day := range days {
		log.days[day] = true
	}
}

// noteCollection notes a change of documents that has been made, or tried.
func (h *holdable) noteCollection(name string) {
	if log := h.log.Load(); log != nil {
		log.mu.Lock()
		defer log.mu.Unlock()
		log.collections[name] = true
	}
}

// noteUnknown notes that something has been changed, or tried, of which it is not known what.
func (h *holdable) noteUnknown() {
	if log := h.log.Load(); log != nil {
		log.mu.Lock()
		defer log.mu.Unlock()
		log.unknown = true
	}
}

// change makes a change to what an owner has, unless changes are held back.
func (h *holdable) change(owner string, do func() error) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	defer h.note(owner) // afterwards: whoever copies after it has the change, or is told of it
	return do()
}

// CreateAccount implements [quota.Directory].
func (h *holdable) CreateAccount(ctx context.Context, account quota.Account) error {
	return h.change(account.ID, func() error { return h.Store.CreateAccount(ctx, account) })
}

// UpdateAccount implements [quota.Directory].
func (h *holdable) UpdateAccount(
	ctx context.Context, id string, change func(*quota.Account) error,
) (account quota.Account, err error) {
	err = h.change(id, func() (err error) {
		account, err = h.Store.UpdateAccount(ctx, id, change)
		return err
	})
	return account, err
}

// DeleteAccount implements [quota.Directory].
func (h *holdable) DeleteAccount(ctx context.Context, id string) error {
	return h.change(id, func() error { return h.Store.DeleteAccount(ctx, id) })
}

// CreateKey implements [quota.Directory].
func (h *holdable) CreateKey(ctx context.Context, key quota.Key) error {
	return h.change(key.Account, func() error { return h.Store.CreateKey(ctx, key) })
}

// UpdateKey implements [quota.Directory].
func (h *holdable) UpdateKey(ctx context.Context, id string, change func(*quota.Key) error) (key quota.Key, err error) {
	err = h.change("", func() (err error) {
		key, err = h.Store.UpdateKey(ctx, id, change)
		if err == nil {
			h.note(key.Account)
		} else {
			h.noteUnknown()
		}
		return err
	})
	return key, err
}

// AppendFeedback implements [feedback.Store].
func (h *holdable) AppendFeedback(ctx context.Context, r feedback.Record, bound feedback.Bound) error {
	return h.change(r.Account, func() error {
		defer h.note("", contents.DayOf(r.Time))
		return h.Store.AppendFeedback(ctx, r, bound)
	})
}

// ChangeDocuments implements [documents.Store].
func (h *holdable) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	return h.change("", func() error {
		defer h.noteCollection(collection)
		return h.Store.ChangeDocuments(ctx, collection, changes...)
	})
}

// DeleteFeedback implements [feedback.Store].
func (h *holdable) DeleteFeedback(ctx context.Context, records ...feedback.Ref) (deleted int, err error) {
	err = h.change("", func() (err error) {
		defer func() {
			for _, r := range records {
				h.note("", contents.DayOf(r.Time))
			}
		}()
		deleted, err = h.Store.DeleteFeedback(ctx, records...)
		return err
	})
	return deleted, err
}

// MarkSeeded implements [storage.Store].
func (h *holdable) MarkSeeded(ctx context.Context) error {
	return h.change("", func() error {
		defer h.noteUnknown()
		return h.Store.MarkSeeded(ctx)
	})
}

// Take implements [quota.Counters]. A call that is admitted stays under way until it is recorded.
func (h *holdable) Take(ctx context.Context, charge quota.Charge) (quota.Counts, quota.Window, error) {
	if err := h.enter(); err != nil {
		return quota.Counts{}, quota.NoWindow, err
	}
	counts, refused, err := h.Store.Take(ctx, charge)
	h.note(charge.Account)
	if err != nil || refused != quota.NoWindow {
		h.leave()
	}
	return counts, refused, err
}

// Record implements [quota.Counters].
func (h *holdable) Record(charge quota.Charge, outcome quota.Outcome) quota.Settlement {
	if err := h.beginRecord(charge); err != nil {
		return refusedSettlement{err}
	}
	defer h.endRecord(charge)
	return h.Store.Record(charge, outcome)
}

// Settle implements [quota.Counters].
func (h *holdable) Settle(ctx context.Context, charge quota.Charge, outcome quota.Outcome) error {
	if err := h.beginRecord(charge); err != nil {
		return err
	}
	defer h.endRecord(charge)
	return h.Store.Settle(ctx, charge, outcome)
}

// beginRecord begins to record an outcome, which endRecord ends. One without requests is of a call that is recorded
// already.
func (h *holdable) beginRecord(charge quota.Charge) error {
	if charge.Requests == 0 {
		if err := h.enter(); err != nil {
			return err
		}
		h.recording.Add(1)
		return nil
	}
	h.recording.Add(1)
	if !h.sealed.Load() {
		return nil
	}
	h.recording.Add(-1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sealed.Load() { // released meanwhile
		h.recording.Add(1)
		return nil
	}
	h.late = append(h.late, charge)
	return h.reason()
}

func (h *holdable) endRecord(charge quota.Charge) {
	h.note(charge.Account)
	h.recording.Add(-1)
	h.leave()
}

// refusedSettlement is the settlement of a call whose outcome came too late.
type refusedSettlement struct{ err error }

// Wait implements [quota.Settlement].
func (r refusedSettlement) Wait(context.Context) error { return r.err }

// Interface guard
var _ storage.Store = (*holdable)(nil)
