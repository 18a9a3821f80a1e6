// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// syncInterval is how often commits that nobody waits for are synced: the most that power loss can take of the counts.
const syncInterval = time.Second

// syncer tells the kernel to write to the disk, once for everybody who waits.
type syncer struct {
	run    func() error
	logger *zap.Logger
	wake   chan struct{}
	ended  chan error
	// dirty says that something was committed since the last sync.
	dirty atomic.Bool

	mu   sync.Mutex
	next *round
}

// round is one sync. It covers every commit that returned before the round was joined.
type round struct {
	done chan struct{}
	err  error
}

// wait returns when the round is over. It does not give up: a sync cannot be called off, and what was changed is changed.
func (r *round) wait() error {
	<-r.done
	return r.err
}

func (s *syncer) start(run func() error, logger *zap.Logger) {
	s.run, s.logger = run, logger
	s.wake = make(chan struct{}, 1)
	s.ended = make(chan error)
	s.next = &round{done: make(chan struct{})}
	go s.loop()
}

// join returns the next round and makes it begin.
func (s *syncer) join() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.next
}

// stop ends the syncer with a last round. Nobody may join any more.
func (s *syncer) stop() error {
	close(s.wake)
	return <-s.ended
}

func (s *syncer) loop() {
	ticker := time.NewTicker(syncInterval)
	defer ticker.Stop()
	for {
		select {
		case _, open := <-s.wake:
			err := s.round()
			if !open {
				s.ended <- err
				return
			}
		case <-ticker.C:
			if s.dirty.Load() {
				// Nobody waits for an answer; the next round tries again.
				if err := s.round(); err != nil {
					s.logger.Error("counts cannot be synced; power loss would take them", zap.Error(err))
				}
			}
		}
	}
}

func (s *syncer) round() error {
	s.mu.Lock()
	r := s.next
	s.next = &round{done: make(chan struct{})}
	s.mu.Unlock()
	s.dirty.Store(false)
	r.err = s.run()
	if r.err != nil {
		s.dirty.Store(true)
	}
	close(r.done)
	return r.err
}

// sync makes everything that was committed survive power loss. Badger syncs the log of the table in memory that it writes
// to; a commit may stand in the log of one that was full meanwhile and is not a table on the disk yet. A log that has
// gone is one that became a table, which Badger syncs.
func (s *Store) sync() error {
	if err := s.db.Sync(); err != nil {
		return unavailable(err)
	}
	logs, err := filepath.Glob(filepath.Join(s.dir, "*.mem"))
	if err != nil {
		return unavailable(err)
	}
	for _, path := range append(logs, s.dir) {
		if err := syncFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unavailable(err)
		}
	}
	return nil
}
