// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command themes fits the weights of the theme scorer, and measures how well themes are screened.
//
//	go run ./engine/train/cmd/themes --data DIR [--show]
//	go run ./engine/train/cmd/themes --data DIR --leave-out
//	go run ./engine/train/cmd/themes --data DIR --write engine/themes/weights.go
//
// DIR holds the topic sets and the clean texts; the pairs of theme and text are engine/train/corpus/themes*.jsonl.
// Every third theme is held out: the weights are not fitted on it. Without --write, the embedded weights are only
// measured; with --leave-out also on each public topic set with weights that were fitted without that set.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("data", "", "directory of the training data")
	corpus := flag.String("corpus", "engine/train/corpus", "directory of the pairs of theme and text")
	write := flag.String("write", "", "fit the weights and write them as this Go file")
	leaveOut := flag.Bool("leave-out", false, "measure on each topic set with weights fitted without it")
	show := flag.Bool("show", false,
		"list texts of the fitted themes with a wrong verdict; those of held-out themes are never shown")
	flag.Parse()
	if *dir == "" {
		log.Fatal("--data is needed: the directory of the training data")
	}
	if err := run(*dir, *corpus, *write, *leaveOut, *show); err != nil {
		log.Fatal(err)
	}
}

func run(dir, corpus, write string, leaveOut, show bool) error {
	d, err := load(dir, corpus)
	if err != nil {
		return err
	}
	if write != "" {
		m, err := fit(d, "")
		if err != nil {
			return err
		}
		return os.WriteFile(write, []byte(m.source()), 0o644)
	}
	screener, err := newScreener(nil)
	if err != nil {
		return err
	}
	measure(screener, d, show)
	if !leaveOut {
		return nil
	}
	var all figures
	for _, source := range []string{"opentriviaqa", "clinc150", "hwu64", "banking77"} {
		m, err := fit(d, source)
		if err != nil {
			return err
		}
		if screener, err = newScreener(m.weights()); err != nil {
			return err
		}
		for _, set := range d.topics {
			if set.source == source {
				all.add(measureTopics(screener, set))
			}
		}
	}
	fmt.Println(all.mean("mean of the sets"))
	return nil
}

func newScreener(w *themes.Weights) (*themes.Screener, error) {
	return themes.New(themes.Options{CacheBytes: 256 << 20, Weights: w})
}

// turns is how often the weights are fitted: those of a turn choose the window of each text that the next is fitted on.
const turns = 2

// fit fits the weights without the topic sets of a source. The first turn starts from what is there of the theme and
// the closeness of the window, so that the result does not depend on the weights that were fitted before.
func fit(d *data, without string) (*model, error) {
	var m *model
	w := &themes.Weights{}
	w.Linear[0], w.Linear[1], w.Linear[12] = -2, 3, 3
	for range turns {
		screener, err := newScreener(w)
		if err != nil {
			return nil, err
		}
		s := sample(screener, d, without)
		m = train(s)
		m.shift(operatingPoint(s))
		w = m.weights()
		log.Printf("fitted on %d pairs, loss %.4f, %.1f%% of the weight on hits", len(s), m.loss, 100*hitShare(s))
	}
	return m, nil
}

// example is a pair of theme and text for the fit.
type example struct {
	x      []float32
	hit    bool
	weight float64
	// unrelated says that the text is a short one on nothing in particular.
	unrelated bool
}

// unrelatedWeight is what a pair of a theme and an unrelated text counts.
const unrelatedWeight = 0.6

// sample collects the pairs to fit on.
func sample(screener *themes.Screener, d *data, without string) []example {
	var out []example
	random := rand.New(rand.NewPCG(3, 3))
	add := func(text string, wanted []string, hit bool, weight float64) {
		for _, x := range screener.Inputs(text, wanted) {
			if x != nil {
				out = append(out, example{x, hit, weight, weight == unrelatedWeight})
			}
		}
	}
	var wanted []string
	seen := make(map[string]bool)
	for _, a := range d.files {
		for _, r := range a.rows {
			if a.heldBack[r.Theme] {
				continue
			}
			both := []string{r.Theme, r.Paraphrase}
			for _, name := range both {
				if !seen[name] {
					seen[name] = true
					wanted = append(wanted, name)
				}
			}
			weight := 1.0
			switch {
			case r.Kind == "negative_half":
				weight = 1.5
			case strings.HasPrefix(r.Kind, "negative"):
				weight = 0.5
			case r.Kind == "positive_implicit":
				weight = 0.5
			}
			add(r.Text, both, r.Hit, weight)
			if r.Hit && random.IntN(3) == 0 {
				add(long(d.clean, random.IntN(len(d.clean)), 1000+random.IntN(8000), r.Text), both, true, 1.5)
			}
		}
	}
	var topics []string
	for _, set := range d.topics {
		if set.source == without {
			continue
		}
		for _, t := range set.topics {
			topics = append(topics, t.label, t.paraphrase)
			for range 16 {
				add(t.texts[random.IntN(len(t.texts))], []string{t.label, t.paraphrase}, true, 0.15)
			}
		}
	}
	// Most real texts are unrelated to a theme, so each of these stands for many.
	for i, text := range d.clean {
		some := []string{wanted[random.IntN(len(wanted))], topics[random.IntN(len(topics))]}
		for range 8 {
			some = append(some, wanted[random.IntN(len(wanted))])
		}
		add(text, some, false, unrelatedWeight)
		if i%8 == 0 {
			add(long(d.clean, i, 1000+random.IntN(8000), ""), some, false, 1.5)
		}
	}
	return slices.Clip(out)
}

// hitShare is the share of hits by weight, which is the share that the probabilities assume before the shift.
func hitShare(s []example) float64 {
	hits, all := 0.0, 0.0
	for _, e := range s {
		all += e.weight
		if e.hit {
			hits += e.weight
		}
	}
	return hits / all
}

// operatingPoint returns the unrelated short texts, on which the operating point is set.
func operatingPoint(s []example) (unrelated []example) {
	for _, e := range s {
		if e.unrelated {
			unrelated = append(unrelated, e)
		}
	}
	return unrelated
}
