// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// BenchmarkLanguages moderates the harmless texts of the examinations, which are half ordinary and half about what harm
// is about, and says how long a character takes. Those of English are longer than most.
//
//	go test -run - -bench Languages ./engine
func BenchmarkLanguages(b *testing.B) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, tag := range e.Languages() {
		texts := harmlessExamination(b, tag)
		points := 0
		for _, text := range texts {
			points += utf8.RuneCountInString(text)
		}
		mean := float64(points) / float64(len(texts))
		b.Run(tag, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := e.Moderate(b.Context(), engine.Request{Content: texts[i%len(texts)]}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/mean, "ns/char")
			b.ReportMetric(mean, "chars/op")
		})
	}
}

// harmlessExamination returns the texts without harm of the examination of a language.
func harmlessExamination(tb testing.TB, tag string) (texts []string) {
	const without = "needs engine/train/exam, which is in a checkout of the repository but not in the module cache"
	if tag == "en" {
		rows, err := readCorpus("train/exam/exam.jsonl")
		if err != nil {
			tb.Skip(without)
		}
		for _, row := range rows {
			if row.harmless() {
				texts = append(texts, row.Text)
			}
		}
		return texts
	}
	file, err := os.ReadFile("train/exam/" + tag + ".txt")
	if err != nil {
		tb.Skip(without)
	}
	for line := range strings.Lines(string(file)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(line, "+")), "-|"); ok {
			texts = append(texts, text)
		}
	}
	return texts
}
