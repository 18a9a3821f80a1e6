// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockDirectory locks an open directory until it is closed. Badger and earlier versions of this software take the
// same lock. Badger by itself would take it only after it has read some files.
func lockDirectory(dir *os.File) error {
	err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// ownLock says that lockDirectory takes the lock, and Badger need not.
const ownLock = true
