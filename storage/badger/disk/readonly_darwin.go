// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import "golang.org/x/sys/unix"

// mountedReadOnly is the flag of a file system that takes no writes.
const mountedReadOnly = unix.MNT_RDONLY
