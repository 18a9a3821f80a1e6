// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

// Recommendation is the action that a verdict suggests.
type Recommendation string

// The recommendations.
const (
	// Approve suggests to publish the content.
	Approve Recommendation = "approve"
	// Review suggests that a person looks at the content: a category is flagged below its reject level, or its
	// probability is at least 0.8 times its threshold.
	Review Recommendation = "review"
	// Reject suggests to refuse the content: a flagged category has reached its reject level, a theme is flagged, or a
	// blocked expression was found.
	Reject Recommendation = "reject"
)

// Result is a verdict.
type Result struct {
	// Flagged says whether a category or a theme is flagged, or a blocked expression was found.
	Flagged bool
	// Categories holds the verdict on each category, by [Category].
	Categories [NumCategories]CategoryResult
	// Attributes holds the probability of each Perspective attribute, by [Attribute].
	Attributes [NumAttributes]float64
	// Confidence is the probability that Flagged is right, from 0 to 1. When something is flagged, it is 1 minus the
	// product of (1 - probability) over the flagged categories and themes; when nothing is, it is that product over all
	// of them. With a blocked expression it is 1.
	Confidence float64
	// Recommendation is the suggested action.
	Recommendation Recommendation
	// Themes holds one entry for each distinct theme of the request, in the order of their first appearance. It is nil
	// when the request has no themes.
	Themes []ThemeResult
	// Blocked are the parts of the content that are expressions of [Request.Block], in order and without overlap.
	Blocked []Span
	// Language is the language of the content, zero with a classifier that does not say.
	Language Language
	// OtherLanguage says that the content is clearly in another language than [Request.Languages], and Least is the
	// mildest recommendation that is possible because of that: [Review], [Reject], or any if it is empty.
	OtherLanguage bool
	Least         Recommendation
	// TokensUsed is the number of word tokens in the content and in the distinct themes.
	TokensUsed int
}

// CategoryResult is the verdict on one category.
type CategoryResult struct {
	// Flagged says whether Probability exceeds the category's threshold.
	Flagged bool
	// Probability is calibrated, from 0 to 1.
	Probability float64
}

// ThemeResult is the verdict on one theme. The service reports the action "block" where it is flagged and "none"
// elsewhere.
type ThemeResult struct {
	// Theme is the theme as it was sent.
	Theme string
	// Flagged says whether the content contains, references, depicts or celebrates the theme.
	Flagged bool
	// Probability is calibrated, from 0 to 1.
	Probability float64
	// Matches are the parts of the content that carry the theme, in order and without overlap. It is empty when the
	// theme is not flagged.
	Matches []Span
}

// Span is a part of a text in code points. An invalid byte counts as one.
type Span struct {
	// Begin is the first code point of the part and End the first one after it.
	Begin, End int
}
