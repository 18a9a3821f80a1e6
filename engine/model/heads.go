// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
)

// HeadNames names the heads, in the order of [Probabilities]: the categories, then the attributes. The package
// documentation says how to add one.
var HeadNames = [...]string{
	"hate", "harassment", "self-harm", "sexual", "violence",
	"TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT", "SEXUALLY_EXPLICIT", "SPAM",
}

const (
	// Heads is the number of probabilities that a model gives.
	Heads = len(HeadNames)
	// NumCategories is the number of heads that are categories. They come first, and they alone decide which windows
	// the network classifies.
	NumCategories = 5

	// lanes is the number of weights in a row of the table. The heads fill the first of them.
	lanes = kernel.Lanes
	// featuresLane is the lane of sums that counts features.
	featuresLane = lanes - 1
)

// A constant overflows here where there are more heads than a row of the table, whose last lane is free, or the
// network's output layer holds.
const (
	_ = uint(featuresLane - Heads)
	_ = uint(cnn.Outputs - Heads)
)
