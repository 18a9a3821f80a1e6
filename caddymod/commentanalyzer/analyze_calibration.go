// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import "github.com/caddy-moderation/caddy-moderation/engine"

// knot is a point of a calibration: the classifier's probability and the score that is answered for it.
type knot struct{ probability, score float64 }

// calibrations bring the probabilities of the embedded model to the scale of the Perspective API, where a score stands for
// the share of readers who would say that the attribute applies. An attribute without knots is answered with the probability itself.
var calibrations = [engine.NumAttributes][]knot{}

// calibrate returns the score for a probability: on the straight line between the knots around it. It is monotone, 0 for
// 0 and 1 for 1.
func calibrate(attribute int, probability float64) float64 {
	below := knot{0, 0}
	for _, above := range calibrations[attribute] {
		if probability < above.probability {
			return between(below, above, probability)
		}
		below = above
	}
	return between(below, knot{1, 1}, probability)
}

func between(a, b knot, p float64) float64 {
	if b.probability <= a.probability {
		return b.score
	}
	return a.score + (b.score-a.score)*(p-a.probability)/(b.probability-a.probability)
}
