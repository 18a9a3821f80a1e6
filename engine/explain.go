// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// ErrEvidence says that a classifier gave evidence that does not lie in the text.
var ErrEvidence = errors.New("classifier gave evidence that does not lie in the text")

// Evidence is a part of a text that carries the probability of a category.
type Evidence struct {
	Span
	// Weight is the part's share of all that speaks for the category, above 0 and at most 1. The weights of a category
	// add up to at most 1; what is missing is spread over words that carry little each.
	Weight float64
}

// Explanation holds the evidence for each category, by [Category], in the order of the text and without overlap. Of a
// classifier that cannot explain itself it is empty.
type Explanation [NumCategories][]Evidence

// Explainer is a [Classifier] that can say what its probabilities come from. A classifier need not be one.
type Explainer interface {
	Classifier
	// Explain finds the parts of text that carry the probabilities of the wanted categories. Like Classify it must answer
	// any string and be safe for concurrent use, and must not keep a reference to text.
	Explain(ctx context.Context, text string, wanted [NumCategories]bool) (Explanation, error)
}

// explainAbove is the probability above which a category is explained even if it is not flagged.
const explainAbove = 0.2

// Explain judges a request as [Engine.Moderate] does, and explains the verdict: for each category that is flagged or whose
// probability exceeds 0.2 it gives the parts of the content that carry the probability. Themes carry their matches in
// [ThemeResult] already.
//
// The embedded classifier gives at most five parts for a category. What a word carries is how far the category's logit
// falls when the word is left out of the part of the text that decides; what carries less than 15 % of the part that carries
// most is left out. The text is read once for judging and explaining, and what explaining takes is bounded, whatever the text:
// at most 160 words are left out, one after the other.
//
// It fails as Moderate does, and when the classifier cannot explain now what it could judge.
func (e *Engine) Explain(ctx context.Context, req Request) (Result, Explanation, error) {
	if own, ok := e.classifier.(Embedded); ok {
		return e.explainOwn(own, req)
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
			explanation[c] = nil
		}
	}
	if err := explanation.check(utf8.RuneCountInString(req.Content)); err != nil {
		return Result{}, Explanation{}, err
	}
	return result, explanation, nil
}

// explainOwn is [Engine.Explain] with the embedded classifier, which reads the text once for both.
func (e *Engine) explainOwn(own Embedded, req Request) (Result, Explanation, error) {
	if req.Policy != nil {
		if err := req.Policy.Validate(); err != nil {
			return Result{}, Explanation{}, err
		}
	}
	examination := own.model.ClassifyExplainable(req.Content)
	defer examination.Close()
	result, err := e.verdict(req, scoresOf(examination.Probabilities), examination.Words)
	if err != nil {
		return Result{}, Explanation{}, err
	}
	wanted := result.wanted()
	if wanted == [NumCategories]bool{} {
		return result, Explanation{}, nil
	}
	return result, explain(examination, wanted), nil
}

// wanted says which categories are to be explained.
func (r *Result) wanted() (wanted [NumCategories]bool) {
	for c, verdict := range r.Categories {
		wanted[c] = verdict.Flagged || verdict.Probability > explainAbove
	}
	return wanted
}

// check refuses what a foreign classifier must not give for a text of so many code points.
func (x *Explanation) check(points int) error {
	for c, parts := range x {
		at := 0
		for _, part := range parts {
			if part.Begin < at || part.End <= part.Begin || part.End > points || !(part.Weight > 0 && part.Weight <= 1) {
				return fmt.Errorf("%w: %s from %d to %d, weight %v", ErrEvidence, Category(c), part.Begin, part.End, part.Weight)
			}
			at = part.End
		}
	}
	return nil
}

// Explain finds the parts of a text that carry the probabilities of the wanted categories. It never fails.
func (e Embedded) Explain(_ context.Context, content string, wanted [NumCategories]bool) (Explanation, error) {
	examination := e.model.ClassifyExplainable(content)
	defer examination.Close()
	return explain(examination, wanted), nil
}

func explain(examination *model.Explainable, wanted [NumCategories]bool) (x Explanation) {
	var heads [model.Heads]bool
	copy(heads[:], wanted[:])
	for c, carriers := range examination.Explain(heads) {
		for _, part := range carriers {
			x[c] = append(x[c], Evidence{Span: Span{Begin: part.Begin, End: part.End}, Weight: part.Weight})
		}
	}
	return x
}

// Interface guard.
var _ Explainer = Embedded{}
