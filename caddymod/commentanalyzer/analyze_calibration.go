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
// table as many texts exceed a score as at the Perspective API. Measured on the other half, 4,923 texts:
//
//	                   Spearman   Cohen's kappa at 0.7, 0.8, 0.9     without the table
//	TOXICITY            0.76       0.59  0.54  0.43                  0.32  0.31  0.28
//	SEVERE_TOXICITY     0.48       0.39  0.43   -                    0.13  0.29   -
//	IDENTITY_ATTACK     0.51       0.46  0.44  0.37                  0.29  0.26  0.45
//	INSULT              0.63       0.55  0.53  0.47                  0.40  0.41  0.43
//	PROFANITY           0.62       0.71  0.71  0.61                  0.45  0.46  0.49
//	THREAT              0.36       0.37  0.40  0.37                  0.17  0.16  0.11
//	SEXUALLY_EXPLICIT   0.40       0.48  0.46  0.48                  0.31  0.32  0.20
//
// There are no published scores for SPAM. The table belongs to the model cascade-1-6af23c21; it is fitted and measured by
//
//	go run ./engine/train/cmd/perspective --scores val.jsonl
var perspectiveScale = scale{
	engine.Toxicity: {
		{0.0029, 0.05}, {0.0079, 0.1}, {0.0176, 0.2}, {0.0314, 0.3}, {0.052, 0.4}, {0.0797, 0.5}, {0.1243, 0.6}, {0.2042, 0.7},
		{0.3448, 0.8}, {0.6513, 0.9}, {0.8932, 0.95},
	},
	engine.SevereToxicity: {
		{0.0006, 0.05}, {0.0011, 0.1}, {0.0021, 0.2}, {0.0038, 0.3}, {0.006, 0.4}, {0.0088, 0.5}, {0.0164, 0.6}, {0.0373, 0.7},
		{0.374, 0.8},
	},
	engine.IdentityAttack: {
		{0.0036, 0.05}, {0.01, 0.1}, {0.0317, 0.2}, {0.0631, 0.3}, {0.0999, 0.4}, {0.1473, 0.5}, {0.2207, 0.6}, {0.3227, 0.7},
		{0.5055, 0.8}, {0.7664, 0.9},
	},
	engine.Insult: {
		{0.0011, 0.05}, {0.0033, 0.1}, {0.0079, 0.2}, {0.0163, 0.3}, {0.0309, 0.4}, {0.048, 0.5}, {0.1029, 0.6}, {0.2055, 0.7},
		{0.4424, 0.8}, {0.7491, 0.9}, {0.9656, 0.95},
	},
	engine.Profanity: {
		{0.001, 0.05}, {0.0024, 0.1}, {0.0058, 0.2}, {0.0097, 0.3}, {0.015, 0.4}, {0.0228, 0.5}, {0.0354, 0.6}, {0.0542, 0.7},
		{0.1196, 0.8}, {0.5777, 0.9}, {0.9248, 0.95},
	},
	engine.Threat: {
		{0.002, 0.05}, {0.0056, 0.1}, {0.0166, 0.2}, {0.043, 0.3}, {0.0732, 0.4}, {0.0965, 0.5}, {0.1192, 0.6}, {0.1845, 0.7},
		{0.2357, 0.8}, {0.4685, 0.9}, {0.8019, 0.95},
	},
	engine.SexuallyExplicit: {
		{0.0005, 0.05}, {0.0022, 0.1}, {0.0141, 0.2}, {0.0285, 0.3}, {0.0485, 0.4}, {0.0618, 0.5}, {0.0767, 0.6}, {0.1036, 0.7},
		{0.1365, 0.8}, {0.2254, 0.9}, {0.3236, 0.95},
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
