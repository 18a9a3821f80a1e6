// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package guard stands in front of an app. The handler moderate moderates what people send to the app, the handler
// moderate_response what the app answers, and the matcher moderation lets other directives act on the verdict.
//
// # The path of a message
//
// The packages below this one each do one step:
//
//   - [request] extracts the texts of a request, and keeps its body for the app;
//   - [response] holds the answer of an app, or lets it flow, and extracts its texts;
//   - [extract] is what these two share: limits, and the result of an extraction;
//   - content, multipart and stream know the formats: JSON, forms, markup and streams;
//   - [policy] charges the message to an account, classifies the texts and decides.
//
// This package puts them together:
//
//	moderate.go            the handler moderate: its options, and what follows from a verdict
//	moderate_response.go   the handler moderate_response: its options
//	matcher.go             the matcher moderation
//	exchange.go            what handlers and matchers share of one request; extracts and moderates it
//	answer.go              moderates an answer, and what follows from the verdict
//	verdict.go             the verdict, as header fields, placeholders and log fields
//	reactions.go           the routes of "on"
//	refuse.go              refuses a message: error routes, pages and problems
//	refuse_llm.go          refuses in the formats of language models' APIs
//	settling.go            keeps an answer back until its charge is durable
//	report.go              metrics, events and the log
//	caddyfile.go           the syntax of the three directives
//	hints.go               errors and warnings about directives that are easily mistaken
//
// # Adding an option
//
// An option belongs to the struct whose work it changes. moderate, moderate_response and the matcher are made of these,
// and an option of a shared struct is an option of all of them:
//
//	struct                     what its options say                 moderate  moderate_response  matcher
//	policy.Policy              what is let through                  yes       yes                no
//	extract.Limits             how much is read and moderated       yes       yes                no
//	request.Fields             where the texts stand                yes       json and text      yes
//	Stream                     how streams are moderated            no        yes                no
//	Moderate, ModerateResponse and Matcher themselves: what is done with the verdict
//
// It takes five steps:
//
//  1. Add a field with a JSON tag and a doc comment to the struct.
//  2. Parse it in the method Options (RequestOptions, AnswerOptions) of the struct, or in caddyfile.go here. Package
//     [options] has parsers for the usual values. Add it to the syntax in the comments of UnmarshalCaddyfile; a test
//     compares these with the parsers.
//  3. Check it where the struct is used, because JSON does not pass the parser: [policy.New], [request.New],
//     setDefaults in package extract, or the methods Provision.
//  4. Use it: [policy.Moderator], [request.Extractor], [extract.Limits.Cut], [response.Writer], or
//     Moderate.ServeHTTP. Keys by which handlers share results are made of whole structs, so a new field is part of
//     them. A field of [policy.Policy] that does not change how a text is classified is left out in Policy.key.
//  5. Add a case to the table beside that code (TestModerate and TestNewRefuses of package policy, TestExtract and
//     TestNewRefuses of package request, TestCut of package extract), the option to guard_everything.txt and
//     guard_response_everything.txt in testdata/caddyfile, a file error_moderate_*.txt there for each mistake that the
//     parser refuses, and a row to docs/guard.md. What only a running server shows is tested in caddymod, in
//     guard_test.go and response_test.go.
//
// Then write the outputs of the golden files and the reference of the modules anew:
//
//	go test ./caddymod -run 'TestModulesPage|TestAdapt' -update
package guard
