// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

// Verdict is the verdict on a message: the most severe of the verdicts on its texts.
type Verdict struct {
	// Flagged says that a category is flagged, a theme hits or a blocked word was found.
	Flagged bool
	// Recommendation is the strictest of all texts. It is empty when the message was not moderated.
	Recommendation engine.Recommendation
	// Confidence is that of the text that decided.
	Confidence float64
	// Categories holds the highest probability of each category, and whether it is flagged in any text.
	Categories [engine.NumCategories]engine.CategoryResult
	// Themes are the themes that hit, each once.
	Themes []string
	// Blocked says that a blocked word was found.
	Blocked bool
	// Language is the language of the first text whose language is known, as a BCP 47 tag; "" where none is.
	Language string
	// OtherLanguage says that a text is in another language than those that are expected.
	OtherLanguage bool
	// Findings are the texts that are not approved.
	Findings []Finding

	// ByCategory says that the probability of a category reached its reject level in a rejected text. Without it, a
	// theme or a word is the reason, even if a category is flagged as well.
	ByCategory bool

	// hostile says that a text is rejected that is not the text of a person in a crisis.
	hostile bool
}

// Finding is a text that is not approved.
type Finding struct {
	// Name is the place of the text in the message.
	Name           string
	Recommendation engine.Recommendation
	// Categories are the flagged ones.
	Categories []string
}

// Crisis reports whether self-harm is flagged, and nothing is rejected for anything else.
func (v *Verdict) Crisis() bool {
	return v.Categories[engine.SelfHarm].Flagged && !v.hostile
}

// Flags returns the names of the flagged categories.
func (v *Verdict) Flags() []string {
	var names []string
	for c := range v.Categories {
		if v.Categories[c].Flagged {
			names = append(names, engine.Category(c).String())
		}
	}
	return names
}

// Fields returns the places of the findings, each once.
func (v *Verdict) Fields() []string {
	var names []string
	for _, finding := range v.Findings {
		if !slices.Contains(names, finding.Name) {
			names = append(names, finding.Name)
		}
	}
	return names
}

// Decide returns the verdict on a message, from the classifications of its texts. Without any the message is approved.
func (m *Moderator) Decide(results []Classification) Verdict {
	v := Verdict{Recommendation: engine.Approve, Confidence: 1}
	for i := range results {
		m.Add(&v, &results[i])
	}
	return v
}

// Add adds the classification of one more text to a verdict.
func (m *Moderator) Add(v *Verdict, text *Classification) {
	moved := text.Result
	m.shift().Apply(&moved)
	result := moved
	for c := range result.Categories {
		if m.ignored[c] {
			result.Categories[c].Probability = 0
		}
	}
	m.levels.Decide(&result)
	if text.Blocked {
		result.Flagged, result.Recommendation, result.Confidence = true, engine.Reject, 1
	}
	// Other views of a text are in no language of their own.
	if !text.RejectOnly {
		m.addLanguage(v, &result)
	}
	rejected := result.Recommendation == engine.Reject
	switch {
	case !rejected:
	case !m.crisis(text, &result):
		v.hostile = true
	case m.reviewCrisis:
		result.Recommendation = engine.Review
	}
	if text.RejectOnly && (!rejected || v.Recommendation == engine.Reject) {
		return
	}
	for c := range result.Categories {
		highest := &v.Categories[c]
		highest.Probability = max(highest.Probability, moved.Categories[c].Probability)
		highest.Flagged = highest.Flagged || result.Categories[c].Flagged
	}
	switch {
	case severity(result.Recommendation) > severity(v.Recommendation):
		v.Recommendation, v.Confidence = result.Recommendation, result.Confidence
	case result.Recommendation != v.Recommendation:
	case result.Flagged:
		v.Confidence = max(v.Confidence, result.Confidence)
	default:
		v.Confidence = min(v.Confidence, result.Confidence)
	}
	v.ByCategory = v.ByCategory || rejected && m.rejects(&result)
	v.Flagged = v.Flagged || result.Flagged
	v.Blocked = v.Blocked || text.Blocked
	for i := range result.Themes {
		if theme := &result.Themes[i]; theme.Flagged && !slices.Contains(v.Themes, theme.Theme) {
			v.Themes = append(v.Themes, theme.Theme)
		}
	}
	if result.Recommendation == engine.Approve {
		return
	}
	// The name may share memory with the body, and outlives it.
	finding := Finding{Name: strings.Clone(text.Name), Recommendation: result.Recommendation}
	for c := range result.Categories {
		if result.Categories[c].Flagged {
			finding.Categories = append(finding.Categories, engine.Category(c).String())
		}
	}
	v.Findings = append(v.Findings, finding)
}

// addLanguage notes the language of a text, and what is recommended for it.
func (m *Moderator) addLanguage(v *Verdict, result *engine.Result) {
	found := result.Language
	if found.Tag == "" || found.Tag == language.Undetermined {
		return
	}
	if v.Language == "" {
		v.Language = found.Tag
	}
	if !language.IsOther(found.Tag, found.Probability, m.languages) {
		return
	}
	v.OtherLanguage = true
	if severity(m.otherLanguage) > severity(result.Recommendation) {
		result.Recommendation = m.otherLanguage
	}
}

// rejects reports whether a category alone would reject a text.
func (m *Moderator) rejects(result *engine.Result) bool {
	for c := range result.Categories {
		if result.Categories[c].Flagged && result.Categories[c].Probability >= m.levels.RejectLevels[c] {
			return true
		}
	}
	return false
}

// KeepMostSevere keeps one finding, the most severe.
func (v *Verdict) KeepMostSevere() {
	for i := range v.Findings {
		if severity(v.Findings[i].Recommendation) > severity(v.Findings[0].Recommendation) {
			v.Findings[0] = v.Findings[i]
		}
	}
	v.Findings = v.Findings[:min(len(v.Findings), 1)]
}

// goading is a fraction of the thresholds of hate and harassment. Text that is rejected for self-harm and reaches it is
// directed at another person ("kill yourself"). What people say about themselves stays far below it.
const goading = 0.5

// crisis reports whether a text is rejected for self-harm, for nothing else, and is not directed at another person.
func (m *Moderator) crisis(text *Classification, result *engine.Result) bool {
	if text.Blocked || slices.ContainsFunc(result.Themes, func(t engine.ThemeResult) bool { return t.Flagged }) {
		return false
	}
	for c := range result.Categories {
		rejected := result.Categories[c].Flagged && result.Categories[c].Probability >= m.levels.RejectLevels[c]
		if rejected != (engine.Category(c) == engine.SelfHarm) {
			return false
		}
	}
	for _, c := range [...]engine.Category{engine.Hate, engine.Harassment} {
		// Of a harmful text this is as likely whatever the share of harm, so its probability is not moved.
		if text.Result.Categories[c].Probability >= goading*m.levels.Thresholds[c] {
			return false
		}
	}
	return true
}

// severity orders recommendations.
func severity(r engine.Recommendation) int {
	switch r {
	case engine.Reject:
		return 2
	case engine.Review:
		return 1
	}
	return 0
}
