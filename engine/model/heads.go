// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

// Heads is the number of probabilities that a model gives: the five categories of the engine, then the eight
// Perspective attributes.
const Heads = 13

// lanes is the width of a row of weights; the heads fill the first of them.
const lanes = 16

// HeadNames names the heads, in order.
var HeadNames = [Heads]string{
	"hate", "harassment", "self-harm", "sexual", "violence",
	"TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT", "SEXUALLY_EXPLICIT", "SPAM",
}
