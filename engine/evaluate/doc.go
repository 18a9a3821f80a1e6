// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package evaluate measures the verdicts of an [engine.Engine] on labelled texts. The command "caddy moderation
// evaluate" uses it.
//
//	input, err := evaluate.Open([]string{"comments.jsonl"}, os.Stdin)
//	e, err := engine.New(engine.Options{})
//	report, err := evaluate.Run(ctx, e, input.Rows(ctx), evaluate.Options{})
//	report.WriteText(os.Stdout)
//
// [Open] finds the files, [Input.Rows] reads them line by line, and [Run] moderates every row with the same engine as
// the service and sums up in a [Report]. Run keeps scores in memory but no texts, except the few of [Options.Misses].
// Each figure has a function of its own, such as [AUC].
package evaluate
