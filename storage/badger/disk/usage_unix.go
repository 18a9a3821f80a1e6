// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package disk

import (
	"io/fs"
	"syscall"
)

// allocated returns how many bytes a file takes on the disk.
func allocated(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Blocks) * 512 // stat(2): whatever the block size of the file system is
	}
	return uint64(info.Size())
}
