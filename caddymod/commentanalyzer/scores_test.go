// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer_test

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// TestScores: comparing with another service must not use other scores than analyze would answer.
func TestScores(t *testing.T) {
	t.Parallel()
	probabilities := [engine.NumAttributes]float64{}
	for i := range probabilities {
		probabilities[i] = 0.3
	}
	embedded, other := commentanalyzer.NewScores("cascade-1-00000000"), commentanalyzer.NewScores("another model")
	for _, name := range []string{"TOXICITY", "TOXICITY_EXPERIMENTAL", "OBSCENE", "THREAT"} {
		scaled, ok := embedded.Score(name, &probabilities)
		if !ok || scaled <= 0.3 || scaled >= 1 {
			t.Errorf("%s: %v %v; the scale of the embedded model is not applied", name, scaled, ok)
		}
		if plain, ok := other.Score(name, &probabilities); !ok || plain != 0.3 {
			t.Errorf("%s: %v %v; another model is not taken at its word", name, plain, ok)
		}
	}
	for _, name := range []string{"FLIRTATION", "UNHEARD_OF", ""} {
		if score, ok := embedded.Score(name, &probabilities); ok {
			t.Errorf("%s is scored: %v", name, score)
		}
	}
}
