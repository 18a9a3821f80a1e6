// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// volume is a file system for the store of one round.
type volume struct {
	at    string // where it is mounted
	image string // the file behind it; empty for one in memory
}

// memoryVolume makes a small file system in memory, and the directory of the store in it.
func (w *world) memoryVolume(size int64) (*volume, error) {
	v := &volume{at: filepath.Join(w.folder, "disk")}
	if err := os.Mkdir(v.at, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", v.at, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		return nil, fmt.Errorf("mounting a file system in memory: %w", err)
	}
	w.atEnd(func() { _ = unix.Unmount(v.at, unix.MNT_DETACH) })
	w.dir = filepath.Join(v.at, "data")
	return v, nil
}

// imageVolume makes a file system in a file, and the directory of the store in it.
func (w *world) imageVolume(size int64) (*volume, error) {
	v := &volume{at: filepath.Join(w.folder, "disk"), image: filepath.Join(w.folder, "disk.img")}
	file, err := os.Create(v.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Truncate(size), file.Close(), os.Mkdir(v.at, 0o700)); err != nil {
		return nil, err
	}
	if err := program("mkfs.ext4", "-q", "-F", v.image); err != nil {
		return nil, err
	}
	if err := v.mount(); err != nil {
		return nil, err
	}
	w.atEnd(func() { _ = unix.Unmount(v.at, unix.MNT_DETACH) })
	w.dir = filepath.Join(v.at, "data")
	return v, nil
}

func (v *volume) mount() error {
	return program("mount", "-o", "loop,errors=remount-ro", v.image, v.at)
}

// unmount unmounts the file system. It returns an error if the file system stays in use.
func (v *volume) unmount() error {
	if err := unix.Unmount(v.at, unix.MNT_DETACH); err != nil {
		return err
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command("losetup", "-j", v.image).Output()
		if err != nil {
			return err
		}
		if len(out) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("files on the failed disk are still open")
		}
	}
}

// repair unmounts the file system, repairs it and mounts it again, as after replacing a cable.
func (v *volume) repair() error {
	if err := v.unmount(); err != nil {
		return err
	}
	return v.remount()
}

func (v *volume) remount() error {
	// 1 says that something was corrected.
	if err := program("e2fsck", "-fy", v.image); err != nil {
		if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || failed.ExitCode() > 1 {
			return err
		}
	}
	return v.mount()
}

// shutDown makes the file system behave as if its disk were gone: from now on nothing reaches the disk, not even what
// the journal holds in memory, and every call fails with EIO.
func (v *volume) shutDown() error {
	const shutdown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN
	folder, err := os.Open(v.at)
	if err != nil {
		return err
	}
	defer folder.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, folder.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return fmt.Errorf("shutting the file system down: %w", errno)
	}
	return nil
}

// fail makes the file system find an error in itself, so that it becomes read-only.
func (v *volume) fail() error {
	var stat unix.Stat_t
	if err := unix.Stat(v.at, &stat); err != nil {
		return err
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev)))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "trigger_fs_error"), []byte("crash"), 0)
}

// fill takes all room except leave bytes, as another program may do. The result gives it back.
func (v *volume) fill(leave int64) (free func(), err error) {
	file, err := os.Create(filepath.Join(v.at, "other"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size := int64(0)
	for part := int64(1); part <= 1<<20; {
		var stat unix.Statfs_t
		if err := unix.Fstatfs(int(file.Fd()), &stat); err != nil {
			return nil, err
		}
		free := int64(stat.Bavail)*stat.Bsize - leave
		if free <= 0 {
			break
		}
		// A part that does not fit is not taken at all, and other writes may take some of it meanwhile: then a smaller
		// part is tried.
		more := min(free, max(free/part, 64<<10))
		if err := unix.Fallocate(int(file.Fd()), 0, size, more); err == nil {
			size += more
		} else if errors.Is(err, unix.ENOSPC) {
			part *= 2
		} else {
			return nil, err
		}
	}
	if size == 0 {
		return nil, errors.New("the file system could not be filled: other writes were faster")
	}
	return func() { _ = os.Remove(file.Name()) }, nil
}

// program runs a system program.
func program(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, cut(strings.TrimSpace(string(out)), 300))
	}
	return nil
}

// canMount returns why no file system can be mounted, or nothing.
func canMount() string {
	folder, err := os.MkdirTemp("", "caddy-moderation-mount-")
	if err != nil {
		return err.Error()
	}
	defer os.Remove(folder)
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=1m"); err != nil {
		return "nothing can be mounted here: " + err.Error()
	}
	_ = unix.Unmount(folder, unix.MNT_DETACH)
	return ""
}

// canLoop returns why no file system in a file can be mounted, or nothing.
func canLoop() string {
	for _, name := range []string{"mkfs.ext4", "e2fsck", "mount", "losetup"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not installed"
		}
	}
	w, err := newWorld("loop", "", 1)
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(w.folder)
	defer w.close()
	if _, err := w.imageVolume(16 << 20); err != nil {
		return "no file system in a file can be mounted here: " + err.Error()
	}
	return ""
}
