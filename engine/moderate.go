// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// ErrProbability says that a classifier gave something that is not a probability.
var ErrProbability = errors.New("classifier gave a value that is not a probability")

// ThemeScreener judges free-text themes.
type ThemeScreener interface {
	// ScreenThemes returns one result for each distinct theme, in the order of their first appearance, and the number
	// of word tokens of these themes.
	ScreenThemes(content string, wanted []string) (results []ThemeResult, tokens int)
}

// Options configure an [Engine]. The zero value stands for the embedded classifier, the embedded theme judge and the
// default policy.
type Options struct {
	// Classifier gives the probabilities. Nil means the embedded model.
	Classifier Classifier
	// Themes judges themes. Nil means the embedded judge.
	Themes ThemeScreener
	// Policy decides what probabilities mean, where a request does not bring its own. See [Policy].
	Policy Policy
}

// Engine judges texts. It is safe for concurrent use.
type Engine struct {
	classifier Classifier
	themes     ThemeScreener
	policy     Policy
}

// New builds an engine. It fails on a policy out of range.
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
		e.classifier = Embedded{m}
	}
	if e.themes == nil {
		themes, err := embeddedThemes(e.classifier)
		if err != nil {
			return nil, err
		}
		e.themes = themes
	}
	return e, nil
}

// Version names the classifier and its exact weights.
func (e *Engine) Version() string { return e.classifier.Version() }

// Policy returns the policy of the engine with all defaults filled in.
func (e *Engine) Policy() Policy { return e.policy }

// Classify returns the probabilities of a text, without a verdict.
func (e *Engine) Classify(ctx context.Context, content string) (Scores, error) {
	scores, err := e.classifier.Classify(ctx, content)
	if err != nil {
		return Scores{}, fmt.Errorf("classifying: %w", err)
	}
	return scores, check(scores)
}

// Moderate judges a request. Any content is judged; an error means that the policy of the request is out of range or
// that the classifier could not judge.
func (e *Engine) Moderate(ctx context.Context, req Request) (Result, error) {
	if req.Policy != nil {
		if err := req.Policy.Validate(); err != nil {
			return Result{}, err
		}
	}
	scores, words, err := e.classify(ctx, req.Content)
	if err != nil {
		return Result{}, err
	}
	return e.verdict(req, scores, words)
}

// verdict judges the themes of a request and decides, from the scores of its content and the number of its word tokens.
func (e *Engine) verdict(req Request, scores Scores, words int) (Result, error) {
	r := Result{Attributes: scores.Attributes, TokensUsed: words}
	for c, p := range scores.Categories {
		r.Categories[c].Probability = p
	}
	if len(req.Themes) > 0 {
		themes, tokens := e.themes.ScreenThemes(req.Content, req.Themes)
		for _, t := range themes {
			if !isProbability(t.Probability) {
				return Result{}, fmt.Errorf("%w: theme", ErrProbability)
			}
		}
		r.Themes = themes
		r.TokensUsed += tokens
	}
	e.policy.With(req.Policy).Decide(&r)
	return r, nil
}

// classify returns the scores of a text and the number of its word tokens.
func (e *Engine) classify(ctx context.Context, content string) (Scores, int, error) {
	if own, ok := e.classifier.(Embedded); ok {
		p, words := own.model.Classify(content)
		return scoresOf(p), words, nil // tokenised once for both
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

// check refuses what a foreign classifier must not give.
func check(s Scores) error {
	for c, p := range s.Categories {
		if !isProbability(p) {
			return fmt.Errorf("%w: %s is %v", ErrProbability, Category(c), p)
		}
	}
	for a, p := range s.Attributes {
		if !isProbability(p) {
			return fmt.Errorf("%w: %s is %v", ErrProbability, Attribute(a), p)
		}
	}
	return nil
}

func isProbability(p float64) bool { return p >= 0 && p <= 1 } // false for NaN

// Embedded is the [Classifier] over a model of this project.
type Embedded struct{ model *model.Model }

// NewEmbedded makes a classifier of a model, for example one that [model.Load] read from a file.
func NewEmbedded(m *model.Model) Embedded { return Embedded{m} }

// Classify scores text. It never fails.
func (e Embedded) Classify(_ context.Context, content string) (Scores, error) {
	p, _ := e.model.Classify(content)
	return scoresOf(p), nil
}

// Version names the model and its exact weights, for example "cascade-1-6f0c2a9e".
func (e Embedded) Version() string { return e.model.Version() }

// scoresOf takes the heads of a model apart: the categories come first, then the attributes.
func scoresOf(p model.Probabilities) (s Scores) {
	copy(s.Categories[:], p[:NumCategories])
	copy(s.Attributes[:], p[NumCategories:])
	return s
}

// Interface guard.
var _ Classifier = Embedded{}
