// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// processesOf returns the processes that keep the database in dir.
func processesOf(dir string) (ids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		line, err := os.ReadFile(path)
		args := bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0})
		if err != nil || len(args) != 2 || string(args[1]) != dir {
			continue
		}
		if id, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func openFiles() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files)
}

// TestStormOfKills runs many concurrent callers of all kinds, while the process of the database is killed again and
// again. In the end what was acknowledged must be there, what was refused must not, and nothing may be left behind. It
// must not run in parallel with others: it counts goroutines and descriptors.
func TestStormOfKills(t *testing.T) {
	kills := 8
	if n, err := strconv.Atoi(os.Getenv("CRASH_ROUNDS")); err == nil {
		kills = n
	}
	goroutines, files := runtime.NumGoroutine(), openFiles()
	for _, recoveryWait := range []time.Duration{0, 5 * time.Second} {
		stormOfKills(t, kills, recoveryWait)
	}
	for i := 0; runtime.NumGoroutine() > goroutines || openFiles() > files; i++ {
		if i == 10_000 {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines and %d descriptors are left\n%s", runtime.NumGoroutine()-goroutines,
				openFiles()-files, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

// ledger holds what callers were told.
type ledger struct {
	mu      sync.Mutex
	counts  map[string]int64 // acknowledged calls by account
	refused map[string]int64
	there   map[string]bool // by name, whether it must be there
	updates int
}

func (l *ledger) note(t *testing.T, name string, there bool, err error) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.there[name] = there
	case !errors.Is(err, storage.ErrUnavailable):
		t.Errorf("%s: got the error %v, want none or %v", name, err, storage.ErrUnavailable)
	default:
		if _, ok := l.there[name]; !ok {
			l.there[name] = !there
		}
	}
}

func stormOfKills(t *testing.T, kills int, recoveryWait time.Duration) {
	ctx := context.Background()
	dir := t.TempDir()
	p := defaultTiming()
	p.recoveryWait, p.maxBackoff = recoveryWait, 20*time.Millisecond
	o := Options{Dir: dir, timing: p}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	accounts := []string{"a", "b", "c"}
	for _, id := range accounts {
		if err := s.CreateAccount(ctx, quota.Account{ID: id, Incarnation: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	l := &ledger{counts: make(map[string]int64), refused: make(map[string]int64), there: make(map[string]bool)}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	work := func(do func(id string)) {
		worker := rand.Uint32()
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				do(fmt.Sprintf("%d-%d", worker, i))
				if s.Health() != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for i := range 6 {
		work(func(string) {
			c := faultCharge(accounts[i%len(accounts)], 1)
			c.Limits, c.Incarnation = quota.Limits{}, "1"
			_, _, err := s.Take(ctx, c)
			if err == nil {
				err = s.Settle(ctx, c, quota.Outcome{Flagged: []string{"hate"}})
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			switch {
			case err == nil:
				l.counts[c.Account]++
			case errors.Is(err, storage.ErrUnavailable):
				l.refused[c.Account]++
			default:
				t.Errorf("counting: %v", err)
			}
			time.Sleep(100 * time.Microsecond)
		})
	}
	for range 2 {
		work(func(id string) {
			r := feedback.Record{ID: id, Time: faultTime, Account: "a", Text: strings.Repeat("x", rand.IntN(5000))}
			l.note(t, "feedback "+id, true, s.AppendFeedback(ctx, r, feedback.Bound{}))
		})
		work(func(id string) {
			k := quota.Key{ID: id, Account: "b", Hash: quota.HashKey(id), Created: faultTime}
			l.note(t, "key "+id, true, s.CreateKey(ctx, k))
		})
		work(func(string) {
			_, err := s.UpdateAccount(ctx, "c", func(a *quota.Account) error { a.AnchorDay++; return nil })
			l.mu.Lock()
			defer l.mu.Unlock()
			if err == nil {
				l.updates++
			} else if !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("updating: %v", err)
			}
		})
		work(func(id string) {
			err := s.CreateAccount(ctx, quota.Account{ID: id})
			l.note(t, "account "+id, true, err)
			if err == nil {
				l.note(t, "account "+id, false, s.DeleteAccount(ctx, id))
			}
		})
	}
	work(func(string) {
		if err := s.Backup(ctx, io.Discard); err != nil && !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("backup: %v", err)
		}
		if _, err := contentOf(s); err != nil && !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("export: %v", err)
		}
	})
	for range kills {
		time.Sleep(time.Duration(20+rand.IntN(100)) * time.Millisecond)
		for _, id := range processesOf(dir) {
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
		if rand.IntN(3) > 0 {
			if err := healthy(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	if err := healthy(s); err != nil {
		t.Fatal(err)
	}
	l.compare(t, "in memory", s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := processesOf(dir); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if s, err = Open(o); err != nil {
		t.Fatal(err)
	}
	l.compare(t, "after reopening", s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("recovery wait %v: %v calls acknowledged, %v refused; %d updates; %d other changes", recoveryWait, l.counts,
		l.refused, l.updates, len(l.there))
}

// compare checks everything that callers were told.
func (l *ledger) compare(t *testing.T, when string, s *Store) {
	t.Helper()
	ctx := context.Background()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make(map[string]int)
	accounts, err := all(s.Accounts(ctx))
	keys, keysErr := all(s.Keys(ctx, ""))
	given, feedbackErr := all(s.Feedback(ctx, ""))
	if err := errors.Join(err, keysErr, feedbackErr); err != nil {
		t.Fatalf("%s: reading: %v", when, err)
	}
	for _, a := range accounts {
		found["account "+a.ID]++
	}
	for _, k := range keys {
		found["key "+k.ID]++
	}
	for _, r := range given {
		found["feedback "+r.ID]++
	}
	for name, there := range l.there {
		if n := found[name]; n > 1 || (n == 1) != there {
			t.Errorf("%s: %s is there %d times, want it there: %v", when, name, n, there)
		}
	}
	if a, err := s.Account(ctx, "c"); err != nil || a.AnchorDay != l.updates {
		t.Errorf("%s: %d updates are there, %v; %d were acknowledged", when, a.AnchorDay, err, l.updates)
	}
	for account, n := range l.counts {
		period := faultCharge(account, 1).Period
		got, err := s.Counts(ctx, account, faultTime, period)
		flagged, flaggedErr := s.Flagged(ctx, account, period)
		if err := errors.Join(err, flaggedErr); err != nil {
			t.Fatalf("%s: reading: %v", when, err)
		}
		// A refused call is rolled back, except in its minute, unless the database fails at that moment, too.
		most := n + l.refused[account]
		for what, count := range map[string]int64{"minute": got.Minute, "day": got.Day, "period": got.Period,
			"flagged": flagged["hate"]} {
			if count < n || count > most {
				t.Errorf("%s: %s of account %s is %d, want %d to %d", when, what, account, count, n, most)
			}
		}
	}
}
