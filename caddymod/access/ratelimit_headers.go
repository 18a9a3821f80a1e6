// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// numLimitFields is the number of header fields that [setLimits] sets.
const numLimitFields = 6

// statusField is the last of them: X-RateLimit-Status, which says what the others rest on. It is absent while they are
// exact.
const statusField = numLimitFields - 1

// setLimits sets the fields that report an account's limits: RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers-10) for the minute and the month, and X-RateLimit-Limit, -Remaining and
// -Reset for the minute. All times are in seconds from now, rounded up. A window without a limit is left out.
// X-RateLimit-Status is set where the counts are not exact, also for an account without limits. This is the only place
// that renders these fields; values keeps them, so that one allocation is enough for all.
func setLimits(header http.Header, values *[numLimitFields]string, d *quota.Decision) {
	minuteLeft := secondsUntil(d.Now, d.MinuteReset)
	minuteRemaining := max(0, d.Limits.RequestsPerMinute-d.Counts.Minute)
	text := make([]byte, 0, 224)
	var ends [numLimitFields]int

	if d.Limits.RequestsPerMinute > 0 {
		text = policy(text, "minute", d.Limits.RequestsPerMinute, 60)
	}
	if d.Limits.RequestsPerMonth > 0 {
		text = separate(text, 0)
		text = policy(text, "month", d.Limits.RequestsPerMonth, secondsUntil(d.Period.Start, d.Period.End))
	}
	ends[0] = len(text)
	if d.Limits.RequestsPerMinute > 0 {
		text = remaining(text, "minute", minuteRemaining, minuteLeft)
	}
	if d.Limits.RequestsPerMonth > 0 {
		text = separate(text, ends[0])
		left := max(0, d.Limits.RequestsPerMonth-d.Counts.Period)
		text = remaining(text, "month", left, secondsUntil(d.Now, d.Period.End))
	}
	ends[1] = len(text)
	if d.Limits.RequestsPerMinute > 0 {
		text = strconv.AppendInt(text, d.Limits.RequestsPerMinute, 10)
		ends[2] = len(text)
		text = strconv.AppendInt(text, minuteRemaining, 10)
		ends[3] = len(text)
		text = strconv.AppendInt(text, minuteLeft, 10)
		ends[4] = len(text)
	}

	all, begin := string(text), 0
	for i, name := range [statusField]string{
		"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
	} {
		if ends[i] > begin {
			values[i] = all[begin:ends[i]]
			header[name] = values[i : i+1 : i+1]
			begin = ends[i]
		}
	}
	if d.Counts.Basis != quota.ExactCounts {
		values[statusField] = string(d.Counts.Basis)
		header["X-Ratelimit-Status"] = values[statusField : statusField+1 : statusField+1]
	} else if values[statusField] != "" {
		// The answer was rendered before: the store can be reached again.
		values[statusField] = ""
		delete(header, "X-Ratelimit-Status")
	}
}

// maxInteger is the largest number in these fields. Integers of structured fields have at most 15 digits (RFC 9651,
// section 3.3.1), and a known parser accepts at most 14 before a parameter. No account reaches a larger limit.
const maxInteger = 99_999_999_999_999

// policy appends one item of RateLimit-Policy.
func policy(text []byte, name string, limit, window int64) []byte {
	text = append(text, '"')
	text = append(text, name...)
	text = append(text, `";q=`...)
	text = strconv.AppendInt(text, min(limit, maxInteger), 10)
	text = append(text, ";w="...)
	return strconv.AppendInt(text, window, 10)
}

// remaining appends one item of RateLimit.
func remaining(text []byte, name string, left, seconds int64) []byte {
	text = append(text, '"')
	text = append(text, name...)
	text = append(text, `";r=`...)
	text = strconv.AppendInt(text, min(left, maxInteger), 10)
	text = append(text, ";t="...)
	return strconv.AppendInt(text, seconds, 10)
}

// separate begins another item in the list that starts at begin.
func separate(text []byte, begin int) []byte {
	if len(text) > begin {
		text = append(text, ", "...)
	}
	return text
}

// secondsUntil returns the time from one instant to a later one in whole seconds, rounded up; 0 when it is not later.
func secondsUntil(from, to time.Time) int64 {
	left := to.Sub(from)
	if left <= 0 {
		return 0
	}
	return int64((left + time.Second - 1) / time.Second)
}
