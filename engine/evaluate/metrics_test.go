// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"math"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

// scored makes cases of scores and their truth, a letter each: Y is yes.
func scored(truth string, p ...float64) []evaluate.Scored {
	var out []evaluate.Scored
	for i, c := range truth {
		out = append(out, evaluate.Scored{Score: p[i], Positive: c == 'Y'})
	}
	return out
}

var nan = math.NaN()

// same compares figures; NaN is NaN.
func same(t *testing.T, name string, got, want float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > 1e-12 {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

func TestAUC(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hazard string
		s      []evaluate.Scored
		want   float64
	}{
		// Yes at .9, .7, .4; no at .8, .4, .1. Pairs won of 3*3: .9 beats all 3; .7 beats .4 and .1; .4 ties with .4
		// (half) and beats .1.
		{"a tie between yes and no", scored("YnYYnn", .9, .8, .7, .4, .4, .1), (3 + 2 + 1.5) / 9},
		{"any order of the cases", scored("nYnYnY", .1, .4, .4, .7, .8, .9), (3 + 2 + 1.5) / 9},
		{"perfect", scored("Yn", .9, .1), 1},
		{"reversed", scored("Yn", .1, .9), 0},
		{"all scores equal: every pair is half won", scored("YYnn", .5, .5, .5, .5), .5},
		// Ties among yes alone change nothing: both beat .1 and lose to .9.
		{"a tie among yes", scored("YYnn", .5, .5, .9, .1), .5},
		{"no yes", scored("nn", .1, .2), nan},
		{"no no", scored("Y", .5), nan},
		{"nothing", nil, nan},
	} {
		same(t, row.hazard, evaluate.AUC(row.s), row.want)
	}
}

func TestAveragePrecision(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hazard string
		s      []evaluate.Scored
		want   float64
	}{
		// By score: yes (precision 1/1), no, yes (2/3), {yes, no} together (3/5), no.
		{"a tie between yes and no", scored("YnYYnn", .9, .8, .7, .4, .4, .1), (1 + 2./3 + 3./5) / 3},
		{"perfect", scored("YYn", .9, .8, .1), 1},
		// The only yes is the last of three: 1/3.
		{"worst", scored("nnY", .9, .8, .1), 1. / 3},
		// One group of four with two yes: both at precision 2/4.
		{"all scores equal: the share of yes", scored("YnYn", .5, .5, .5, .5), .5},
		{"no no", scored("YY", .9, .1), 1},
		{"no yes", scored("n", .9), nan},
		{"nothing", nil, nan},
	} {
		same(t, row.hazard, evaluate.AveragePrecision(row.s), row.want)
	}
}

func TestAtThreshold(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hazard                                       string
		s                                            []evaluate.Scored
		threshold                                    float64
		precision, recall, f1, specificity, balanced float64
	}{
		// Above .4: .9 yes, .8 no, .7 yes; not above: .4 yes, .4 no, .1 no. TP 2, FP 1, FN 1, TN 2.
		{"a score at the threshold is not flagged", scored("YnYYnn", .9, .8, .7, .4, .4, .1), .4, 2. / 3, 2. / 3, 4. / 6, 2. / 3, 2. / 3},
		// TP 1, FP 0, FN 3, TN 1: recall 1/4, F1 2/(2+0+3), balanced (1/4+1)/2.
		{"precision and recall differ", scored("YYYYn", .9, .1, .1, .1, .1), .5, 1, .25, .4, 1, .625},
		// TP 0, FP 0, FN 1, TN 1.
		{"nothing is flagged", scored("Yn", .1, .1), .5, nan, 0, 0, 1, .5},
		// TP 0, FP 1, FN 0, TN 1.
		{"no yes", scored("nn", .9, .1), .5, 0, nan, 0, .5, nan},
		{"no no", scored("Y", .9), .5, 1, 1, 1, nan, nan},
		{"neither yes nor flagged", scored("n", .1), .5, nan, nan, nan, 1, nan},
		{"nothing", nil, .5, nan, nan, nan, nan, nan},
	} {
		c := evaluate.AtThreshold(row.s, row.threshold)
		same(t, row.hazard+", precision", c.Precision(), row.precision)
		same(t, row.hazard+", recall", c.Recall(), row.recall)
		same(t, row.hazard+", F1", c.F1(), row.f1)
		same(t, row.hazard+", specificity", c.Specificity(), row.specificity)
		same(t, row.hazard+", balanced accuracy", c.BalancedAccuracy(), row.balanced)
	}
}

func TestECE(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hazard string
		s      []evaluate.Scored
		want   float64
	}{
		// Bin .9 to 1: |.95-1|. Bin .1 to .2: two of .15 with one yes, |.30-1|. Over 3 cases.
		{"two bins", scored("YYn", .95, .15, .15), (.05 + .70) / 3},
		// .25 and .25 with one yes, and two of .25 more with none: mean .25, share 1/4.
		{"calibrated", scored("Ynnn", .25, .25, .25, .25), 0},
		// .5 lies in the bin .5 to .6 with .58: |1.08-1| over 2. In the bin below it would be (.5 + .42)/2.
		{"a bin holds its lower end", scored("nY", .5, .58), .08 / 2},
		// 1 lies in the last bin with .92: |1.92-1| over 2.
		{"the last bin holds 1", scored("nY", 1, .92), .92 / 2},
		{"sure and wrong", scored("nY", 1, 0), 1},
		{"no yes", scored("nn", .1, .3), .2},
		{"nothing", nil, nan},
	} {
		same(t, row.hazard, evaluate.ECE(row.s), row.want)
	}
}

func TestSpearman(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hazard string
		x, y   []float64
		want   float64
	}{
		{"the same order", []float64{.1, .2, .9}, []float64{0, .5, .6}, 1},
		{"the reverse order", []float64{.1, .2, .9}, []float64{1, .5, .2}, -1},
		// Ranks 1 2 3 4 5 and 2 1 4 3 5: the squares of the differences are 1 1 1 1 0; 1 - 6*4/(5*24).
		{"without ties, by the formula of squared differences", []float64{1, 2, 3, 4, 5}, []float64{20, 10, 40, 30, 50}, .8},
		// Ranks 1 2 3 4 and 1 2.5 2.5 4, mean 2.5. Products of the deviations: 2.25+0+0+2.25 = 4.5; squares: 5 and
		// 2.25+0+0+2.25 = 4.5. 4.5/sqrt(5*4.5) = sqrt(0.9).
		{"a tie", []float64{1, 2, 3, 4}, []float64{0, .5, .5, 1}, math.Sqrt(.9)},
		{"a constant", []float64{1, 2, 3}, []float64{.5, .5, .5}, nan},
		{"one", []float64{1}, []float64{1}, nan},
		{"nothing", nil, nil, nan},
	} {
		same(t, row.hazard, evaluate.Spearman(row.x, row.y), row.want)
	}
}

func TestRecallAtFalseHits(t *testing.T) {
	t.Parallel()
	// A hundred no at 0, .01, ..., .99, and yes as given.
	hundred := func(yes ...float64) []evaluate.Scored {
		var s []evaluate.Scored
		for i := range 100 {
			s = append(s, evaluate.Scored{Score: float64(i) / 100})
		}
		for _, p := range yes {
			s = append(s, evaluate.Scored{Score: p, Positive: true})
		}
		return s
	}
	many := func(n int) (s []evaluate.Scored) { // n no at 1, 2, ..., n, and a yes above the 29 highest
		for i := range n {
			s = append(s, evaluate.Scored{Score: float64(i + 1)})
		}
		return append(s, evaluate.Scored{Score: float64(n) - 28.5, Positive: true})
	}
	for _, row := range []struct {
		hazard            string
		s                 []evaluate.Scored
		share             float64
		recall, threshold float64
	}{
		// One of 100 may lie above, which is .99: the threshold is .98, and .985 and .999 are found, .98 is not.
		{"1 % of 100", hundred(.5, .98, .985, .999), .01, .5, .98},
		// None may lie above: the threshold is .99.
		{"0.5 % of 100 is none", hundred(.5, .98, .985, .999), .005, .25, .99},
		// 0.01*2900 is 28.999999999999996 in floating point, but 29 may lie above: the threshold is 2900-29.
		{"the product is just short of a whole number", many(2900), .01, 1, 2871},
		// One of two may lie above, but both lie at .7: the threshold is .7, and nothing above it.
		{"equal scores are not split", scored("nnYY", .7, .7, .7, .8), .5, .5, .7},
		{"no no", scored("Y", .7), .01, nan, nan},
		{"no yes", scored("n", .7), .01, nan, nan},
		{"nothing", nil, .01, nan, nan},
	} {
		recall, threshold := evaluate.RecallAtFalseHits(row.s, row.share)
		same(t, row.hazard+", recall", recall, row.recall)
		same(t, row.hazard+", threshold", threshold, row.threshold)
	}
}

// TestMetricsLeaveTheCasesAlone: sorting works on a copy.
func TestMetricsLeaveTheCasesAlone(t *testing.T) {
	t.Parallel()
	s := scored("nYn", .9, .1, .5)
	evaluate.AUC(s)
	evaluate.AveragePrecision(s)
	evaluate.RecallAtFalseHits(s, .01)
	if s[0].Score != .9 || s[1].Score != .1 || s[2].Score != .5 {
		t.Errorf("the arguments changed to %v, want them as they were", s)
	}
}
