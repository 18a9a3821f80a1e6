// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import "time"

const secondsPerDay = 24 * 60 * 60

// dayOf returns the UTC day of an instant, as a number of days since 1970.
func dayOf(t time.Time) int64 {
	day := t.Unix() / secondsPerDay
	if t.Unix()%secondsPerDay < 0 {
		day--
	}
	return day
}
