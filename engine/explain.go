// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrEvidence reports that a classifier gave evidence or a passage that does not lie in the text.
var ErrEvidence = errors.New("classifier gave evidence that does not lie in the text")

// Evidence is a part of a text that carries the probability of a category.
type Evidence struct {
	Span
	// Weight is the part's share of everything that speaks for the category, above 0 and at most 1. The weights of a
	// category add up to at most 1; the rest is spread over words that carry little each.
	Weight float64
}

// CategoryExplanation says where in a text the probability of a category comes from.
type CategoryExplanation struct {
	// Evidence is in the order of the text and without overlap. It may be empty even where there is a passage: no word
	// has to speak for a category that is explained.
	Evidence []Evidence
	// Passage is the part of the text that decided: what to read of a long text. A classifier that looks at a text as a
	// whole gives all of it. It is zero where the category is not explained, and with an [Explainer] that knows none.
	Passage Span
}

// Explanation explains each category, by [Category]. It is zero with a classifier that is no [Explainer].
type Explanation [NumCategories]CategoryExplanation

// Explainer is a [Classifier] that can say which parts of a text its probabilities come from. A classifier need not be
// one.
type Explainer interface {
	Classifier
	// Explain finds the parts of text that carry the probabilities of the wanted categories. Like Classify it must take
	// any string and be safe for concurrent use, and must not keep a reference to text.
	//
	// Evidence must be in order and without overlap, each part with at least one code point of the text and a weight
	// above 0 and at most 1. A passage must have at least one code point of the text, too, and should overlap the
	// strongest evidence; it may stay zero if the classifier does not know which passage decided, and callers are then
	// told none. What breaks a rule fails the call with [ErrEvidence]. What is returned for categories that are not
	// wanted is ignored.
	Explain(ctx context.Context, text string, wanted [NumCategories]bool) (Explanation, error)
}

// explainAbove is the probability above which a category is explained even if it is not flagged.
const explainAbove = 0.2

// Explain moderates a request as [Engine.Moderate] does and explains the verdict: for each category that is flagged or
// whose probability exceeds 0.2 it returns the parts of the content that carry the probability, and the passage
// that decided. The parts that carry a theme are in [ThemeResult.Matches] already.
//
// The embedded classifier gives at most five parts for a category. A word carries as much as the category's logit falls
// when the word is left out of the windows of the text that decide. Parts that carry less than 15 % of what the
// strongest one does are left out. The content is classified once, for the verdict and for the explanation, and the
// cost is bounded whatever the content: at most 160 words are left out, one at a time. The passage of a category is the
// window with the largest logit, or the next one if only that has the strongest part: a sentence or two, or up to 56
// words. Of a short content it is all but the white space around it.
//
// A share of harm in the request decides which categories are explained, because it moves their probabilities. It adds
// the same to every logit, so that no weight of a part and no passage depends on it.
//
// It fails as Moderate does, if the classifier cannot explain what it classified, or with [ErrEvidence].
func (e *Engine) Explain(ctx context.Context, req Request) (Result, Explanation, error) {
	req = req.read()
	if embedded, ok := e.classifier.(Embedded); ok {
		return e.explainEmbedded(embedded, req)
	}
	result, err := e.Moderate(ctx, req)
	if err != nil {
		return Result{}, Explanation{}, err
	}
	explainer, ok := e.classifier.(Explainer)
	wanted := result.wanted()
	if !ok || wanted == [NumCategories]bool{} {
		return result, Explanation{}, nil
	}
	explanation, err := explainer.Explain(ctx, req.Content, wanted)
	if err != nil {
		return Result{}, Explanation{}, fmt.Errorf("explaining: %w", err)
	}
	for c := range explanation {
		if !wanted[c] {
			explanation[c] = CategoryExplanation{}
		}
	}
	if err := explanation.check(utf8.RuneCountInString(req.Content)); err != nil {
		return Result{}, Explanation{}, err
	}
	return result, explanation, nil
}

// explainEmbedded is [Engine.Explain] with the embedded classifier, which classifies the content once for both.
func (e *Engine) explainEmbedded(embedded Embedded, req Request) (Result, Explanation, error) {
	if err := req.validate(); err != nil {
		return Result{}, Explanation{}, err
	}
	found, readings, err := embedded.read(req.Content, req.Languages)
	defer closeAll(readings)
	if err != nil {
		return Result{}, Explanation{}, err
	}
	scores := scoresOf(combine(readings))
	scores.Language = found
	result, err := e.decide(req, scores, readings[0].Words)
	if err != nil {
		return Result{}, Explanation{}, err
	}
	wanted := result.wanted()
	if wanted == [NumCategories]bool{} {
		return result, Explanation{}, nil
	}
	return result, explain(readings, wanted), nil
}

// wanted returns the categories to explain.
func (r *Result) wanted() (wanted [NumCategories]bool) {
	for c, verdict := range r.Categories {
		wanted[c] = verdict.Flagged || verdict.Probability > explainAbove
	}
	return wanted
}

// check refuses evidence and passages that do not lie in a text of the given number of code points, and evidence
// without a valid weight.
func (x *Explanation) check(points int) error {
	for c := range x {
		if p := x[c].Passage; p != (Span{}) && (p.Begin < 0 || p.End <= p.Begin || p.End > points) {
			return fmt.Errorf("%w: the passage of %s from %d to %d", ErrEvidence, Category(c), p.Begin, p.End)
		}
		at := 0
		for _, part := range x[c].Evidence {
			inText := part.Begin >= at && part.End > part.Begin && part.End <= points
			if !inText || !(part.Weight > 0 && part.Weight <= 1) {
				return fmt.Errorf("%w: %s from %d to %d, weight %v",
					ErrEvidence, Category(c), part.Begin, part.End, part.Weight)
			}
			at = part.End
		}
	}
	return nil
}

// Explain finds the parts of a text that carry the probabilities of the wanted categories.
func (e Embedded) Explain(_ context.Context, content string, wanted [NumCategories]bool) (Explanation, error) {
	_, readings, err := e.read(content, nil)
	defer closeAll(readings)
	if err != nil {
		return Explanation{}, err
	}
	return explain(readings, wanted), nil
}

// Interface guard.
var _ Explainer = Embedded{}
