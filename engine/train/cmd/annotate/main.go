// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command annotate chooses texts of public sources that are worth annotating: those that a model is unsure of, those
// where it contradicts their source, and a few at random, spread over the sources.
//
//	go run ./engine/train/cmd/annotate --data DIR --model engine/model/default.model --rows 2000 --out FILE
//
// Each line of the file is a JSON object {"key", "source", "text"}. The labels go to
// engine/train/corpus/annotations.tsv, by key and without the text; see docs/training.md.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "annotate:", err)
		os.Exit(1)
	}
}

func run() error {
	data := flag.String("data", "", "folder with the folder moderation")
	corpus := flag.String("corpus", "engine/train/corpus", "folder of the corpus")
	weights := flag.String("model", "engine/model/default.model", "weights file of the classifier")
	rows := flag.Int("rows", 1000, "texts to choose, about: shares of small sources are rounded down")
	longest := flag.Int("longest", 900, "maximum length of a text in characters")
	out := flag.String("out", "", "file to write")
	flag.Parse()

	file, err := os.ReadFile(*weights)
	if err != nil {
		return err
	}
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("%s: %w", *weights, err)
	}
	examples, err := train.Read(os.DirFS(*corpus), os.DirFS(*data))
	if err != nil {
		return err
	}
	candidates := choose(m, examples, *rows, *longest)
	var lines bytes.Buffer
	for _, e := range candidates {
		line, err := json.Marshal(map[string]string{"key": train.Key(e.Text), "source": e.Source, "text": e.Text})
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	return os.WriteFile(*out, lines.Bytes(), 0o644)
}

// candidate is a text with its utility.
type candidate struct {
	train.Example
	utility float64
}

// choose picks the texts of the highest utility, from each source no more than its share.
func choose(m *model.Model, examples []train.Example, rows, longest int) []candidate {
	seen := map[string]bool{}
	for _, e := range examples {
		if e.InCorpus {
			seen[train.Key(e.Text)] = true
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	bySource := map[string][]candidate{}
	for _, e := range examples {
		key := train.Key(e.Text)
		if n := utf8.RuneCountInString(e.Text); n > longest || n < 12 || seen[key] || e.Source == "lexicon" {
			continue
		}
		seen[key] = true
		bySource[e.Source] = append(bySource[e.Source], candidate{e, utility(m, &e) + 0.15*random.Float64()})
	}
	names := make([]string, 0, len(bySource))
	for name, c := range bySource {
		slices.SortStableFunc(c, func(a, b candidate) int {
			if a.utility > b.utility {
				return -1
			}
			return 1
		})
		names = append(names, name)
	}
	slices.Sort(names)
	total := 0.0
	for _, name := range names {
		total += sourceWeight(bySource[name])
	}
	var chosen []candidate
	for _, name := range names {
		c := bySource[name]
		share := int(float64(rows) * sourceWeight(c) / total)
		best := min(share*9/10, len(c))
		chosen = append(chosen, c[:best]...)
		for rest := c[best:]; len(rest) > 0 && share > best; share-- {
			chosen = append(chosen, rest[random.IntN(len(rest))])
		}
	}
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen
}

// sourceWeight returns the weight of a source in the choice. It grows with the square root of the source's size, so
// that small sources have their share. A source without any positive label has little to teach.
func sourceWeight(c []candidate) float64 {
	root := math.Sqrt(float64(len(c)))
	for i := range c {
		for h := range model.Heads {
			if c[i].Positive(h) {
				return root
			}
		}
	}
	return root / 4
}

// utility returns how much there is to learn from annotating a text. It is highest where a category's probability is
// near one half or contradicts the source. Rare categories count more.
func utility(m *model.Model, e *train.Example) float64 {
	p := m.Probabilities(e.Text)
	rarity := [...]float64{0.8, 0.8, 1.3, 1.6, 1.4}
	best := 0.0
	for h, r := range rarity {
		unsure := 1 - math.Abs(2*math.Sqrt(p[h])-1)
		w := r * unsure
		if e.Labelled(h) && math.Abs(float64(e.Labels[h].Value)-p[h]) > 0.6 {
			w += 0.4 * r
		}
		best = max(best, w)
	}
	return best
}
