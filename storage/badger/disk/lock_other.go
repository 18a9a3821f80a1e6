// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin && !freebsd

package disk

import "os"

// lockDirectory leaves the lock to Badger.
func lockDirectory(*os.File) error { return nil }

const ownLock = false
