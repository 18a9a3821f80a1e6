// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// roomy is a store on a disk that can be asked for its room, and that may not answer.
type roomy struct {
	*storagetest.Memory
	free    atomic.Uint64
	hanging atomic.Pointer[chan struct{}] // closed when the disk answers
}

var errNoRoom = errors.New("nobody knows")

func (s *roomy) Usage() (used, free uint64, err error) {
	<-*s.hanging.Load()
	if free := s.free.Load(); free > 0 {
		return 7, free, nil
	}
	return 0, 0, errNoRoom
}

func (s *roomy) Failures() uint64 { return 2 }

// TestRoomIsWatched guards against a scrape that waits for a disk that hangs, and against room that was told long ago.
func TestRoomIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &storePool{
			healthInterval: time.Hour, stopping: func() bool { return true }, exiting: func() bool { return false },
		}
		s := &roomy{Memory: storagetest.NewMemory()}
		hang := func() (answer func()) {
			c := make(chan struct{})
			s.hanging.Store(&c)
			return func() { close(c) }
		}
		answer := hang()
		s.free.Store(100)
		if got := p.observe(); got != (metrics.StoreState{}) {
			t.Errorf("without a store: got %+v, want nothing", got)
		}
		held, err := p.acquire("roomy", func() (storage.Store, error) { return s, nil })
		if err != nil {
			t.Fatal(err)
		}
		look := func(when string, want metrics.StoreState) {
			t.Helper()
			synctest.Wait()
			if got := p.observe(); got != want {
				t.Errorf("%s: got %+v, want %+v", when, got, want)
			}
		}
		unknown := metrics.StoreState{Open: true, Failures: 2}
		look("while the disk hangs", unknown)
		answer()
		look("when it answers", metrics.StoreState{Open: true, Failures: 2, RoomKnown: true, Used: 7, Free: 100})
		s.free.Store(50)
		time.Sleep(roomInterval + 1)
		look("when it fills", metrics.StoreState{Open: true, Failures: 2, RoomKnown: true, Used: 7, Free: 50})
		answer = hang()
		time.Sleep(2 * roomAge)
		look("when it has hung for long", unknown)
		answer()
		s.free.Store(0)
		time.Sleep(roomInterval + 1)
		look("when it answers with an error", unknown)
		if err := p.release(held); err != nil {
			t.Fatal(err)
		}
		look("when the store is closed", metrics.StoreState{})
		time.Sleep(2 * roomInterval) // the goroutines end, or synctest complains
	})
}
