// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// lockFake locks a directory, where there is one, as long as the process lives.
func lockFake(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return disk.ErrLocked
	}
	locks = append(locks, f)
	return nil
}

// locks keeps the garbage collector from closing them.
var locks []*os.File
