// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// BenchmarkModerateVaried moderates texts that are made of rows of the corpus, each time another one, so that no text
// is still in the processor's cache. The harmless ones are made of rows without a harm, which look like harm more often
// than ordinary texts do; half of the rows of the mixed ones are harmful, so that the network classifies nearly all of
// them.
func BenchmarkModerateVaried(b *testing.B) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	harmless, all := corpus(b)
	for _, mix := range []struct {
		name   string
		pieces []string
	}{{"harmless", harmless}, {"mixed", all}} {
		for _, length := range []int{200, 2000, 10_000} {
			r := rand.New(rand.NewPCG(1, uint64(length)))
			texts := make([]string, 1<<20/length)
			for i := range texts {
				var text []rune
				for len(text) < length {
					text = append(text, []rune(mix.pieces[r.IntN(len(mix.pieces))]+" ")...)
				}
				texts[i] = string(text[:length])
			}
			b.Run(fmt.Sprintf("%s/%d", mix.name, length), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := e.Moderate(b.Context(), engine.Request{Content: texts[i%len(texts)]}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// corpus returns the texts of the corpus: the harmless ones, and all.
func corpus(tb testing.TB) (harmless, all []string) {
	names, err := filepath.Glob("train/corpus/*.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	if len(names) == 0 {
		tb.Skip("needs engine/train/corpus, which is in a checkout of the repository but not in the module cache")
	}
	for _, name := range names {
		rows, err := readCorpus(name)
		if err != nil {
			tb.Fatalf("reading the corpus: %v", err)
		}
		for _, row := range rows {
			all = append(all, row.Text)
			if len(row.Labels) > 0 && row.harmless() {
				harmless = append(harmless, row.Text)
			}
		}
	}
	return harmless, all
}
