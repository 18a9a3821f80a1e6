// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes_test

import (
	"fmt"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

func Example() {
	screener, err := themes.New(themes.Options{})
	if err != nil {
		panic(err)
	}
	content := "Someone stole my bike at the station."
	for _, hit := range screener.Screen(content, []string{"theft of bicycles", "fireworks"}) {
		fmt.Println(hit.Theme, hit.Flagged)
		for _, m := range hit.Matches {
			fmt.Printf("  code points %d to %d: %s\n", m.Begin, m.End, string([]rune(content)[m.Begin:m.End]))
		}
	}
	// Output:
	// theft of bicycles true
	//   code points 8 to 13: stole
	//   code points 17 to 21: bike
	// fireworks false
}

// A higher threshold flags fewer texts. Probabilities do not depend on it.
func ExampleNew_threshold() {
	for _, threshold := range []float64{0.5, 0.9999} {
		screener, err := themes.New(themes.Options{Threshold: threshold})
		if err != nil {
			panic(err)
		}
		hit := screener.Screen("I hate fireworks", []string{"fireworks"})[0]
		fmt.Println(hit.Flagged, hit.Probability > 0.5)
	}
	// Output:
	// true true
	// false true
}
