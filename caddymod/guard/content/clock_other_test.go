// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package content_test

import "time"

var started = time.Now()

// worked returns the time since the start, where the system does not tell how long a thread has worked.
func worked() time.Duration { return time.Since(started) }
