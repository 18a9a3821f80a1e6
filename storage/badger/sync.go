// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"sync"
	"sync/atomic"
	"time"
)

// syncInterval is the interval at which commits are synced that nobody waits for. Together with the duration of a
// sync it stays below maxUnsynced on a disk that is not overloaded.
const syncInterval = maxUnsynced / 2

// syncer syncs the database, once for everybody who waits: group commit.
type syncer struct {
	run   func() error
	wake  chan struct{}
	ended chan error
	// dirty says that something was committed since the last sync.
	dirty atomic.Bool

	mu      sync.Mutex
	next    *round
	stopped bool
}

// round is one sync. It covers every commit that returned before the round was joined.
type round struct {
	done chan struct{}
	err  error
}

// wait returns when the round is over. It has no context: a sync cannot be called off, and what was written is written.
func (r *round) wait() error {
	<-r.done
	return r.err
}

func (s *syncer) start(run func() error) {
	s.run = run
	s.wake = make(chan struct{}, 1)
	s.ended = make(chan error)
	s.next = &round{done: make(chan struct{})}
	go s.loop()
}

// join returns the next round and makes it begin. After the last round it returns one that has failed: a change that
// was under way when the store was closed is not acknowledged.
func (s *syncer) join() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		r := &round{done: make(chan struct{}), err: errClosed}
		close(r.done)
		return r
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.next
}

// stop ends the syncer with a last round.
func (s *syncer) stop() error {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	// Nobody sends on wake any more: join does so with mu held, and stopped is set.
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
				// Nobody waits for it, and the supervisor has logged what is wrong.
				_ = s.round()
			}
		}
	}
}

// round runs one sync for everybody who has joined.
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
