// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package statistics

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
)

// Bounds of a [Recorder].
const (
	// maxPending is how many days of accounts a recorder holds while it cannot write. What happens for others is not
	// counted then.
	maxPending = 100_000
	// batch is how many days of accounts are written at once, each in two documents.
	batch = 50
	// tries is how often a batch is written again after another node has changed it at the same time.
	tries = 20
)

// Recorder counts what happens. Its methods can be called at the same time.
type Recorder struct {
	store documents.Store
	// rank returns random numbers.
	rank func() uint32

	mu  sync.Mutex
	new map[place]*pending // what was counted since the last flush
	old map[place]*pending // what is being written

	// flushing is held by whoever writes.
	flushing sync.Mutex
}

// place is a day of an account.
type place struct {
	day     int64 // since 1970
	account string
}

// dayOf returns the number of the UTC day of an instant.
func dayOf(at time.Time) int64 { return at.Unix() / (24 * 60 * 60) }

func (p place) date() string { return dateOf(time.Unix(p.day*24*60*60, 0)) }

// pending is what is to be added to a day.
type pending struct {
	Day
	sample sample
}

// NewRecorder returns a recorder that writes to a store.
func NewRecorder(store documents.Store) *Recorder {
	return &Recorder{store: store, rank: rand.Uint32, new: map[place]*pending{}}
}

// at returns what is to be added to a day; nil if there is too much of it. The caller holds the lock.
func (r *Recorder) at(now time.Time, account string) *pending {
	key := place{dayOf(now), account}
	p := r.new[key]
	if p == nil && len(r.new) < maxPending {
		p = new(pending)
		r.new[key] = p
	}
	return p
}

// Answered counts a request that was done. R may be nil, which counts nothing.
func (r *Recorder) Answered(now time.Time, account string) {
	if r == nil || account == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.at(now, account); p != nil {
		p.Answered++
	}
}

// Refused counts a request that was not done, with the code of the reason. R may be nil, which counts nothing.
func (r *Recorder) Refused(now time.Time, account, reason string) {
	if r == nil || account == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.at(now, account); p != nil {
		p.Day.Refused.add(reason, 1)
	}
}

// Text counts a text that was judged: its recommendation, the flagged categories, and the probabilities of all
// categories, always in the same order. R may be nil, which counts nothing.
func (r *Recorder) Text(now time.Time, account, recommendation string, flagged []string, probabilities []float64) {
	if r == nil || account == "" {
		return
	}
	text := textOf(r.rank(), probabilities)
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.at(now, account)
	if p == nil {
		return
	}
	p.Texts.add(recommendation, 1)
	for _, name := range flagged {
		p.Flagged.add(name, 1)
	}
	p.sample.add(&text)
}

// each calls do, under the lock, for what is to be added to a day.
func (r *Recorder) each(day int64, account string, do func(*pending)) {
	key := place{day, account}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range []map[place]*pending{r.new, r.old} {
		if p := m[key]; p != nil {
			do(p)
		}
	}
}

// drop forgets what is to be added for an account.
func (r *Recorder) drop(account string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.new {
		if key.account == account {
			delete(r.new, key)
		}
	}
}

// Flush adds to the store what was counted since the last time. What cannot be written is kept for the next time.
//
// A write that fails and was made nevertheless, which a store may do while its disk or its server dies, is counted
// twice. R may be nil, which has counted nothing.
func (r *Recorder) Flush(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.flushing.Lock()
	defer r.flushing.Unlock()
	r.mu.Lock()
	r.old, r.new = r.new, map[place]*pending{}
	keys := make([]place, 0, len(r.old))
	for key := range r.old {
		keys = append(keys, key)
	}
	r.mu.Unlock()
	var failed error
	for part := range slices.Chunk(keys, batch) {
		if errors.Is(failed, errAway) {
			r.done(part, false)
			continue
		}
		if err := r.write(ctx, part); err != nil {
			failed = errors.Join(failed, r.writeSingly(ctx, part))
			continue
		}
		r.done(part, true)
	}
	return failed
}

// errAway says that nothing can be written now.
var errAway = errors.New("the store takes nothing")

// writeSingly writes what could not be written together: a record that is damaged does not stop others. It gives up
// when a second one fails, because then it is the store.
func (r *Recorder) writeSingly(ctx context.Context, part []place) (failed error) {
	for i := range part {
		err := r.write(ctx, part[i:i+1])
		r.done(part[i:i+1], err == nil)
		switch {
		case err == nil:
		case failed == nil:
			failed = err
		default:
			r.done(part[i+1:], false)
			return errors.Join(errAway, err)
		}
	}
	return failed
}

// done takes a batch out of what is being written. If it is not written, it is to be written again.
func (r *Recorder) done(part []place, written bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range part {
		p := r.old[key]
		delete(r.old, key)
		if written {
			continue
		}
		if since := r.new[key]; since != nil {
			p.Add(&since.Day)
			p.sample.addAll(since.sample)
		}
		if r.new[key] != nil || len(r.new) < maxPending {
			r.new[key] = p
		}
	}
}

// write adds a batch to what the store has. Nobody else changes what is being written.
func (r *Recorder) write(ctx context.Context, part []place) error {
	for try := 1; ; try++ {
		err := r.writeOnce(ctx, part)
		if !errors.Is(err, documents.ErrConflict) || try == tries {
			return err
		}
	}
}

func (r *Recorder) writeOnce(ctx context.Context, part []place) error {
	keys := make([]string, 0, 2*len(part))
	for _, key := range part {
		keys = append(keys, dayKey(key.date(), key.account), sampleKey(key.date(), key.account))
	}
	found, err := r.store.Documents(ctx, collection, keys...)
	if err != nil {
		return err
	}
	changes := make([]documents.Change, 0, len(keys))
	for i, key := range part {
		p, day, texts := r.old[key], found[2*i], found[2*i+1]
		var counts Day
		if decodeDay(day, &counts) != nil {
			continue // it is of another version, or damaged, and stays as it is
		}
		counts.Add(&p.Day)
		value, err := json.Marshal(counts)
		if err != nil {
			return err
		}
		changes = append(changes, documents.Change{Key: keys[2*i], Value: value, If: day.Unchanged()})
		if len(p.sample.texts) == 0 {
			continue
		}
		var all sample
		if all.decode(texts.Value) != nil {
			continue
		}
		changed := false
		for j := range p.sample.texts {
			changed = all.add(&p.sample.texts[j]) || changed
		}
		if changed {
			changes = append(changes, documents.Change{Key: keys[2*i+1], Value: all.encode(), If: texts.Unchanged()})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return r.store.ChangeDocuments(ctx, collection, changes...)
}
