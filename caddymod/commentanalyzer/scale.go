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
//	TOXICITY            0.74       0.55  0.49  0.41                  0.19  0.16  0.14
//	SEVERE_TOXICITY     0.51       0.44  0.47   -                    0.11  0.27   -
//	IDENTITY_ATTACK     0.54       0.48  0.43  0.47                  0.16  0.12  0.11
//	INSULT              0.64       0.54  0.49  0.46                  0.30  0.36  0.36
//	PROFANITY           0.59       0.69  0.68  0.58                  0.28  0.30  0.31
//	THREAT              0.34       0.35  0.36  0.33                  0.07  0.07  0.11
//	SEXUALLY_EXPLICIT   0.40       0.48  0.49  0.45                  0.20  0.17  0.13
//
// There are no published scores for SPAM. The table belongs to the model cascade-1-26800b17; it is fitted and
// measured by
//
//	go run ./engine/train/cmd/perspective --scores val.jsonl
var perspectiveScale = scale{
	engine.Toxicity: {
		{0.0016, 0.05}, {0.0043, 0.1}, {0.0113, 0.2}, {0.0244, 0.3}, {0.0414, 0.4}, {0.0716, 0.5}, {0.0963, 0.6},
		{0.178, 0.7}, {0.314, 0.8}, {0.529, 0.9}, {0.8206, 0.95},
	},
	engine.SevereToxicity: {
		{0.0007, 0.05}, {0.0016, 0.1}, {0.0032, 0.2}, {0.0055, 0.3}, {0.0084, 0.4}, {0.0123, 0.5}, {0.0248, 0.6},
		{0.0443, 0.7}, {0.3366, 0.8},
	},
	engine.IdentityAttack: {
		{0.0018, 0.05}, {0.0048, 0.1}, {0.0145, 0.2}, {0.0302, 0.3}, {0.0494, 0.4}, {0.0738, 0.5}, {0.0995, 0.6},
		{0.1858, 0.7}, {0.3341, 0.8}, {0.6698, 0.9},
	},
	engine.Insult: {
		{0.0005, 0.05}, {0.0018, 0.1}, {0.0061, 0.2}, {0.016, 0.3}, {0.0333, 0.4}, {0.0526, 0.5}, {0.1109, 0.6},
		{0.2326, 0.7}, {0.4759, 0.8}, {0.6897, 0.9}, {0.9556, 0.95},
	},
	engine.Profanity: {
		{0.0008, 0.05}, {0.0022, 0.1}, {0.0062, 0.2}, {0.0104, 0.3}, {0.0164, 0.4}, {0.0234, 0.5}, {0.0344, 0.6},
		{0.0509, 0.7}, {0.0872, 0.8}, {0.3422, 0.9}, {0.7638, 0.95},
	},
	engine.Threat: {
		{0.0008, 0.05}, {0.0024, 0.1}, {0.007, 0.2}, {0.0194, 0.3}, {0.0347, 0.4}, {0.0475, 0.5}, {0.0618, 0.6},
		{0.1039, 0.7}, {0.1366, 0.8}, {0.3669, 0.9}, {0.8957, 0.95},
	},
	engine.SexuallyExplicit: {
		{0.0004, 0.05}, {0.0017, 0.1}, {0.0113, 0.2}, {0.0265, 0.3}, {0.0412, 0.4}, {0.0526, 0.5}, {0.0686, 0.6},
		{0.0879, 0.7}, {0.1155, 0.8}, {0.2528, 0.9}, {0.3672, 0.95},
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
