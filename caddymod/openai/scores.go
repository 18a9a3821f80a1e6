// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai

import "github.com/caddy-moderation/caddy-moderation/engine"

// Score returns the score, from 0 to 1, that [Moderations] gives a text with this result for a category of the
// interface, such as "harassment/threatening". It returns false for categories that are not classified.
func Score(name string, result *engine.Result) (float64, bool) {
	for _, category := range categories {
		if category.name == name && len(category.all) > 0 {
			_, probability := score(result, category.all)
			return probability, true
		}
	}
	return 0, false
}
