// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
)

const (
	// roomInterval is how often a store is asked how much room it has.
	roomInterval = 5 * time.Second
	// roomAge is how long an answer is taken for the present state. A disk that hangs does not answer.
	roomAge = time.Minute
)

// room is what a store answered when it was asked how much room it has.
type room struct {
	at         time.Time
	used, free uint64
}

// A store may have these methods. Package storage/badger has both.
type (
	// failureCounter says how often the store has failed and recovered by itself.
	failureCounter interface{ Failures() uint64 }
	// roomTeller says how many bytes the store takes on its disk, and how many are left there.
	roomTeller interface {
		Usage() (used, free uint64, err error)
	}
)

// watchRoom asks the store for its room until it closes. It has a goroutine of its own, because a disk that hangs holds
// it up, and nobody may wait for that: neither a scrape of the metrics nor the log.
func (s *pooledStore) watchRoom() {
	teller, ok := s.Store.(roomTeller)
	if !ok {
		return
	}
	ticker := time.NewTicker(roomInterval)
	defer ticker.Stop()
	for {
		if used, free, err := teller.Usage(); err == nil {
			s.room.Store(&room{at: time.Now(), used: used, free: free})
		} else {
			s.room.Store(nil)
		}
		select {
		case <-s.closed:
			return
		case <-ticker.C:
		}
	}
}

// observe returns what the metrics say about the stores that a configuration holds, beside their health. If there are
// several, it is the least room and the sum of the rest.
func (p *storePool) observe() (state metrics.StoreState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		select {
		case <-s.ready:
		default:
			continue // being opened
		}
		if s.holders == 0 || s.err != nil {
			continue
		}
		state.Open = true
		state.ReadOnly = state.ReadOnly || s.service.reason() != nil
		if mode := modeOf(s.Store); mode.severity() > Mode(state.Mode).severity() {
			state.Mode = string(mode)
		}
		if counter, ok := s.Store.(failureCounter); ok {
			state.Failures += counter.Failures()
		}
		if r := s.room.Load(); r != nil && time.Since(r.at) < roomAge {
			if !state.RoomKnown || r.free < state.Free {
				state.Free = r.free
			}
			state.Used += r.used
			state.RoomKnown = true
		}
	}
	return state
}
