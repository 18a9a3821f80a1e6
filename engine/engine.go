// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/language"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
	"github.com/caddy-moderation/caddy-moderation/engine/words"
)

// Options configure an [Engine]. The zero value stands for the embedded classifier, the embedded theme screener and the
// default policy.
type Options struct {
	// Classifier gives the probabilities. Default: the embedded model of English.
	Classifier Classifier
	// Themes screens for themes. Default: the embedded screener.
	Themes ThemeScreener
	// Policy decides where a request does not bring its own. Default: see [Policy].
	Policy Policy
}

// Engine moderates texts. It is safe for concurrent use.
type Engine struct {
	classifier Classifier
	themes     ThemeScreener
	policy     Policy
}

// New makes an engine. It fails if the policy is out of range.
func New(o Options) (*Engine, error) {
	if err := o.Policy.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{classifier: o.Classifier, themes: o.Themes, policy: o.Policy.withDefaults()}
	if e.classifier == nil {
		m, err := model.Default()
		if err != nil {
			return nil, fmt.Errorf("loading the embedded model: %w", err)
		}
		if e.classifier, err = NewEmbedded(m); err != nil {
			return nil, err
		}
	}
	if e.themes == nil {
		screener, err := embeddedThemes(e.classifier)
		if err != nil {
			return nil, err
		}
		e.themes = screener
	}
	return e, nil
}

// Version names the classifier and its exact weights, as [Classifier.Version] does.
func (e *Engine) Version() string { return e.classifier.Version() }

// Policy returns the policy of the engine with all defaults filled in.
func (e *Engine) Policy() Policy { return e.policy }

// Classify returns the probabilities of content as the classifier gives them, without a verdict and for no share of
// harm but the classifier's own. It fails if the classifier does, or with [ErrProbability].
func (e *Engine) Classify(ctx context.Context, content string) (Scores, error) {
	scores, err := e.classifier.Classify(ctx, content)
	if err != nil {
		return Scores{}, fmt.Errorf("classifying: %w", err)
	}
	return scores, scores.check()
}

// Request is a text to moderate.
type Request struct {
	// Content is the text: any string, of any length. Limits are up to the caller.
	Content string
	// Themes are free-text themes to screen for. A theme that is found flags the content and recommends [Reject].
	Themes []string
	// Policy overrides levels of the engine's policy for this request, as [Policy.With] does. Default: none.
	Policy *Policy
	// Languages are the languages that the content is expected to be in, as BCP 47 tags, the likeliest first. Where
	// the language of the content cannot be known, it is read by the model of the first of them that has one. Default:
	// none.
	Languages []string
	// OtherLanguage is what is recommended at least where the content is clearly in another language than Languages:
	// [Review] or [Reject]. Default: nothing.
	OtherLanguage Recommendation
	// Allow are expressions that do not count: the content is read without them, by the classifier, for themes and for
	// Block. Default: none.
	Allow *words.List
	// Block are expressions that flag the content in which they stand, and recommend [Reject]. Default: none.
	Block *words.List
	// HarmShare is the share of harmful texts in the traffic that the content comes from, from [MinHarmShare] to
	// [MaxHarmShare]. The probabilities of categories and attributes are moved to it, as [Engine.Shift] says. Default:
	// 0, which leaves them as the classifier gives them.
	HarmShare float64
}

// validate checks everything but the texts.
func (r *Request) validate() error {
	if r.HarmShare != 0 {
		if err := ValidateHarmShare(r.HarmShare); err != nil {
			return err
		}
	}
	switch r.OtherLanguage {
	case "", Review, Reject:
	default:
		return fmt.Errorf("the recommendation for other languages is %q: must be review, reject or none", r.OtherLanguage)
	}
	if r.Policy == nil {
		return nil
	}
	return r.Policy.Validate()
}

// read returns the request as it is read: without the expressions that do not count. The places in its content stay.
func (r Request) read() Request {
	r.Content, r.Allow = r.Allow.Blank(r.Content), nil
	return r
}

// Moderate classifies the content of a request, screens it for themes and decides. It takes any content. It fails if
// the policy or the share of harm of the request is out of range, if the classifier fails, or with [ErrProbability].
func (e *Engine) Moderate(ctx context.Context, req Request) (Result, error) {
	if err := req.validate(); err != nil {
		return Result{}, err
	}
	req = req.read()
	scores, words, err := e.classify(ctx, req.Content, req.Languages)
	if err != nil {
		return Result{}, err
	}
	return e.decide(req, scores, words)
}

// decide moves the scores of a request's content to its share of harm, screens for its themes and decides. words is the
// number of word tokens of the content.
func (e *Engine) decide(req Request, scores Scores, words int) (Result, error) {
	r := Result{Attributes: scores.Attributes, Language: scores.Language, TokensUsed: words}
	for c, p := range scores.Categories {
		r.Categories[c].Probability = p
	}
	e.Shift(req.HarmShare).Apply(&r)
	if len(req.Themes) > 0 {
		themes, tokens, err := e.screenThemes(scores.Language.Tag, req)
		if err != nil {
			return Result{}, err
		}
		for _, t := range themes {
			if !isProbability(t.Probability) {
				return Result{}, fmt.Errorf("%w: theme", ErrProbability)
			}
		}
		r.Themes = themes
		r.TokensUsed += tokens
	}
	r.Blocked = Spans(req.Block, req.Content)
	if language.IsOther(r.Language.Tag, r.Language.Probability, req.Languages) {
		r.OtherLanguage, r.Least = true, req.OtherLanguage
	}
	e.policy.With(req.Policy).Decide(&r)
	return r, nil
}

// Spans returns where the expressions of a list stand in a text, in order and without overlap.
func Spans(list *words.List, content string) (spans []Span) {
	points, at := 0, 0
	for _, m := range list.Find(nil, content) {
		points += utf8.RuneCountInString(content[at:m.Begin])
		span := Span{Begin: points}
		points += utf8.RuneCountInString(content[m.Begin:m.End])
		span.End, at = points, m.End
		spans = append(spans, span)
	}
	return spans
}

// screenThemes screens a text in a language for the themes of its request.
func (e *Engine) screenThemes(tag string, req Request) ([]ThemeResult, int, error) {
	if a, ok := e.themes.(*themeAdapter); ok {
		return a.screenThemesIn(tag, req.Content, req.Themes)
	}
	results, tokens := e.themes.ScreenThemes(req.Content, req.Themes)
	return results, tokens, nil
}

// classify returns the scores of a text and its number of word tokens. expected are the languages that it may be in.
func (e *Engine) classify(ctx context.Context, content string, expected []string) (Scores, int, error) {
	if embedded, ok := e.classifier.(Embedded); ok {
		scores, words, err := embedded.classify(content, expected) // tokenizes once for both
		if err != nil {
			return Scores{}, 0, fmt.Errorf("classifying: %w", err)
		}
		return scores, words, nil
	}
	scores, err := e.Classify(ctx, content)
	if err != nil {
		return Scores{}, 0, err
	}
	s := text.Get()
	defer text.Put(s)
	s.Tokenize(content)
	return scores, s.Words(), nil
}
