// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
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
	a := new(themeAdapter)
	if embedded, ok := c.(Embedded); ok {
		o.Tokenize, a.languages = embedded.model.Tokenize, embedded.languages
	}
	var err error
	if a.screener, err = themes.New(o); err != nil {
		return nil, fmt.Errorf("loading the embedded theme judge: %w", err)
	}
	return a, nil
}

// themeAdapter makes a [ThemeScreener] of a screener of package themes, which knows nothing of this package.
type themeAdapter struct {
	screener  *themes.Screener
	languages *languages // nil for English alone
	others    sync.Map   // of *otherThemes by tag
}

// otherThemes screens texts in another language than English by way of a glossary.
type otherThemes struct {
	glossary *themes.Glossary
	screener *themes.Screener
}

// ScreenThemes screens for each distinct theme once.
func (a *themeAdapter) ScreenThemes(content string, wanted []string) (results []ThemeResult, tokens int) {
	for _, t := range a.screener.Screen(content, wanted) {
		r := ThemeResult{Theme: t.Theme}
		r.set(&t)
		results = append(results, r)
		tokens += t.Tokens
	}
	return results, tokens
}

// screenThemesIn is ScreenThemes for a text in a language. A text in one that has a glossary is also screened in
// English words, and so are themes that seem to be in that language. The largest probability counts.
func (a *themeAdapter) screenThemesIn(
	tag, content string, wanted []string,
) (results []ThemeResult, tokens int, err error) {
	results, tokens = a.ScreenThemes(content, wanted)
	other, err := a.other(tag)
	if other == nil || err != nil {
		return results, tokens, err
	}
	english := make([]string, 0, 2*len(results))
	at := make([]int, 0, 2*len(results))
	for i := range results {
		english, at = append(english, results[i].Theme), append(at, i)
		if translated := other.glossary.Theme(results[i].Theme); translated != "" {
			english, at = append(english, translated), append(at, i)
		}
	}
	for i, theme := range english {
		hit := other.screener.Screen(content, english[i:i+1])
		if r := &results[at[i]]; len(hit) > 0 && hit[0].Theme == theme && hit[0].Probability > r.Probability {
			r.set(&hit[0])
		}
	}
	return results, tokens, nil
}

// set takes the result of a screening over.
func (r *ThemeResult) set(hit *themes.Hit) {
	r.Flagged, r.Probability, r.Matches = hit.Flagged, hit.Probability, nil
	for _, m := range hit.Matches {
		r.Matches = append(r.Matches, Span{Begin: m.Begin, End: m.End})
	}
}

// other returns what screens texts in a language, or nil if that has no glossary or no model.
func (a *themeAdapter) other(tag string) (*otherThemes, error) {
	if tag == "" || tag == "en" || a.languages == nil || !a.languages.supports(tag) {
		return nil, nil
	}
	if found, ok := a.others.Load(tag); ok {
		return found.(*otherThemes), nil
	}
	glossary := themes.GlossaryOf(tag)
	if glossary == nil {
		return nil, nil
	}
	m, err := a.languages.model(tag)
	if m == nil || err != nil {
		return nil, err
	}
	screener, err := themes.New(themes.Options{
		CacheBytes: themes.DefaultCacheBytes / 8,
		Tokenize: func(s *text.Scratch, content string) []text.Token {
			return glossary.Words(m.Tokenize(s, content))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("loading the theme judge for %s: %w", tag, err)
	}
	found, _ := a.others.LoadOrStore(tag, &otherThemes{glossary, screener})
	return found.(*otherThemes), nil
}

// Interface guard.
var _ ThemeScreener = (*themeAdapter)(nil)
