// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package sampled_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
)

// counts returns how many lines with an id were written, and how many are reported as left out.
func counts(lines *observer.ObservedLogs) (written, leftOut int) {
	for _, line := range lines.All() {
		fields := line.ContextMap()
		if _, ok := fields["id"]; ok {
			written++
		}
		if n, ok := fields[sampled.LeftOut].(int64); ok {
			leftOut += int(n)
		}
	}
	return written, leftOut
}

// TestLinesAddUp guards against a log that a client can fill, and against lines that are left out and not counted.
func TestLinesAddUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		requests      int
		pause         time.Duration
		written, most int // lines with a field of a request; all lines
	}{
		{"one", 1, 0, 1, 1},
		{"seldom", 10, 2 * time.Second, 10, 10},
		{"at once", 1000, 0, 1, 2},
		{"for ten seconds", 10_000, time.Millisecond, 10, 11},
		{"for a minute, slowly", 240, 250 * time.Millisecond, 60, 61},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, lines := observer.New(zapcore.InfoLevel)
				logger := sampled.Logger(zap.New(core))
				for i := range test.requests {
					logger.Error("admitting a request", zap.Int("id", i))
					time.Sleep(test.pause)
				}
				time.Sleep(10 * sampled.Interval)
				written, leftOut := counts(lines)
				if written != test.written || written+leftOut != test.requests || lines.Len() > test.most {
					t.Errorf("%d lines: %d of requests, %d left out", lines.Len(), written, leftOut)
				}
			})
		})
	}
}

// TestMessagesAreApart: one message does not hide another, and records are all written.
func TestMessagesAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		logger := sampled.Logger(zap.New(core)).Named("a")
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				logger.Error("one")
				logger.Warn("another")
				logger.Info("a verdict")
				logger.Debug("nobody wants that")
			})
		}
		group.Wait()
		time.Sleep(10 * sampled.Interval)
		count := map[string]int{}
		for _, line := range lines.All() {
			count[line.Message]++
		}
		if count["one"] != 1 || count["another"] != 1 || count["a verdict"] != 100 || lines.Len() != 104 {
			t.Errorf("got lines %v, want one and another once with a report of the others, and each verdict", count)
		}
	})
}
