// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command fit finds the weights of the theme scorer and measures the judge.
//
//	go run ./engine/themes/fit --data DIR [--show]
//	go run ./engine/themes/fit --data DIR --write engine/themes/weights.go
//
// DIR holds the authored theme pairs, the topic sets and the clean texts. Every third authored theme is held back: the
// weights never see it. Without --write the judge is only measured as it is. The weights in use choose the window of
// each text that is fitted on, so after a change of the inputs or of the lexicon fit twice.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("data", "", "directory of the training data")
	write := flag.String("write", "", "fit the weights and write them as this Go file")
	show := flag.Bool("show", false, "list texts of the fitted themes that were judged wrong; those held back are never shown")
	flag.Parse()
	if *dir == "" {
		log.Fatal("--data is needed: the directory of the training data")
	}
	d, err := load(*dir)
	if err != nil {
		log.Fatal(err)
	}
	judge, err := themes.New(themes.Options{CacheBytes: 256 << 20})
	if err != nil {
		log.Fatal(err)
	}
	if *write != "" {
		s := sample(judge, d)
		m := train(s)
		m.shift(judgeable(s))
		if err := os.WriteFile(*write, []byte(m.source()), 0o644); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("fitted on %d pairs, loss %.4f, %.1f%% of the weight on hits\n", len(s), m.loss, 100*hitShare(s))
		return
	}
	measure(judge, d, *show)
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
func sample(judge *themes.Judge, d *data) []example {
	var out []example
	random := rand.New(rand.NewPCG(3, 3))
	add := func(text string, wanted []string, hit bool, weight float64) {
		for _, x := range judge.Inputs(text, wanted) {
			if x != nil {
				out = append(out, example{x, hit, weight, weight == unrelatedWeight})
			}
		}
	}
	var wanted []string
	seen := make(map[string]bool)
	for _, r := range d.authored {
		if d.heldBack[r.Theme] {
			continue
		}
		for _, name := range []string{r.Theme, r.Paraphrase} {
			if !seen[name] {
				seen[name] = true
				wanted = append(wanted, name)
			}
		}
		both := []string{r.Theme, r.Paraphrase}
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
	var topics []string
	for _, set := range []string{"clinc150", "hwu64", "banking77"} {
		byTopic := make(map[string][]string)
		var names []string
		for _, r := range d.topics[set] {
			if vague[r.Topic] || strings.HasPrefix(r.Split, "oos") {
				continue
			}
			if byTopic[r.Topic] == nil {
				names = append(names, r.Topic)
			}
			byTopic[r.Topic] = append(byTopic[r.Topic], r.Text)
		}
		topics = append(topics, names...)
		for _, name := range names {
			for range 12 {
				add(byTopic[name][random.IntN(len(byTopic[name]))], []string{name}, true, 0.15)
			}
		}
	}
	// Unrelated texts are what the judge mostly reads: each stands for many.
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
	return out
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

// judgeable picks the unrelated short texts, on which the operating point is set.
func judgeable(s []example) (unrelated []example) {
	for _, e := range s {
		if e.unrelated {
			unrelated = append(unrelated, e)
		}
	}
	return unrelated
}

// vague are topics whose name says nothing about their texts.
var vague = map[string]bool{"oos": true, "yes": true, "no": true, "maybe": true, "repeat": true, "general quirky": true,
	"general affirm": true, "general negate": true, "general dontcare": true, "general confirm": true, "general commandstop": true,
	"general explain": true, "general praise": true, "general repeat": true, "text": true, "qa factoid": true, "iot wemo on": true,
	"iot wemo off": true, "greeting": true, "goodbye": true, "thank you": true, "cancel": true, "order": true, "date": true, "time": true,
	"definition": true, "are you a bot": true, "change ai name": true, "what can i ask you": true, "who made you": true, "next song": true}
