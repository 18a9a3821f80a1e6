// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// row is a line of the labelled files: authored rows have a theme, topic rows have a topic.
type row struct {
	Theme      string `json:"theme"`
	Paraphrase string `json:"theme_paraphrase"`
	Topic      string `json:"topic"`
	Text       string `json:"text"`
	Hit        bool   `json:"hit"`
	Kind       string `json:"kind"`
	Split      string `json:"split"`
}

func readRows(path string) ([]row, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}
	var rows []row
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, r)
	}
	return rows, lines.Err()
}

// data is what the scorer is fitted and measured on.
type data struct {
	authored []row            // one row per pair of theme and text
	heldBack map[string]bool  // themes that are only measured on
	topics   map[string][]row // by name of the set
	clean    []string         // texts on nothing in particular, to fit on
	unseen   []string         // others of that kind, to measure on
}

// holdBack is how many themes there are for each one that is held back.
const holdBack = 3

func load(dir string) (*data, error) {
	d := &data{heldBack: make(map[string]bool), topics: make(map[string][]row)}
	var err error
	if d.authored, err = readRows(filepath.Join(dir, "authored", "themes.jsonl")); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range d.authored {
		if !slices.Contains(names, r.Theme) {
			names = append(names, r.Theme)
		}
	}
	for i, name := range names {
		d.heldBack[name] = i%holdBack == holdBack-1
	}
	for _, set := range []string{"clinc150", "hwu64", "banking77"} {
		if d.topics[set], err = readRows(filepath.Join(dir, "themes", set+".jsonl.gz")); err != nil {
			return nil, err
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	for _, name := range []string{"clean_tweets", "clean_wikipedia_sentences", "clean_trivia_questions", "clean_dialogue_sgd", "clean_instructions_qa"} {
		rows, err := readRows(filepath.Join(dir, "moderation", name+".jsonl.gz"))
		if err != nil {
			return nil, err
		}
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for i, r := range rows[:min(4000, len(rows))] {
			if i%2 == 0 {
				d.clean = append(d.clean, r.Text)
			} else {
				d.unseen = append(d.unseen, r.Text)
			}
		}
	}
	for _, list := range [][]string{d.clean, d.unseen} {
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return d, nil
}

// long joins texts to one of about n characters, with an optional one in the middle.
func long(texts []string, from, n int, middle string) string {
	var b strings.Builder
	put := middle == ""
	for i := from; b.Len() < n; i++ {
		if !put && b.Len() > n/2 {
			b.WriteString(middle + "\n")
			put = true
		}
		b.WriteString(texts[i%len(texts)] + "\n")
	}
	return b.String()
}
