// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota

import "time"

// Period is a billing period, from Start up to, but not including, End. Both are in UTC.
type Period struct {
	Start, End time.Time
}

// PeriodOf returns the billing period that holds t. Periods start at midnight UTC on anchorDay of each month, or on
// the last day of a shorter month: with anchor day 31 on 31 January, 28 or 29 February, 31 March, 30 April. 0 is the
// first day: the calendar month.
func PeriodOf(anchorDay int, t time.Time) Period {
	year, month, _ := t.UTC().Date()
	start := anchorIn(year, month, anchorDay)
	if t.Before(start) {
		return Period{Start: anchorIn(year, month-1, anchorDay), End: start}
	}
	return Period{Start: start, End: anchorIn(year, month+1, anchorDay)}
}

// anchorIn returns the start of the period that starts in a month. Month 0 is December of the year before, as in
// [time.Date].
func anchorIn(year int, month time.Month, anchorDay int) time.Time {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	day := min(max(anchorDay, 1), last.Day())
	return time.Date(last.Year(), last.Month(), day, 0, 0, 0, 0, time.UTC)
}

// minuteReset returns the start of the UTC clock minute after t.
func minuteReset(t time.Time) time.Time {
	return time.Unix(t.Unix()-t.Unix()%60+60, 0).UTC()
}
