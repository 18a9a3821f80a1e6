// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command perspective measures how the embedded model's probabilities relate to published scores of the Perspective
// API, and fits the table that brings them to its scale (caddymod/commentanalyzer/scale.go).
//
//	go run ./engine/train/cmd/perspective --scores val.jsonl
//
// The file is of RealToxicityPrompts (Gehman et al. 2020, Apache-2.0); the table in the repository is from the 5,000
// lines of data/toxicity/val.jsonl in the repository GXimingLu/Quark at commit 30c9a0f. A line is a JSON object whose
// members prompt and continuation are objects with a text and its scores, such as {"text": "...", "toxicity": 0.05,
// "insult": 0.02}. A line may also be such an object itself. Half of the texts, chosen by a hash of the text, fit the
// table; every figure that is printed is of the other half.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "perspective:", err)
		os.Exit(1)
	}
}

// pair holds the scores of both for a text, and how many texts of real traffic it stands for.
type pair struct{ ours, theirs, weight float64 }

// natural are the assumed shares of real comments by the quarter of the scale that their published TOXICITY is in.
// RealToxicityPrompts was sampled evenly over it; comments are mostly harmless. The shares are an assumption, in the
// order of what crowds say of comments below newspapers (Borkan et al. 2019: some 8 % above one half).
var natural = [4]float64{0.80, 0.12, 0.05, 0.03}

// knot is a point of a table: a probability of ours and the score that it stands for.
type knot struct{ probability, score float64 }

// levels are the scores for which a table has knots, where the data reach so far.
var levels = []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95}

// thresholds are those that the guides of the Perspective API and its clients name.
var thresholds = []float64{0.7, 0.8, 0.9}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("perspective", flag.ContinueOnError)
	scores := flags.String("scores", "", "file with published scores")
	method := flags.String("method", "equate", "equate: scores are as frequent as the published ones; "+
		"regress: scores are the mean of the published ones; both among comments as they are posted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fit := map[string]func([]pair) []knot{"equate": equate, "regress": regress}[*method]
	if fit == nil {
		return fmt.Errorf("there is no method %q", *method)
	}
	if *scores == "" {
		return errors.New("give the file with --scores")
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		return err
	}
	var fitted, held [engine.NumAttributes][]pair
	quarters, err := count(*scores)
	if err != nil {
		return err
	}
	err = read(*scores, func(text string, theirs map[string]any) error {
		ours, err := e.Classify(context.Background(), text)
		if err != nil {
			return err
		}
		into := &fitted
		if hash := fnv.New32a(); first(io.WriteString(hash, text)) && hash.Sum32()%2 == 0 {
			into = &held
		}
		for a, p := range ours.Attributes {
			score, ok := theirs[strings.ToLower(engine.Attribute(a).String())].(float64)
			if ok && score >= 0 && score <= 1 {
				into[a] = append(into[a], pair{p, score, weight(theirs, quarters)})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Model %s, table by %s.\n", e.Version(), *method)
	for a := range held {
		if len(held[a]) > 0 {
			report(out, engine.Attribute(a).String(), fit(fitted[a]), len(fitted[a]), held[a])
		}
	}
	return nil
}

func first(_ int, err error) bool { return err == nil }

// count counts the texts in each quarter of toxicity.
func count(name string) (quarters [4]float64, err error) {
	err = read(name, func(_ string, theirs map[string]any) error {
		if q, ok := quarter(theirs); ok {
			quarters[q]++
		}
		return nil
	})
	return quarters, err
}

func quarter(theirs map[string]any) (int, bool) {
	toxicity, ok := theirs["toxicity"].(float64)
	return max(0, min(3, int(toxicity*4))), ok
}

// weight returns how many texts of real traffic a text stands for, 1 on average.
func weight(theirs map[string]any, quarters [4]float64) float64 {
	q, ok := quarter(theirs)
	if !ok {
		return 1
	}
	all := quarters[0] + quarters[1] + quarters[2] + quarters[3]
	return natural[q] * all / quarters[q]
}

// read calls use for each distinct text of the file.
func read(name string, use func(text string, scores map[string]any) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	seen := map[string]bool{}
	one := func(row map[string]any) error {
		text, _ := row["text"].(string)
		if strings.TrimSpace(text) == "" || seen[text] {
			return nil
		}
		seen[text] = true
		return use(text, row)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row map[string]any
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := one(row); err != nil {
			return err
		}
		for _, member := range []string{"prompt", "continuation"} {
			if part, ok := row[member].(map[string]any); ok {
				if err := one(part); err != nil {
					return err
				}
			}
		}
	}
	return lines.Err()
}

// equate makes a table after which a score is exceeded as often as by the Perspective API, among comments as they are
// posted (equipercentile equating).
func equate(pairs []pair) []knot {
	theirs := slices.Clone(pairs)
	slices.SortFunc(theirs, func(a, b pair) int { return cmp.Compare(b.theirs, a.theirs) })
	ours := slices.Clone(pairs)
	slices.SortFunc(ours, func(a, b pair) int { return cmp.Compare(b.ours, a.ours) })
	return table(func(level float64) (float64, bool) {
		above, share := 0, 0.0
		for above < len(theirs) && theirs[above].theirs >= level {
			share += theirs[above].weight
			above++
		}
		if above < 20 || above == len(theirs) {
			return 0, false // too few to tell
		}
		for _, p := range ours {
			if share -= p.weight; share <= 0 {
				return p.ours, true
			}
		}
		return 0, false
	})
}

// regress makes a table of the mean score at a probability, made monotone by pooling adjacent violators.
func regress(pairs []pair) []knot {
	sorted := slices.Clone(pairs)
	slices.SortFunc(sorted, func(a, b pair) int { return cmp.Compare(a.ours, b.ours) })
	type block struct{ from, sum, n float64 }
	var blocks []block
	for _, p := range sorted {
		blocks = append(blocks, block{p.ours, p.theirs * p.weight, p.weight})
		for last := len(blocks) - 1; last > 0; last-- {
			a, b := &blocks[last-1], &blocks[last]
			if a.sum*b.n < b.sum*a.n {
				break
			}
			a.sum += b.sum
			a.n += b.n
			blocks = blocks[:last]
		}
	}
	return table(func(level float64) (float64, bool) {
		at := slices.IndexFunc(blocks, func(b block) bool { return b.sum/b.n >= level })
		if at <= 0 {
			return 0, false
		}
		return blocks[at].from, true
	})
}

// table makes knots of the probabilities for the levels; both rise strictly.
func table(probability func(level float64) (float64, bool)) []knot {
	var knots []knot
	last := 0.0
	for _, level := range levels {
		p, ok := probability(level)
		p = math.Round(p*1e4) / 1e4
		if ok && p > last && p < 1 {
			knots = append(knots, knot{p, level})
			last = p
		}
	}
	return knots
}

// apply returns the score for a probability. It interpolates linearly between the knots, from 0 for 0 to 1 for 1.
func apply(knots []knot, p float64) float64 {
	below := knot{}
	for _, above := range append(slices.Clone(knots), knot{1, 1}) {
		if p <= above.probability {
			return below.score + (above.score-below.score)*(p-below.probability)/(above.probability-below.probability)
		}
		below = above
	}
	return 1
}

// report prints one attribute.
func report(out io.Writer, name string, knots []knot, fitted int, held []pair) {
	after := make([]pair, len(held))
	for i, p := range held {
		after[i] = pair{apply(knots, p.ours), p.theirs, p.weight}
	}
	fmt.Fprintf(out, "\n%s: fitted on %d texts, measured on %d; Spearman %.3f, mean error %.3f before and %.3f after\n",
		name, fitted, len(held), evaluate.Spearman(columns(held)), meanError(held), meanError(after))
	for _, k := range knots {
		fmt.Fprintf(out, "{%v, %v}, ", k.probability, k.score)
	}
	fmt.Fprintln(out)
	for _, threshold := range thresholds {
		before, then := agreement(held, threshold), agreement(after, threshold)
		fmt.Fprintf(out, "  at %v: theirs above %d; before: ours %d, agree %.3f, kappa %.2f; "+
			"after: ours %d, agree %.3f, kappa %.2f; among comments as posted %.3f\n",
			threshold, before.theirs, before.ours, before.share, before.kappa,
			then.ours, then.share, then.kappa, then.posted)
	}
}

// agreed says how often both are above a threshold alike.
type agreed struct {
	ours, theirs int
	share, kappa float64
	// posted is the share among comments as they are posted.
	posted float64
}

// agreement compares who is above a threshold. Kappa is Cohen's: 0 is chance, 1 is always.
func agreement(pairs []pair, threshold float64) (a agreed) {
	same, posted, weights := 0, 0.0, 0.0
	for _, p := range pairs {
		ours, theirs := p.ours >= threshold, p.theirs >= threshold
		if ours {
			a.ours++
		}
		if theirs {
			a.theirs++
		}
		weights += p.weight
		if ours == theirs {
			same++
			posted += p.weight
		}
	}
	a.posted = posted / weights
	n := float64(len(pairs))
	a.share = float64(same) / n
	chance := (float64(a.ours)*float64(a.theirs) + (n-float64(a.ours))*(n-float64(a.theirs))) / (n * n)
	a.kappa = (a.share - chance) / (1 - chance)
	return a
}

func meanError(pairs []pair) (sum float64) {
	for _, p := range pairs {
		sum += math.Abs(p.ours - p.theirs)
	}
	return sum / float64(len(pairs))
}

// columns returns the scores of pairs apart.
func columns(pairs []pair) (ours, theirs []float64) {
	for _, p := range pairs {
		ours, theirs = append(ours, p.ours), append(theirs, p.theirs)
	}
	return ours, theirs
}
