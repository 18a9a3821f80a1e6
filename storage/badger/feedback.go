// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// AppendFeedback implements [feedback.Store].
func (s *Store) AppendFeedback(ctx context.Context, r feedback.Record, bound feedback.Bound) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if r.ID == "" {
		return fmt.Errorf("feedback record: %w: it has no id", quota.ErrInvalid)
	}
	value, err := encodeJSON(r)
	if err != nil {
		return fmt.Errorf("feedback record: %w: %w", quota.ErrInvalid, err)
	}
	if len(value)-1 > feedback.MaxRecordBytes {
		return feedback.ErrTooLarge
	}
	c, err := s.appendFeedback(r, value, bound)
	if err != nil {
		return err
	}
	return c.wait()
}

func (s *Store) appendFeedback(r feedback.Record, value []byte, bound feedback.Bound) (*change, error) {
	s.appending.Lock()
	defer s.appending.Unlock()
	return s.apply(func() ([]disk.Entry, error) { return s.feedbackEntries(r, value, bound) })
}

// feedbackEntries returns the entries that store a record and its count, if the bound leaves room for it.
func (s *Store) feedbackEntries(r feedback.Record, value []byte, bound feedback.Bound) ([]disk.Entry, error) {
	key := feedbackKey(r.Ref())
	used := appendWindow(nil, 'b', r.Account, dayOf(r.Time))
	found, err := s.supervisor.get(key, used)
	if err != nil {
		return nil, err
	}
	if !absent(found[0]) {
		return nil, fmt.Errorf("feedback record %s: %w", r.ID, quota.ErrExists)
	}
	var records, bytes int64
	if !absent(found[1]) {
		err := record(found[1]).decode(func(v []byte) error {
			_, err := decodeCounts(v, &records, &bytes)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	records, bytes = records+1, bytes+int64(len(value)-1)
	if bound.Records > 0 && records > bound.Records || bound.Bytes > 0 && bytes > bound.Bytes {
		return nil, feedback.ErrBound
	}
	entries := []disk.Entry{{Key: key, Value: value}, {Key: used, Value: appendCounts(nil, records, bytes)}}
	if absent(found[1]) {
		old, err := s.evictedBounds(r.Account, used)
		if err != nil {
			return nil, err
		}
		entries = append(entries, old...)
	}
	return entries, nil
}

// evictedBounds returns the entries that delete the days which are not kept beside a new day; see [feedback.KeptDays].
func (s *Store) evictedBounds(account string, used []byte) (entries []disk.Entry, err error) {
	days := [][]byte{used}
	for r, err := range s.scan(ownedPrefix('b', account), nil) {
		if err != nil {
			return nil, err
		}
		days = append(days, r.Key)
	}
	slices.SortFunc(days, slices.Compare)
	i := slices.IndexFunc(days, func(day []byte) bool { return slices.Equal(day, used) })
	older, newer := evictions(len(days), i, feedback.KeptDays)
	for _, day := range slices.Concat(days[:older], days[i+1:i+1+newer]) {
		entries = append(entries, disk.Entry{Key: day, Delete: true})
	}
	return entries, nil
}

// Feedback implements [feedback.Store].
func (s *Store) Feedback(ctx context.Context, account string) iter.Seq2[feedback.Record, error] {
	return func(yield func(feedback.Record, error) bool) {
		for stored, err := range s.scan([]byte("f/"), nil) {
			var r feedback.Record
			if err == nil {
				err = s.ready(ctx)
			}
			if err == nil {
				err = stored.decode(func(v []byte) error { return decodeJSON(v, &r) })
			}
			if err == nil && account != "" && r.Account != account {
				continue
			}
			if !yield(r, err) || err != nil && !errors.Is(err, errDamaged) {
				return
			}
		}
	}
}

// DeleteFeedback implements [feedback.Store]. Some seconds later nothing of the records is left in the files of the
// database; see [disk.Erase].
func (s *Store) DeleteFeedback(ctx context.Context, records ...feedback.Ref) (deleted int, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	if len(records) > feedback.MaxDelete {
		return 0, feedback.ErrTooMany
	}
	c, deleted, err := s.deleteFeedback(records)
	if err != nil {
		return 0, err
	}
	if deleted == 0 {
		// Another call may have deleted them a moment ago.
		return 0, s.syncer.join().wait()
	}
	if err := c.wait(); err != nil {
		return 0, err
	}
	return deleted, nil
}

func (s *Store) deleteFeedback(records []feedback.Ref) (c *change, deleted int, err error) {
	s.appending.Lock()
	defer s.appending.Unlock()
	c, err = s.apply(func() ([]disk.Entry, error) {
		entries, err := s.feedbackDeletions(records)
		deleted = max(len(entries)-1, 0)
		if err == nil && deleted == 0 {
			err = errNothing
		}
		return entries, err
	})
	if errors.Is(err, errNothing) {
		return nil, 0, nil
	}
	return c, deleted, err
}

// errNothing says that there is nothing to change.
var errNothing = errors.New("nothing to change")

// feedbackDeletions returns the entries that delete those records that there are, and one to have them erased.
func (s *Store) feedbackDeletions(records []feedback.Ref) (entries []disk.Entry, err error) {
	keys := make([][]byte, len(records))
	for i, r := range records {
		keys[i] = feedbackKey(r)
	}
	slices.SortFunc(keys, slices.Compare)
	keys = slices.CompactFunc(keys, slices.Equal)
	found, err := s.supervisor.get(keys...)
	if err != nil {
		return nil, err
	}
	for i, r := range found {
		if !absent(r) {
			entries = append(entries, disk.Entry{Key: keys[i], Delete: true})
		}
	}
	return append(entries, disk.Erase()), nil
}
