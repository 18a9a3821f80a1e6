// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/internal/stored"
)

// A consumer is a consumer group of each day's stream, with one member "c".

var (
	//go:embed scripts/next.lua
	nextLua string

	nextScript = newRepeatable(nextLua)

	validConsumer = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// taken is what a consumer was given of a day.
type taken struct {
	day int64
	ids []string
}

func checkConsumer(consumer string) error {
	if !validConsumer.MatchString(consumer) {
		return fmt.Errorf("%w: the name of a consumer is 1 to 64 letters, digits, '.', '_' and '-'", quota.ErrInvalid)
	}
	return nil
}

// NextFeedback implements [feedback.Consumers].
func (s *Store) NextFeedback(ctx context.Context, consumer string, n int) (batch feedback.Batch, err error) {
	if err := checkConsumer(consumer); err != nil {
		return batch, err
	}
	days, err := s.days(ctx)
	if err != nil {
		return batch, err
	}
	var all []taken
	for _, day := range days {
		left := n - len(batch.Records) - batch.Damaged
		if left <= 0 {
			break
		}
		t, err := s.nextOf(ctx, day, consumer, left, &batch)
		if err != nil {
			return feedback.Batch{}, err
		}
		if len(t.ids) > 0 {
			all = append(all, t)
		}
	}
	if len(all) > 0 {
		batch.Acknowledge = func(ctx context.Context) error { return s.acknowledge(ctx, consumer, all) }
	}
	return batch, nil
}

// nextOf adds records of a day to a batch.
func (s *Store) nextOf(
	ctx context.Context, day int64, consumer string, n int, batch *feedback.Batch,
) (t taken, err error) {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return t, err
	}
	defer cancel()
	name := s.names.feedbackRecords(day)
	_, rest, err := s.link.timed(ctx, nextScript, []string{name}, []string{consumer, strconv.Itoa(n)})
	if err != nil {
		return t, err
	}
	t.day = day
	for i := 0; i+1 < len(rest); i += 2 {
		id, err := rest[i].ToString()
		if err != nil {
			return t, errAnswer
		}
		value, err := rest[i+1].ToString()
		if err != nil {
			return t, errAnswer
		}
		t.ids = append(t.ids, id)
		if r, err := s.names.openUnordered(day, value); err == nil {
			batch.Records = append(batch.Records, r)
		} else {
			batch.Damaged++
		}
	}
	return t, nil
}

// openUnordered decodes a record whose entry in the order is not known.
func (n names) openUnordered(day int64, value string) (r feedback.Record, err error) {
	// What was sealed names its entry itself; then it must be what was sealed for this entry.
	if len(value) <= sealTag {
		return r, errFeedbackDamaged
	}
	if err := stored.Decode([]byte(value[sealTag+1:]), &r); err != nil {
		return r, errFeedbackDamaged
	}
	return n.openFeedback(day, orderEntry(r.Ref()), value)
}

// acknowledge notes that a consumer has taken records.
func (s *Store) acknowledge(ctx context.Context, consumer string, all []taken) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return err
	}
	var cmds []rueidis.Completed
	for _, t := range all {
		cmds = append(cmds, b.Xack().Key(s.names.feedbackRecords(t.day)).Group(consumer).Id(t.ids...).Build().
			ToRetryable())
	}
	_, err = s.link.many(ctx, cmds...)
	return err
}

// ForgetConsumer implements [feedback.Consumers].
func (s *Store) ForgetConsumer(ctx context.Context, consumer string) error {
	if err := checkConsumer(consumer); err != nil {
		return err
	}
	days, err := s.days(ctx)
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := s.forgetOf(ctx, day, consumer); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) forgetOf(ctx context.Context, day int64, consumer string) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return err
	}
	m, err := s.link.do(ctx, b.Exists().Key(s.names.feedbackRecords(day)).Build())
	if n, _ := m.AsInt64(); err != nil || n == 0 {
		return err
	}
	_, err = s.link.do(ctx, b.XgroupDestroy().Key(s.names.feedbackRecords(day)).Group(consumer).Build().ToRetryable())
	return err
}

// Interface guards
var _ feedback.Consumers = (*Store)(nil)
