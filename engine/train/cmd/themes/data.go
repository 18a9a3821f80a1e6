// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"compress/gzip"
	_ "embed"
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
	Domain     string `json:"domain"`
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
	files  []*authored
	topics []*topicSet
	clean  []string // texts on nothing in particular, to fit on
	unseen []string // others of that kind, to measure on
}

// authored is a file of pairs of theme and text that were written for this project.
type authored struct {
	name     string
	rows     []row           // one row per pair of theme and text
	heldBack map[string]bool // themes that are only measured on
}

// topicSet is a public set of texts that are labelled with one topic each.
type topicSet struct {
	name, source string
	topics       []*topic
}

// topic is a topic with the names that it is asked by.
type topic struct {
	key, label, paraphrase string
	texts                  []string
}

// holdBack is the number of themes for each one that is held out.
const holdBack = 3

//go:embed topics.tsv
var topicNames string

// sources are the files of the topic sets, by the first word of the name of the set.
var sources = map[string]string{"trivia": "opentriviaqa", "clinc": "clinc150", "hwu": "hwu64", "banking": "banking77"}

func load(dir, corpus string) (*data, error) {
	d := new(data)
	for _, name := range []string{"themes.jsonl", "themes2.jsonl"} {
		a := &authored{name: name, heldBack: make(map[string]bool)}
		var err error
		if a.rows, err = readRows(filepath.Join(corpus, name)); err != nil {
			return nil, err
		}
		for i, theme := range a.themes() {
			a.heldBack[theme] = i%holdBack == holdBack-1
		}
		d.files = append(d.files, a)
	}
	if err := d.loadTopics(dir); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(7, 7))
	for _, name := range []string{
		"clean_tweets", "clean_wikipedia_sentences", "clean_trivia_questions", "clean_dialogue_sgd",
		"clean_instructions_qa",
	} {
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

// themes lists the themes of a file in order of first appearance.
func (a *authored) themes() (names []string) {
	for _, r := range a.rows {
		if !slices.Contains(names, r.Theme) {
			names = append(names, r.Theme)
		}
	}
	return names
}

// loadTopics reads the topic sets. A topic is one of the file, or a domain of it where the name of the set says so.
func (d *data) loadTopics(dir string) error {
	files := make(map[string][]row)
	for line := range strings.Lines(topicNames) {
		field := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(field) != 4 {
			return fmt.Errorf("topics.tsv: %q has not four columns", line)
		}
		i := slices.IndexFunc(d.topics, func(s *topicSet) bool { return s.name == field[0] })
		if i < 0 {
			first, _, _ := strings.Cut(field[0], " ")
			i = len(d.topics)
			d.topics = append(d.topics, &topicSet{name: field[0], source: sources[first]})
		}
		set := d.topics[i]
		if files[set.source] == nil {
			rows, err := readRows(filepath.Join(dir, "themes", set.source+".jsonl.gz"))
			if err != nil {
				return err
			}
			random := rand.New(rand.NewPCG(5, 5))
			random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			files[set.source] = rows
		}
		t := &topic{key: field[1], label: field[2], paraphrase: field[3]}
		for _, r := range files[set.source] {
			key := r.Topic
			if strings.HasSuffix(set.name, "domains") {
				key = r.Domain
			}
			if key == t.key {
				t.texts = append(t.texts, r.Text)
			}
		}
		if len(t.texts) == 0 {
			return fmt.Errorf("topics.tsv: %s has no texts on %q", set.source, t.key)
		}
		set.topics = append(set.topics, t)
	}
	return nil
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
