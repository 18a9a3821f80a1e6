// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// TestLimitFields is the golden test of the rate-limit header fields.
func TestLimitFields(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		instant, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return instant
	}
	february := quota.Period{Start: at("2028-02-01T00:00:00Z"), End: at("2028-03-01T00:00:00Z")}
	for _, test := range []struct {
		name string
		quota.Decision
		want string
	}{
		{"both windows", quota.Decision{
			Limits: quota.Limits{RequestsPerMonth: 1000, RequestsPerMinute: 10},
			Counts: quota.Counts{Minute: 1, Period: 679},
			Now:    at("2028-02-19T10:00:42.5Z"), MinuteReset: at("2028-02-19T10:01:00Z"), Period: february,
		}, `
Ratelimit: "minute";r=9;t=18, "month";r=321;t=914358
Ratelimit-Policy: "minute";q=10;w=60, "month";q=1000;w=2505600
X-Ratelimit-Limit: 10
X-Ratelimit-Remaining: 9
X-Ratelimit-Reset: 18
`},
		{"the minute alone, used up, at its first instant", quota.Decision{
			Limits: quota.Limits{RequestsPerMinute: 10}, Counts: quota.Counts{Minute: 10, Period: 5},
			Now: at("2028-02-19T10:00:00Z"), MinuteReset: at("2028-02-19T10:01:00Z"), Period: february,
		}, `
Ratelimit: "minute";r=0;t=60
Ratelimit-Policy: "minute";q=10;w=60
X-Ratelimit-Limit: 10
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 60
`},
		{"the month alone, over a limit that was lowered, at its last instant", quota.Decision{
			Limits: quota.Limits{RequestsPerMonth: 3}, Counts: quota.Counts{Minute: 10, Period: 5},
			Now: at("2028-02-29T23:59:59.999999999Z"), MinuteReset: at("2028-03-01T00:00:00Z"), Period: february,
		}, `
Ratelimit: "month";r=0;t=1
Ratelimit-Policy: "month";q=3;w=2505600
`},
		{"counts that this node alone knows", quota.Decision{
			Limits: quota.Limits{RequestsPerMinute: 10}, Counts: quota.Counts{Minute: 1, Basis: quota.LocalCounts},
			Now: at("2028-02-19T10:00:00Z"), MinuteReset: at("2028-02-19T10:01:00Z"), Period: february,
		}, `
Ratelimit: "minute";r=9;t=60
Ratelimit-Policy: "minute";q=10;w=60
X-Ratelimit-Limit: 10
X-Ratelimit-Remaining: 9
X-Ratelimit-Reset: 60
X-Ratelimit-Status: local
`},
		{"no limits and counts that nobody knows", quota.Decision{
			Counts: quota.Counts{Basis: quota.UnknownCounts},
			Now:    at("2028-02-19T10:00:00Z"), MinuteReset: at("2028-02-19T10:01:00Z"), Period: february,
		}, "\nX-Ratelimit-Status: unknown\n"},
		{"no limits", quota.Decision{Now: at("2028-02-29T00:00:00Z"), MinuteReset: at("2028-02-29T00:01:00Z"), Period: february}, "\n"},
		{"the largest numbers", quota.Decision{
			Limits: quota.Limits{RequestsPerMonth: 1<<63 - 1, RequestsPerMinute: 1<<63 - 1},
			Now:    at("2028-02-19T10:00:42.5Z"), MinuteReset: at("2028-02-19T10:01:00Z"), Period: february,
		}, `
Ratelimit: "minute";r=99999999999999;t=18, "month";r=99999999999999;t=914358
Ratelimit-Policy: "minute";q=99999999999999;w=60, "month";q=99999999999999;w=2505600
X-Ratelimit-Limit: 9223372036854775807
X-Ratelimit-Remaining: 9223372036854775807
X-Ratelimit-Reset: 18
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			var values [numLimitFields]string
			setLimits(header, &values, &test.Decision)
			got := "\n"
			for _, name := range slices.Sorted(maps.Keys(header)) {
				if http.CanonicalHeaderKey(name) != name {
					t.Errorf("the name %s cannot be looked up", name)
				}
				got += name + ": " + strings.Join(header[name], "|") + "\n"
			}
			if got != test.want {
				t.Errorf("got:%s\nwant:%s", got, test.want)
			}
			for _, name := range []string{"Ratelimit", "Ratelimit-Policy"} {
				if values := header[name]; len(values) > 0 {
					if _, err := httpsfv.UnmarshalList(values); err != nil {
						t.Errorf("%s is no structured field: %v", name, err)
					}
				}
			}
		})
	}
}
