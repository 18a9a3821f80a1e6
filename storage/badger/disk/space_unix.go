// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package disk

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes an unprivileged user may still write. A file system without inodes left has no room.
func freeSpace(dir string) (free uint64, known bool) {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return 0, false
	}
	if fs.Files > 0 && fs.Ffree < 16 {
		return 0, true
	}
	if int64(fs.Bavail) < 0 {
		return 0, true
	}
	return uint64(fs.Bavail) * uint64(fs.Bsize), true
}

// readOnly reports whether the file system takes no writes.
func readOnly(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && uint64(fs.Flags)&mountedReadOnly != 0
}
