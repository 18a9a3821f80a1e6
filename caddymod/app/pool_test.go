// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// place is where the stores of a test are kept: like a directory, it can be open once.
type place struct {
	t      *testing.T
	locked atomic.Bool
	opened atomic.Int64
	slow   time.Duration // what closing takes
	sick   atomic.Bool
	mode   atomic.Pointer[Mode]
}

func (p *place) open() (storage.Store, error) {
	if !p.locked.CompareAndSwap(false, true) {
		p.t.Error("the place is open already")
	}
	p.opened.Add(1)
	return &placed{Memory: storagetest.NewMemory(), place: p}, nil
}

// placed is a store in a place.
type placed struct {
	*storagetest.Memory
	place *place
}

func (s *placed) Health() error {
	if s.place.sick.Load() {
		return storage.ErrUnavailable
	}
	return s.Memory.Health()
}

func (s *placed) Mode() string {
	if mode := s.place.mode.Load(); mode != nil {
		return string(*mode)
	}
	return ""
}

func (s *placed) Close() error {
	time.Sleep(s.place.slow)
	err := s.Memory.Close()
	if !s.place.locked.CompareAndSwap(true, false) {
		s.place.t.Error("closed twice")
	}
	return err
}

// inPool runs a test with a pool, in its own time.
func inPool(t *testing.T, run func(t *testing.T, p *storePool, lines *observer.ObservedLogs)) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		run(t, &storePool{
			linger: time.Minute, maxLinger: 5 * time.Minute,
			closeTimeout: 10 * time.Second, healthInterval: time.Second, logger: zap.New(core),
			stopping: func() bool { return false }, exiting: func() bool { return false },
		}, lines)
	})
}

// acquired acquires a store of a pool.
func acquired(t *testing.T, p *storePool, identity string, of *place) *pooledStore {
	t.Helper()
	s, err := p.acquire(identity, of.open)
	if err != nil {
		t.Fatalf("acquiring the store: %v", err)
	}
	return s
}

// released releases a store.
func released(t *testing.T, p *storePool, s *pooledStore) {
	t.Helper()
	if err := p.release(s); err != nil {
		t.Errorf("releasing the store: %v", err)
	}
}

// TestStoreOutlivesItsConfiguration guards against requests of a replaced configuration that find their store closed.
func TestStoreOutlivesItsConfiguration(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, _ *observer.ObservedLogs) {
		of := &place{t: t}
		s := acquired(t, p, "a", of)
		s.beginUse()
		released(t, p, s)
		time.Sleep(30 * time.Second)
		s.beginUse() // a request that was still being read
		s.endUse()
		time.Sleep(2 * time.Minute)
		if s.Health() != nil {
			t.Fatal("closed under a request")
		}
		s.endUse()
		synctest.Wait()
		if s.Health() == nil || of.locked.Load() {
			t.Error("still open when the last request has ended")
		}
		s = acquired(t, p, "a", of)
		released(t, p, s)
		time.Sleep(59 * time.Second)
		if s.Health() != nil {
			t.Error("closed before requests that have begun can have come to a handler")
		}
		time.Sleep(2 * time.Second)
		if s.Health() == nil {
			t.Error("still open although no request has used it for long")
		}
	})
}

// TestEndlessRequestsDoNotKeepAStore guards against a stream that keeps the old directory open for ever.
func TestEndlessRequestsDoNotKeepAStore(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, lines *observer.ObservedLogs) {
		of := &place{t: t}
		s := acquired(t, p, "a", of)
		s.beginUse()
		released(t, p, s)
		time.Sleep(5*time.Minute - time.Second)
		if s.Health() != nil {
			t.Error("closed before the bound")
		}
		time.Sleep(2 * time.Second)
		if s.Health() == nil || lines.FilterMessageSnippet("still use").Len() != 1 {
			t.Errorf("open after the bound, or nothing is said: %v", lines.All())
		}
		s.endUse()
		synctest.Wait()
	})
}

// TestStoreIsRevived goes back to a place while requests still use it: it must be found open, and stay so.
func TestStoreIsRevived(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, _ *observer.ObservedLogs) {
		of := &place{t: t}
		first := acquired(t, p, "a", of)
		first.beginUse()
		released(t, p, first)
		time.Sleep(4 * time.Minute)
		again := acquired(t, p, "a", of)
		if again != first || of.opened.Load() != 1 {
			t.Error("opened a second time")
		}
		first.endUse()
		time.Sleep(10 * time.Minute) // the bound of the first time does not count
		if again.Health() != nil {
			t.Error("closed under the configuration that has acquired it again")
		}
		again.beginUse()
		released(t, p, again)
		time.Sleep(4 * time.Minute)
		if again.Health() != nil {
			t.Error("the bound did not begin anew")
		}
		again.endUse()
		synctest.Wait()
		if again.Health() == nil {
			t.Error("still open")
		}
	})
}

// TestStoreIsAcquiredWhileItCloses waits for the lock of a place instead of failing because of it.
func TestStoreIsAcquiredWhileItCloses(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, _ *observer.ObservedLogs) {
		of := &place{t: t, slow: time.Minute}
		s := acquired(t, p, "a", of)
		released(t, p, s)
		time.Sleep(90 * time.Second) // it closes
		next := acquired(t, p, "a", of)
		if next == s || next.Health() != nil {
			t.Error("a store that closes was acquired")
		}
		p.stopping = func() bool { return true }
		released(t, p, next)
	})
}

// TestNothingFollows closes at once what no request uses when the last configuration stops, and waits for those that
// do.
func TestNothingFollows(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, _ *observer.ObservedLogs) {
		old, of, busy := &place{t: t}, &place{t: t}, &place{t: t}
		released(t, p, acquired(t, p, "old", old))
		used := acquired(t, p, "busy", busy)
		used.beginUse()
		released(t, p, used)
		s := acquired(t, p, "a", of)
		p.stopping = func() bool { return true }
		released(t, p, s)
		if old.locked.Load() || of.locked.Load() || !busy.locked.Load() {
			t.Errorf("open: got the old %v, the last %v and the busy one %v, want only the busy one",
				old.locked.Load(), of.locked.Load(), busy.locked.Load())
		}
		used.endUse()
		synctest.Wait()
		if busy.locked.Load() {
			t.Error("open after the last request")
		}
	})
}

// TestExitDoesNotHang ends the process while a request goes on for ever, and while a store does not close.
func TestExitDoesNotHang(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, _ *observer.ObservedLogs) {
		left, stuck := &place{t: t}, &place{t: t, slow: time.Hour}
		s := acquired(t, p, "left", left)
		s.beginUse()
		released(t, p, s)
		last := acquired(t, p, "stuck", stuck)
		p.stopping, p.exiting = func() bool { return true }, func() bool { return true }
		began := time.Now()
		if err := p.release(last); !errors.Is(err, errCloseTimeout) {
			t.Errorf("releasing a store that does not close: got the error %v, want %v", err, errCloseTimeout)
		}
		p.closeAll()
		if took := time.Since(began); left.locked.Load() || took > 20*time.Second {
			t.Errorf("the store that is used: got open %v after %v, want it closed after at most 20s",
				left.locked.Load(), took)
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestUsesMayRace acquires, uses and releases stores of one place at once: it is never open twice, never closed
// twice, and closed in the end.
func TestUsesMayRace(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, _ *observer.ObservedLogs) {
		p.linger = time.Millisecond
		of := &place{t: t}
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond / 2)
				s := acquired(t, p, "a", of)
				s.beginUse()
				if s.Health() != nil {
					t.Error("a closed store was acquired")
				}
				released(t, p, s)
				time.Sleep(time.Duration(i%7) * time.Millisecond)
				if s.Health() != nil {
					t.Error("closed under a request")
				}
				s.endUse()
			})
		}
		group.Wait()
		time.Sleep(time.Second)
		if of.locked.Load() {
			t.Error("still open")
		}
	})
}

// TestUnavailabilityIsLoggedTwice says when it begins and when it ends, however long it lasts, and tells the metrics.
func TestUnavailabilityIsLoggedTwice(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, lines *observer.ObservedLogs) {
		if _, open := p.health(); open {
			t.Error("a store is up that is not there")
		}
		of := &place{t: t}
		s := acquired(t, p, "a", of)
		time.Sleep(time.Second / 2) // between two looks of the pool
		for _, sick := range []bool{false, true, false} {
			of.sick.Store(sick)
			time.Sleep(time.Minute)
			if up, open := p.health(); up == sick || !open {
				t.Errorf("got up %v, open %v, want up %v, open true", up, open, !sick)
			}
		}
		all := lines.All()
		if len(all) != 2 || all[0].Level != zapcore.ErrorLevel || all[1].ContextMap()["after"] != time.Minute {
			t.Errorf("got the log lines %v, want an error, and after a minute that the store is available again", all)
		}
		p.stopping = func() bool { return true }
		released(t, p, s)
		if _, open := p.health(); open {
			t.Error("a store is up that is closed")
		}
	})
}
