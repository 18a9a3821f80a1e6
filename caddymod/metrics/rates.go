// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"
	"time"
)

// rateSeconds is how far back a ring knows what happened, in seconds.
const rateSeconds = 3600

// ring counts events of the last hour by second. Each slot holds a second in its upper half, and how many events that
// second had in its lower half, so that both change at once and nobody waits.
type ring struct {
	slots [rateSeconds]atomic.Uint64
}

// add counts an event.
func (r *ring) add(now time.Time) {
	second := uint64(uint32(now.Unix()))
	slot := &r.slots[second%rateSeconds]
	for {
		old := slot.Load()
		fresh := second<<32 | 1
		if old>>32 == second {
			fresh = old + 1
		}
		if slot.CompareAndSwap(old, fresh) {
			return
		}
	}
}

// sum returns how many events the last seconds had that have ended. The present one has not.
func (r *ring) sum(now time.Time, seconds int) (n int64) {
	second := uint64(uint32(now.Unix()))
	for i := range r.slots {
		slot := r.slots[i].Load()
		if at := slot >> 32; at < second && at+uint64(seconds) >= second {
			n += int64(slot & (1<<32 - 1))
		}
	}
	return n
}

// Rate is how much happened lately, in events per second.
type Rate struct {
	Minute float64 `json:"minute"`
	Hour   float64 `json:"hour"`
}

// rate returns the rate at a moment. Where less time has passed since the beginning, it is that of this time.
func (r *ring) rate(now, began time.Time) Rate {
	past := max(1, int(now.Sub(began).Seconds()))
	minute, hour := min(60, past), min(rateSeconds, past)
	return Rate{
		Minute: float64(r.sum(now, minute)) / float64(minute),
		Hour:   float64(r.sum(now, hour)) / float64(hour),
	}
}
