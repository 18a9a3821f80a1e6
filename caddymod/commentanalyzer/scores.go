// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"math"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Scores gives the scores that [Analyze] answers when no attribute is configured, without a request.
type Scores struct {
	table attributeTable
	scale *scale
}

// NewScores returns the scores for a classifier of this version, which [engine.Engine.Version] returns.
func NewScores(version string) *Scores {
	table, _ := newAttributeTable(nil) // only a configured attribute can be an error
	return &Scores{table: table, scale: scaleOf(version)}
}

// Score returns the summary score, from 0 to 1, that is answered for the attribute of this name when these are the
// probabilities of a text; false for names without a score.
func (s *Scores) Score(name string, probabilities *[engine.NumAttributes]float64) (float64, bool) {
	attribute, known := s.table[name]
	if !known || attribute == unscored {
		return 0, false
	}
	return s.scale.answer(attribute, probabilities[attribute]), true
}

// answer returns a score with six decimals, as it is answered.
func (s *scale) answer(attribute int, probability float64) float64 {
	return math.Round(s.score(attribute, probability)*1e6) / 1e6
}
