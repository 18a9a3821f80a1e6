// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

// This example evaluates two labelled texts with the embedded classifier.
func Example() {
	const data = `{"text": "You are such an idiot, nobody likes you.", "labels": {"harassment": 1}}
{"text": "What a lovely goal!", "labels": {"harassment": 0}}`

	ctx := context.Background()
	input, err := evaluate.Open([]string{"-"}, strings.NewReader(data))
	if err != nil {
		panic(err)
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		panic(err)
	}
	report, err := evaluate.Run(ctx, e, input.Rows(ctx), evaluate.Options{})
	if err != nil {
		panic(err)
	}
	harassment := report.Categories["harassment"]
	fmt.Println("rows:", harassment.Rows, "recall:", harassment.Recall, "AUC:", harassment.AUC)
	// Output: rows: 2 recall: 1.000 AUC: 1.000
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "labelled")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	const rows = "{\"text\": \"Hello.\", \"labels\": {\"hate\": 0}}\n{\"text\": \"Hello again.\"}\n"
	if err := os.WriteFile(dir+"/forum.jsonl", []byte(rows), 0o600); err != nil {
		panic(err)
	}
	input, err := evaluate.Open([]string{dir}, nil)
	if err != nil {
		panic(err)
	}
	for row, err := range input.Rows(context.Background()) {
		if err != nil {
			fmt.Println("mistake in line", row.Line)
			continue
		}
		fmt.Println(row.Text, row.Labels[engine.Hate])
	}
	// Output:
	// Hello. 0
	// mistake in line 2
}

func ExampleAUC() {
	fmt.Println(evaluate.AUC([]evaluate.Scored{
		{Score: 0.9, Positive: true},
		{Score: 0.6, Positive: false},
		{Score: 0.4, Positive: true},
		{Score: 0.1, Positive: false},
	}))
	// Output: 0.75
}

func ExampleCounts() {
	scores := []evaluate.Scored{
		{Score: 0.9, Positive: true},
		{Score: 0.8, Positive: false},
		{Score: 0.2, Positive: true},
		{Score: 0.1, Positive: false},
	}
	counts := evaluate.AtThreshold(scores, 0.7)
	fmt.Printf("%+v precision %.1f recall %.1f\n", counts, counts.Precision(), counts.Recall())
	// Output: {TP:1 FP:1 FN:1 TN:1} precision 0.5 recall 0.5
}
