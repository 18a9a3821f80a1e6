// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the calling thread. Other programs on the machine do not count. Unlike that of
// getrusage, this clock counts nanoseconds and not, on some systems, ticks of milliseconds.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
