// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
)

// failure is a call that fails: from the n-th one on, or only that one.
type failure struct {
	call  string
	errno syscall.Errno
	n     int64
	once  bool

	seen, hits atomic.Int64
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

// failing are the calls that fail, and how they do on disks that are broken, full or read-only and in processes that are at
// their limits.
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

// calls are the names of the calls that fail.
func calls() (names []string) {
	for _, f := range failing {
		names = append(names, f.call)
	}
	return names
}

// decider fails calls that are about the store's directory as the present failure says.
func (w *world) decider(present *atomic.Pointer[failure]) faults.Decide {
	return func(c faults.Call) syscall.Errno {
		f := present.Load()
		if f == nil || c.Name != f.call {
			return 0
		}
		if path := c.Path(); c.Name != "msync" && !strings.HasPrefix(path, w.dir) {
			return 0
		}
		if n := f.seen.Add(1); n < f.n || f.once && n > f.n {
			return 0
		}
		f.hits.Add(1)
		return f.errno
	}
}

// randomFailure is one of all, at one of the first n calls.
func (w *world) randomFailure(n int64) *failure {
	f := failing[w.random.IntN(len(failing))]
	return &failure{call: f.call, errno: f.errnos[w.random.IntN(len(f.errnos))], n: 1 + w.random.Int64N(n), once: w.random.IntN(2) == 0}
}

// canSupervise says why calls cannot be made to fail.
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

// everyCall makes each call fail for a while, one after the other, of a server that goes on.
func everyCall(ctx context.Context, w *world, _ *rig) error {
	var all []*failure
	for _, f := range failing {
		all = append(all, &failure{call: f.call, errno: f.errnos[0], n: 1 + w.random.Int64N(3)})
	}
	w.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return w.failures(ctx, all, 300*time.Millisecond, 200*time.Millisecond)
}

// callFails makes a call fail, of those that are about the store.
func callFails(ctx context.Context, w *world, _ *rig) error {
	all := []*failure{w.randomFailure(100), w.randomFailure(20), w.randomFailure(5)}
	return w.failures(ctx, all, 2*time.Second, w.between(100*time.Millisecond, 3*time.Second))
}

// theCallFails is the round of one call and one error.
func theCallFails(call string, errno syscall.Errno) func(context.Context, *world, *rig) error {
	return func(ctx context.Context, w *world, _ *rig) error {
		return w.failures(ctx, []*failure{{call: call, errno: errno, n: 1}}, 10*time.Second, time.Second)
	}
}

// failures makes calls fail, one kind after the other, each for a while from its first failure on; a call that is not made is
// waited for.
func (w *world) failures(ctx context.Context, all []*failure, wait, hold time.Duration) error {
	var present atomic.Pointer[failure]
	if err := w.supervise(calls(), w.decider(&present)); err != nil {
		return err
	}
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	hit := 0
	for _, f := range all {
		if !w.up.Load() {
			break
		}
		present.Store(f)
		// Some calls are seldom made.
		for given := time.Now(); f.hits.Load() == 0 && time.Since(given) < wait && w.up.Load() && ctx.Err() == nil; {
			pause(ctx, 10*time.Millisecond)
		}
		if f.hits.Load() > 0 {
			hit++
			pause(ctx, hold)
		}
		present.Store(nil)
		w.note("%s %s: %d", f.call, errnoName(f.errno), f.hits.Load())
		if !w.recovered(ctx, f.String()) {
			w.violate("it went wrong when %s", f)
			break
		}
	}
	present.Store(nil)
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

// startFails makes calls fail while the server starts on what a kill has left. It may start or not; afterwards
// everything is there.
func startFails(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	w.kill(true)
	w.rest()
	for range 4 {
		f := w.randomFailure(12)
		var present atomic.Pointer[failure]
		present.Store(f)
		if err := w.supervise(calls(), w.decider(&present)); err != nil {
			return err
		}
		err := w.start(ctx)
		w.note("%s: %d, started %t", f, f.hits.Load(), err == nil)
		if err != nil && strings.Contains(err.Error(), "\ngoroutine ") {
			w.violate("it panics at the start when %s: %s", f, lastWords(err.Error()))
		}
		if err == nil {
			pause(ctx, 100*time.Millisecond)
		}
		w.kill(true)
	}
	return w.compare(ctx)
}
