// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// ErrProbability reports that a classifier or a theme screener gave a value that is not a probability.
var ErrProbability = errors.New("classifier gave a value that is not a probability")

// Scores are calibrated probabilities, each from 0 to 1.
type Scores struct {
	// Categories holds the probability of each category, by [Category].
	Categories [NumCategories]float64
	// Attributes holds the probability of each attribute, by [Attribute].
	Attributes [NumAttributes]float64
	// Language is the language of the text, zero with a classifier that does not say.
	Language Language
}

// Classifier turns text into probabilities. The default is the model that is embedded in the binary. In Caddy, others
// are guest modules of the namespace moderation.classifiers: the documentation of package caddymod/app says how to
// write one.
//
// A classifier must be safe for concurrent use, and give the same scores for the same text: the guard remembers them.
// It may also be an [Explainer].
type Classifier interface {
	// Classify scores text. It must take any string: any language, any Unicode, invalid UTF-8, the empty text, and
	// texts of any length, which it may cut. It must not keep a reference to text after it returns.
	//
	// Scores are probabilities from 0 to 1 and finite; others are refused with [ErrProbability]. What the classifier
	// knows nothing of stays 0. The default thresholds suit calibrated probabilities.
	//
	// An error means that the text could not be classified, for example because a remote classifier is down, and never
	// that the text is odd. The service then answers 503, and the guard does what its option on_error says. Classify
	// should return early when ctx is done.
	Classify(ctx context.Context, text string) (Scores, error)
	// Version names the classifier and its exact weights, for example "cascade-1-6f0c2a9e". It is stored with
	// corrections, so that each can be traced to the model that it corrects. Versions that begin with "cascade-" are
	// those of the embedded model and of others that this project's trainer made: the Perspective API's operations map
	// their scores to the scale of that API.
	Version() string
}

// check refuses scores that are not probabilities.
func (s *Scores) check() error {
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

// Embedded is the [Classifier] over the models of this project: one of English, the embedded one by default, and the
// embedded ones of other languages. A text is read by the model of its language. Where words are not those of the
// language, passages in other languages are read by the models of these, and all of the text by that of English; the
// largest probability counts. It is also an [Explainer].
type Embedded struct {
	model     *model.Model // of English
	languages *languages   // nil for English alone
}

// NewEmbedded makes a classifier of a model of English, for example one that [model.Load] loaded from a file, and of
// the embedded models of the languages with these tags, of those that [model.Languages] names; of all of these where
// there is no tag. It fails for a language without a model. With "en" alone, the model of English reads all texts, and
// their language is only said.
func NewEmbedded(m *model.Model, languages ...string) (Embedded, error) {
	l, err := newLanguages(languages)
	return Embedded{m, l}, err
}

// NewEnglish makes a classifier of a model alone, which reads texts of any language.
func NewEnglish(m *model.Model) Embedded { return Embedded{model: m} }

// Classify scores content. It fails only if weights that are embedded cannot be decoded.
func (e Embedded) Classify(_ context.Context, content string) (Scores, error) {
	scores, _, err := e.classify(content, nil)
	return scores, err
}

// classify also returns the number of word tokens.
func (e Embedded) classify(content string, expected []string) (Scores, int, error) {
	if e.languages == nil {
		r := e.model.Read(content)
		return scoresOf(r.Probabilities), r.Words, nil
	}
	c, err := e.languages.choose(e.model, content, expected)
	if err != nil {
		return Scores{}, 0, err
	}
	r := c.first.Read(content)
	p := r.Probabilities
	if c.first != e.model && c.unsure {
		english := e.model.Read(content)
		p, r.Words = english.Probabilities, english.Words
		if c.believes(r.Known, r.Unknown, english.Unknown) {
			for h := range p {
				p[h] = max(p[h], r.Probabilities[h])
			}
		}
		c.unsure = false
	}
	parts, err := e.languages.others(c, r.Foreign, e.model, content)
	if err != nil {
		return Scores{}, 0, err
	}
	for _, part := range parts {
		more := part.model.Read(content[part.begin:part.end])
		if part.model != e.model && isNoise(part.model, more.Known, more.Unknown) {
			continue
		}
		for h := range p {
			p[h] = max(p[h], more.Probabilities[h])
		}
	}
	scores := scoresOf(p)
	scores.Language = c.Language
	return scores, r.Words, nil
}

// Version names the model and its exact weights, for example "cascade-1-6f0c2a9e".
func (e Embedded) Version() string { return e.model.Version() }

// HarmShare returns the share of harmful texts for which the model's probabilities are calibrated, as
// [model.Model.HarmShare] does.
func (e Embedded) HarmShare() float64 { return e.model.HarmShare() }

// scoresOf splits the heads of a model: the categories come first, then the attributes.
func scoresOf(p model.Probabilities) (s Scores) {
	copy(s.Categories[:], p[:NumCategories])
	copy(s.Attributes[:], p[NumCategories:])
	return s
}

// Interface guard.
var _ Classifier = Embedded{}
