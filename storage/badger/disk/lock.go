// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Lock locks a directory until the result is closed, so that nobody opens the database meanwhile. It changes nothing
// in the directory. The error wraps [ErrLocked] if somebody has the database open.
func Lock(dir string) (io.Closer, error) {
	handle, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if info, err := handle.Stat(); err != nil || !info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is not a directory", dir), err, handle.Close())
	}
	err = lockDirectory(handle)
	if !ownLock {
		// Badger's own lock is a file that exists while the database is open.
		if _, found := os.Lstat(filepath.Join(dir, "LOCK")); found == nil {
			err = ErrLocked
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: is another Caddy using the directory %s?", err, dir), handle.Close())
	}
	return handle, nil
}
