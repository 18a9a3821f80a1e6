// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// hooks are functions that are called around calls of a database. An error of a hook is the result of the call.
type hooks struct {
	open                     func() error
	gotten, writing, syncing func() error
	written                  func(entries []disk.Entry)
	checking                 func()
	gone                     <-chan struct{}
}

// hooked is a database with hooks.
type hooked struct {
	database
	h *hooks
}

func call(hook func() error) error {
	if hook == nil {
		return nil
	}
	return hook()
}

func (d hooked) Get(keys ...[]byte) ([]disk.Record, error) {
	records, err := d.database.Get(keys...)
	return records, errors.Join(err, call(d.h.gotten))
}

func (d hooked) Write(entries []disk.Entry) error {
	if err := call(d.h.writing); err != nil {
		return err
	}
	err := d.database.Write(entries)
	if d.h.written != nil {
		d.h.written(entries)
	}
	return err
}

func (d hooked) Sync() error {
	if err := call(d.h.syncing); err != nil {
		return err
	}
	return d.database.Sync()
}

func (d hooked) Check() error {
	if d.h.checking != nil {
		d.h.checking()
	}
	return d.database.Check()
}

func (d hooked) Released() <-chan struct{} {
	if d.h.gone != nil {
		return d.h.gone
	}
	return d.database.Released()
}

// openHooked opens a store on a platter. Calls do not wait for a failed database.
func openHooked(t *testing.T, pl *platter, h *hooks, change func(*Options)) *Store {
	t.Helper()
	o := Options{Dir: "/nowhere", timing: faultTiming("", 0),
		open: func(ctx context.Context, o disk.Options) (database, error) {
			if err := call(h.open); err != nil {
				return nil, err
			}
			db, err := pl.opener(ctx, o)
			if err != nil {
				return nil, err
			}
			return hooked{db, h}, nil
		}}
	if change != nil {
		change(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// down makes the database fail.
func down(s *Store) {
	s.supervisor.mu.Lock()
	db := s.supervisor.db
	s.supervisor.mu.Unlock()
	s.supervisor.fail(db, errFault)
}

// TestReplayIsShort checks what is replayed into a reopened database: only the last change of each record, because a
// process that is killed meanwhile leaves what was written until then, and in parts that fit into a call.
func TestReplayIsShort(t *testing.T) {
	t.Parallel()
	var replaying atomic.Bool
	var mu sync.Mutex
	times := make(map[string]int)
	h := &hooks{}
	h.written = func(entries []disk.Entry) {
		if !replaying.Load() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		size := 0
		for _, e := range entries {
			size += len(e.Value)
			times[string(e.Key)]++
		}
		if size > 2<<20 {
			t.Errorf("%d bytes are written at once", size)
		}
	}
	s := openHooked(t, newPlatter(plan{lose: "all"}, 1), h, nil)
	for i := range 3 {
		for j := range 50 {
			entries := []disk.Entry{{Key: fmt.Appendf(nil, "m/%d", j), Value: make([]byte, 64<<10+i)}}
			if _, _, err := s.supervisor.write(entries); err != nil {
				t.Fatal(err)
			}
		}
	}
	replaying.Store(true)
	down(s)
	if err := healthy(s); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(times) != 50 {
		t.Errorf("%d records are written again, want 50", len(times))
	}
	for key, n := range times {
		if n != 1 {
			t.Errorf("%s is written %d times", key, n)
		}
	}
}

// TestCacheKeepsNothingThatWasTakenBack reads an account with a change that is refused later, and caches it after the
// database is back and the caches were emptied.
func TestCacheKeepsNothingThatWasTakenBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var slow atomic.Bool
	synced, refused, read, fill := make(chan error), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var opened, armed atomic.Bool
	h := &hooks{}
	h.open = func() error {
		if opened.Swap(true) {
			<-refused
		}
		return nil
	}
	h.syncing = func() error {
		if armed.CompareAndSwap(true, false) {
			return <-synced
		}
		return nil
	}
	h.gotten = func() error {
		if slow.CompareAndSwap(true, false) {
			close(read)
			<-fill
		}
		return nil
	}
	s := openHooked(t, newPlatter(plan{lose: "nothing"}, 1), h, nil)
	if err := s.CreateAccount(ctx, quota.Account{ID: "a", Name: "old"}); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	updated := make(chan error)
	go func() {
		_, err := s.UpdateAccount(ctx, "a", func(a *quota.Account) error { a.Name = "new"; return nil })
		updated <- err
	}()
	for armed.Load() { // until its sync is under way
		time.Sleep(time.Millisecond)
	}
	slow.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = s.Account(ctx, "a") })
	<-read
	synced <- errFault
	if err := <-updated; !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("the update is not refused: %v", err)
	}
	close(refused)
	if err := healthy(s); err != nil {
		t.Fatal(err)
	}
	close(fill)
	wg.Wait()
	a, err := s.Account(ctx, "a")
	if err != nil || a.Name != "old" {
		t.Errorf("the account is %q, %v; want it as it was before the refused change", a.Name, err)
	}
}

// TestCloseWaitsForChanges closes a store while a change is under way: it must be made and synced, or refused.
func TestCloseWaitsForChanges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, change := range map[string]func(*Store) error{
		"account": func(s *Store) error { return s.CreateAccount(ctx, quota.Account{ID: "a"}) },
		"feedback": func(s *Store) error {
			return s.AppendFeedback(ctx, feedback.Record{ID: "a", Time: faultTime}, feedback.Bound{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writing, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			h := &hooks{written: func([]disk.Entry) { once.Do(func() { close(writing); <-goOn }) }}
			pl := newPlatter(plan{}, 1)
			s := openHooked(t, pl, h, nil)
			changed, closed := make(chan error, 1), make(chan error, 1)
			go func() { changed <- change(s) }()
			<-writing
			go func() { closed <- s.Close() }()
			for stopped := false; !stopped; time.Sleep(time.Millisecond) {
				s.counters.mu.Lock()
				stopped = s.counters.stopped
				s.counters.mu.Unlock()
			}
			time.Sleep(20 * time.Millisecond) // the syncer would have been stopped by now
			close(goOn)
			if err := errors.Join(<-changed, <-closed); err != nil {
				t.Fatal(err)
			}
			if len(pl.durable) == 0 {
				t.Error("nothing was synced")
			}
			if err := change(s); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// TestSyncedChangeDoesNotWaitForTheDatabase makes a change that a sync under way covers, and that waits for the next
// one, which fails. The change is kept; the caller must not be told so when the database has been gone for long.
func TestSyncedChangeDoesNotWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	writing, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var syncs atomic.Int64
	h := &hooks{
		written: func([]disk.Entry) { once.Do(func() { close(writing); <-goOn }) },
		syncing: func() error {
			if syncs.Add(1) == 2 {
				return errFault
			}
			return nil
		},
	}
	var opened, back atomic.Bool
	h.open = func() error {
		if opened.Swap(true) && !back.Load() {
			return errFault
		}
		return nil
	}
	s := openHooked(t, newPlatter(plan{}, 1), h, func(o *Options) { o.timing.recoveryWait = time.Minute })
	t.Cleanup(func() { back.Store(true) }) // closing does not wait for the database
	// A round that has begun and waits for the write to end.
	appended := make(chan error, 1)
	go func() {
		appended <- s.AppendFeedback(ctx, feedback.Record{ID: "a", Time: faultTime}, feedback.Bound{})
	}()
	<-writing
	r := s.syncer.join()
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		s.syncer.mu.Lock()
		begun = s.syncer.next != r
		s.syncer.mu.Unlock()
	}
	close(goOn)
	select {
	case err := <-appended:
		if err != nil {
			t.Errorf("a change that was synced is refused: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a change that was synced waits for a database that is gone")
	}
	if n := syncs.Load(); n != 2 {
		t.Errorf("%d syncs, want the one that covers the change and the one that fails", n)
	}
}

// TestDeletionIsWhole deletes an account with many records while writes fail. After a refused deletion everything must
// be there, after an acknowledged one nothing.
func TestDeletionIsWhole(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, lose := range []string{"nothing", "all", "some"} {
		for succeed := range 3 {
			pl := newPlatter(plan{lose: lose}, 1)
			var left atomic.Int64
			left.Store(1 << 30)
			h := &hooks{writing: func() error {
				if n := left.Add(-1); n < 0 && n > -5 {
					return errFault
				}
				return nil
			}}
			s := openHooked(t, pl, h, func(o *Options) { o.timing.recoveryWait = time.Minute })
			if err := s.CreateAccount(ctx, quota.Account{ID: "a"}); err != nil {
				t.Fatal(err)
			}
			const keys = 400
			for i := range keys {
				id := fmt.Sprintf("key_%d", i)
				if err := s.CreateKey(ctx,
					quota.Key{ID: id, Account: "a", Hash: quota.HashKey(id), Created: faultTime}); err != nil {
					t.Fatal(err)
				}
			}
			left.Store(int64(succeed))
			deleteErr := s.DeleteAccount(ctx, "a")
			if err := healthy(s); err != nil {
				t.Fatal(err)
			}
			found, err := all(s.Keys(ctx, "a"))
			_, accountErr := s.Account(ctx, "a")
			want := keys
			if deleteErr == nil {
				want = 0
			}
			if err != nil || len(found) != want || (accountErr == nil) != (deleteErr != nil) {
				t.Errorf("lost %s, after %d writes: deleting returned %v; then %d of %d keys are there (%v), account: %v",
					lose, succeed, deleteErr, len(found), keys, err, accountErr)
			}
		}
	}
}

// TestRefusedDeletionTakesNoCounts deletes an account with a call that is counted and not committed yet. The sync
// fails: the account must be there again, and the call with it.
func TestRefusedDeletionTakesNoCounts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var fails atomic.Bool
	refused := make(chan struct{})
	h := &hooks{}
	h.open = func() error {
		if fails.Load() {
			<-refused
		}
		return nil
	}
	h.syncing = func() error {
		if fails.Load() {
			return errFault
		}
		return nil
	}
	s := openHooked(t, newPlatter(plan{lose: "nothing"}, 1), h, nil)
	if err := s.CreateAccount(ctx, quota.Account{ID: "a", Incarnation: "1"}); err != nil {
		t.Fatal(err)
	}
	c := faultCharge("a", 1)
	c.Incarnation = "1"
	if _, _, err := s.Take(ctx, c); err != nil {
		t.Fatal(err)
	}
	fails.Store(true)
	if err := s.DeleteAccount(ctx, "a"); !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("the deletion is not refused: %v", err)
	}
	fails.Store(false)
	close(refused)
	if err := errors.Join(healthy(s), s.Settle(ctx, c, quota.Outcome{})); err != nil {
		t.Fatal(err)
	}
	got, err := s.Counts(ctx, "a", faultTime, c.Period)
	if want := (quota.Counts{Minute: 1, Day: 1, Period: 1}); err != nil || got != want {
		t.Errorf("counts are %+v, %v; want %+v", got, err, want)
	}
}

// TestReopeningWaitsForTheOldProcess keeps the directory locked until the killed process has ended. That must not be
// logged.
func TestReopeningWaitsForTheOldProcess(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	gone := make(chan struct{})
	var opened atomic.Bool
	h := &hooks{gone: gone}
	h.open = func() error {
		select {
		case <-gone:
		default:
			if opened.Swap(true) {
				return disk.ErrLocked
			}
		}
		return nil
	}
	s := openHooked(t, newPlatter(plan{}, 1), h,
		func(o *Options) { o.timing.releaseWait, o.Logger = time.Minute, zap.New(core) })
	down(s)
	time.Sleep(10 * time.Millisecond)
	close(gone)
	if err := healthy(s); err != nil {
		t.Fatal(err)
	}
	if n := logs.FilterMessageSnippet("cannot be opened again").Len(); n > 0 {
		t.Errorf("%d times it is logged that the database cannot be opened again", n)
	}
}

// TestProcessThatDoesNotEndIsNamed lets the killed process keep the directory, like one whose disk hangs. The store
// must say so, not blame another server, and close.
func TestProcessThatDoesNotEndIsNamed(t *testing.T) {
	t.Parallel()
	var opened atomic.Bool
	h := &hooks{gone: make(chan struct{})}
	h.open = func() error {
		if opened.Swap(true) {
			return fmt.Errorf("%w: is another Caddy using it?", disk.ErrLocked)
		}
		return nil
	}
	s := openHooked(t, newPlatter(plan{}, 1), h, nil)
	down(s)
	for range 10_000 {
		if strings.Contains(s.Health().Error(), "does not end") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.Health(); !strings.Contains(err.Error(), "does not end") ||
		strings.Contains(err.Error(), "another Caddy") {
		t.Errorf("health is %v", err)
	}
	if err := s.Close(); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("closing: %v", err)
	}
}

// TestSlowSyncIsNoFailure lets a sync take longer than the timeout of a call, during a check, which waits for the sync.
func TestSlowSyncIsNoFailure(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var syncing sync.Mutex
	var opened atomic.Int64
	var waited atomic.Int64
	h := &hooks{open: func() error { opened.Add(1); return nil }}
	h.checking = func() {
		begin := time.Now()
		syncing.Lock()
		defer syncing.Unlock()
		waited.Store(max(waited.Load(), int64(time.Since(begin))))
	}
	const call = 50 * time.Millisecond
	h.syncing = func() error {
		syncing.Lock()
		defer syncing.Unlock()
		time.Sleep(3 * call)
		return nil
	}
	s := openHooked(t, newPlatter(plan{}, 1), h, func(o *Options) { o.timing.call, o.timing.sync = call, time.Minute })
	for i := 0; i < 100 && waited.Load() < int64(2*call); i++ {
		if _, _, err := s.supervisor.write([]disk.Entry{{Key: []byte("m/1"), Value: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		if err := s.syncer.join().wait(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CreateAccount(ctx, quota.Account{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n != 1 || waited.Load() < int64(2*call) {
		t.Errorf("the database was opened %d times; a check waited %v", n, time.Duration(waited.Load()))
	}
}

// TestFullDiskIsSaidOnce lets writes be refused for a while. Each change of the state must be logged once.
func TestFullDiskIsSaidOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	core, logs := observer.New(zap.InfoLevel)
	var full atomic.Bool
	var refused atomic.Int64
	h := &hooks{writing: func() error {
		if full.Load() {
			refused.Add(1)
			return disk.ErrFull
		}
		return nil
	}}
	s := openHooked(t, newPlatter(plan{}, 1), h, func(o *Options) { o.Logger = zap.New(core) })
	for range 2 {
		full.Store(true)
		c := faultCharge("a", 1)
		if _, _, err := s.Take(ctx, c); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(ctx, c, quota.Outcome{}); !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("settled on a full disk: %v", err)
		}
		if err := s.Health(); !errors.Is(err, disk.ErrFull) || !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("health is %v", err)
		}
		for before := refused.Load(); refused.Load() < before+5; time.Sleep(time.Millisecond) {
		}
		full.Store(false)
		if err := healthy(s); err != nil {
			t.Fatal(err)
		}
	}
	for message, want := range map[string]int{"nothing can be written": 2, "everything is written again": 2, "": 4} {
		if n := logs.FilterMessageSnippet(message).Len(); n != want {
			t.Errorf("%q is logged %d times, want %d", message, n, want)
		}
	}
}
