// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "fmt"

// DefaultThresholds are the thresholds of the interface, by [Category].
var DefaultThresholds = [NumCategories]float64{Hate: 0.7, Harassment: 0.7, SelfHarm: 0.5, Sexual: 0.8, Violence: 0.6}

// nearThreshold is the part of a threshold from which a probability that is not flagged asks for review.
const nearThreshold = 0.8

// Validate reports the first level that is out of range. Thresholds are from 0 (the default) up to but not including 1;
// reject levels are 0 (the default) or from the category's threshold to 1.
func (p Policy) Validate() error {
	for c := range Category(NumCategories) {
		if t := p.Thresholds[c]; !(t >= 0 && t < 1) {
			return fmt.Errorf("threshold of %s is %v: must be above 0 and below 1, or 0 for the default %v", c, t, DefaultThresholds[c])
		}
		threshold := p.Thresholds[c]
		if threshold == 0 {
			threshold = DefaultThresholds[c]
		}
		if r := p.RejectLevels[c]; r != 0 && !(r >= threshold && r <= 1) {
			return fmt.Errorf("reject level of %s is %v: must be from its threshold %v to 1, or 0 for the default half-way", c, r, threshold)
		}
	}
	return nil
}

// withDefaults fills in what is 0.
func (p Policy) withDefaults() Policy {
	for c := range Category(NumCategories) {
		if p.Thresholds[c] == 0 {
			p.Thresholds[c] = DefaultThresholds[c]
		}
		if p.RejectLevels[c] == 0 {
			p.RejectLevels[c] = (1 + p.Thresholds[c]) / 2
		}
	}
	return p
}

// With returns p with the levels that override sets; nil sets none. A threshold that is overridden without a reject level
// moves the reject level to its own half-way. Of the result of [Engine.Policy] nothing is left at 0.
func (p Policy) With(override *Policy) Policy {
	if override == nil {
		return p
	}
	for c := range Category(NumCategories) {
		if override.Thresholds[c] != 0 {
			p.Thresholds[c], p.RejectLevels[c] = override.Thresholds[c], (1+override.Thresholds[c])/2
		}
		if override.RejectLevels[c] != 0 {
			p.RejectLevels[c] = override.RejectLevels[c]
		}
	}
	return p
}

// Decide fills in what follows from the probabilities and the themes of a result: what is flagged, the recommendation and
// the confidence. It decides by the levels as they are, so p must have none at 0: see [Engine.Policy] and [Policy.With].
// A result that was decided can be decided again by another policy, without judging the text again.
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
	if r.Flagged && r.Recommendation == Approve {
		r.Recommendation = Review
	}
	r.Confidence = confidence(r)
}

// confidence is the probability that r.Flagged is right, from the calibrated probabilities. When something is flagged
// it is the probability that at least one of the flagged harms and themes is real; when nothing is, it is the
// probability that none of the categories and themes is real. The harms are taken as independent of each other, which
// they are not quite, so the truth of several moderate probabilities lies a little closer to the largest of them.
func confidence(r *Result) float64 {
	none := 1.0 // the probability that none of those that count is real
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
