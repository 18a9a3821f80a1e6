// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

func TestPeriods(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		anchor          int
		at, start, next string
	}{
		"calendar month":                    {0, "2026-03-15T12:00:00Z", "2026-03-01", "2026-04-01"},
		"calendar month, first instant":     {0, "2026-03-01T00:00:00Z", "2026-03-01", "2026-04-01"},
		"calendar month, last instant":      {0, "2026-03-31T23:59:59.999999999Z", "2026-03-01", "2026-04-01"},
		"first is the calendar month":       {1, "2026-12-31T23:59:59Z", "2026-12-01", "2027-01-01"},
		"before the anchor":                 {15, "2026-03-14T23:59:59Z", "2026-02-15", "2026-03-15"},
		"on the anchor":                     {15, "2026-03-15T00:00:00Z", "2026-03-15", "2026-04-15"},
		"over the year's end":               {15, "2026-12-20T00:00:00Z", "2026-12-15", "2027-01-15"},
		"before the anchor in January":      {15, "2026-01-02T00:00:00Z", "2025-12-15", "2026-01-15"},
		"28 in February":                    {28, "2026-02-28T00:00:00Z", "2026-02-28", "2026-03-28"},
		"29 in a common February":           {29, "2026-02-28T00:00:00Z", "2026-02-28", "2026-03-29"},
		"29 before a common February's end": {29, "2026-02-27T23:59:59Z", "2026-01-29", "2026-02-28"},
		"29 in a leap February":             {29, "2028-02-28T23:59:59Z", "2028-01-29", "2028-02-29"},
		"29 on leap day":                    {29, "2028-02-29T00:00:00Z", "2028-02-29", "2028-03-29"},
		"30 around a common February":       {30, "2026-03-01T00:00:00Z", "2026-02-28", "2026-03-30"},
		"30 around a leap February":         {30, "2028-03-01T00:00:00Z", "2028-02-29", "2028-03-30"},
		"31 in January":                     {31, "2026-01-31T00:00:00Z", "2026-01-31", "2026-02-28"},
		"31 after February":                 {31, "2026-03-30T23:59:59Z", "2026-02-28", "2026-03-31"},
		"31 comes back after a short month": {31, "2026-03-31T00:00:00Z", "2026-03-31", "2026-04-30"},
		"31 in a month of 30 days":          {31, "2026-04-30T00:00:00Z", "2026-04-30", "2026-05-31"},
		"31 over the year's end":            {31, "2027-01-30T23:59:59Z", "2026-12-31", "2027-01-31"},
		"1900 is no leap year":              {31, "1900-02-28T00:00:00Z", "1900-02-28", "1900-03-31"},
		"2000 is a leap year":               {31, "2000-02-28T00:00:00Z", "2000-01-31", "2000-02-29"},
		"another time zone":                 {0, "2026-03-31T23:30:00-05:00", "2026-04-01", "2026-05-01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339Nano, test.at)
			if err != nil {
				t.Fatal(err)
			}
			p := quota.PeriodOf(test.anchor, at)
			const midnight = time.DateOnly + " 15:04:05.999999999 MST"
			if got, want := p.Start.Format(midnight), test.start+" 00:00:00 UTC"; got != want {
				t.Errorf("starts at %s, want %s", got, want)
			}
			if got, want := p.End.Format(midnight), test.next+" 00:00:00 UTC"; got != want {
				t.Errorf("ends at %s, want %s", got, want)
			}
		})
	}
}

// TestPeriodsLeaveNoGap walks through twelve years for every anchor: each period starts where the one before ended,
// on the anchor's day or the month's last, once a month.
func TestPeriodsLeaveNoGap(t *testing.T) {
	t.Parallel()
	for anchor := range 32 {
		begin := quota.PeriodOf(anchor, time.Date(2023, 12, 31, 12, 0, 0, 0, time.UTC))
		for p, months := begin, 0; months < 12*12; months++ {
			if first, last := quota.PeriodOf(anchor, p.Start), quota.PeriodOf(anchor, p.End.Add(-1)); first != p ||
				last != p {
				t.Fatalf("anchor %d: the first instant of %v is in %v, the last in %v", anchor, p, first, last)
			}
			tomorrow := p.Start.AddDate(0, 0, 1)
			if day := p.Start.Day(); day != max(anchor, 1) && (day > anchor || tomorrow.Day() != 1) {
				t.Fatalf("anchor %d: %v starts on the %d", anchor, p, day)
			}
			next := quota.PeriodOf(anchor, p.End)
			if next.Start != p.End || next.Start.Month() != p.Start.Month()%12+1 {
				t.Fatalf("anchor %d: %v is followed by %v", anchor, p, next)
			}
			p = next
		}
	}
}

func FuzzPeriodHoldsItsInstant(f *testing.F) {
	f.Add(31, int64(1740787200), int64(0))
	f.Fuzz(func(t *testing.T, anchor int, seconds, nanos int64) {
		at := time.Unix(seconds%(1<<36), nanos%1e9)
		p := quota.PeriodOf(anchor%32, at)
		if at.Before(p.Start) || !at.Before(p.End) {
			t.Fatalf("%v is not in %v", at.UTC(), p)
		}
	})
}
