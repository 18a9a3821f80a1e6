// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-moderation/caddy-moderation/feedback"
)

// quickSweeps lets a test wait for sweeps.
var quickSweeps = sweepTiming{
	first: time.Millisecond, every: time.Millisecond, pause: time.Millisecond, jump: 1 << 62, patience: time.Minute,
}

// sweptApp returns an app with a retention and a clock.
func sweptApp(t *testing.T, dir, keep string, clock *atomic.Pointer[time.Time]) *App {
	t.Helper()
	a := provisioned(t, inDir(t, dir, `,"demo":false,"feedback":{"keep":"`+keep+`"}`), io.Discard)
	a.now, a.sweeps = func() time.Time { return *clock.Load() }, quickSweeps
	return a
}

// kept returns the ids of the records in a store, joined.
func kept(t *testing.T, s *Services) string {
	t.Helper()
	var ids []string
	for r, err := range s.Store.Feedback(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

// becomes waits until a store keeps these records and no others.
func becomes(t *testing.T, s *Services, want string) {
	t.Helper()
	got := ""
	for range 3000 {
		if got = kept(t, s); got == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("after 30 s the records %q are kept, want %q", got, want)
}

// TestRetention guards against feedback that is kept for too long, is deleted too early, or by a configuration that
// was replaced by one that keeps it longer.
func TestRetention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var clock atomic.Pointer[time.Time]
	clock.Store(&now)
	add := func(s *Services, days ...int) {
		t.Helper()
		for _, ago := range days {
			at := now.AddDate(0, 0, -ago)
			r := feedback.Record{ID: fmt.Sprint(ago), Time: at, Account: "a", Text: "text"}
			if err := s.Store.AppendFeedback(t.Context(), r, feedback.Bound{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(t, provisioned(t, inDir(t, dir, `,"demo":false`), io.Discard), func(s *Services) {
		add(s, 400, 91, 90, 89, 0)
	})
	run(t, sweptApp(t, dir, "2160h", &clock), func(s *Services) {
		// What has reached the age on this day is deleted on the next one.
		becomes(t, s, "90 89 0")
		later := now.Add(12 * time.Hour)
		clock.Store(&later)
		becomes(t, s, "89 0")
		clock.Store(&now)
		// What comes in with an old time is deleted, too.
		add(s, 300)
		becomes(t, s, "89 0")
		// A bound that was used stays used.
		err := s.Store.AppendFeedback(t.Context(), feedback.Record{ID: "x", Time: now.AddDate(0, 0, -300), Account: "a"},
			feedback.Bound{Records: 1})
		if err == nil {
			t.Error("a bound was given back by a deletion, want it to stay used")
		}
	})
	// Stopped means stopped.
	shorter := sweptApp(t, dir, "24h", &clock)
	shorter.sweeps.first = time.Hour
	run(t, shorter, func(s *Services) {
		if err := shorter.Stop(); err != nil {
			t.Fatal(err)
		}
		if got := kept(t, s); got != "89 0" {
			t.Errorf("before its first sweep a configuration has deleted: %q is left", got)
		}
	})
	run(t, provisioned(t, inDir(t, dir, `,"demo":false`), io.Discard), func(s *Services) {
		time.Sleep(20 * time.Millisecond)
		if got := kept(t, s); got != "89 0" {
			t.Errorf("without a retention %q is left, want all", got)
		}
	})
}

// TestRetentionAcrossReloads: the configuration that runs decides, while both hold the store.
func TestRetentionAcrossReloads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var clock atomic.Pointer[time.Time]
	clock.Store(&now)
	first, second := sweptApp(t, dir, "24h", &clock), sweptApp(t, dir, "2400h", &clock)
	run(t, first, func(*Services) {
		run(t, second, func(s *Services) {
			if err := first.Stop(); err != nil {
				t.Fatal(err)
			}
			for _, days := range []int{50, 150} {
				r := feedback.Record{ID: fmt.Sprint(days), Time: now.AddDate(0, 0, -days), Account: "a"}
				if err := s.Store.AppendFeedback(t.Context(), r, feedback.Bound{}); err != nil {
					t.Fatal(err)
				}
			}
			becomes(t, s, "50")
		})
	})
}

// TestAClockThatWasSet guards against feedback that is deleted because of a clock that was wrong for a moment.
func TestAClockThatWasSet(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ahead := now.AddDate(2, 0, 0)
	var clock atomic.Pointer[time.Time]
	clock.Store(&now)
	a := sweptApp(t, t.TempDir(), "2400h", &clock)
	a.sweeps.jump = time.Hour
	warned := make(chan string, 10)
	a.logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard),
		zap.InfoLevel), zap.Hooks(func(e zapcore.Entry) error {
		if e.Message != "the moderation service has started" {
			clock.Store(&now) // before the next sweep
			warned <- e.Message
		}
		return nil
	}))
	run(t, a, func(s *Services) {
		r := feedback.Record{ID: "kept", Time: now, Account: "a"}
		if err := s.Store.AppendFeedback(t.Context(), r, feedback.Bound{}); err != nil {
			t.Fatal(err)
		}
		clock.Store(&ahead)
		if got := <-warned; !strings.HasPrefix(got, "the clock was set") {
			t.Errorf("the sweeper logged %q, want that the clock was set", got)
		}
		if got := kept(t, s); got != "kept" {
			t.Errorf("after the clock was ahead for a moment %q is left, want all", got)
		}
	})
}

func TestKeptFrom(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ now, keep, want string }{
		{"2026-11-22T00:00:00Z", "24h", "2026-11-21T00:00:00Z"},
		{"2026-11-22T23:59:59Z", "24h", "2026-11-21T00:00:00Z"},
		{"2026-11-22T01:00:00+02:00", "24h", "2026-11-20T00:00:00Z"},
		{"2026-11-22T12:00:00Z", "36h", "2026-11-21T00:00:00Z"},
		{"2026-11-22T12:00:00Z", "2160h", "2026-08-24T00:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, row.now)
		if err != nil {
			t.Fatal(err)
		}
		keep, err := time.ParseDuration(row.keep)
		if err != nil {
			t.Fatal(err)
		}
		if got := keptFrom(now, keep).Format(time.RFC3339); got != row.want {
			t.Errorf("at %s, what is kept for %s begins at %s, want %s", row.now, row.keep, got, row.want)
		}
	}
}

func TestKeepOption(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"keep 90d": "", "keep 24h": "",
		"keep 23h":         "feedback: keep is 23h0m0s; it must be 1 day or more, such as 90d. Without it feedback is kept for ever, at Testfile:3",
		"keep 0":           "keep is '0'; it must be a duration greater than 0",
		"keep -1d":         "keep is '-1d'",
		"keep":             "keep",
		"keep 1d\nkeep 2d": "keep",
	} {
		d := caddyfile.NewTestDispenser("moderation {\nfeedback {\n" + text + "\n}\n}")
		a := new(App)
		err := a.UnmarshalCaddyfile(d)
		if want == "" {
			if err != nil || time.Duration(a.Feedback.Keep) < minKeep {
				t.Errorf("%s: got %v, %v", text, a.Feedback.Keep, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want %q", text, err, want)
		}
	}
	a := &App{Feedback: FeedbackOptions{Keep: 1}}
	if err := a.Validate(); err == nil || !strings.Contains(err.Error(), "it must be 1 day or more") {
		t.Errorf("keep in JSON: got the error %v, want one", err)
	}
}
