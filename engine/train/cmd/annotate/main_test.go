// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// Hazard: without a random part, the annotated texts say nothing about the source; without the others, annotators read
// what the classifier knows already.
func TestEachSourceGivesItsThirds(t *testing.T) {
	t.Parallel()
	const disagreeing, contradicting = "where the stages disagree", "what contradicts the source"
	var examples []train.Example
	for i := range 400 {
		text := "nothing special"
		switch i % 20 {
		case 3:
			text = disagreeing
		case 7:
			text = contradicting
		}
		examples = append(examples, train.Example{Text: fmt.Sprint(text, " ", i), Source: []string{"a", "b"}[i%2]})
	}
	score := func(e *train.Example) (s scores) {
		if strings.HasPrefix(e.Text, disagreeing) {
			s.disagreement = 0.9
		}
		if strings.HasPrefix(e.Text, contradicting) {
			s.contradiction = 0.9
		}
		return s
	}
	for _, c := range []struct {
		name                               string
		random, disagree, contradict       float64
		rows                               int
		wantRandom, wantStages, wantSource int // of both sources; where the odd one is among 400
	}{
		{"thirds", 1, 1, 1, 60, 20, 20, 20},
		{"at random only", 1, 0, 0, 60, 60, 0, 0},
		{"stages only", 0, 1, 0, 20, 0, 20, 0},
		{"source only", 0, 0, 2, 20, 0, 0, 20},
		{"half of it at random", 2, 1, 1, 40, 20, 10, 10},
		{"none", 1, 1, 1, 0, 0, 0, 0},
		{"all there are", 1, 0, 0, 4000, 400, 0, 0},
	} {
		o := options{
			rows: c.rows, longest: 100, pool: 1000,
			random: c.random, disagree: c.disagree, contradict: c.contradict, ordinary: 0.25,
		}
		why := map[string]int{}
		right, keys := 0, map[string]bool{}
		for _, got := range choose(examples, o, score) {
			why[got.why]++
			keys[got.Text] = true
			// Only texts with an odd number are disagreed on or contradict, so those are of source b.
			if got.Source == "b" && (got.why == "disagreement" && strings.HasPrefix(got.Text, disagreeing) ||
				got.why == "contradiction" && strings.HasPrefix(got.Text, contradicting)) {
				right++
			}
		}
		if why["random"] != c.wantRandom || why["disagreement"] != c.wantStages || why["contradiction"] != c.wantSource {
			t.Errorf("%s: got %v, want %d at random, %d and %d", c.name, why, c.wantRandom, c.wantStages, c.wantSource)
		}
		if n := c.wantRandom + c.wantStages + c.wantSource; len(keys) != n {
			t.Errorf("%s: got %d different texts, want %d", c.name, len(keys), n)
		}
		if want := (c.wantStages + c.wantSource) / 2; c.name != "thirds" && right != want {
			t.Errorf("%s: %d texts of source b are what was looked for, want %d", c.name, right, want)
		}
	}
}

// Hazard: annotators of five categories read thousands of texts that contradict their source only in an attribute.
func TestCategoriesContradictBeforeAttributes(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	const harassment, toxicity, profanity, swearing = 1, 5, 9, "Holy shit, this fucking bread is so fucking good."
	labels := func(value float32, heads ...int) (out [model.Heads]train.Label) {
		for _, h := range heads {
			out[h] = train.Label{Value: value, Weight: 1}
		}
		return out
	}
	for _, c := range []struct {
		name, text  string
		labels      [model.Heads]train.Label
		contradicts bool
	}{
		{"swearing in ordinary text", swearing, labels(0, harassment, profanity), false},
		{"swearing that a source with attributes overlooks", swearing, labels(0, toxicity, profanity), true},
		{"an insult in ordinary text", "You are a filthy stupid idiot.", labels(0, harassment, profanity), true},
		{"a harmless insult", "Good morning, the bread is ready.", labels(1, harassment), true},
		{"an insult that nobody has labelled", "You are a filthy stupid idiot.", labels(0), true},
		{"ordinary text that nobody has labelled", "Good morning, the bread is ready.", labels(0), false},
	} {
		got := score(m, &train.Example{Text: c.text, Labels: c.labels})
		if got.contradiction > 0.5 != c.contradicts {
			t.Errorf("%s: got a contradiction of %.2f, want one above 0.5: %v", c.name, got.contradiction, c.contradicts)
		}
		if got.disagreement <= 0 || got.disagreement > 1 {
			t.Errorf("%s: got a disagreement of %v, want one between 0 and 1", c.name, got.disagreement)
		}
	}
}

// write puts files into a folder; those whose names end in .gz are compressed.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		var w io.WriteCloser = f
		if strings.HasSuffix(name, ".gz") {
			w = gzip.NewWriter(f)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
		if w.Close() != nil || w != io.WriteCloser(f) && f.Close() != nil {
			t.Fatalf("closing %s failed", name)
		}
	}
}

// Hazard: annotators read what is labelled already, or never see the ordinary text that is flagged.
func TestWhatContradictsItsSourceIsChosen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const (
		insult = "You are a filthy stupid idiot and everybody hates you."
		known  = "You are a disgusting worthless idiot and I hate you."
		post   = "Shut up you stupid pathetic bitch, nobody likes you."
	)
	row := func(text string) string { return fmt.Sprintf(`{"text":%q,"kind":"k"}`+"\n", text) }
	var recipes, titles strings.Builder
	for i := range 60 {
		recipes.WriteString(row(fmt.Sprintf("Bake the bread for %d minutes and let it cool.", i)))
		titles.WriteString(row(fmt.Sprintf("My garden after %d days of rain", i)))
	}
	write(t, dir, map[string]string{
		"plain/recipes.jsonl.gz":            recipes.String() + row(insult) + row(known) + row(strings.Repeat(insult, 30)),
		"plain/reddit_titles_2013.jsonl.gz": titles.String() + row(post),
		"moderation/stormfront.jsonl.gz":    "",
		"corpus/annotations.tsv":            train.Key(known) + "\tr\n",
	})
	out := filepath.Join(dir, "out.jsonl")
	args := []string{
		"--data", dir, "--corpus", filepath.Join(dir, "corpus"), "--model", "../../../model/default.model",
		"--out", out, "--rows", "12",
	}
	if err := run(args, io.Discard); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for line := range strings.Lines(string(file)) {
		var r struct{ Key, Source, Why, Text string }
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Key != train.Key(r.Text) || r.Source == "" {
			t.Fatalf("got the line %s (error %v), want one with the key of its text and a source", line, err)
		}
		why[r.Text] = r.Why
	}
	if len(why) < 10 {
		t.Errorf("got %d texts, want about 12", len(why))
	}
	for _, text := range []string{insult, post} {
		if why[text] == "" {
			t.Errorf("ordinary text that scores high is not chosen: %q, want it chosen; got %v", text, why)
		}
	}
	for _, text := range []string{known, strings.Repeat(insult, 30)} {
		if why[text] != "" {
			t.Errorf("%.60q is chosen, want neither annotated texts nor those that are too long", text)
		}
	}
	for _, c := range []struct{ name, flag, value, want string }{
		{"a negative share", "--random", "-1", "want shares from 0"},
		{"no number", "--random", "NaN", "want shares from 0"},
		{"too much", "--contradict", "Inf", "want shares from 0"},
		{"less than nothing", "--rows", "-12", "want numbers from 0"},
		{"a negative length", "--longest", "-1", "want numbers from 0"},
		{"a negative pool", "--pool", "-1", "want numbers from 0"},
		{"no data", "--data", "", "--data and --out are needed"},
		{"no file to write", "--out", "", "--data and --out are needed"},
	} {
		if err := run(append(args, c.flag, c.value), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
	nothing := append(args, "--random", "0", "--disagree", "0", "--contradict", "0")
	if err := run(nothing, io.Discard); err == nil || !strings.Contains(err.Error(), "one above 0") {
		t.Errorf("no share: got error %v, want one that asks for a share", err)
	}
}
