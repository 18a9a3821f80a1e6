// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/openai"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// TestScore: comparing with another service must not use other scores than the endpoint would answer.
func TestScore(t *testing.T) {
	t.Parallel()
	result := new(engine.Result)
	result.Categories[engine.Harassment].Probability = 0.8
	result.Categories[engine.Violence].Probability = 0.3
	for name, want := range map[string]float64{"harassment": 0.8, "violence": 0.3, "harassment/threatening": 0.3, "hate": 0} {
		if got, ok := openai.Score(name, result); !ok || got != want {
			t.Errorf("%s: %v %v, want %v", name, got, ok, want)
		}
	}
	for _, name := range []string{"illicit", "sexual/minors", "unheard/of", ""} {
		if got, ok := openai.Score(name, result); ok {
			t.Errorf("%s: got score %v, want none", name, got)
		}
	}
}
