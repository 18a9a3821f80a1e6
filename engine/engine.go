// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package engine judges text: content and free-text themes in, a verdict out.
//
// It knows nothing of HTTP, of Caddy and of storage. A program that wants the judge without the server imports this
// package alone:
//
//	judge, err := engine.New(engine.Options{})
//	result, err := judge.Moderate(ctx, engine.Request{Content: "text that somebody posted"})
package engine

import "context"

// Category is one of the five kinds of harm that a verdict reports. Its value is the index of the category in
// [Result.Categories]; [Category.String] is its name in JSON.
type Category uint8

// The five categories, in the order in which they are reported. Definitions are in the model card.
const (
	// Hate attacks, demeans or incites against people for a protected trait. Default threshold 0.7.
	Hate Category = iota
	// Harassment insults, threatens, stalks or humiliates a person. Default threshold 0.7.
	Harassment
	// SelfHarm expresses the intent of self-harm, encourages it or seeks methods. Default threshold 0.5.
	SelfHarm
	// Sexual is arousing or explicit sexual talk. Default threshold 0.8.
	Sexual
	// Violence threatens, incites, glorifies or wishes physical harm. Default threshold 0.6.
	Violence

	// NumCategories is the number of categories.
	NumCategories = 5
)

// Attribute is one of the Perspective API attributes that the classifier also scores. Its value is the index of the
// attribute in [Scores.Attributes].
type Attribute uint8

// The attributes, in the order of the Perspective documentation.
const (
	Toxicity Attribute = iota
	SevereToxicity
	IdentityAttack
	Insult
	Profanity
	Threat
	SexuallyExplicit
	Spam

	// NumAttributes is the number of attributes.
	NumAttributes = 8
)

// Scores are calibrated probabilities, each from 0 to 1.
type Scores struct {
	Categories [NumCategories]float64
	Attributes [NumAttributes]float64
}

// Classifier turns text into probabilities. The default is the model that is embedded in the binary; another one is a
// guest module of the namespace moderation.classifiers.
//
// Classify must answer any string: any language, any Unicode, broken UTF-8, the empty text. An error means that no
// judgement could be made (a remote classifier is down), never that the text is odd. It must be safe for concurrent use.
type Classifier interface {
	// Classify scores text. It must not keep a reference to text after it returns.
	Classify(ctx context.Context, text string) (Scores, error)
	// Version names the classifier and its exact weights, for example "cascade-1-6f0c2a9e". It is kept with feedback, so
	// that a correction can be traced to the model that was corrected.
	Version() string
}

// Recommendation is the action that a verdict suggests.
type Recommendation string

// The recommendations.
const (
	Approve Recommendation = "approve"
	Review  Recommendation = "review"
	Reject  Recommendation = "reject"
)

// Policy decides what probabilities mean. The zero value of a field stands for the default.
type Policy struct {
	// Thresholds holds, per category, the probability above which the category is flagged. 0 means the default: hate
	// 0.7, harassment 0.7, self-harm 0.5, sexual 0.8, violence 0.6.
	Thresholds [NumCategories]float64
	// RejectLevels holds, per category, the probability from which a flagged category is rejected and not only
	// reviewed. 0 means the default: half-way from the threshold to 1.
	RejectLevels [NumCategories]float64
}

// Request is what is to be judged.
type Request struct {
	// Content is the text. Any length is judged; limits on it are the caller's.
	Content string
	// Themes are free-text themes to screen for. Any hit flags the content and blocks it.
	Themes []string
	// Policy overrides the engine's policy for this request. Nil means the engine's own.
	Policy *Policy
}

// CategoryResult is the verdict on one category.
type CategoryResult struct {
	// Flagged says that Probability exceeds the category's threshold.
	Flagged bool
	// Probability is calibrated, from 0 to 1.
	Probability float64
}

// ThemeResult is the verdict on one theme. Its action is "block" when it is flagged and "none" otherwise.
type ThemeResult struct {
	// Theme is the theme as it was sent.
	Theme string
	// Flagged says that the content contains, references, depicts or celebrates the theme.
	Flagged bool
	// Probability is calibrated, from 0 to 1.
	Probability float64
	// Matches are the places in the content that carry the theme, in order and without overlap. Empty when not flagged.
	Matches []Span
}

// Span is a part of a text in code points; End is exclusive.
type Span struct {
	Begin, End int
}

// Result is a verdict.
type Result struct {
	// Flagged says that a category is flagged or a theme hits.
	Flagged bool
	// Categories holds the verdict on each category, by [Category].
	Categories [NumCategories]CategoryResult
	// Attributes holds the probability of each Perspective attribute, by [Attribute].
	Attributes [NumAttributes]float64
	// Confidence is how sure the engine is of Flagged, from 0 to 1, from calibrated probabilities: when something is
	// flagged, 1 minus the product of (1 - probability) over the flagged categories and themes; when nothing is, the
	// product of (1 - probability) over all of them.
	Confidence float64
	// Recommendation is the suggested action.
	Recommendation Recommendation
	// Themes holds one entry for each distinct theme of the request, in the order of their first appearance. Nil when no themes were sent.
	Themes []ThemeResult
	// TokensUsed is the number of word tokens that the judge read, in the content and in the themes.
	TokensUsed int
}
