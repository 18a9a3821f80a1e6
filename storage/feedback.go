// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
)

// FeedbackResult is what came of going through the records of feedback.
type FeedbackResult struct {
	// Records is how many records were deleted or, by [CountFeedback], selected.
	Records int64
	// Damaged is how many damaged records were met. It is not known whether they are selected; they are kept.
	Damaged int64
}

// CountFeedback counts the records that a selection selects. An error is that of the selection or the store; the result
// is that of the records up to it.
func CountFeedback(ctx context.Context, s feedback.Store, which feedback.Selection) (result FeedbackResult, err error) {
	err = selected(ctx, s, which, &result.Damaged, func(*feedback.Record) error {
		result.Records++
		return nil
	})
	return result, err
}

// maxDeleteBytes is how many bytes of records are deleted in one call. A store may have to hold them until then.
const maxDeleteBytes = 1 << 20

// DeleteFeedback deletes the records that a selection selects, the oldest first, and returns when all of them are
// deleted. It deletes some at a time, and pauses after each time: other callers of the store go on meanwhile. A record
// that is added meanwhile may be deleted or not.
//
// After an error, which is that of the selection, of ctx or of the store, the records that the result counts are
// deleted, and the deletion can be repeated.
func DeleteFeedback(
	ctx context.Context, s feedback.Store, which feedback.Selection, pause time.Duration,
) (result FeedbackResult, err error) {
	refs, size := make([]feedback.Ref, 0, feedback.MaxDelete), 0
	remove := func() error {
		n, err := s.DeleteFeedback(ctx, refs...)
		result.Records += int64(n)
		refs, size = refs[:0], 0
		return err
	}
	err = selected(ctx, s, which, &result.Damaged, func(r *feedback.Record) error {
		refs = append(refs, r.Ref())
		if size += len(r.Text) + len(r.Context); len(refs) < feedback.MaxDelete && size < maxDeleteBytes {
			return nil
		}
		if err := remove(); err != nil {
			return err
		}
		return sleep(ctx, pause)
	})
	if err == nil && len(refs) > 0 {
		err = remove()
	}
	return result, err
}

// selected calls do for each record that a selection selects, until do returns an error.
func selected(
	ctx context.Context, s feedback.Store, which feedback.Selection, damaged *int64, do func(*feedback.Record) error,
) error {
	if err := which.Validate(); err != nil {
		return err
	}
	for r, err := range s.Feedback(ctx, which.Account) {
		if errors.Is(err, ErrDamaged) {
			*damaged++
			continue
		}
		if err != nil {
			return err
		}
		if !which.Before.IsZero() && !r.Time.Before(which.Before) {
			return nil // records are in the order of their times
		}
		if !which.Selects(&r) {
			continue
		}
		if err := do(&r); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for some time, or until ctx ends.
func sleep(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
