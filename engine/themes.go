// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

// ThemeScreener looks for free-text themes in content. It must be safe for concurrent use.
type ThemeScreener interface {
	// ScreenThemes returns one result for each distinct theme, in the order of their first appearance, and the number
	// of word tokens of these themes.
	ScreenThemes(content string, wanted []string) (results []ThemeResult, tokens int)
}

// embeddedThemes makes the theme screener that is embedded in the binary. With the embedded classifier it tokenizes as
// the model does, and so sees through the same disguises.
func embeddedThemes(c Classifier) (ThemeScreener, error) {
	var o themes.Options
	if embedded, ok := c.(Embedded); ok {
		o.Tokenize = embedded.model.Tokenize
	}
	screener, err := themes.New(o)
	if err != nil {
		return nil, fmt.Errorf("loading the embedded theme judge: %w", err)
	}
	return themeAdapter{screener}, nil
}

// themeAdapter makes a [ThemeScreener] of a screener of package themes, which knows nothing of this package.
type themeAdapter struct{ screener *themes.Screener }

// ScreenThemes screens for each distinct theme once.
func (a themeAdapter) ScreenThemes(content string, wanted []string) (results []ThemeResult, tokens int) {
	for _, t := range a.screener.Screen(content, wanted) {
		r := ThemeResult{Theme: t.Theme, Flagged: t.Flagged, Probability: t.Probability}
		for _, m := range t.Matches {
			r.Matches = append(r.Matches, Span{Begin: m.Begin, End: m.End})
		}
		results = append(results, r)
		tokens += t.Tokens
	}
	return results, tokens
}

// Interface guard.
var _ ThemeScreener = themeAdapter{}
