// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
	"github.com/caddy-moderation/caddy-moderation/caddymod/openai"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// flagged is the name under which the member "flagged" of OpenAI's moderation endpoint is compared, as 0 or 1.
const flagged = "flagged"

// scorer returns this server's score for a name of another interface; false for names without one.
type scorer func(name string, result *engine.Result) (float64, bool)

// analyzeScores returns the scores that moderation_analyze answers for attributes of the Perspective API.
func analyzeScores(version string) scorer {
	scores := commentanalyzer.NewScores(version)
	return func(name string, result *engine.Result) (float64, bool) {
		return scores.Score(name, &result.Attributes)
	}
}

// moderationScores returns the scores that moderation_openai answers for categories of OpenAI's moderation endpoint.
func moderationScores(string) scorer {
	return func(name string, result *engine.Result) (float64, bool) {
		if name == flagged {
			return zeroOrOne(result.Flagged), true
		}
		return openai.Score(name, result)
	}
}

// zeroOrOne returns 1 for true.
func zeroOrOne(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
