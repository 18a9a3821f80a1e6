// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Usage is the room that a database takes, and that it has left.
type Usage struct {
	// Used is how many bytes the files of the directory take on the disk. On systems that do not tell, it is the sum of
	// their sizes, which is larger because files are sparse.
	Used uint64
	// Free is how many bytes an unprivileged user may still write to the file system; 0 if no inodes are left.
	Free uint64
}

// UsageOf returns the usage of the directory of a database. It asks the file system, and waits for a disk that hangs.
// Where the system does not tell the free space, the error wraps [errors.ErrUnsupported].
func UsageOf(dir string) (u Usage, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Usage{}, err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return Usage{}, err
		}
		if info.Mode().IsRegular() {
			u.Used += allocated(info)
		}
	}
	free, known := freeSpace(dir)
	if !known {
		return Usage{}, fmt.Errorf("the free space of %s: %w", dir, errors.ErrUnsupported)
	}
	u.Free = free
	return u, nil
}
