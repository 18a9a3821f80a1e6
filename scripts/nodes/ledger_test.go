// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

// TestOutcomesBound wants each outcome of a request to bound the counts as the store promises.
func TestOutcomesBound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		outcome outcome
		want    bounds
	}{
		"answered":       {counted, bounds{1, 1}},
		"refunded":       {refunded, bounds{0, 0}},
		"limited":        {limited, bounds{0, 0}},
		"refused":        {refused, bounds{0, 0}},
		"without answer": {unknown, bounds{0, 1}},
		"never sent":     {unsent, bounds{0, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			l.sending("a").ended(test.outcome, "")
			if got := l.get("a").requests; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if minute := l.get("a").minutes[minuteOf(time.Now())]; minute != nil && minute.high < minute.low {
				t.Errorf("the minute is bounded by %v", *minute)
			}
		})
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		bounds bounds
		stored int64
		want   string
	}{
		"all there":    {bounds{3, 3}, 3, ""},
		"one unknown":  {bounds{3, 4}, 4, ""},
		"one lost":     {bounds{3, 4}, 2, "1 lost"},
		"one too many": {bounds{3, 4}, 5, "1 too many"},
	}
	for name, test := range tests {
		got := test.bounds.difference(test.stored)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestRoundsHaveNamesAndPromises(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, r := range rounds {
		if r.name == "" || r.promise == "" || r.run == nil || names[r.name] {
			t.Errorf("the round %q is without a name or a promise, or there twice", r.name)
		}
		names[r.name] = true
	}
	quick, err := choose("", false)
	if err != nil || len(quick) == 0 || len(quick) >= len(rounds) {
		t.Errorf("%d of %d rounds are quick, %v", len(quick), len(rounds), err)
	}
	if _, err := choose("no such round", false); err == nil {
		t.Error("a round that does not exist is chosen")
	}
}
