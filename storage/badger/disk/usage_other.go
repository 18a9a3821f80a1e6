// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin && !freebsd

package disk

import "io/fs"

// allocated takes the size for what the file takes on the disk.
func allocated(info fs.FileInfo) uint64 { return uint64(info.Size()) }
