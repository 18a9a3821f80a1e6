// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"cmp"
	"math"
	"slices"
)

// Scored is a score with the true answer.
type Scored struct {
	// Score is any number, or a probability where a function says so.
	Score float64
	// Positive is the true answer.
	Positive bool
}

// AUC returns the area under the ROC curve: the probability that a random positive scores above a random negative,
// where ties count half (the Mann-Whitney statistic divided by the product of the counts). It is NaN without a
// positive or without a negative.
func AUC(s []Scored) float64 {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b Scored) int { return cmp.Compare(a.Score, b.Score) })
	var ranks, yes, no float64
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j].Score == s[i].Score {
			j++
		}
		rank := float64(i+j+1) / 2
		for ; i < j; i++ {
			if s[i].Positive {
				ranks += rank
				yes++
			} else {
				no++
			}
		}
	}
	return (ranks - yes*(yes+1)/2) / (yes * no)
}

// AveragePrecision returns the area under the precision-recall curve, as the mean of the precision at each positive.
// Equal scores are taken together. It is NaN without a positive.
func AveragePrecision(s []Scored) float64 {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b Scored) int { return cmp.Compare(b.Score, a.Score) })
	var seen, yes, sum float64
	for i := 0; i < len(s); {
		found := 0.0
		p := s[i].Score
		for ; i < len(s) && s[i].Score == p; i++ {
			seen++
			if s[i].Positive {
				found++
			}
		}
		yes += found
		sum += found * yes / seen
	}
	return sum / yes
}

// Counts counts decisions by what they were and what they should have been.
type Counts struct {
	// TP and FP are flagged, rightly and wrongly. FN and TN are not flagged, wrongly and rightly.
	TP, FP, FN, TN int
}

// Add counts a decision.
func (c *Counts) Add(flagged, positive bool) {
	switch {
	case flagged && positive:
		c.TP++
	case flagged:
		c.FP++
	case positive:
		c.FN++
	default:
		c.TN++
	}
}

// Precision returns the share of positives among the flagged. It is NaN if nothing is flagged.
func (c Counts) Precision() float64 { return ratio(c.TP, c.TP+c.FP) }

// Recall returns the share of the flagged among the positives. It is NaN without a positive.
func (c Counts) Recall() float64 { return ratio(c.TP, c.TP+c.FN) }

// Specificity returns the share of the unflagged among the negatives. It is NaN without a negative.
func (c Counts) Specificity() float64 { return ratio(c.TN, c.TN+c.FP) }

// F1 returns the harmonic mean of precision and recall, as 2·TP / (2·TP + FP + FN). It is NaN if there is no positive
// and nothing is flagged.
func (c Counts) F1() float64 { return ratio(2*c.TP, 2*c.TP+c.FP+c.FN) }

// BalancedAccuracy returns the mean of recall and specificity. It is NaN if one of them is.
func (c Counts) BalancedAccuracy() float64 { return (c.Recall() + c.Specificity()) / 2 }

// AtThreshold counts the decisions at a threshold. A score is flagged strictly above it, as in the service.
func AtThreshold(s []Scored, threshold float64) (c Counts) {
	for _, x := range s {
		c.Add(x.Score > threshold, x.Positive)
	}
	return c
}

// ECEBins is the number of bins of [ECE].
const ECEBins = 10

// ECE returns the expected calibration error of probabilities. They are put into ten bins of equal width (0 to 0.1, and
// so on; a bin includes its lower end, the last one also 1). The distances between each bin's mean probability and its
// share of positives are averaged, weighted by the size of the bin. It is NaN for no scores.
func ECE(s []Scored) float64 {
	var p, yes [ECEBins]float64
	for _, x := range s {
		b := min(int(x.Score*ECEBins), ECEBins-1)
		p[b] += x.Score
		if x.Positive {
			yes[b]++
		}
	}
	var sum float64
	for b := range ECEBins {
		sum += math.Abs(p[b] - yes[b])
	}
	return sum / float64(len(s))
}

// Spearman returns the rank correlation of x and y, which must have the same length: Pearson's correlation of the
// ranks, where equal values share the mean of their ranks. It is NaN if x or y holds fewer than two different values.
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

// RecallAtFalseHits returns the recall at the lowest threshold above which at most the given share (from 0 to below
// 1) of the negatives score, and that threshold. The threshold is the score of a negative, and hits score strictly
// above it, so equal scores are not split. Both are NaN without a positive or without a negative.
func RecallAtFalseHits(s []Scored, share float64) (recall, threshold float64) {
	var positives, negatives []float64
	for _, x := range s {
		if x.Positive {
			positives = append(positives, x.Score)
		} else {
			negatives = append(negatives, x.Score)
		}
	}
	if len(positives) == 0 || len(negatives) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(negatives)
	// The product of a share such as 0.01 and a count may fall just short of the integer that is meant.
	allowed := int(share*float64(len(negatives)) + 1e-9)
	threshold = negatives[len(negatives)-1-allowed]
	found := 0
	for _, p := range positives {
		if p > threshold {
			found++
		}
	}
	return ratio(found, len(positives)), threshold
}

// ratio returns part as a share of whole, or NaN if whole is 0.
func ratio(part, whole int) float64 { return float64(part) / float64(whole) }
