// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command annotate chooses texts of public sources and of ordinary text that are worth annotating. Of each source it
// takes a third at random, a third where the two stages of the classifier disagree most, and a third that contradicts
// its source most. Ordinary text that scores high contradicts its source, which is harmless by nature.
//
//	go run ./engine/train/cmd/annotate --data DIR --model engine/model/default.model --rows 2000 --out FILE
//	go run ./engine/train/cmd/annotate --data DIR --language es --model engine/model/languages/es.model --out FILE
//
// Each line of the file is a JSON object {"key", "source", "why", "text"}. The labels go to
// engine/train/corpus/annotations.tsv, or to annotations.tsv in the folder of the language, by key and without the
// text; see docs/training.md.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "annotate:", err)
		os.Exit(1)
	}
}

func run(args []string, log io.Writer) error {
	flags := flag.NewFlagSet("annotate", flag.ContinueOnError)
	flags.SetOutput(log)
	data := flags.String("data", "", "folder with the folders moderation, plain and languages")
	corpus := flags.String("corpus", "engine/train/corpus", "folder of the corpus")
	weights := flags.String("model", "engine/model/default.model", "weights file of the classifier")
	language := flags.String("language", "en", "BCP 47 tag of the language of the texts")
	out := flags.String("out", "", "file to write")
	var o options
	flags.IntVar(&o.rows, "rows", 1000, "texts to choose, about: shares of small sources are rounded down")
	flags.IntVar(&o.longest, "longest", 900, "maximum length of a text in characters")
	flags.IntVar(&o.pool, "pool", 5000, "texts of each source to look for disagreement and contradiction in, at random")
	const share = "share of the texts %s, relative to the other shares"
	flags.Float64Var(&o.random, "random", 1, fmt.Sprintf(share, "at random"))
	flags.Float64Var(&o.disagree, "disagree", 1, fmt.Sprintf(share, "where the stages disagree"))
	flags.Float64Var(&o.contradict, "contradict", 1, fmt.Sprintf(share, "that contradict their source"))
	flags.Float64Var(&o.ordinary, "ordinary", 0.25, "share of sources without harm, relative to others of their size")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *data == "" || *out == "" {
		return errors.New("--data and --out are needed")
	}
	shares := o.random + o.disagree + o.contradict
	if min(o.random, o.disagree, o.contradict, o.ordinary) < 0 || !(shares > 0) || math.IsInf(shares, 0) {
		return errors.New("--random, --disagree and --contradict want shares from 0, and one above 0; --ordinary wants one from 0")
	}
	if min(o.rows, o.longest, o.pool) < 0 {
		return errors.New("--rows, --longest and --pool want numbers from 0")
	}

	file, err := os.ReadFile(*weights)
	if err != nil {
		return err
	}
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("%s: %w", *weights, err)
	}
	examples, err := readAll(os.DirFS(*corpus), os.DirFS(*data), *language)
	if err != nil {
		return err
	}
	if len(examples) == 0 {
		return fmt.Errorf("%s has no texts in the language %q", *data, *language)
	}
	var lines bytes.Buffer
	for _, c := range choose(examples, o, func(e *train.Example) scores { return score(m, e) }) {
		line, err := json.Marshal(map[string]string{
			"key": train.Key(c.Text), "source": c.Source, "why": c.why, "text": c.Text,
		})
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	return os.WriteFile(*out, lines.Bytes(), 0o644)
}

// readAll reads the texts to choose from.
func readAll(corpus, data fs.FS, language string) ([]train.Example, error) {
	if language != "en" {
		return train.ReadPublic(corpus, data, language)
	}
	examples, err := train.Read(corpus, data)
	if err != nil {
		return nil, err
	}
	unvetted, err := train.ReadUnvetted(data)
	return append(examples, unvetted...), err
}

// options say what to choose.
type options struct {
	rows, longest, pool          int
	random, disagree, contradict float64
	ordinary                     float64 // factor on the share of sources without any positive label
}

// scores say what there is to learn from annotating a text, from 0 to 1 each.
type scores struct{ disagreement, contradiction float64 }

// candidate is a text, and why it was chosen.
type candidate struct {
	*train.Example
	scores
	why string
}

// choose picks texts that nobody has labelled for the corpus, from each source its share.
func choose(examples []train.Example, o options, score func(*train.Example) scores) []candidate {
	seen := map[string]bool{}
	for i := range examples {
		if e := &examples[i]; e.InCorpus {
			seen[train.Key(e.Text)] = true
		}
	}
	bySource := map[string][]candidate{}
	for i := range examples {
		e := &examples[i]
		if n := utf8.RuneCountInString(e.Text); n > o.longest || n < 12 || e.Source == "lexicon" {
			continue
		}
		if key := train.Key(e.Text); !seen[key] {
			seen[key] = true
			bySource[e.Source] = append(bySource[e.Source], candidate{Example: e})
		}
	}
	names := slices.Sorted(maps.Keys(bySource))
	total := 0.0
	for _, name := range names {
		total += sourceWeight(bySource[name], o.ordinary)
	}
	random := rand.New(rand.NewPCG(7, 7))
	var chosen []candidate
	for _, name := range names {
		c := bySource[name]
		random.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
		n := int(float64(o.rows) * sourceWeight(c, o.ordinary) / total)
		chosen = append(chosen, chooseFrom(c, n, o, score)...)
	}
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen
}

// chooseFrom picks n texts of a source, which are in random order.
func chooseFrom(c []candidate, n int, o options, score func(*train.Example) scores) (chosen []candidate) {
	n = min(n, len(c))
	all := o.random + o.disagree + o.contradict
	disagree := int(math.Round(float64(n) * o.disagree / all))
	contradict := min(int(math.Round(float64(n)*o.contradict/all)), n-disagree)
	take := func(n int, why string) {
		for _, one := range c[:n] {
			one.why = why
			chosen = append(chosen, one)
		}
		c = c[n:]
	}
	take(n-disagree-contradict, "random")
	c = c[:min(len(c), max(o.pool, disagree+contradict))]
	for i := range c {
		c[i].scores = score(c[i].Example)
	}
	largest := func(of func(*candidate) float64) {
		slices.SortStableFunc(c, func(a, b candidate) int { return cmp.Compare(of(&b), of(&a)) })
	}
	largest(func(c *candidate) float64 { return c.contradiction })
	take(contradict, "contradiction")
	largest(func(c *candidate) float64 { return c.disagreement })
	take(disagree, "disagreement")
	return chosen
}

// sourceWeight returns the weight of a source in the choice. It grows with the square root of the source's size, so
// that small sources have their share. A source without any positive label has less to teach, by the factor ordinary.
func sourceWeight(c []candidate, ordinary float64) float64 {
	root := math.Sqrt(float64(len(c)))
	for i := range c {
		for h := range model.Heads {
			if c[i].Positive(h) {
				return root
			}
		}
	}
	return root * ordinary
}

// score compares the stages with each other, in the categories, and the classifier with the labels of the source: in
// the categories, or in the attributes where the source has no label of a category. A text without any label
// contradicts by what the classifier finds in it: its source has found nothing.
func score(m *model.Model, e *train.Example) (s scores) {
	p, logits := m.Probabilities(e.Text), m.Logits(e.Text)
	for h := range model.NumCategories {
		if len(logits.LargeCNN) == 0 {
			break // weights without a network, or a text without words
		}
		network := math.Inf(-1)
		for i := range logits.LargeCNN {
			network = max(network, logits.LargeCNN[i].CNN[h])
		}
		s.disagreement = max(s.disagreement, math.Abs(sigmoid(logits.Large[h])-sigmoid(network)))
	}
	labelled := false
	for h := range model.Heads {
		if h == model.NumCategories && labelled {
			break // swearing in ordinary text is no contradiction
		}
		if e.Labelled(h) {
			labelled = true
			s.contradiction = max(s.contradiction, math.Abs(float64(e.Labels[h].Value)-p[h]))
		}
	}
	if !labelled {
		s.contradiction = slices.Max(p[:model.NumCategories])
	}
	return s
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
