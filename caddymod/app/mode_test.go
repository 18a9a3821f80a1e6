// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"
)

// TestOneLineForEachChangeOfMode guards against a log that a long outage fills, and against one that says of a node
// which goes on that it refuses requests.
func TestOneLineForEachChangeOfMode(t *testing.T) {
	t.Parallel()
	inPool(t, func(t *testing.T, p *storePool, lines *observer.ObservedLogs) {
		of := &place{t: t}
		held := acquired(t, p, "shared", of)
		for _, step := range []struct {
			mode Mode
			sick bool
			want string
		}{
			{Normal, false, ""},
			{Local, true, "by the counts that this node knows"},
			{Normal, true, "what must be counted or kept is refused"}, // it answers, but is not the store that it was
			{Allow, true, "all requests are admitted"},
			{Normal, false, "available again"},
			{Deny, true, "what must be counted or kept is refused"},
			{Normal, false, "available again"},
		} {
			of.mode.Store(&step.mode)
			of.sick.Store(step.sick)
			time.Sleep(10 * p.healthInterval)
			var got []string
			for _, line := range lines.TakeAll() {
				got = append(got, line.Message)
			}
			if step.want == "" && len(got) > 0 || step.want != "" && (len(got) != 1 || !strings.Contains(got[0], step.want)) {
				t.Errorf("%s, unavailable %v: got the lines %q, want one with %q", step.mode, step.sick, got, step.want)
			}
		}
		released(t, p, held)
		time.Sleep(2 * p.maxLinger)
	})
}

// TestWorstModeIsObserved: while a reload has two stores, the metrics show the one in trouble.
func TestWorstModeIsObserved(t *testing.T) {
	t.Parallel()
	modes := []Mode{"", Normal, Local, Allow, Deny}
	if !slices.IsSortedFunc(modes, func(a, b Mode) int { return a.severity() - b.severity() }) {
		t.Errorf("got another order than %q", modes)
	}
}
