// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
)

// Databases that the last version with schema 1 has written, and what it answered from them.
const (
	oldDatabases = "storage/badger/internal/schema1/databases.tar.gz"
	oldAnswers   = "storage/badger/internal/schema1/golden.json.gz"
)

// upgrade starts the server on the database of an older version, and kills it while it upgrades.
func upgrade(ctx context.Context, w *world, _ *rig) error {
	which := []string{"closed", "killed"}[w.random.IntN(2)]
	w.note("a database that was %s", which)
	if err := program("tar", "-xzf", oldDatabases, "-C", w.folder, which); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(w.folder, which), w.dir); err != nil {
		return err
	}
	var was struct {
		Listed, Keys []string
		Feedback     []struct{ ID string }
	}
	if err := readOld(oldAnswers, &was); err != nil {
		return err
	}
	for range 4 {
		if err := w.launch(ctx); err != nil {
			return err
		}
		pause(ctx, w.between(0, 600*time.Millisecond))
		w.kill(true)
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	s, err := w.fetch(ctx)
	if err != nil {
		return err
	}
	for what, reason := range s.errs {
		w.violate("%s cannot be told after the upgrade: %s", what, reason)
	}
	for _, id := range was.Listed {
		if _, ok := s.accounts[id]; !ok {
			w.violate("an account is missing after the upgrade")
		}
	}
	for _, id := range was.Keys {
		if _, ok := s.keys[id]; !ok {
			w.violate("a key is missing after the upgrade")
		}
	}
	if len(s.feedback) != len(was.Feedback) {
		w.violate("%d records of feedback are there after the upgrade, and %d were", len(s.feedback), len(was.Feedback))
	}
	if err := w.stop(); err != nil {
		w.violate("%v", err)
	}
	return w.checkWhole(ctx, w.dir)
}

// readOld reads a gzipped JSON file.
func readOld(name string, into any) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// checkWhole wants the check command to find nothing wrong with a directory.
func (w *world) checkWhole(ctx context.Context, dir string) error {
	if out, err := w.command(ctx, "check", dir); err != nil || !strings.Contains(out, "The database is whole.") {
		w.violate("the directory is not found to be whole: %v", err)
	}
	return nil
}

// salvage damages a table, saves what can be read, and starts on that: it must hold nothing that was never sent.
func salvage(ctx context.Context, w *world, r *rig) error {
	b, err := r.damageable(ctx)
	if err != nil {
		return err
	}
	w.secret, w.ledger = b.world.secret, b.world.ledger.clone()
	if err := copyFolder(b.clean, w.dir); err != nil {
		return err
	}
	tables, err := filepath.Glob(filepath.Join(w.dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		return errSkip("the store has no table")
	}
	file := tables[w.random.IntN(len(tables))]
	d := damages[w.random.IntN(4)]
	if done, err := d.do(w, file, ""); err != nil || !done {
		return errSkip("nothing could be damaged")
	}
	w.note("%s in %s", d.name, filepath.Base(file))
	backup, dir := filepath.Join(w.folder, "rest.backup"), filepath.Join(w.folder, "rest")
	if _, err := w.command(ctx, "check", w.dir, "--save", backup); err == nil ||
		!strings.Contains(err.Error(), filepath.Base(file)) {
		w.violate("damage is saved from without a word about the file: %v", err)
	}
	if _, err := w.command(ctx, "restore", backup, "--dir", dir); err != nil {
		w.violate("what was saved cannot be restored: %v", err)
		return nil
	}
	if err := w.checkWhole(ctx, dir); err != nil {
		return err
	}
	w.dir = dir
	if err := w.start(ctx); err != nil {
		w.violate("the server does not start on what was saved: %s", lastError(err.Error()))
		return nil
	}
	s, err := w.fetch(ctx)
	if err != nil {
		return err
	}
	for what, reason := range s.errs {
		w.violate("%s cannot be told of what was saved: %s", what, reason)
	}
	all := w.ledger.clone()
	lost := 0
	for _, d := range differences(newLedger(), all, s) {
		if !strings.Contains(d, "no usage") {
			w.violate("%s", d)
		}
	}
	for _, f := range all.feedback {
		if f.Acked {
			lost++
		}
	}
	w.note("%d of %d records of feedback are left", len(s.feedback), lost)
	return nil
}

// twoServers starts a second server on the directory. It must be refused, and the first must not notice.
func twoServers(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	second, err := newWorld("second", w.caddy, w.random.Uint64())
	if err != nil {
		return err
	}
	defer func() {
		second.close()
		_ = os.RemoveAll(second.folder)
	}()
	second.dir = w.dir
	if err := second.start(ctx); err == nil {
		w.violate("a second server starts on the directory")
	} else if !strings.Contains(err.Error(), "the database is in use") {
		w.violate("a second server is refused without the reason: %s", lastError(err.Error()))
	}
	if _, err := w.command(ctx, "check", w.dir); err == nil ||
		!strings.Contains(err.Error(), "the database is in use") {
		w.violate("a directory that a server has open is checked: %v", err)
	}
	// The store's process must not keep the directory after its server was killed.
	w.rest()
	w.kill(false)
	if err := second.start(ctx); err != nil {
		w.violate("the directory cannot be taken after its server was killed: %s", lastError(err.Error()))
	}
	second.end()
	return w.compare(ctx)
}

// noPrograms forbids the server to start programs, so that the store shares its process.
func noPrograms(ctx context.Context, w *world, _ *rig) error {
	var first atomic.Bool
	err := w.supervise([]string{"execve"}, func(faults.Call) syscall.Errno {
		if first.Swap(true) {
			return syscall.EPERM
		}
		return 0
	})
	if err != nil {
		return err
	}
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	if n := len(descendants(w.process.PID())); n > 0 {
		return fmt.Errorf("it has %d other processes although it may not start any", n)
	}
	if n := strings.Count(w.process.Output(), "cannot have a process of its own"); n != 1 {
		w.violate("it is said %d times that the database has no process of its own", n)
	}
	return w.conclude(ctx)
}

// diskFullAtStart starts the server on a full disk. That must be refused, and nothing may be lost.
func diskFullAtStart(ctx context.Context, w *world, _ *rig) error {
	v, err := w.memoryVolume(room)
	if err != nil {
		return err
	}
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	w.rest()
	w.noteExcused()
	w.kill(true)
	free, err := v.fill(16 << 20)
	if err != nil {
		return err
	}
	if err := w.start(ctx); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		w.violate("a start on a full disk: %v", err)
	}
	w.kill(true)
	free()
	return w.compare(ctx)
}

// readOnlyRoot makes everything read-only for the server except its folder.
func readOnlyRoot(ctx context.Context, w *world, _ *rig) error {
	w.wrap = []string{"unshare", "-m", "sh", "-c",
		`mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec "$@"`, w.folder}
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	child := w.child()
	if child == 0 {
		return errSkip("the server has no process of its own for the store")
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
	if want := "caddy-moderation-store\x00" + w.dir + "\x00"; err != nil || string(command) != want {
		w.violate("the store's process is called %q, %v", command, err)
	}
	w.rest()
	w.noteExcused()
	w.kill(true)
	return w.compare(ctx)
}

// powerCutOfASlowDisk cuts the power while each sync takes longer than the second that may be lost.
func powerCutOfASlowDisk(ctx context.Context, w *world, _ *rig) error {
	// The store syncs twice before it goes on, and a request may have to wait for two rounds of that: four times this
	// is far below what clients wait.
	const late = 2 * time.Second
	var slow atomic.Bool
	err := w.supervise([]string{"fsync", "fdatasync", "msync"}, func(faults.Call) syscall.Errno {
		if slow.Load() {
			time.Sleep(late)
		}
		return 0
	})
	if err != nil {
		return err
	}
	defer slow.Store(false)
	return w.cutPower(ctx, func() {
		slow.Store(true)
		pause(ctx, 4*late)
	})
}
