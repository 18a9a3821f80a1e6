// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// knot is a point of a scale: a probability of the classifier and the score that is answered for it.
type knot struct{ probability, score float64 }

// scale holds the knots of each attribute, ascending in both. The score of an attribute without knots is the
// probability itself.
type scale [engine.NumAttributes][]knot

// perspectiveScale maps the probabilities of the embedded model to the scale of the Perspective API, so that a
// threshold that was chosen there keeps its meaning.
//
// Evidence: the scores that were published (in 2020) for 9,935 distinct texts of RealToxicityPrompts, halves of
// sentences from web pages, sampled evenly over their toxicity. The two scales were equated on half of the texts:
// with the table, as many comments exceed a score as at the Perspective API. For that the texts are weighted so that
// four of five are harmless, as comments are. Equated on the sample as it is, half of it toxic, harmless comments
// would score too high. Measured on the other half, 4,923 texts:
//
//	                   Spearman   Cohen's kappa at 0.7, 0.8, 0.9     without the table
//	TOXICITY            0.76       0.56  0.52  0.38                  0.31  0.30  0.29
//	SEVERE_TOXICITY     0.48       0.41  0.42   -                    0.14  0.25   -
//	IDENTITY_ATTACK     0.52       0.44  0.40  0.42                  0.29  0.28  0.39
//	INSULT              0.63       0.53  0.53  0.47                  0.40  0.43  0.39
//	PROFANITY           0.61       0.70  0.70  0.64                  0.42  0.46  0.50
//	THREAT              0.35       0.34  0.35  0.36                  0.17  0.16  0.07
//	SEXUALLY_EXPLICIT   0.39       0.46  0.46  0.43                  0.30  0.29  0.22
//
// There are no published scores for SPAM. The table belongs to the model cascade-1-44839a1d; it is fitted and
// measured by
//
//	go run ./engine/train/cmd/perspective --scores val.jsonl
var perspectiveScale = scale{
	engine.Toxicity: {
		{0.003, 0.05}, {0.0087, 0.1}, {0.0244, 0.2}, {0.0537, 0.3}, {0.0861, 0.4}, {0.1476, 0.5}, {0.2008, 0.6},
		{0.3019, 0.7}, {0.4551, 0.8}, {0.6959, 0.9}, {0.91, 0.95},
	},
	engine.SevereToxicity: {
		{0.0008, 0.05}, {0.0019, 0.1}, {0.0046, 0.2}, {0.008, 0.3}, {0.0122, 0.4}, {0.0183, 0.5}, {0.0308, 0.6},
		{0.0708, 0.7}, {0.3578, 0.8},
	},
	engine.IdentityAttack: {
		{0.0039, 0.05}, {0.011, 0.1}, {0.036, 0.2}, {0.0776, 0.3}, {0.1206, 0.4}, {0.1828, 0.5}, {0.264, 0.6},
		{0.4215, 0.7}, {0.6162, 0.8}, {0.8329, 0.9},
	},
	engine.Insult: {
		{0.0013, 0.05}, {0.0044, 0.1}, {0.0146, 0.2}, {0.0335, 0.3}, {0.0681, 0.4}, {0.1016, 0.5}, {0.2157, 0.6},
		{0.3536, 0.7}, {0.5687, 0.8}, {0.7929, 0.9}, {0.9647, 0.95},
	},
	engine.Profanity: {
		{0.0013, 0.05}, {0.0039, 0.1}, {0.0112, 0.2}, {0.0185, 0.3}, {0.0277, 0.4}, {0.0437, 0.5}, {0.0708, 0.6},
		{0.1011, 0.7}, {0.2011, 0.8}, {0.6406, 0.9}, {0.9316, 0.95},
	},
	engine.Threat: {
		{0.002, 0.05}, {0.006, 0.1}, {0.0179, 0.2}, {0.0492, 0.3}, {0.0878, 0.4}, {0.1204, 0.5}, {0.1528, 0.6},
		{0.2538, 0.7}, {0.3324, 0.8}, {0.615, 0.9}, {0.8493, 0.95},
	},
	engine.SexuallyExplicit: {
		{0.0007, 0.05}, {0.0033, 0.1}, {0.0279, 0.2}, {0.0747, 0.3}, {0.1276, 0.4}, {0.1458, 0.5}, {0.1717, 0.6},
		{0.2269, 0.7}, {0.2769, 0.8}, {0.5417, 0.9}, {0.6619, 0.95},
	},
	engine.Spam: nil,
}

// embeddedModels is the beginning of the versions of the models that the scale is for.
const embeddedModels = "cascade-"

// scaleOf returns the scale for a classifier of this version. The scores of others than the embedded model are not
// changed.
func scaleOf(version string) *scale {
	if strings.HasPrefix(version, embeddedModels) {
		return &perspectiveScale
	}
	return new(scale)
}

// score returns the score for a probability, interpolated linearly between the knots around it, from 0 for 0 to 1 for
// 1.
func (s *scale) score(attribute int, probability float64) float64 {
	below := knot{}
	for _, above := range s[attribute] {
		if probability <= above.probability {
			return between(below, above, probability)
		}
		below = above
	}
	return between(below, knot{1, 1}, probability)
}

// between interpolates between two knots.
func between(a, b knot, p float64) float64 {
	return a.score + (b.score-a.score)*(p-a.probability)/(b.probability-a.probability)
}
