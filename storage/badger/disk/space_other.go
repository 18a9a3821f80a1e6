// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin && !freebsd

package disk

// freeSpace does not know: the database writes until the system refuses.
func freeSpace(string) (free uint64, known bool) { return 0, false }

// readOnly does not know.
func readOnly(string) bool { return false }
