// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares JSON with a file, as text but for indentation, so that the order of members counts.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, bytes.TrimSpace(got), "", "\t"); err != nil {
		t.Fatalf("indenting %s: %v", got, err)
	}
	pretty.WriteByte('\n')
	file := filepath.Join("..", "..", "testdata", "replies", name)
	if *update {
		if err := os.WriteFile(file, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pretty.Bytes(), want) {
		t.Errorf("got:\n%swant:\n%s", pretty.Bytes(), want)
	}
}

// TestResultOnTheWire is the golden test of the moderation result.
func TestResultOnTheWire(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 9, 5, 7, 60_000_000, time.FixedZone("", 3600))
	var calm engine.Result
	calm.Confidence, calm.Recommendation, calm.TokensUsed = 0.98765432, engine.Approve, 5
	for i := range calm.Categories {
		calm.Categories[i].Probability = float64(i) / 1000
	}
	request, invalid := decode([]byte(`{"content":"caf\u00e9 \"noir\" 😀"}`), false)
	if invalid != nil {
		t.Fatalf("the request was refused: %v", invalid)
	}
	golden(t, "result.json", appendResult(nil, "mod_0123456789abcdefghijklmn", &request, &calm, nil, now))

	hit := calm
	hit.Flagged, hit.Recommendation = true, engine.Reject
	hit.Categories[engine.Violence] = engine.CategoryResult{Flagged: true, Probability: 0.60000001}
	hit.Themes = []engine.ThemeResult{
		{Theme: "war \"and\" peace", Flagged: true, Probability: 0.9, Matches: []engine.Span{{Begin: 0, End: 4}, {Begin: 10, End: 12}}},
		{Theme: "z", Probability: 0.1},
		{Theme: "a", Probability: 0},
	}
	golden(t, "result_themes.json", appendResult(nil, "mod_0123456789abcdefghijklmn", &request, &hit, nil, now))

	explanation := engine.Explanation{
		engine.Sexual: {Passage: engine.Span{Begin: 3, End: 13}},
		engine.Violence: {
			Evidence: []engine.Evidence{
				{Span: engine.Span{Begin: 0, End: 4}, Weight: 0.75},
				{Span: engine.Span{Begin: 12, End: 13}, Weight: 0.1234567},
			},
			Passage: engine.Span{Begin: 0, End: 13},
		},
		// A classifier of others may know no passage.
		engine.Hate: {Evidence: []engine.Evidence{{Span: engine.Span{Begin: 1, End: 2}, Weight: 1}}},
	}
	golden(t, "result_explained.json", appendResult(nil, "mod_0123456789abcdefghijklmn", &request, &hit, &explanation, now))
}

// TestUsageOnTheWire is the golden test of the usage report.
func TestUsageOnTheWire(t *testing.T) {
	t.Parallel()
	now := time.Date(2028, 2, 29, 23, 59, 30, 0, time.UTC)
	usage := quota.Usage{
		Account: quota.Account{ID: "acme", Tier: "growth", Status: quota.PastDue},
		Limits:  quota.Limits{RequestsPerMonth: 3, RequestsPerMinute: 120},
		Counts:  quota.Counts{Minute: 1, Day: 1, Period: 1},
		Now:     now, MinuteReset: now.Truncate(time.Minute).Add(time.Minute),
		Period:  quota.PeriodOf(31, now),
		Days:    []quota.DayCount{{Date: "2028-02-29", Requests: 1}, {Date: "2028-02-28", Requests: 0}},
		Flagged: map[string]int64{"violence": 1, "hate": 2, "self-harm": 3},
	}
	for name, change := range map[string]func(){
		"usage.json":           func() {},
		"usage_unlimited.json": func() { usage.Limits, usage.Flagged = quota.Limits{}, nil },
		"usage_over.json": func() {
			usage.Limits = quota.Limits{RequestsPerMonth: 7, RequestsPerMinute: 1}
			usage.Counts = quota.Counts{Minute: 5, Day: 20, Period: 20}
		},
	} {
		saved := usage
		change()
		encoded, err := jsonv2.Marshal(newUsageReport(&usage), jsonv2.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, encoded)
		usage = saved
	}
}
