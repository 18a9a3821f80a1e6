// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// worked returns how long the calling thread has kept a processor busy. Whatever else runs on the machine does not
// count.
func worked() time.Duration {
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &clock); err != nil {
		panic(err)
	}
	return time.Duration(clock.Nano())
}
