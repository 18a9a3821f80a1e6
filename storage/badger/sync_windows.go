// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

// syncFile does nothing: Windows syncs a file only through a handle that may write to it, which Badger does not share, and
// writes directories by itself.
func syncFile(string) error { return nil }
