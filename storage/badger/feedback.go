// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-moderation/caddy-moderation/engine/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// AppendFeedback implements [feedback.Store]. What counts against the bound in bytes is the record as it is encoded. An
// error wraps [quota.ErrExists] when a record of the same time has the id, and [quota.ErrInvalid] when there is no id.
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
	key := feedbackKey(r)
	used := appendWindow(nil, 'b', r.Account, dayOf(r.Time))
	s.appending.Lock()
	round, err := s.change(func(txn *badger.Txn) error {
		if err := absent(txn, key, "feedback record", r.ID); err != nil {
			return err
		}
		records, bytes, err := readBound(txn, used)
		if err != nil {
			return err
		}
		records, bytes = records+1, bytes+int64(len(value)-1)
		if bound.Records > 0 && records > bound.Records || bound.Bytes > 0 && bytes > bound.Bytes {
			return own(feedback.ErrBound)
		}
		count := badger.NewEntry(used, appendCounts(nil, records, bytes)).WithTTL(dayTTL)
		return errors.Join(txn.Set(key, value), txn.SetEntry(count))
	})
	s.appending.Unlock()
	if err != nil {
		return err
	}
	return round.wait()
}

// readBound returns what an account has used of its bound.
func readBound(txn *badger.Txn, key []byte) (records, bytes int64, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	err = item.Value(func(v []byte) error {
		_, err := decodeCounts(v, &records, &bytes)
		return err
	})
	return records, bytes, err
}

// Feedback implements [feedback.Store]. Records that are added meanwhile may or may not be among them.
func (s *Store) Feedback(ctx context.Context, account string) iter.Seq2[feedback.Record, error] {
	return func(yield func(feedback.Record, error) bool) {
		for stored, err := range s.scan([]byte("f/"), true) {
			var r feedback.Record
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				if err = decodeJSON(stored.value, &r); err != nil {
					err = unavailable(err)
				}
			}
			if err == nil && account != "" && r.Account != account {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
