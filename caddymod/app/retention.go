// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/nodes"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// minKeep is the shortest time for which feedback can be kept: whole days are deleted.
const minKeep = 24 * time.Hour

// sweepTiming says when feedback that is kept no longer is deleted.
type sweepTiming struct {
	// settle is how long the process runs before the first sweep: a machine that has just started may not have set
	// its clock yet, and what is deleted is gone for good.
	settle time.Duration
	// first is the shortest time between the start of a configuration and its first sweep, every that between two
	// sweeps.
	first, every time.Duration
	// pause is how long a sweep pauses after it has deleted some records.
	pause time.Duration
	// jump is how far the clock may be set without that a sweep is left out.
	jump time.Duration
	// patience is how long the end of a configuration waits for the end of its sweep.
	patience time.Duration
}

// defaultSweeps is used everywhere but in tests.
var defaultSweeps = sweepTiming{
	settle: 10 * time.Minute, first: 10 * time.Second, every: time.Hour, pause: 100 * time.Millisecond,
	jump: time.Minute, patience: 5 * time.Second,
}

// processStart is about when the process started.
var processStart = time.Now()

// sweeper deletes the feedback, the review items, the entries of the audit log, the sessions and the statistics that
// are kept no longer, for as long as the configuration runs.
type sweeper struct {
	app    *App
	now    func() time.Time // the clock by which corrections are kept
	cancel context.CancelFunc
	ended  chan struct{}
}

// startSweeper starts the sweeper of the configuration. There is a store. Several nodes may sweep one
// store: what another node has deleted already is no error, and not counted.
func (a *App) startSweeper(now func() time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	a.sweeper = &sweeper{app: a, now: now, cancel: cancel, ended: make(chan struct{})}
	go a.sweeper.run(ctx)
}

// stop ends the sweeper: once it returns nothing is deleted any more, unless the store has hung for a while.
func (s *sweeper) stop() {
	s.cancel()
	select {
	case <-s.ended:
	case <-time.After(s.app.sweeps.patience):
	}
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	defer close(s.ended)
	timing := s.app.sweeps
	wait := max(timing.settle-time.Since(processStart), timing.first)
	for last, at := s.now(), time.Now(); ; wait = timing.every {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		now, tick := s.now(), time.Now()
		// The second clock is the monotonic one, which nobody sets.
		if jumped := now.Round(0).Sub(last.Round(0)) - tick.Sub(at); jumped.Abs() > timing.jump {
			s.app.logger.Warn("the clock was set: old feedback and review items are not deleted before the next time",
				zap.Duration("by", jumped))
		} else {
			s.sweep(ctx, now)
		}
		last, at = now, tick
	}
}

// sweep deletes the records that are kept no longer. It is repeated: an error need not be.
func (s *sweeper) sweep(ctx context.Context, now time.Time) {
	services := s.app.TryAcquire()
	if services == nil {
		return
	}
	defer services.Release()
	services.Reviews.sweep(ctx)
	services.Audit.trim(ctx, now)
	if _, err := services.Sessions.Sweep(ctx); err != nil && ctx.Err() == nil {
		s.app.logger.Error("old sessions of the desk could not be removed; it is tried again", zap.Error(err))
	}
	if _, err := services.Statistics.Trim(ctx, now); err != nil && ctx.Err() == nil {
		s.app.logger.Error("old statistics could not be removed; it is tried again", zap.Error(err))
	}
	if err := (nodes.List{Store: services.Store}).Trim(ctx, now); err != nil && ctx.Err() == nil {
		s.app.logger.Error("nodes that are gone could not be forgotten; it is tried again", zap.Error(err))
	}
	if s.app.Feedback.Keep <= 0 {
		return
	}
	which := feedback.Selection{Before: keptFrom(now, time.Duration(s.app.Feedback.Keep))}
	result, err := storage.DeleteFeedback(ctx, services.Store, which, s.app.sweeps.pause)
	if result.Records > 0 {
		s.app.logger.Info("feedback was deleted that is kept no longer",
			zap.Int64("records", result.Records), zap.Time("before", which.Before))
	}
	if err != nil && ctx.Err() == nil {
		s.app.logger.Error("old feedback could not be deleted; it is tried again", zap.Error(err))
	}
}

// keptFrom returns the instant from which on feedback is kept: whole UTC days are, so that records are deleted, and
// erased from the disk, once a day.
func keptFrom(now time.Time, keep time.Duration) time.Time {
	return now.UTC().Add(-keep).Truncate(24 * time.Hour)
}

// check returns an error if an option is out of range.
func (f *FeedbackOptions) check() error {
	if keep := time.Duration(f.Keep); keep != 0 && keep < minKeep {
		return fmt.Errorf("feedback: keep is %s; it must be 1 day or more, such as 90d. "+
			"Without it feedback is kept for ever", keep)
	}
	return nil
}
