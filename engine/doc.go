// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package engine moderates text: content, free-text themes and a policy in, a verdict out. It knows nothing of HTTP, of
// Caddy or of storage, and it needs no network and no files: the classifier is embedded in the binary.
//
//	e, err := engine.New(engine.Options{})
//	...
//	result, err := e.Moderate(ctx, engine.Request{Content: "text that somebody posted"})
//	...
//	if result.Recommendation == engine.Reject {
//		...
//	}
//
// [Engine.Moderate] does three things. It classifies: a [Classifier] turns the content into [Scores], a probability for
// each of five categories of harm and for each of the eight attributes of the Perspective API. It screens: a
// [ThemeScreener] looks for the free-text themes of the request. And it decides: a [Policy] turns probabilities and
// themes into a [Result]. [Engine.Explain] also says which passage of the content decided and which parts carry the
// probabilities, and [Policy.Decide] decides again by another policy without classifying the content again.
//
// An [Engine] is made once and used by many goroutines at the same time. Making the first one in a process decodes the
// embedded weights, which takes some tenths of a second.
package engine
