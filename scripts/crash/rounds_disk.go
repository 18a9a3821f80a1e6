// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// room is the size of the small file systems, somewhat more than what the store keeps free.
const room = 256 << 20

// diskFull lets another program take the room on the disk, and give it back.
func diskFull(ctx context.Context, w *world, _ *rig) error {
	v, err := w.memoryVolume(room)
	if err != nil {
		return err
	}
	return w.filled(ctx, v, 16<<20)
}

// diskFullAtOnce lets another program take the last byte at once.
func diskFullAtOnce(ctx context.Context, w *world, _ *rig) error {
	v, err := w.memoryVolume(room)
	if err != nil {
		return err
	}
	return w.filled(ctx, v, 0)
}

func (w *world) filled(ctx context.Context, v *volume, leave int64) error {
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	free, err := v.fill(leave)
	if err != nil {
		return err
	}
	w.alarmed(ctx, "the disk is full")
	pause(ctx, 500*time.Millisecond)
	free()
	w.recovered(ctx, "the disk was full")
	return w.conclude(ctx)
}

// diskFullOfRecords lets the store fill the disk with its own records.
func diskFullOfRecords(ctx context.Context, w *world, _ *rig) error {
	if _, err := w.memoryVolume(160 << 20); err != nil {
		return err
	}
	m := writers
	m.bulk = 8
	if err := w.begin(ctx, m); err != nil {
		return err
	}
	for deadline := time.Now().Add(2 * timeout); w.refused.Load() == 0 && w.up.Load() && time.Now().Before(deadline); {
		pause(ctx, 50*time.Millisecond)
	}
	if w.up.Load() && w.refused.Load() == 0 {
		return errSkip("the records did not fill the disk in time")
	}
	w.alarmed(ctx, "the records fill the disk")
	return w.records(ctx)
}

// records compares the contents of a server that cannot start on its full disk, as it tells them while it runs.
func (w *world) records(ctx context.Context) error {
	w.rest()
	w.noteExcused()
	if w.process == nil || !w.up.Load() {
		return nil
	}
	w.stuck = true
	return w.compare(ctx)
}

// diskDead makes every call of the disk fail with EIO, and brings it back.
func diskDead(ctx context.Context, w *world, _ *rig) error {
	return w.failedDisk(ctx, "the disk is dead", (*volume).shutDown)
}

// diskReadOnly makes the file system read-only, as after an error that it finds in itself, and repairs it.
func diskReadOnly(ctx context.Context, w *world, _ *rig) error {
	return w.failedDisk(ctx, "the disk is read-only", (*volume).fail)
}

func (w *world) failedDisk(ctx context.Context, why string, fail func(*volume) error) error {
	v, err := w.imageVolume(room)
	if err != nil {
		return err
	}
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	if err := fail(v); err != nil {
		return err
	}
	w.alarmed(ctx, why)
	pause(ctx, 500*time.Millisecond)
	if err := v.repair(); err != nil {
		// The file system cannot be repaired while the server uses it.
		w.violate("%s: %v", why, err)
		w.rest()
		w.noteExcused()
		w.kill(true)
		if err := v.remount(); err != nil {
			return err
		}
		return w.compare(ctx)
	}
	w.recovered(ctx, why)
	return w.conclude(ctx)
}

// dirRenamed moves the directory away, and back.
func dirRenamed(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	away := w.dir + ".away"
	if err := os.Rename(w.dir, away); err != nil {
		return err
	}
	w.alarmed(ctx, "the directory is away")
	pause(ctx, 500*time.Millisecond)
	// No other database may have been made in its place.
	if entries, err := os.ReadDir(w.dir); err == nil && len(entries) > 0 {
		w.violate("another database was made where the directory has been")
	}
	_ = os.RemoveAll(w.dir)
	if err := os.Rename(away, w.dir); err != nil {
		return err
	}
	w.recovered(ctx, "the directory was away")
	return w.conclude(ctx)
}

// dirRemoved removes the directory. What was in it is lost, and nothing may be acknowledged any more.
func dirRemoved(ctx context.Context, w *world, _ *rig) error {
	return w.lostDirectory(ctx, false)
}

// dirReplaced replaces the directory by an empty one.
func dirReplaced(ctx context.Context, w *world, _ *rig) error {
	return w.lostDirectory(ctx, true)
}

func (w *world) lostDirectory(ctx context.Context, replace bool) error {
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	if err := os.RemoveAll(w.dir); err != nil {
		// The server may have made a file meanwhile: try again.
		if err := os.RemoveAll(w.dir); err != nil {
			return err
		}
	}
	if replace {
		if err := os.Mkdir(w.dir, 0o700); err != nil {
			return err
		}
	}
	// A request under way may have been synced before.
	removed := time.Now()
	w.alarmed(ctx, "the directory is removed")
	pause(ctx, 500*time.Millisecond)
	before := w.answers.Load()
	pause(ctx, 500*time.Millisecond)
	w.rest()
	late, last := 0, time.Duration(0)
	for _, f := range w.ledger.feedback {
		if f.Acked && f.At.After(removed.Add(time.Second)) {
			late++
			last = max(last, f.At.Sub(removed))
		}
	}
	if late > 0 {
		w.violate("%d records of feedback were acknowledged more than a second after the directory was removed, "+
			"the last after %s", late, last.Round(time.Millisecond))
	}
	// The guard lets pass what it cannot count, so only the others are compared.
	low := w.ledger.of(apiAccount).Requests.Low + w.ledger.of(enforcedAccount).Requests.Low
	pause(ctx, 0)
	if w.up.Load() && w.ledger.of(apiAccount).Requests.Low+w.ledger.of(enforcedAccount).Requests.Low > low {
		w.violate("%d requests were answered although the directory is gone", w.answers.Load()-before)
	}
	return nil
}

// descriptors uses up the file descriptors of the server, and frees them.
func descriptors(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	pids := append(descendants(w.process.PID()), w.process.PID())
	limits := map[int]uint64{}
	for _, pid := range pids {
		// The limit holds for new descriptors; open ones stay open.
		old, err := limitFiles(pid, uint64(openFiles(pid)))
		if err != nil {
			return err
		}
		limits[pid] = old
	}
	// Idle connections take the free numbers below the limit.
	var idle []net.Conn
	for range 64 {
		if conn, err := net.DialTimeout("tcp", w.other, time.Second); err == nil {
			idle = append(idle, conn)
		}
	}
	w.reloading.Store(true) // no new connection can be had
	w.rotate(ctx)
	pause(ctx, w.between(100*time.Millisecond, time.Second))
	for pid, old := range limits {
		_, _ = limitFiles(pid, old) // it may have been started anew
	}
	for _, conn := range idle {
		conn.Close()
	}
	w.reloading.Store(false)
	w.recovered(ctx, "descriptors were short")
	return w.conclude(ctx)
}

// openFiles returns how many descriptors a process has open.
func openFiles(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// powerCut cuts the power: what is not on the disk at that instant is lost. A backup that was reported as done must
// be there.
func powerCut(ctx context.Context, w *world, _ *rig) error {
	return w.cutPower(ctx, func() {})
}

// cutPower cuts the power. It calls worse when the clients have begun.
func (w *world) cutPower(ctx context.Context, worse func()) error {
	v, err := w.imageVolume(2 * room)
	if err != nil {
		return err
	}
	if err := w.begin(ctx, writers); err != nil {
		return err
	}
	worse()
	pause(ctx, w.between(3*time.Second, 5*time.Second))
	file := filepath.Join(v.at, "power.backup")
	backupBefore := w.ledger.clone()
	backupWanted := w.random.IntN(2) == 0
	var backupAfter *ledger
	if backupWanted {
		if _, err := w.command(ctx, "backup", file); err != nil {
			return err
		}
		backupAfter = w.ledger.clone()
	}
	before := w.ledger.clone()
	// The promise is one second; allow for a machine that stalls.
	before.counts = w.countsBefore(3 * time.Second)
	w.up.Store(false)
	if err := v.shutDown(); err != nil {
		return err
	}
	w.kill(true)
	w.rest()
	if err := v.unmount(); err != nil {
		return err
	}
	if err := v.mount(); err != nil { // its journal is replayed
		return err
	}
	if err := w.reboot(); err != nil {
		return err
	}
	if err := w.compareWith(ctx, before, w.ledger.clone()); err != nil {
		return err
	}
	w.kill(true)
	if !backupWanted {
		return nil
	}
	if _, err := os.Stat(file); err != nil {
		w.violate("a backup that was said to be done is not there after the power was cut: %v", err)
		return nil
	}
	return w.restored(ctx, file, backupBefore, backupAfter)
}

// reboot makes the next servers see another boot id.
func (w *world) reboot() error {
	const id = "/proc/sys/kernel/random/boot_id"
	name := filepath.Join(w.folder, "boot_id")
	text := []byte("00000000-1111-4222-8333-" + fmt.Sprintf("%012x", w.random.Uint64()&(1<<48-1)) + "\n")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return err
	}
	w.wrap = []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" ` + id + ` && exec "$@"`, name}
	return nil
}
