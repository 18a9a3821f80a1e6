// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// placed is a text with its file and line.
type placed struct {
	place, text string
}

// textsOf reads every text of the files that match a pattern.
func textsOf(t *testing.T, pattern string) (out []placed) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("files of %s: got none, error %v, want some", pattern, err)
	}
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range bytes.Split(file, []byte("\n")) {
			if len(line) == 0 {
				continue
			}
			var r struct{ Text string }
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%s, line %d: %v", name, i+1, err)
			}
			out = append(out, placed{filepath.Base(name) + ":" + strconv.Itoa(i+1), r.Text})
		}
	}
	return out
}

// shingles returns the sequences of n words of a text.
func shingles(text string, n int) map[string]bool {
	words := strings.FieldsFunc(strings.ToLower(strings.ReplaceAll(text, "’", "'")), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
	})
	out := map[string]bool{}
	for i := 0; i+n <= len(words); i++ {
		out[strings.Join(words[i:i+n], " ")] = true
	}
	return out
}

// A text that is examined and trained on would make the examination worthless. Messages name places and no texts:
// nobody should read the examination to mend the corpus.
func TestTheExaminationIsNotInTheCorpus(t *testing.T) {
	t.Parallel()
	repositoryCorpus(t)
	const (
		run      = 12  // words in a row that are no accident; two authors may share shorter turns of phrase
		gram     = 5   // words of a shingle
		maxShare = 0.5 // of the shingles of a text that another one has, too
		minGrams = 4   // shared shingles, so that stock phrases do not count
	)
	exam := textsOf(t, "exam/*.jsonl")
	keys := map[string]string{}
	runs := map[string]string{}
	grams := map[string][]string{}
	size := map[string]int{}
	for _, e := range exam {
		if first, ok := keys[train.Key(e.text)]; ok {
			t.Errorf("%s has the text of %s, want another", e.place, first)
		}
		keys[train.Key(e.text)] = e.place
		for s := range shingles(e.text, run) {
			runs[s] = e.place
		}
		all := shingles(e.text, gram)
		size[e.place] = len(all)
		for s := range all {
			grams[s] = append(grams[s], e.place)
		}
	}
	for _, c := range textsOf(t, "corpus/*.jsonl") {
		if place, ok := keys[train.Key(c.text)]; ok {
			t.Errorf("%s has the text of %s, want another", c.place, place)
			continue
		}
		for s := range shingles(c.text, run) {
			if place, ok := runs[s]; ok {
				t.Errorf("%s shares %d words in a row with %s, want fewer", c.place, run, place)
				break
			}
		}
		own := shingles(c.text, gram)
		shared := map[string]int{}
		for s := range own {
			for _, place := range grams[s] {
				shared[place]++
			}
		}
		for place, n := range shared {
			if n >= minGrams && float64(n) >= maxShare*float64(min(size[place], len(own))) {
				t.Errorf("%s shares %d of its %d sequences of %d words with %s, want fewer",
					c.place, n, len(own), gram, place)
			}
		}
	}
	file, err := os.Open("corpus/annotations.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, _, _ := strings.Cut(lines.Text(), "\t")
		if place, ok := keys[key]; ok {
			t.Errorf("the annotated text %s is that of %s, want another", key, place)
		}
	}
}
