// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quality_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/review/quality"
)

func near(a, b float64) bool { return math.Abs(a-b) < 0.0005 }

// TestInterval compares intervals with published ones: R. G. Newcombe, Two-sided confidence intervals for the single
// proportion, Statistics in Medicine 17, 1998, table I, method 3.
func TestInterval(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		share     quality.Share
		low, high float64
	}{
		{quality.Share{Count: 81, Total: 263}, 0.2553, 0.3662}, {quality.Share{Count: 15, Total: 148}, 0.0624, 0.1605},
		{quality.Share{Count: 0, Total: 20}, 0, 0.1611}, {quality.Share{Count: 1, Total: 29}, 0.0061, 0.1718},
		{quality.Share{Count: 20, Total: 20}, 0.8389, 1}, {quality.Share{}, 0, 1},
	} {
		if low, high := test.share.Interval(); !near(low, test.low) || !near(high, test.high) {
			t.Errorf("%+v: got %.4f to %.4f, want %.4f to %.4f", test.share, low, high, test.low, test.high)
		}
	}
}

// TestKappa uses an example that can be worked out by hand: 20 and 15 of 50 alike, chance 0.5, so (0.7-0.5)/0.5.
func TestKappa(t *testing.T) {
	t.Parallel()
	pairs := quality.Pairs{
		Both: quality.Share{Count: 35, Total: 50}, Approved: [2]int{25, 30}, Rejected: [2]int{25, 20},
	}
	if kappa, known := pairs.Kappa(); !known || !near(kappa, 0.4) {
		t.Errorf("got %v, %v, want 0.4", kappa, known)
	}
	for name, pairs := range map[string]quality.Pairs{
		"none": {}, "all alike": {Both: quality.Share{Count: 5, Total: 5}, Approved: [2]int{5, 5}},
	} {
		if kappa, known := pairs.Kappa(); known {
			t.Errorf("%s: got %v, want none", name, kappa)
		}
	}
}

// decided returns an item that ann has decided on a Wednesday.
func decided(recommendation string, hate float64, action review.Action, said map[string]bool) *review.Item {
	item := &review.Item{
		Cause: review.Reviewed, Recommendation: recommendation, Status: review.Approved,
		Probabilities: map[string]float64{"hate": hate, "violence": 0.01},
		Decisions: []review.Decision{{
			Reviewer: "ann", Action: action, Categories: said, Time: time.Date(2026, 11, 25, 23, 0, 0, 0, time.UTC),
		}},
	}
	if action == review.Reject {
		item.Status = review.Refused
	}
	if hate >= 0.5 {
		item.Flagged = []string{"hate"}
	}
	return item
}

// TestReport guards against counts of what nobody has said, and against the sample being mixed with what the judge has
// chosen itself.
func TestReport(t *testing.T) {
	t.Parallel()
	categories := []string{"hate", "violence"}
	counter := quality.NewCounter(categories)
	yes, no := map[string]bool{"hate": true}, map[string]bool{"hate": false}
	sampled := func(i *review.Item) *review.Item { i.Cause = review.Sampled; return i }
	waiting := decided("review", 0.9, review.Skip, nil)
	waiting.Status = review.Pending
	undone := decided("reject", 0.9, review.Approve, nil)
	undone.Decisions[0].Undone, undone.Status = true, review.Pending
	for _, item := range []*review.Item{
		decided("reject", 0.9, review.Reject, yes),           // right
		decided("reject", 0.8, review.Approve, nil),          // a false alarm
		decided("review", 0.6, review.Reject, no),            // rejected for something else
		decided("review", 0.6, review.Reject, nil),           // nobody has looked at a category
		sampled(decided("approve", 0.2, review.Reject, yes)), // a miss
		sampled(decided("approve", 0.1, review.Approve, nil)),
		sampled(decided("review", 0.5, review.Reject, yes)),
		waiting, undone,
	} {
		counter.Add(item)
	}
	r := counter.Report()
	if r.Items != 7 || r.Sampled != 3 {
		t.Errorf("got %d items and %d of the sample, want 7 and 3", r.Items, r.Sampled)
	}
	hate := r.Categories[0]
	for name, test := range map[string]struct{ got, want quality.Confusion }{
		"verdict":          {r.Verdict, quality.Confusion{TruePositives: 1, FalsePositives: 1, FalseNegatives: 1, TrueNegatives: 1}},
		"sample":           {r.Sample, quality.Confusion{TruePositives: 1, FalseNegatives: 1, TrueNegatives: 1}},
		"hate":             {hate.All, quality.Confusion{TruePositives: 2, FalsePositives: 2, FalseNegatives: 1, TrueNegatives: 1}},
		"hate, sample":     {hate.Sample, quality.Confusion{TruePositives: 1, FalseNegatives: 1, TrueNegatives: 1}},
		"violence":         {r.Categories[1].All, quality.Confusion{TrueNegatives: 2}},
		"violence, sample": {r.Categories[1].Sample, quality.Confusion{TrueNegatives: 1}},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, test.got, test.want)
		}
	}
	if got, want := hate.Sample.Recall(), (quality.Share{Count: 1, Total: 2}); got != want {
		t.Errorf("recall: got %+v, want %+v", got, want)
	}
	all, sample := hate.At(0.15)
	if all != (quality.Confusion{TruePositives: 3, FalsePositives: 2, TrueNegatives: 1}) ||
		sample != (quality.Confusion{TruePositives: 2, TrueNegatives: 1}) {
		t.Errorf("with the threshold 0.15: got %+v and %+v", all, sample)
	}
	if all, _ := hate.At(0.9); all.Flagged() != (quality.Share{Count: 1, Total: 6}) {
		t.Errorf("what is at the threshold is flagged: got %+v", all)
	}
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	want := []quality.Week{{Begin: monday, Agreement: quality.Share{Count: 5, Total: 8}}}
	if !slices.Equal(r.Weeks, want) {
		t.Errorf("got the weeks %+v, want %+v", r.Weeks, want)
	}
}

// TestPairs guards against decisions of one person, or of people who were not to decide both, being taken for two.
func TestPairs(t *testing.T) {
	t.Parallel()
	actions := map[byte]review.Action{'a': review.Approve, 'r': review.Reject, 's': review.Skip}
	by := func(decisions ...string) *review.Item {
		item := &review.Item{Twice: true, Status: review.Pending}
		for _, d := range decisions {
			item.Decisions = append(item.Decisions, review.Decision{
				Reviewer: d[2:], Action: actions[d[0]], Undone: d[1] == '-',
			})
		}
		return item
	}
	once := by("a+ann", "r+bob")
	once.Twice = false
	escalated := by("a+ann", "r+bob", "r+cyd")
	escalated.Status = review.Escalated
	counter := quality.NewCounter(nil)
	for _, item := range []*review.Item{
		by("a+ann"), by("a+ann", "r+ann"), by("a+ann", "s+bob"), by("a+ann", "r-bob"), once,
		by("a+ann", "a+bob"), by("r-ann", "a+ann", "s+cyd", "a+bob"), by("r+ann", "r+bob"), escalated,
	} {
		counter.Add(item)
	}
	got := counter.Report().Pairs
	want := quality.Pairs{Both: quality.Share{Count: 3, Total: 4}, Approved: [2]int{3, 2}, Rejected: [2]int{1, 2}}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDiffers goes through the ways in which people and the judge differ.
func TestDiffers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		item    *review.Item
		about   []string
		verdict bool
	}{
		"both reject":    {decided("reject", 0.9, review.Reject, map[string]bool{"hate": true}), nil, false},
		"a false alarm":  {decided("reject", 0.9, review.Approve, nil), []string{"hate"}, true},
		"a miss":         {decided("approve", 0.1, review.Reject, map[string]bool{"hate": true}), []string{"hate"}, true},
		"another reason": {decided("review", 0.6, review.Reject, map[string]bool{"violence": true}), []string{"violence"}, false},
	} {
		about, verdict := quality.Differs(test.item, []string{"hate", "violence"})
		if !slices.Equal(about, test.about) || verdict != test.verdict {
			t.Errorf("%s: got %v, %v, want %v, %v", name, about, verdict, test.about, test.verdict)
		}
	}
}
