// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

// related are pairs of which theirs is the root of ours, with noise.
func related() []pair {
	random := rand.New(rand.NewPCG(1, 2))
	pairs := make([]pair, 4000)
	for i := range pairs {
		p := random.Float64()
		pairs[i] = pair{p, min(max(math.Sqrt(p)+0.05*random.NormFloat64(), 0), 1), 1}
	}
	return pairs
}

func TestTablesFindTheRelation(t *testing.T) {
	t.Parallel()
	for name, fit := range map[string]func([]pair) []knot{"equate": equate, "regress": regress} {
		knots := fit(related())
		if len(knots) < 8 {
			t.Fatalf("%s: got knots %v, want at least 8", name, knots)
		}
		last := knot{}
		for _, k := range knots {
			if k.probability <= last.probability || k.score <= last.score {
				t.Errorf("%s: got knot %v after %v, want both to rise", name, k, last)
			}
			last = k
		}
		for _, p := range []float64{0.1, 0.3, 0.5, 0.7} {
			if got := apply(knots, p); math.Abs(got-math.Sqrt(p)) > 0.05 {
				t.Errorf("%s: %v becomes %v, want about %v", name, p, got, math.Sqrt(p))
			}
		}
		if apply(knots, 0) != 0 || apply(knots, 1) != 1 {
			t.Errorf("%s: got the ends %v and %v, want 0 and 1", name, apply(knots, 0), apply(knots, 1))
		}
	}
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	pairs := []pair{{0.1, 0.2, 1}, {0.2, 0.3, 1}, {0.3, 0.9, 1}, {0.9, 0.95, 5}}
	if got := evaluate.Spearman(columns(pairs)); math.Abs(got-1) > 1e-12 {
		t.Errorf("Spearman of the same order is %v, want 1", got)
	}
	if got := evaluate.Spearman(columns([]pair{{1, 3, 1}, {2, 2, 1}, {3, 1, 1}})); math.Abs(got+1) > 1e-12 {
		t.Errorf("Spearman of the reverse order is %v, want -1", got)
	}
	got := agreement(pairs, 0.8)
	if got.ours != 1 || got.theirs != 2 || got.share != 0.75 || math.Abs(got.kappa-0.5) > 1e-12 || got.posted != 0.875 {
		t.Errorf("agreement: got %+v, want 1 and 2 above, a share of 0.75, kappa 0.5, and 0.875 as posted", got)
	}
}

// TestRun reads both shapes of lines.
func TestRun(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for _, word := range []string{"walnut", "idiot", "fool", "friend", "house", "moron", "tree", "kind"} {
		lines.WriteString(`{"prompt":{"text":"you ` + word + `","toxicity":0.5,"insult":null},` +
			`"continuation":{"text":"what a ` + word + `","toxicity":0.25}}` + "\n")
		lines.WriteString(`{"text":"my ` + word + `","toxicity":0.75}` + "\n")
	}
	file := filepath.Join(t.TempDir(), "scores.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run([]string{"--scores", file}, &out); err != nil {
		t.Fatal(err)
	}
	report := out.String()
	if !strings.Contains(report, "TOXICITY: fitted on") || strings.Contains(report, "INSULT") ||
		strings.Contains(report, "walnut") {
		t.Errorf("got the report\n%s\nwant TOXICITY in it, and neither INSULT nor a text", out.String())
	}
	if err := run([]string{"--scores", file, "--method", "guess"}, &out); err == nil {
		t.Error("an unknown method: got no error, want one")
	}
	if err := run(nil, &out); err == nil {
		t.Error("no file: got no error, want one")
	}
}
