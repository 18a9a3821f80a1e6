// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// BenchmarkModerateVaried judges texts that are put together from the project's own, each time another one: no text is
// warm because it was judged a moment ago.
func BenchmarkModerateVaried(b *testing.B) {
	judge, err := engine.New(engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	pieces := written(b)
	for _, length := range []int{200, 2000, 10_000} {
		r := rand.New(rand.NewPCG(1, uint64(length)))
		texts := make([]string, 1<<20/length)
		for i := range texts {
			var text []rune
			for len(text) < length {
				text = append(text, []rune(pieces[r.IntN(len(pieces))]+" ")...)
			}
			texts[i] = string(text[:length])
		}
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := judge.Moderate(b.Context(), engine.Request{Content: texts[i%len(texts)]}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// written returns the texts that were written for training.
func written(tb testing.TB) (all []string) {
	names, err := filepath.Glob("train/corpus/*.jsonl")
	if err != nil || len(names) == 0 {
		tb.Fatal("no texts in train/corpus", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		lines := bufio.NewScanner(strings.NewReader(string(data)))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var row struct{ Text string }
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				tb.Fatal(name, err)
			}
			all = append(all, row.Text)
		}
	}
	return all
}
