// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/internal/stored"
)

var (
	//go:embed scripts/bound.lua
	boundLua string
	//go:embed scripts/unbound.lua
	unboundLua string
	//go:embed scripts/append.lua
	appendLua string
	//go:embed scripts/unappend.lua
	unappendLua string
	//go:embed scripts/cull.lua
	cullLua string
	//go:embed scripts/uncull.lua
	uncullLua string

	boundScript    = newRepeatable(boundLua)
	unboundScript  = newRepeatable(unboundLua)
	appendScript   = newRepeatable(appendLua)
	unappendScript = newRepeatable(unappendLua)
	cullScript     = newRepeatable(cullLua)
	uncullScript   = newRepeatable(uncullLua)
)

// full is what the script says that finds a bound reached.
const full = "full"

// orderEntry returns how the entry of a record in its day's order begins. What follows is the record's id in the
// stream.
// Entries sort like the times and then the ids of their records.
func orderEntry(r feedback.Ref) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(r.Time.Unix())^1<<63)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Time.Nanosecond()))
	return hex.EncodeToString(b) + r.ID + "\x00"
}

// cutEntry returns the beginning of an entry and what follows it.
func cutEntry(member string) (begins, streamID string, ok bool) {
	i := strings.LastIndexByte(member, 0)
	if i < 0 {
		return "", "", false
	}
	return member[:i+1], member[i+1:], true
}

// sealFeedback returns the value of a record, and the length of its JSON.
func (n names) sealFeedback(r feedback.Record) (value string, size int, err error) {
	b, err := stored.Append(nil, r)
	if err != nil {
		return "", 0, fmt.Errorf("feedback record: %w: %w", quota.ErrInvalid, err)
	}
	return seal(n.feedbackName(r.Time, orderEntry(r.Ref())), "", b), len(b), nil
}

// feedbackName is the name under which a record is sealed.
func (n names) feedbackName(at time.Time, begins string) string {
	return n.feedbackRecords(dayOf(at)) + " " + begins
}

// AppendFeedback implements [feedback.Store].
func (s *Store) AppendFeedback(ctx context.Context, r feedback.Record, bound feedback.Bound) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if r.ID == "" {
		return fmt.Errorf("feedback record: %w: it has no id", quota.ErrInvalid)
	}
	value, size, err := s.names.sealFeedback(r)
	if err != nil {
		return err
	}
	if size > feedback.MaxRecordBytes {
		return feedback.ErrTooLarge
	}
	day := dayOf(r.Time)
	if err := s.requireNoFeedback(ctx, day, r); err != nil {
		return err
	}
	note, counted, err := s.bound(ctx, r.Account, day, size, bound)
	if err != nil {
		return err
	}
	outcome, _, err := s.voidable(ctx, appendScript, unappendScript,
		[]string{s.names.feedbackOrder(day), s.names.feedbackRecords(day)}, []string{orderEntry(r.Ref()), value})
	if err == nil && outcome == other {
		err = exists("feedback record", r.ID)
	}
	if err != nil {
		s.later(counted)
		if errors.Is(err, quota.ErrExists) {
			_ = s.undoneAll(ctx)
		}
		return err
	}
	// The note goes by itself if this fails.
	if b, err := s.link.b(); err == nil {
		_, _ = s.link.do(ctx, b.Unlink().Key(note).Build())
	}
	return nil
}

// requireNoFeedback returns an error if there is a record with the same time and id. It notes that the day has records.
func (s *Store) requireNoFeedback(ctx context.Context, day int64, r feedback.Record) error {
	b, err := s.link.b()
	if err != nil {
		return err
	}
	begins := orderEntry(r.Ref())
	m, err := s.link.do(ctx, b.Zrange().Key(s.names.feedbackOrder(day)).Min("["+begins).Max("["+begins+"\xff").
		Bylex().Limit(0, 1).Build())
	if err != nil {
		return err
	}
	if found, _ := m.ToArray(); len(found) > 0 {
		return exists("feedback record", r.ID)
	}
	_, err = s.link.do(ctx, b.Zadd().Key(s.names.feedbackDays()).ScoreMember().
		ScoreMember(float64(day), strconv.FormatInt(day, 10)).Build().ToRetryable())
	return err
}

// bound counts a record against the bound of its account. It returns the name of the note that it has done so, and what
// gives back what was counted.
func (s *Store) bound(
	ctx context.Context, account string, day int64, size int, bound feedback.Bound,
) (note string, back undone, err error) {
	note = s.names.of(account, "bound:"+rand.Text())
	keys := []string{s.names.of(account, boundsTable), note}
	args := []string{
		strconv.FormatInt(day, 10), strconv.Itoa(size), strconv.FormatInt(bound.Records, 10),
		strconv.FormatInt(bound.Bytes, 10), strconv.Itoa(feedback.KeptDays),
	}
	outcome, _, err := s.voidable(ctx, boundScript, unboundScript, keys, args)
	if err != nil {
		return "", undone{}, err
	}
	if outcome == full {
		return "", undone{}, feedback.ErrBound
	}
	return note, s.undoing(unboundScript, keys, append(args, s.link.until(ctx))), nil
}

// days returns the days that have feedback, in their order.
func (s *Store) days(ctx context.Context) ([]int64, error) {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return nil, err
	}
	m, err := s.link.do(ctx, b.Zrange().Key(s.names.feedbackDays()).Min("0").Max("-1").Build())
	if err != nil {
		return nil, err
	}
	days, err := m.AsIntSlice()
	if err != nil {
		return nil, errAnswer
	}
	return days, nil
}

// Feedback implements [feedback.Store].
func (s *Store) Feedback(ctx context.Context, account string) iter.Seq2[feedback.Record, error] {
	return func(yield func(feedback.Record, error) bool) {
		days, err := s.days(ctx)
		if err != nil {
			yield(feedback.Record{}, err)
			return
		}
		for _, day := range days {
			for r, err := range s.feedbackOf(ctx, day) {
				if err == nil {
					err = s.ready(ctx)
				}
				if err == nil && account != "" && r.Account != account {
					continue
				}
				if err != nil {
					r = feedback.Record{}
				}
				if !yield(r, err) || err != nil && !errors.Is(err, errDamaged) {
					return
				}
			}
		}
	}
}

// feedbackOf yields the records of a day in the order of their times.
func (s *Store) feedbackOf(ctx context.Context, day int64) iter.Seq2[feedback.Record, error] {
	return func(yield func(feedback.Record, error) bool) {
		after := "-"
		for {
			members, values, err := s.feedbackPage(ctx, day, after)
			if err != nil {
				yield(feedback.Record{}, err)
				return
			}
			for i, value := range values {
				begins, _, ok := cutEntry(members[i])
				if ok && value == nil {
					continue // deleted meanwhile
				}
				var r feedback.Record
				err := errFeedbackDamaged
				if ok {
					r, err = s.names.openFeedback(day, begins, *value)
				}
				if !yield(r, err) {
					return
				}
			}
			if len(members) < page {
				return
			}
			after = "(" + members[len(members)-1]
		}
	}
}

// errFeedbackDamaged says that a record of feedback is damaged.
var errFeedbackDamaged = fmt.Errorf("%w: a record of feedback", errDamaged)

// openFeedback decodes a record.
func (n names) openFeedback(day int64, begins, value string) (r feedback.Record, err error) {
	_, payload, err := open(n.feedbackRecords(day)+" "+begins, value)
	if err == nil {
		err = stored.Decode(payload, &r)
	}
	if err != nil {
		return feedback.Record{}, errFeedbackDamaged
	}
	return r, nil
}

// feedbackPage reads some entries of a day's order and their records, nil for those that are gone.
func (s *Store) feedbackPage(
	ctx context.Context, day int64, after string,
) (members []string, values []*string, err error) {
	ctx, cancel, err := s.beginRead(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	b, err := s.link.b()
	if err != nil {
		return nil, nil, err
	}
	m, err := s.link.do(ctx, b.Zrange().Key(s.names.feedbackOrder(day)).Min(after).Max("+").Bylex().
		Limit(0, page).Build())
	if err != nil {
		return nil, nil, err
	}
	if members, err = m.AsStrSlice(); err != nil {
		return nil, nil, errAnswer
	}
	cmds := make([]rueidis.Completed, len(members))
	for i, member := range members {
		_, id, ok := cutEntry(member)
		if !ok {
			id = "0-1" // there is none
		}
		cmds[i] = b.Xrange().Key(s.names.feedbackRecords(day)).Start(id).End(id).Build()
	}
	answers, err := s.link.many(ctx, cmds...)
	if err != nil {
		return nil, nil, err
	}
	values = make([]*string, len(members))
	for i, m := range answers {
		if values[i], err = streamValue(m); err != nil {
			return nil, nil, err
		}
	}
	return members, values, nil
}

// streamValue returns the record in the answer to XRANGE, nil if there is none.
func streamValue(m rueidis.RedisMessage) (*string, error) {
	entries, err := m.AsXRange()
	if err != nil {
		return nil, errAnswer
	}
	if len(entries) == 0 {
		return nil, nil //nolint:nilnil // no record is no error
	}
	value := entries[0].FieldValues["r"]
	return &value, nil
}

// DeleteFeedback implements [feedback.Store].
func (s *Store) DeleteFeedback(ctx context.Context, records ...feedback.Ref) (deleted int, err error) {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	if len(records) > feedback.MaxDelete {
		return 0, feedback.ErrTooMany
	}
	byDay := make(map[int64][]string)
	for _, r := range records {
		byDay[dayOf(r.Time)] = append(byDay[dayOf(r.Time)], orderEntry(r))
	}
	nonce := rand.Text()
	var asides []string
	var back []undone
	for _, day := range slices.Sorted(maps.Keys(byDay)) {
		aside := s.names.feedbackOf(day) + "deleted:" + nonce
		keys := []string{s.names.feedbackOrder(day), s.names.feedbackRecords(day), aside}
		n, err := s.cull(ctx, keys, byDay[day])
		if err != nil {
			for _, b := range back {
				s.later(b)
			}
			return 0, err
		}
		if n > 0 {
			asides = append(asides, aside)
			back = append(back, s.undoing(uncullScript, keys, append(byDay[day], s.link.until(ctx))))
			deleted += n
		}
	}
	s.drop(ctx, asides)
	return deleted, nil
}

// cull deletes records of a day and returns how many there were.
func (s *Store) cull(ctx context.Context, keys, entries []string) (int, error) {
	_, rest, err := s.voidable(ctx, cullScript, uncullScript, keys, entries)
	if err != nil {
		return 0, err
	}
	if len(rest) != 1 {
		return 0, errAnswer
	}
	n, err := rest[0].AsInt64()
	if err != nil {
		return 0, errAnswer
	}
	return int(n), nil
}

// drop deletes what was put aside, now or as soon as the database answers again.
func (s *Store) drop(ctx context.Context, asides []string) {
	for _, aside := range asides {
		run := func(ctx context.Context) (bool, error) {
			b, err := s.link.b()
			if err != nil {
				return false, err
			}
			_, err = s.link.do(ctx, b.Unlink().Key(aside).Build().ToRetryable())
			return err == nil, err
		}
		if _, err := run(ctx); err != nil {
			s.later(undone{[]string{aside}, run})
		}
	}
}
