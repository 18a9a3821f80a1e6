// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockDirectory takes the lock of an open directory, which Badger and earlier versions of this software take too. It is given
// back when the directory is closed. It is taken before anything is read, which Badger by itself would do later.
func lockDirectory(dir *os.File) error {
	err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// ownLock says that lockDirectory has the lock, and Badger need not take it.
const ownLock = true
