// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

func ExampleEngine_Moderate() {
	judge, err := engine.New(engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := judge.Moderate(context.Background(), engine.Request{Content: "I'm going to stab you in the throat."})
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
