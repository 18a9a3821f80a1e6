// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

// embeddedThemes makes the judge of themes that is embedded in the binary. Beside the embedded model it reads disguised
// words as that does.
func embeddedThemes(c Classifier) (ThemeScreener, error) {
	var o themes.Options
	if own, ok := c.(Embedded); ok {
		o.Tokenize = own.model.Tokenize
	}
	judge, err := themes.New(o)
	if err != nil {
		return nil, fmt.Errorf("loading the embedded theme judge: %w", err)
	}
	return themeAdapter{judge}, nil
}

// themeAdapter makes a judge of package themes, which knows nothing of this package, a [ThemeScreener].
type themeAdapter struct{ judge *themes.Screener }

// ScreenThemes judges each distinct theme once.
func (a themeAdapter) ScreenThemes(content string, wanted []string) (results []ThemeResult, tokens int) {
	for _, hit := range a.judge.Screen(content, wanted) {
		r := ThemeResult{Theme: hit.Theme, Flagged: hit.Flagged, Probability: hit.Probability}
		for _, m := range hit.Matches {
			r.Matches = append(r.Matches, Span{Begin: m.Begin, End: m.End})
		}
		results = append(results, r)
		tokens += hit.Tokens
	}
	return results, tokens
}

// Interface guard.
var _ ThemeScreener = themeAdapter{}
