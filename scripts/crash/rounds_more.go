// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
)

// manifestSync makes one sync of the file that names the tables fail. Badger tries it again by itself.
func manifestSync(ctx context.Context, w *world, _ *rig) error {
	var armed, hit atomic.Bool
	if err := w.supervise([]string{"fsync"}, func(c faults.Call) syscall.Errno {
		if armed.Load() && strings.HasSuffix(c.Path(), "/MANIFEST") && strings.HasPrefix(c.Path(), w.dir) &&
			armed.CompareAndSwap(true, false) {
			hit.Store(true)
			return syscall.EIO
		}
		return 0
	}); err != nil {
		return err
	}
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	armed.Store(true)
	for deadline := time.Now().Add(timeout); !hit.Load() && w.up.Load() && time.Now().Before(deadline); {
		pause(ctx, 5*time.Millisecond)
	}
	if !hit.Load() {
		return errSkip("the file was not synced in time")
	}
	pause(ctx, w.between(0, 3*time.Second))
	w.recovered(ctx, "a sync failed once")
	return w.conclude(ctx)
}

// slowSync makes every sync of the store's files take long for a while. Counts are then not acknowledged beyond the
// second that the loss of power may take. Reads go on.
func slowSync(ctx context.Context, w *world, _ *rig) error {
	const long = 12 * time.Second
	var until atomic.Int64
	if err := w.supervise([]string{"fsync", "fdatasync"}, func(c faults.Call) syscall.Errno {
		if strings.HasPrefix(c.Path(), w.dir) {
			time.Sleep(time.Until(time.Unix(0, until.Load())))
		}
		return 0
	}); err != nil {
		return err
	}
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	until.Store(time.Now().Add(long).UnixNano())
	pause(ctx, 3*time.Second)
	before := w.ledger.of(apiAccount).Requests.Low + w.ledger.of(enforcedAccount).Requests.Low
	for time.Now().UnixNano() < until.Load()-int64(time.Second) && ctx.Err() == nil {
		status, answer, err := w.do("GET", "http://"+w.admin+"/moderation/usage/api", "", "", nil)
		if err != nil || status != 200 {
			w.violate("a sync takes long: usage: %s", brief(status, answer, err))
		}
		pause(ctx, time.Second)
	}
	if n := w.ledger.of(apiAccount).Requests.Low + w.ledger.of(enforcedAccount).Requests.Low - before; n > 0 {
		w.violate("%d requests were acknowledged although nothing was synced for seconds", n)
	}
	pause(ctx, 2*time.Second)
	w.recovered(ctx, "syncs took long")
	return w.conclude(ctx)
}

// frozenDisk freezes the file system for a while, like a disk that does not answer.
func frozenDisk(d time.Duration) func(ctx context.Context, w *world, _ *rig) error {
	return func(ctx context.Context, w *world, _ *rig) error {
		v, err := w.imageVolume(room)
		if err != nil {
			return err
		}
		if err := w.begin(ctx, writers); err != nil {
			return err
		}
		if err := program("fsfreeze", "-f", v.at); err != nil {
			return err
		}
		thaw := sync.OnceFunc(func() { _ = program("fsfreeze", "-u", v.at) })
		w.atEnd(thaw)
		pause(ctx, 3*time.Second)
		before := w.ledger.of(apiAccount).Requests.Low + w.ledger.of(enforcedAccount).Requests.Low
		for deadline := time.Now().Add(d - 3*time.Second); time.Now().Before(deadline) && ctx.Err() == nil; {
			pause(ctx, time.Second)
		}
		if n := w.ledger.of(apiAccount).Requests.Low + w.ledger.of(enforcedAccount).Requests.Low - before; n > 0 {
			w.violate("%d requests were acknowledged although nothing could be written", n)
		}
		thaw()
		w.recovered(ctx, "the disk stood still")
		return w.conclude(ctx)
	}
}

// stoppedStore stops the store's process for longer than the server waits for it.
func stoppedStore(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	child := w.child()
	_ = unix.Kill(child, unix.SIGSTOP)
	pause(ctx, w.between(5*time.Second, 25*time.Second))
	_ = unix.Kill(child, unix.SIGCONT)
	w.recovered(ctx, "the store's process stood still")
	return w.conclude(ctx)
}

// fileSize keeps files of the store's process from growing, as RLIMIT_FSIZE and disk quotas do.
func fileSize(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	if err := unix.Prlimit(w.child(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: unix.RLIM_INFINITY},
		nil); err != nil {
		return err
	}
	w.rotate(ctx)
	pause(ctx, 2*time.Second)
	w.recovered(ctx, "files could not grow")
	return w.conclude(ctx)
}

// noInodes uses up the inodes of the file system.
func noInodes(ctx context.Context, w *world, _ *rig) error {
	v, err := w.memoryVolume(room)
	if err != nil {
		return err
	}
	if err := unix.Mount("", v.at, "", unix.MS_REMOUNT, "nr_inodes=64"); err != nil {
		return err
	}
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	var names []string
	for i := range 64 {
		name := filepath.Join(v.at, fmt.Sprint("inode-", i))
		if os.WriteFile(name, nil, 0o600) != nil {
			break
		}
		names = append(names, name)
	}
	w.alarmed(ctx, "no inodes are left")
	pause(ctx, time.Second)
	for _, name := range names {
		_ = os.Remove(name)
	}
	w.recovered(ctx, "no inodes were left")
	return w.conclude(ctx)
}

// fileRemoved removes a file of the store while it runs. The store checks every few seconds; from then on nothing is
// acknowledged, and the next start names the missing file.
func fileRemoved(pattern string) func(ctx context.Context, w *world, _ *rig) error {
	return func(ctx context.Context, w *world, _ *rig) error {
		if err := w.begin(ctx, writers); err != nil {
			return err
		}
		var files []string
		for deadline := time.Now().Add(timeout); len(files) == 0 &&
			time.Now().Before(deadline); pause(ctx, 10*time.Millisecond) {
			if tables, _ := filepath.Glob(filepath.Join(w.dir, "*.sst")); len(tables) > 1 {
				files, _ = filepath.Glob(filepath.Join(w.dir, pattern))
			}
		}
		if len(files) == 0 {
			return errSkip("the store has no file " + pattern)
		}
		// A compaction may have removed it already.
		_ = os.Remove(files[len(files)-1])
		w.alarmed(ctx, "a file is removed")
		before := w.ledger.of(apiAccount).Requests.Low + w.ledger.of(enforcedAccount).Requests.Low
		pause(ctx, time.Second)
		if n := w.ledger.of(apiAccount).Requests.Low + w.ledger.of(enforcedAccount).Requests.Low - before; n > 0 {
			w.violate("%d requests were acknowledged although a file is gone", n)
		}
		w.rest()
		w.noteExcused()
		w.kill(true)
		name := filepath.Base(files[len(files)-1])
		if err := w.start(ctx); err == nil || !strings.Contains(err.Error(), name) {
			w.violate("it starts without %s, or does not name it: %v", name, err)
		}
		return nil
	}
}
