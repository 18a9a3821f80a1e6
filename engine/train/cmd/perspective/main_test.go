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
			t.Fatalf("%s: %v", name, knots)
		}
		last := knot{}
		for _, k := range knots {
			if k.probability <= last.probability || k.score <= last.score {
				t.Errorf("%s: %v after %v", name, k, last)
			}
			last = k
		}
		for _, p := range []float64{0.1, 0.3, 0.5, 0.7} {
			if got := apply(knots, p); math.Abs(got-math.Sqrt(p)) > 0.05 {
				t.Errorf("%s: %v becomes %v, want about %v", name, p, got, math.Sqrt(p))
			}
		}
		if apply(knots, 0) != 0 || apply(knots, 1) != 1 {
			t.Errorf("%s: the ends are %v and %v", name, apply(knots, 0), apply(knots, 1))
		}
	}
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	pairs := []pair{{0.1, 0.2, 1}, {0.2, 0.3, 1}, {0.3, 0.9, 1}, {0.9, 0.95, 5}}
	if got := spearman(pairs); math.Abs(got-1) > 1e-12 {
		t.Errorf("Spearman is %v", got)
	}
	if got := spearman([]pair{{1, 3, 1}, {2, 2, 1}, {3, 1, 1}}); math.Abs(got+1) > 1e-12 {
		t.Errorf("Spearman is %v, want -1", got)
	}
	got := agreement(pairs, 0.8)
	if got.ours != 1 || got.theirs != 2 || got.share != 0.75 || math.Abs(got.kappa-0.5) > 1e-12 || got.posted != 0.875 {
		t.Errorf("agreement is %+v", got)
	}
}

// TestRun reads both shapes of lines.
func TestRun(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for _, word := range []string{"walnut", "idiot", "fool", "friend", "house", "moron", "tree", "kind"} {
		lines.WriteString(`{"prompt":{"text":"you ` + word + `","toxicity":0.5,"insult":null},"continuation":{"text":"what a ` + word + `","toxicity":0.25}}` + "\n")
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
	if !strings.Contains(out.String(), "TOXICITY: fitted on") || strings.Contains(out.String(), "INSULT") || strings.Contains(out.String(), "walnut") {
		t.Error(out.String())
	}
	if err := run([]string{"--scores", file, "--method", "guess"}, &out); err == nil {
		t.Error("an unknown method is taken")
	}
	if err := run(nil, &out); err == nil {
		t.Error("no file is taken")
	}
}
