// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"cmp"
	"math"
	"slices"
)

// Scored is a score with the truth.
type Scored struct {
	// P is the score; a probability where a function says so.
	P float64
	// Yes is the truth.
	Yes bool
}

// AUC is the area under the ROC curve: the probability that a random yes scores above a random no, ties counting half
// (the Mann-Whitney statistic over the product of the counts). NaN without a yes or without a no.
func AUC(s []Scored) float64 {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b Scored) int { return cmp.Compare(a.P, b.P) })
	var ranks, yes, no float64
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j].P == s[i].P {
			j++
		}
		rank := float64(i+j+1) / 2
		for ; i < j; i++ {
			if s[i].Yes {
				ranks += rank
				yes++
			} else {
				no++
			}
		}
	}
	return (ranks - yes*(yes+1)/2) / (yes * no)
}

// AveragePrecision is the area under the precision-recall curve, as the mean of the precision at each yes. Equal scores
// are taken together. NaN without a yes.
func AveragePrecision(s []Scored) float64 {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b Scored) int { return cmp.Compare(b.P, a.P) })
	var seen, yes, sum float64
	for i := 0; i < len(s); {
		found := 0.0
		p := s[i].P
		for ; i < len(s) && s[i].P == p; i++ {
			seen++
			if s[i].Yes {
				found++
			}
		}
		yes += found
		sum += found * yes / seen
	}
	return sum / yes
}

// Counts are decisions beside the truth.
type Counts struct {
	// TP and FP are the flagged ones, rightly and wrongly; FN and TN the others, wrongly and rightly.
	TP, FP, FN, TN int
}

// Add counts a decision.
func (c *Counts) Add(flagged, yes bool) {
	switch {
	case flagged && yes:
		c.TP++
	case flagged:
		c.FP++
	case yes:
		c.FN++
	default:
		c.TN++
	}
}

// Precision is the share of yes among the flagged. NaN when nothing is flagged.
func (c Counts) Precision() float64 { return ratio(c.TP, c.TP+c.FP) }

// Recall is the share of the flagged among yes. NaN without a yes.
func (c Counts) Recall() float64 { return ratio(c.TP, c.TP+c.FN) }

// Specificity is the share of those not flagged among no. NaN without a no.
func (c Counts) Specificity() float64 { return ratio(c.TN, c.TN+c.FP) }

// F1 is the harmonic mean of precision and recall, as 2·TP / (2·TP + FP + FN). NaN when there is no yes and nothing is
// flagged.
func (c Counts) F1() float64 { return ratio(2*c.TP, 2*c.TP+c.FP+c.FN) }

// BalancedAccuracy is the mean of recall and specificity. NaN where one of them is.
func (c Counts) BalancedAccuracy() float64 { return (c.Recall() + c.Specificity()) / 2 }

// AtThreshold counts the decisions at a threshold: flagged is what scores strictly above it, as in the service.
func AtThreshold(s []Scored, threshold float64) (c Counts) {
	for _, x := range s {
		c.Add(x.P > threshold, x.Yes)
	}
	return c
}

// ECEBins is the number of bins of [ECE].
const ECEBins = 10

// ECE is the expected calibration error of probabilities: they are put in ten bins of equal width (0 to 0.1, and so on; a
// bin holds its lower end, the last one also 1), and the distances of each bin's mean probability from its share of yes
// are averaged, weighted by the size of the bin. NaN without a case.
func ECE(s []Scored) float64 {
	var p, yes [ECEBins]float64
	for _, x := range s {
		b := min(int(x.P*ECEBins), ECEBins-1)
		p[b] += x.P
		if x.Yes {
			yes[b]++
		}
	}
	var sum float64
	for b := range ECEBins {
		sum += math.Abs(p[b] - yes[b])
	}
	return sum / float64(len(s))
}

// Spearman is the rank correlation of x and y, which are equally long: Pearson's correlation of the ranks, where equal
// values share the mean of their ranks. NaN when x or y holds fewer than two different values.
func Spearman(x, y []float64) float64 {
	x, y = ranks(x), ranks(y)
	// The mean of ranks is the same with and without ties.
	mean := float64(len(x)+1) / 2
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mean, y[i]-mean
		xy += dx * dy
		xx += dx * dx
		yy += dy * dy
	}
	return xy / math.Sqrt(xx*yy)
}

// ranks returns the rank of each value, from 1 for the smallest.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		rank := float64(i+j+1) / 2
		for ; i < j; i++ {
			out[order[i]] = rank
		}
	}
	return out
}

// RecallAtFalseHits returns the recall at the lowest threshold above which at most the given share (from 0 to below 1)
// of no scores, and that threshold. It is a score of a no, and what counts as found lies strictly above it, so equal scores are not
// split. NaN, both, without a yes or without a no.
func RecallAtFalseHits(s []Scored, share float64) (recall, threshold float64) {
	var yes, no []float64
	for _, x := range s {
		if x.Yes {
			yes = append(yes, x.P)
		} else {
			no = append(no, x.P)
		}
	}
	if len(yes) == 0 || len(no) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(no)
	// The product of a share such as 0.01 and a count may fall just short of the whole number that is meant.
	allowed := int(share*float64(len(no)) + 1e-9)
	threshold = no[len(no)-1-allowed]
	found := 0
	for _, p := range yes {
		if p > threshold {
			found++
		}
	}
	return ratio(found, len(yes)), threshold
}

// ratio is a share, NaN of nothing.
func ratio(part, whole int) float64 { return float64(part) / float64(whole) }
