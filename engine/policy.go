// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "fmt"

// Policy decides what probabilities mean. The zero value of a field stands for the default.
type Policy struct {
	// Thresholds holds, by [Category], the probability above which the category is flagged: above 0 and below 1.
	// Default: [DefaultThresholds].
	Thresholds [NumCategories]float64
	// RejectLevels holds, by [Category], the probability from which a flagged category is rejected and not only
	// reviewed: from the category's threshold to 1. Default: half-way from the threshold to 1.
	RejectLevels [NumCategories]float64
}

// DefaultThresholds are the default thresholds, by [Category].
var DefaultThresholds = [NumCategories]float64{Hate: 0.7, Harassment: 0.7, SelfHarm: 0.5, Sexual: 0.8, Violence: 0.6}

// nearThreshold is the share of a threshold from which a probability that is not flagged asks for review.
const nearThreshold = 0.8

// Validate reports the first level that is out of range. Thresholds are from 0 (the default) up to but not including 1;
// reject levels are 0 (the default) or from the category's threshold to 1.
func (p Policy) Validate() error {
	for c := range Category(NumCategories) {
		if t := p.Thresholds[c]; !(t >= 0 && t < 1) {
			return fmt.Errorf("threshold of %s is %v: must be above 0 and below 1, or 0 for the default %v",
				c, t, DefaultThresholds[c])
		}
		threshold := p.Thresholds[c]
		if threshold == 0 {
			threshold = DefaultThresholds[c]
		}
		if r := p.RejectLevels[c]; r != 0 && !(r >= threshold && r <= 1) {
			return fmt.Errorf(
				"reject level of %s is %v: must be from its threshold %v to 1, or 0 for the default half-way",
				c, r, threshold)
		}
	}
	return nil
}

// withDefaults replaces levels of 0 by the defaults.
func (p Policy) withDefaults() Policy {
	for c := range Category(NumCategories) {
		if p.Thresholds[c] == 0 {
			p.Thresholds[c] = DefaultThresholds[c]
		}
		if p.RejectLevels[c] == 0 {
			p.RejectLevels[c] = halfWay(p.Thresholds[c])
		}
	}
	return p
}

// halfWay is the default reject level for a threshold.
func halfWay(threshold float64) float64 { return (1 + threshold) / 2 }

// With returns p with the levels of override that are not 0. A threshold that is overridden without a reject level
// moves the reject level to its own half-way. A nil override changes nothing. If p has no level at 0, as the result of
// [Engine.Policy] has none, nor has the result.
func (p Policy) With(override *Policy) Policy {
	if override == nil {
		return p
	}
	for c := range Category(NumCategories) {
		if override.Thresholds[c] != 0 {
			p.Thresholds[c], p.RejectLevels[c] = override.Thresholds[c], halfWay(override.Thresholds[c])
		}
		if override.RejectLevels[c] != 0 {
			p.RejectLevels[c] = override.RejectLevels[c]
		}
	}
	return p
}

// Decide fills in what follows from the probabilities, the themes, the blocked expressions and the language of a
// result: what is flagged, the recommendation and the confidence. It takes the levels as they are, so p must have none
// at 0: see [Engine.Policy] and [Policy.With]. A result can be decided again by another policy, without classifying its
// text again.
func (p Policy) Decide(r *Result) {
	r.Flagged, r.Recommendation = false, Approve
	for c := range r.Categories {
		v := &r.Categories[c]
		v.Flagged = v.Probability > p.Thresholds[c]
		switch {
		case v.Flagged:
			r.Flagged = true
			if v.Probability >= p.RejectLevels[c] {
				r.Recommendation = Reject
			}
		case v.Probability >= nearThreshold*p.Thresholds[c] && r.Recommendation == Approve:
			r.Recommendation = Review
		}
	}
	for i := range r.Themes {
		if r.Themes[i].Flagged {
			r.Flagged, r.Recommendation = true, Reject
		}
	}
	if len(r.Blocked) > 0 {
		r.Flagged, r.Recommendation = true, Reject
	}
	if (r.Flagged || r.Least == Review) && r.Recommendation == Approve {
		r.Recommendation = Review
	}
	if r.Least == Reject {
		r.Recommendation = Reject
	}
	r.Confidence = confidence(r)
	if r.Language.isUnknown() && len(r.Blocked) == 0 {
		r.Confidence = min(r.Confidence, maxUnsupportedConfidence)
	}
}

// confidence is the probability that r.Flagged is right, from the calibrated probabilities. When something is flagged,
// it is the probability that at least one of the flagged categories and themes applies; when nothing is, it is the
// probability that none of all of them applies. It takes them as independent of each other. They are not quite, so the
// truth is a little closer to the largest of several moderate probabilities.
func confidence(r *Result) float64 {
	if len(r.Blocked) > 0 {
		return 1
	}
	none := 1.0 // the probability that none of those that count applies
	for _, c := range r.Categories {
		if c.Flagged || !r.Flagged {
			none *= 1 - c.Probability
		}
	}
	for _, t := range r.Themes {
		if t.Flagged || !r.Flagged {
			none *= 1 - t.Probability
		}
	}
	if r.Flagged {
		return 1 - none
	}
	return none
}
