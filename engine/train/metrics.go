// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math"
	"slices"
)

// Scored is a probability with the truth.
type Scored struct {
	P   float64
	Yes bool
}

// AUC is the probability that a random yes scores above a random no, ties counting half. NaN without both.
func AUC(s []Scored) float64 {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b Scored) int {
		switch {
		case a.P < b.P:
			return -1
		case a.P > b.P:
			return 1
		}
		return 0
	})
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

// AveragePrecision is the area under the precision-recall curve, as the mean of the precision at each yes. Ties are
// taken together.
func AveragePrecision(s []Scored) float64 {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b Scored) int {
		switch {
		case a.P > b.P:
			return -1
		case a.P < b.P:
			return 1
		}
		return 0
	})
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

// At are the figures at a threshold: flagged is strictly above it.
type At struct {
	Precision, Recall, F1, Specificity float64
}

// AtThreshold computes the figures at a threshold. A figure without a case is NaN.
func AtThreshold(s []Scored, threshold float64) At {
	var tp, fp, fn, tn float64
	for _, x := range s {
		switch flagged := x.P > threshold; {
		case flagged && x.Yes:
			tp++
		case flagged:
			fp++
		case x.Yes:
			fn++
		default:
			tn++
		}
	}
	return At{Precision: tp / (tp + fp), Recall: tp / (tp + fn), F1: 2 * tp / (2*tp + fp + fn), Specificity: tn / (tn + fp)}
}

// ECE is the expected calibration error over ten equal bins: the mean distance of the probability from the share of
// yes, weighted by the size of the bin.
func ECE(s []Scored) float64 {
	const bins = 10
	var count, p, yes [bins]float64
	for _, x := range s {
		b := min(int(x.P*bins), bins-1)
		count[b]++
		p[b] += x.P
		if x.Yes {
			yes[b]++
		}
	}
	var sum float64
	for b := range bins {
		sum += math.Abs(p[b] - yes[b])
	}
	return sum / float64(len(s))
}
