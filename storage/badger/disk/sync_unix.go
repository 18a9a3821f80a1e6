// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package disk

import (
	"errors"
	"os"
)

// SyncFile syncs a file or a directory. On Windows it does nothing: see there.
func SyncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDirectory syncs an open directory.
func syncDirectory(dir *os.File) error { return dir.Sync() }
