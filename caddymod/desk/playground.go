// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// The limits of a text, which are those of POST /v1/moderate/text. Characters are Unicode code points.
const (
	maxContent         = 10_000
	maxThemes          = 10
	maxThemeCharacters = 100
)

// playgroundBody is what the playground shows.
type playgroundBody struct {
	Content, Themes string
	MaxContent      int
	Problem         *refusal
	// Verdict is nil before a text was judged.
	Verdict *verdict
}

// verdict is a result for people.
type verdict struct {
	Recommendation engine.Recommendation
	Flagged        bool
	Confidence     float64
	Language       string
	OtherLanguage  bool
	Categories     []judged
	Themes         []engine.ThemeResult
	// Settled says that the text is rejected whatever the thresholds are, and Reviewed that it is at least reviewed.
	Settled, Reviewed bool
	Parts             []part
}

// judged is the verdict on a category.
type judged struct {
	level
	Probability float64
	Flagged     bool
	Percent     string // of the bar
	// Milli is the threshold in thousandths, for the slider.
	Milli int
}

// part is a piece of the text with what it speaks for.
type part struct {
	Text string
	// Categories are those that the piece carries, Passages those whose deciding passage it belongs to, and Themes the
	// themes that it carries.
	Categories, Passages, Themes []string
	// Blocked says that the piece is a blocked word.
	Blocked bool
}

// playground shows the empty playground.
func playground(c *call) error { return c.renderPlayground(http.StatusOK, playgroundBody{}) }

// renderPlayground shows the playground.
func (c *call) renderPlayground(status int, shown playgroundBody) error {
	shown.MaxContent = maxContent
	c.render(status, page{
		Template: "playground.html", Title: "playground.title", Tab: "playground", Scripts: []string{"playground.mjs"},
		Body: shown,
	})
	return nil
}

// judge shows the verdict on a text. It counts nothing and keeps nothing.
func judge(c *call) error {
	// Forms end lines with CR and LF; the text had one of them.
	text := strings.ReplaceAll(c.form.Get("content"), "\r\n", "\n")
	typed := playgroundBody{Content: text, Themes: strings.ReplaceAll(c.form.Get("themes"), "\r\n", "\n")}
	var themes []string
	for line := range strings.Lines(typed.Themes) {
		if theme := strings.TrimSpace(line); theme != "" {
			themes = append(themes, theme)
		}
	}
	switch {
	case strings.TrimSpace(text) == "":
		typed.Problem = refuse(http.StatusBadRequest, "error.blank")
	case utf8.RuneCountInString(text) > maxContent:
		typed.Problem = refuse(http.StatusBadRequest, "error.long")
	case len(themes) > maxThemes || slices.ContainsFunc(themes, func(theme string) bool {
		return utf8.RuneCountInString(theme) > maxThemeCharacters
	}):
		typed.Problem = refuse(http.StatusBadRequest, "error.themes")
	}
	if typed.Problem != nil {
		return c.renderPlayground(typed.Problem.Status, typed)
	}
	var err error
	if typed.Verdict, err = c.verdict(text, themes); err != nil {
		return err
	}
	return c.renderPlayground(http.StatusOK, typed)
}

// judging waits until texts may be judged. The caller calls release when it has.
func (c *call) judging() (release func(), err error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), judgeWait)
	defer cancel()
	select {
	case c.desk.judging <- struct{}{}:
		return func() { <-c.desk.judging }, nil
	case <-ctx.Done():
		return nil, refuse(http.StatusServiceUnavailable, "error.busy")
	}
}

// verdict judges a text as POST /v1/moderate/text does for the account.
func (c *call) verdict(text string, themes []string) (*verdict, error) {
	release, err := c.judging()
	if err != nil {
		return nil, err
	}
	defer release()
	judging := c.desk.app.RequestOf(&c.account, text)
	judging.Themes = themes
	result, explanation, err := c.services.Engine.Explain(c.r.Context(), judging)
	if err != nil {
		return nil, err
	}
	shown := &verdict{
		Recommendation: result.Recommendation, Flagged: result.Flagged, Confidence: result.Confidence,
		Language: result.Language.Tag, OtherLanguage: result.OtherLanguage, Themes: result.Themes,
		Parts: partsOf(text, &result, &explanation),
	}
	for i, l := range levelsOf(c.services.Engine.Policy(), c.account) {
		p := result.Categories[i].Probability
		shown.Categories = append(shown.Categories, judged{
			level: l, Probability: p, Flagged: result.Categories[i].Flagged, Percent: share(int64(p*1e6), 1e6),
			Milli: int(l.Threshold*1000 + 0.5),
		})
	}
	shown.Settled = len(result.Blocked) > 0 || result.Least == engine.Reject
	shown.Reviewed = result.Least == engine.Review
	for _, theme := range result.Themes {
		shown.Settled = shown.Settled || theme.Flagged
	}
	return shown, nil
}

// partsOf splits a text where what is marked begins and ends.
func partsOf(text string, result *engine.Result, explanation *engine.Explanation) []part {
	points := []rune(text)
	type mark struct {
		engine.Span
		add func(*part)
	}
	var marks []mark
	edges := []int{0, len(points)}
	note := func(span engine.Span, add func(*part)) {
		if span.Begin < 0 || span.End > len(points) || span.Begin >= span.End {
			return
		}
		marks = append(marks, mark{span, add})
		edges = append(edges, span.Begin, span.End)
	}
	for i, explained := range explanation {
		name := engine.Category(i).String()
		note(explained.Passage, func(p *part) { p.Passages = append(p.Passages, name) })
		for _, evidence := range explained.Evidence {
			note(evidence.Span, func(p *part) { p.Categories = append(p.Categories, name) })
		}
	}
	for _, theme := range result.Themes {
		for _, found := range theme.Matches {
			note(found, func(p *part) { p.Themes = append(p.Themes, theme.Theme) })
		}
	}
	for _, found := range result.Blocked {
		note(found, func(p *part) { p.Blocked = true })
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	var parts []part
	for i := 1; i < len(edges); i++ {
		p := part{Text: string(points[edges[i-1]:edges[i]])}
		for _, m := range marks {
			if m.Begin <= edges[i-1] && edges[i] <= m.End {
				m.add(&p)
			}
		}
		parts = append(parts, p)
	}
	return parts
}
