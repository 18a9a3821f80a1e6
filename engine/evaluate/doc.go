// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package evaluate measures what a judge does on labelled texts: the command "caddy moderation evaluate" is made of it.
//
//	input, err := evaluate.Open([]string{"comments.jsonl"}, os.Stdin)
//	judge, err := engine.New(engine.Options{})
//	report, err := evaluate.Run(ctx, judge, input.Rows(ctx), evaluate.Options{})
//	report.WriteText(os.Stdout)
//
// [Open] finds the files, [Input.Rows] reads them line by line, [Run] has every row judged by the [engine.Engine] that
// the service uses too, and sums up in a [Report]. Only scores are kept, never texts, but for the few of
// [Options.Misses]. The figures are functions of their own, such as [AUC].
package evaluate
