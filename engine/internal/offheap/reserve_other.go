// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin && !freebsd

package offheap

// reserve returns nil: tables stay on the heap.
func reserve(int) []byte { return nil }
