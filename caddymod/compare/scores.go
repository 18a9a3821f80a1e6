// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package compare

import "github.com/caddy-moderation/caddy-moderation/engine"

// scoreAttribute is this server's score for an attribute of the Perspective API.
func scoreAttribute(name string, result *engine.Result) (float64, bool) {
	attribute, err := engine.ParseAttribute(name)
	if err != nil {
		return 0, false
	}
	return result.Attributes[attribute], true
}

// scoreCategory is this server's score for a category of OpenAI's moderation endpoint.
func scoreCategory(name string, result *engine.Result) (float64, bool) {
	category, err := engine.ParseCategory(name)
	if err != nil {
		return 0, false
	}
	return result.Categories[category].Probability, true
}
