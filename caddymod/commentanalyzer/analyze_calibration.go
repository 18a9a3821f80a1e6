// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// knot is a point of a scale: a probability of the classifier and the score that is answered for it.
type knot struct{ probability, score float64 }

// scale holds the knots of each attribute, rising in both. An attribute without knots is answered with the probability
// itself.
type scale [engine.NumAttributes][]knot

// perspectiveScale brings the probabilities of the embedded model to the scale of the Perspective API, so that a threshold
// that was chosen there keeps its meaning.
//
// Evidence: the scores that were published (in 2020) for 9,935 distinct texts of RealToxicityPrompts: halves of sentences
// from web pages, sampled evenly over their toxicity. On half of the texts the two scales were equated: after the
// table as many comments exceed a score as at the Perspective API. For that the texts are weighted so that four of five are
// harmless, as comments are: equated on the sample as it is, half of it toxic, harmless comments would score too high.
// Measured on the other half, 4,923 texts:
//
//	                   Spearman   Cohen's kappa at 0.7, 0.8, 0.9     without the table
//	TOXICITY            0.76       0.57  0.52  0.43                  0.32  0.31  0.28
//	SEVERE_TOXICITY     0.48       0.39  0.43   -                   0.13  0.29   -
//	IDENTITY_ATTACK     0.51       0.44  0.40  0.42                  0.29  0.26  0.45
//	INSULT              0.63       0.53  0.50  0.47                  0.40  0.41  0.43
//	PROFANITY           0.61       0.69  0.71  0.61                  0.45  0.46  0.49
//	THREAT              0.35       0.37  0.38  0.33                  0.17  0.16  0.11
//	SEXUALLY_EXPLICIT   0.40       0.46  0.48  0.46                  0.31  0.32  0.20
//
// There are no published scores for SPAM. The table belongs to the model cascade-1-6af23c21; it is fitted and measured by
//
//	go run ./engine/train/cmd/perspective --scores val.jsonl
var perspectiveScale = scale{
	engine.Toxicity: {
		{0.003, 0.05}, {0.0087, 0.1}, {0.0239, 0.2}, {0.0522, 0.3}, {0.0867, 0.4}, {0.1477, 0.5}, {0.2038, 0.6}, {0.3093, 0.7},
		{0.4587, 0.8}, {0.684, 0.9}, {0.897, 0.95},
	},
	engine.SevereToxicity: {
		{0.0009, 0.05}, {0.002, 0.1}, {0.0045, 0.2}, {0.0081, 0.3}, {0.0119, 0.4}, {0.0176, 0.5}, {0.0314, 0.6}, {0.0721, 0.7},
		{0.374, 0.8},
	},
	engine.IdentityAttack: {
		{0.0039, 0.05}, {0.0113, 0.1}, {0.0369, 0.2}, {0.074, 0.3}, {0.1207, 0.4}, {0.181, 0.5}, {0.2668, 0.6}, {0.417, 0.7},
		{0.6265, 0.8}, {0.8367, 0.9},
	},
	engine.Insult: {
		{0.0012, 0.05}, {0.0043, 0.1}, {0.0145, 0.2}, {0.0327, 0.3}, {0.063, 0.4}, {0.0933, 0.5}, {0.2023, 0.6}, {0.3278, 0.7},
		{0.5926, 0.8}, {0.7815, 0.9}, {0.9656, 0.95},
	},
	engine.Profanity: {
		{0.0013, 0.05}, {0.004, 0.1}, {0.0114, 0.2}, {0.0198, 0.3}, {0.0299, 0.4}, {0.0428, 0.5}, {0.0736, 0.6}, {0.1127, 0.7},
		{0.1957, 0.8}, {0.6532, 0.9}, {0.9323, 0.95},
	},
	engine.Threat: {
		{0.0022, 0.05}, {0.0061, 0.1}, {0.0185, 0.2}, {0.0475, 0.3}, {0.0878, 0.4}, {0.1206, 0.5}, {0.1596, 0.6}, {0.2559, 0.7},
		{0.3194, 0.8}, {0.5939, 0.9}, {0.8811, 0.95},
	},
	engine.SexuallyExplicit: {
		{0.0007, 0.05}, {0.0034, 0.1}, {0.0263, 0.2}, {0.0762, 0.3}, {0.1208, 0.4}, {0.1447, 0.5}, {0.1741, 0.6}, {0.221, 0.7},
		{0.2892, 0.8}, {0.5067, 0.9}, {0.7092, 0.95},
	},
	engine.Spam: nil,
}

// embeddedModels is what the versions of the models begin with that the scale is for.
const embeddedModels = "cascade-"

// scaleOf returns the scale for a classifier. One that is not the embedded model is taken at its word.
func scaleOf(version string) *scale {
	if strings.HasPrefix(version, embeddedModels) {
		return &perspectiveScale
	}
	return new(scale)
}

// score returns the score for a probability: on the straight line between the knots around it, from 0 for 0 to 1 for 1.
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

func between(a, b knot, p float64) float64 {
	return a.score + (b.score-a.score)*(p-a.probability)/(b.probability-a.probability)
}
