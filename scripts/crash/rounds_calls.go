// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
)

// failure makes a system call fail: from the n-th one on, or only that one.
type failure struct {
	call  string
	errno syscall.Errno
	n     int64
	once  bool

	seen, hits int64
}

func (f *failure) String() string {
	which := fmt.Sprintf("from call %d on", f.n)
	if f.once {
		which = fmt.Sprintf("call %d", f.n)
	}
	return fmt.Sprintf("%s fails with %s, %s", f.call, errnoName(f.errno), which)
}

func errnoName(e syscall.Errno) string {
	switch e {
	case syscall.EIO:
		return "EIO"
	case syscall.ENOSPC:
		return "ENOSPC"
	case syscall.EROFS:
		return "EROFS"
	case syscall.EMFILE:
		return "EMFILE"
	case syscall.ENOMEM:
		return "ENOMEM"
	case syscall.EDQUOT:
		return "EDQUOT"
	}
	return e.Error()
}

// failing are system calls and the errors with which they fail on disks that are broken, full or read-only, and in
// processes at their limits.
var failing = []struct {
	call   string
	errnos []syscall.Errno
}{
	{"fsync", []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT}},
	{"fdatasync", []syscall.Errno{syscall.EIO, syscall.ENOSPC}},
	{"msync", []syscall.Errno{syscall.EIO, syscall.ENOSPC}},
	{"openat", []syscall.Errno{syscall.EMFILE, syscall.EIO, syscall.ENOSPC, syscall.EROFS}},
	{"ftruncate", []syscall.Errno{syscall.ENOSPC, syscall.EIO}},
	{"fallocate", []syscall.Errno{syscall.ENOSPC}},
	{"mmap", []syscall.Errno{syscall.ENOMEM}},
	{"write", []syscall.Errno{syscall.EIO, syscall.ENOSPC}},
	{"pwrite64", []syscall.Errno{syscall.EIO, syscall.ENOSPC}},
	{"pread64", []syscall.Errno{syscall.EIO}},
	{"renameat", []syscall.Errno{syscall.EIO, syscall.EROFS}},
	{"renameat2", []syscall.Errno{syscall.EIO}},
	{"unlinkat", []syscall.Errno{syscall.EIO, syscall.EROFS}},
}

// calls returns the names of the calls that fail.
func calls() (names []string) {
	for _, f := range failing {
		names = append(names, f.call)
	}
	return names
}

// failures are the failures of a round. Each begins with the call that it waits for, one at a time.
type failures struct {
	dir string // of the store: calls for other files do not fail

	mu      sync.Mutex
	waiting []*failure
	active  *failure
	pausing bool // after one, until the server has recovered
}

// decide makes calls fail as the active failure says.
func (f *failures) decide(c faults.Call) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := f.active
	if wanted == nil {
		if f.pausing {
			return 0
		}
		i := slices.IndexFunc(f.waiting, func(w *failure) bool { return w.call == c.Name })
		if i < 0 {
			return 0
		}
		wanted = f.waiting[i]
	}
	if wanted.call != c.Name || c.Name != "msync" && !strings.HasPrefix(c.Path(), f.dir) {
		return 0
	}
	if wanted.seen++; wanted.seen < wanted.n || wanted.once && wanted.seen > wanted.n {
		return 0
	}
	wanted.hits++
	if f.active == nil {
		f.active = wanted
		f.waiting = slices.DeleteFunc(f.waiting, func(w *failure) bool { return w == wanted })
	}
	return wanted.errno
}

// begun returns the active failure, if any, and how many are waiting.
func (f *failures) begun() (*failure, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.active, len(f.waiting)
}

// goOn lets the next failure begin.
func (f *failures) goOn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pausing = false
}

// lift ends the active failure and returns how many calls it hit. The next one does not begin yet.
func (f *failures) lift() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active == nil {
		return 0
	}
	hits := f.active.hits
	f.active, f.pausing = nil, true
	return hits
}

// forget ends all failures.
func (f *failures) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active, f.waiting = nil, nil
}

// randomFailure returns a random failure of one of the first n calls.
func (w *world) randomFailure(n int64) *failure {
	f := failing[w.random.IntN(len(failing))]
	return &failure{call: f.call, errno: f.errnos[w.random.IntN(len(f.errnos))], n: 1 + w.random.Int64N(n),
		once: w.random.IntN(2) == 0}
}

// canSupervise returns why calls cannot be made to fail, or nothing.
func canSupervise() string {
	s, err := faults.New([]string{"fsync"}, func(faults.Call) syscall.Errno { return 0 })
	if err != nil {
		return err.Error()
	}
	if err := s.Try(); err != nil {
		return "system calls cannot be supervised here: " + err.Error()
	}
	return ""
}

// everyCall makes each kind of call fail for a while, one after the other, in a running server.
func everyCall(ctx context.Context, w *world, _ *rig) error {
	var all []*failure
	for _, f := range failing {
		all = append(all, &failure{call: f.call, errno: f.errnos[0], n: 1 + w.random.Int64N(3)})
	}
	return w.fail(ctx, all, 2*time.Second, 200*time.Millisecond)
}

// callFails makes random calls of the store fail.
func callFails(ctx context.Context, w *world, _ *rig) error {
	all := []*failure{w.randomFailure(100), w.randomFailure(20), w.randomFailure(5)}
	return w.fail(ctx, all, 2*time.Second, w.between(100*time.Millisecond, 3*time.Second))
}

// theCallFails returns the round for one call and one error.
func theCallFails(call string, errno syscall.Errno) func(context.Context, *world, *rig) error {
	return func(ctx context.Context, w *world, _ *rig) error {
		return w.fail(ctx, []*failure{{call: call, errno: errno, n: 1}}, 10*time.Second, time.Second)
	}
}

// fail makes calls fail, one failure after the other, each for hold from its first hit on. It waits up to wait for
// calls that are not made, and longer while data is written.
func (w *world) fail(ctx context.Context, all []*failure, wait, hold time.Duration) error {
	f := &failures{dir: w.dir}
	if err := w.supervise(calls(), f.decide); err != nil {
		return err
	}
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	f.mu.Lock()
	f.waiting = slices.Clone(all)
	f.mu.Unlock()
	hit := 0
	// Some calls are made only when a log is full, which takes longer on a slow machine.
	last, bytes := time.Now(), w.bytes.Load()
	for time.Since(last) < wait || w.bytes.Load() < bytes+12<<20 && time.Since(last) < 4*wait {
		if !w.up.Load() || ctx.Err() != nil {
			break
		}
		active, waiting := f.begun()
		if active == nil {
			if waiting == 0 {
				break
			}
			pause(ctx, 5*time.Millisecond)
			continue
		}
		hit++
		pause(ctx, hold)
		w.note("%s: %d", active, f.lift())
		if !w.recovered(ctx, active.String()) {
			w.violate("it went wrong when %s", active)
		}
		if len(w.broken()) > 0 {
			break
		}
		last, bytes = time.Now(), w.bytes.Load()
		f.goOn()
	}
	f.forget()
	if hit == 0 && w.up.Load() {
		w.rest()
		return errSkip("none of these calls was made: " + strings.Join(names(all), ", "))
	}
	return w.conclude(ctx)
}

func names(all []*failure) (names []string) {
	for _, f := range all {
		names = append(names, f.call)
	}
	slices.Sort(names)
	return names
}

// startFails makes calls fail while the server starts after a kill. It may start or not; afterwards everything must
// be there.
func startFails(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	w.kill(true)
	w.rest()
	for range 4 {
		f := w.randomFailure(12)
		all := &failures{dir: w.dir, waiting: []*failure{f}}
		if err := w.supervise(calls(), all.decide); err != nil {
			return err
		}
		err := w.start(ctx)
		w.note("%s: %d, started %t", f, all.lift(), err == nil)
		if err != nil && strings.Contains(err.Error(), "\ngoroutine ") {
			w.violate("it panics at the start when %s: %s", f, lastError(err.Error()))
		}
		if err == nil {
			pause(ctx, 100*time.Millisecond)
		}
		w.kill(true)
	}
	return w.compare(ctx)
}
