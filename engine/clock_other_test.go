// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package engine_test

import "time"

var started = time.Now()

// threadTime is the time since the start, where the system does not tell the processor time of a thread.
func threadTime() time.Duration { return time.Since(started) }
