// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import "os"

// SyncFile does nothing: Windows syncs a file only through a handle with write access, which Badger does not share,
// and writes directories by itself.
func SyncFile(string) error { return nil }

func syncDirectory(*os.File) error { return nil }
