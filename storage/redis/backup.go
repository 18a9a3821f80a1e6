// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// A backup is a file of contents. It begins with everything as it is read, one after the other, while the server tells
// which names change. Then it goes on with what has changed since, again and again, until that is little. For the last
// of it writing is paused on all masters, so that everything is of one moment.

const (
	// backupRounds is how often what has changed is read again before the backup gives up.
	backupRounds = 40
	// pausedOwners and pausedRecords are how much is read while writing is paused.
	pausedOwners, pausedRecords = 300, 500
	// calmRounds is after how many rounds writing is paused although much has changed.
	calmRounds = 4
	// maxPause is for how long writing is paused at most, if shorter pauses were not long enough.
	maxPause = 2 * time.Second
)

// Backup implements [storage.Store].
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	err := s.ready(ctx)
	if err == nil {
		err = s.usable()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.closing:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	watcher, err := s.watchChanges(ctx)
	if err != nil {
		return err
	}
	defer watcher.close()
	err = (&backup{
		watcher: watcher, to: w, out: contents.NewWriter(w), days: make(map[int64]*dayRead),
		pause: s.options.Timeout / 2,
	}).run(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// backup is a backup that is being made.
type backup struct {
	*watcher
	to  io.Writer
	out *contents.Writer
	// days is how far the days of feedback are written.
	days map[int64]*dayRead
	// pause is for how long writing is paused at once.
	pause time.Duration
	// rate is how many owners were read in a second the last time, 0 before.
	rate float64
}

// run makes the backup.
func (b *backup) run(ctx context.Context) error {
	if err := b.write(ctx, func(e *exporter) { e.all(nil) }); err != nil {
		return err
	}
	for round := range backupRounds {
		if err := b.learn(ctx); err != nil {
			return err
		}
		if b.mayPause(round) && len(b.stale.whole) == 0 {
			last, ok, err := b.paused(ctx)
			if err != nil {
				return err
			}
			if ok {
				for _, item := range last {
					if err := b.out.Write(item); err != nil {
						return err
					}
				}
				return b.finish(ctx)
			}
			if round >= calmRounds {
				b.pause = min(2*b.pause, maxPause)
			}
		}
		if err := b.again(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the database changes faster than it can be read: repeat the backup when there is less to do",
		storage.ErrUnavailable)
}

// mayPause reports whether writing may be paused for what is left to be read: only if that can be read in time.
func (b *backup) mayPause(round int) bool {
	left := b.stale.size()
	return left <= pausedOwners ||
		round >= calmRounds && (b.rate == 0 || float64(left) < b.rate*maxPause.Seconds())
}

// finish ends the backup, unless somebody else has been a master since it began.
func (b *backup) finish(ctx context.Context) error {
	if err := b.check(ctx); err != nil {
		return err
	}
	return b.out.Close()
}

// write writes items, without damaged records if the writer of the backup wants that.
func (b *backup) write(ctx context.Context, export func(*exporter)) error {
	var failed error
	lenient, leavesOut := b.to.(storage.LeavesOut)
	export(&exporter{bulk: b.bulk, ctx: ctx, days: b.days, yield: func(item contents.Item, err error) bool {
		if leavesOut && errors.Is(err, errDamaged) {
			_, what, _ := strings.Cut(err.Error(), errDamaged.Error()+": ")
			lenient.LeaveOut(what)
			return true
		}
		if err == nil {
			err = b.out.Write(item)
		}
		failed = err
		return err == nil
	}})
	return failed
}

// again writes what has changed once more.
func (b *backup) again(ctx context.Context) error {
	if err := b.ownersOfKeys(ctx); err != nil {
		return err
	}
	now := b.stale
	b.stale = newStale()
	return b.write(ctx, func(e *exporter) {
		for day := range now.days {
			b.dayAgain(e, day, now.whole[day])
		}
		began := time.Now()
		e.changed(&now)
		if len(now.owners) > pausedOwners {
			b.rate = float64(len(now.owners)) / time.Since(began).Seconds()
		}
	})
}

// dayAgain writes what was added to a day of feedback; all of it if records were deleted.
func (b *backup) dayAgain(e *exporter, day int64, whole bool) bool {
	read := b.days[day]
	if read == nil || !whole {
		after := ""
		if read != nil {
			after = read.last
		}
		return e.day(day, after)
	}
	return e.yield(contents.Item{Forget: &contents.Forget{Day: day}}, nil) && e.day(day, "")
}

// changed yields owners once more, after they are forgotten.
func (e *exporter) changed(now *stale) bool {
	if now.seeded && !e.seeded() {
		return false
	}
	owners := slices.Sorted(maps.Keys(now.owners))
	for _, id := range owners {
		if !e.yield(contents.Item{Forget: &contents.Forget{Owner: id}}, nil) {
			return false
		}
	}
	for some := range slices.Chunk(owners, ownersAtOnce) {
		if !e.owners(some) {
			return false
		}
	}
	return e.changedDocuments(now)
}

// changedDocuments yields documents once more, or that they are gone.
func (e *exporter) changedDocuments(now *stale) bool {
	keys := make(map[string][]string)
	for of := range now.documents {
		collection, key := splitDocument(of)
		keys[collection] = append(keys[collection], key)
	}
	for _, collection := range slices.Sorted(maps.Keys(keys)) {
		for some := range slices.Chunk(keys[collection], documentPage) {
			if !e.someDocuments(collection, some, true) {
				return false
			}
		}
	}
	return true
}

// paused reads what has changed while writing is paused on all masters. It reports whether it was all there is; if not,
// another round is needed.
func (b *backup) paused(ctx context.Context) (last []contents.Item, ok bool, err error) {
	began := time.Now()
	defer func() {
		for _, node := range b.tracked {
			// Without an answer the pause ends by itself.
			_ = node.Do(context.WithoutCancel(ctx), node.B().ClientUnpause().Build()).Error()
		}
	}()
	for _, node := range b.tracked {
		cmd := node.B().ClientPause().Timeout(b.pause.Milliseconds()).Write().Build()
		if err := node.Do(ctx, cmd).Error(); err != nil {
			if refused, is := rueidis.IsRedisErr(err); is && strings.HasPrefix(refused.Error(), "NOPERM") {
				return nil, false, fmt.Errorf("%w: a backup pauses writing for a moment, which the user's permissions do not "+
					"allow: give it +client|pause and +client|unpause", storage.ErrUnavailable)
			}
			return nil, false, b.failed(ctx, err)
		}
	}
	if err := b.learn(ctx); err != nil {
		return nil, false, err
	}
	if err := b.ownersOfKeys(ctx); err != nil {
		return nil, false, err
	}
	if late := func() bool { return time.Since(began) >= b.pause }; late() {
		return nil, false, nil
	}
	// What is read is kept only if it was in time.
	kept := make(map[int64]*dayRead)
	for day := range b.stale.days {
		read := b.days[day]
		if read == nil {
			read = new(dayRead)
		}
		copied := *read
		kept[day] = &copied
		fits, err := b.added(ctx, day, &copied)
		if err != nil || !fits {
			return nil, false, err
		}
	}
	e := &exporter{bulk: b.bulk, ctx: ctx, days: kept}
	lenient, leavesOut := b.to.(storage.LeavesOut)
	var leftOut []string
	e.yield = func(item contents.Item, one error) bool {
		if leavesOut && errors.Is(one, errDamaged) {
			_, what, _ := strings.Cut(one.Error(), errDamaged.Error()+": ")
			leftOut = append(leftOut, what)
			return true
		}
		if err = one; err == nil {
			last = append(last, item)
		}
		return err == nil
	}
	goesOn := e.changed(&b.stale)
	for day := range b.stale.days {
		goesOn = goesOn && e.day(day, kept[day].last)
	}
	if err != nil || time.Since(began) >= b.pause {
		return nil, false, err
	}
	for _, what := range leftOut {
		lenient.LeaveOut(what)
	}
	return last, true, nil
}

// added reports whether little was added to a day of feedback since it was read, and nothing deleted.
func (b *backup) added(ctx context.Context, day int64, read *dayRead) (bool, error) {
	name := b.names.feedbackRecords(day)
	start := "-"
	if read.last != "" {
		start = "(" + read.last
	}
	answers, err := b.many(ctx, b.client.B().Xlen().Key(name).Build(),
		b.client.B().Xrange().Key(name).Start(start).End("+").Count(pausedRecords+1).Build())
	if err != nil {
		return false, err
	}
	length, err := answers[0].AsInt64()
	entries, err2 := answers[1].AsXRange()
	if errors.Join(err, err2) != nil {
		return false, errAnswer
	}
	if len(entries) > pausedRecords {
		return false, nil
	}
	if length != read.records+int64(len(entries)) {
		b.stale.whole[day] = true
		return false, nil
	}
	return true, nil
}
