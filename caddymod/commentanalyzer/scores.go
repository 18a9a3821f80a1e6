// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"math"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Scores tells what [Analyze] answers, without a request, when no attribute is configured.
type Scores struct {
	table attributeTable
	scale *scale
}

// NewScores returns the scores of a classifier of this version (engine.Engine.Version).
func NewScores(version string) *Scores {
	table, _ := newAttributeTable(nil) // only what is configured can be wrong
	return &Scores{table: table, scale: scaleOf(version)}
}

// Score returns the summary score, from 0 to 1, that is answered for an attribute when the classifier says this of a text;
// false for names that are not scored.
func (s *Scores) Score(name string, probabilities *[engine.NumAttributes]float64) (float64, bool) {
	attribute, known := s.table[name]
	if !known || attribute == unscored {
		return 0, false
	}
	return s.scale.answer(attribute, probabilities[attribute]), true
}

// answer is a score as it is written: with six decimals.
func (s *scale) answer(attribute int, probability float64) float64 {
	return math.Round(s.score(attribute, probability)*1e6) / 1e6
}
