// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	if err != nil || len(names) == 0 {
		tb.Fatalf("no texts in train/corpus: %v", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		lines := bufio.NewScanner(strings.NewReader(string(data)))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var row struct {
				Text   string
				Labels map[string]int
			}
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				tb.Fatalf("%s: %v", name, err)
			}
			if all = append(all, row.Text); len(row.Labels) == 0 {
				continue // for themes
			}
			if harm := slices.Max(slices.Collect(maps.Values(row.Labels))); harm == 0 {
				harmless = append(harmless, row.Text)
			}
		}
	}
	return harmless, all
}
