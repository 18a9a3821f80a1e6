// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Moderate a text with the embedded classifier and the default policy.
func ExampleEngine_Moderate() {
	e, err := engine.New(engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := e.Moderate(context.Background(), engine.Request{Content: "I'm going to stab you in the throat."})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Flagged, result.Recommendation)
	for c, verdict := range result.Categories {
		if verdict.Flagged {
			fmt.Println(engine.Category(c))
		}
	}
	// Output:
	// true reject
	// harassment
	// violence
}

// A policy of your own sets the levels of some categories; the others keep their defaults. A request may bring another
// policy for itself.
func ExampleEngine_Moderate_policy() {
	e, err := engine.New(engine.Options{
		Policy: engine.Policy{
			Thresholds:   [engine.NumCategories]float64{engine.Violence: 0.999},
			RejectLevels: [engine.NumCategories]float64{engine.Harassment: 1},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	const content = "You are a worthless pathetic idiot and everybody hates you."
	lenient, err := e.Moderate(context.Background(), engine.Request{Content: content})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("never rejected for harassment:", lenient.Recommendation)

	strict := engine.Policy{RejectLevels: [engine.NumCategories]float64{engine.Harassment: 0.75}}
	result, err := e.Moderate(context.Background(), engine.Request{Content: content, Policy: &strict})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("by the policy of the request:", result.Recommendation)
	// Output:
	// never rejected for harassment: review
	// by the policy of the request: reject
}

// Themes are subjects that you do not want, in a few words of your own. A theme that is found rejects the content,
// however harmless it is otherwise.
func ExampleEngine_Moderate_themes() {
	e, err := engine.New(engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	const content = "The fireworks over the harbour were lovely."
	result, err := e.Moderate(context.Background(), engine.Request{
		Content: content,
		Themes:  []string{"fireworks", "gambling"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Recommendation)
	points := []rune(content) // spans count code points
	for _, theme := range result.Themes {
		fmt.Println(theme.Theme, theme.Flagged)
		for _, match := range theme.Matches {
			fmt.Printf("  %q from %d to %d\n", string(points[match.Begin:match.End]), match.Begin, match.End)
		}
	}
	// Output:
	// reject
	// fireworks true
	//   "fireworks" from 4 to 13
	// gambling false
}

// Explain says which passage decided about a category, and which parts of the content carry its probability.
func ExampleEngine_Explain() {
	e, err := engine.New(engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	const content = "See you at nine. You are a worthless idiot, by the way. It is raining here."
	result, explanation, err := e.Explain(context.Background(), engine.Request{Content: content})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Flagged)
	points := []rune(content) // spans count code points
	for c, x := range explanation {
		if x.Passage != (engine.Span{}) {
			fmt.Printf("%s: %q\n", engine.Category(c), string(points[x.Passage.Begin:x.Passage.End]))
		}
		for _, part := range x.Evidence {
			words := string(points[part.Begin:part.End])
			fmt.Printf("  %q from %d to %d\n", words, part.Begin, part.End)
		}
	}
	// Output:
	// true
	// harassment: "See you at nine. You are a worthless idiot, by the way."
	//   "You are a worthless idiot" from 17 to 42
}

// A result can be decided again by another policy, without classifying the text again.
func ExamplePolicy_Decide() {
	e, err := engine.New(engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := e.Moderate(context.Background(), engine.Request{Content: "The soup was cold and so was the waiter."})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Flagged)

	result.Categories[engine.Harassment].Probability = 0.9 // what your own model says, for example
	e.Policy().Decide(&result)
	fmt.Println(result.Flagged, result.Recommendation)
	// Output:
	// false
	// true reject
}
