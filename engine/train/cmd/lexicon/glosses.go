// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

// synset is one row of the glosses.
type synset struct {
	Text      string   `json:"text"`
	Topic     string   `json:"topic"`
	Synonyms  []string `json:"synonyms"`
	Hypernyms []string `json:"hypernyms"`
	Domain    []string `json:"domain"`
	Lexname   string   `json:"lexname"`
	ID        string   `json:"synset"`

	lemmas     []string // Topic and Synonyms in normal form, the topic first
	gloss      []string // words of Text
	definition int      // how many of them stand before the examples
}

// isModern reports whether the synset is one of this project.
func (s *synset) isModern() bool { return s.ID[0] == 'x' }

func (s *synset) isIdiom() bool { return s.ID[0] == 'y' }

func (s *synset) kind() uint8 { return s.ID[len(s.ID)-1] }

// modern holds what the WordNet of a decade ago lacks, written for this project in the same form: phishing, deepfakes,
// vaping. Its ids start with x.
//
//go:embed modern.jsonl
var modern []byte

// idioms holds expressions of which a word means something else than by itself: shooting hoops, snakes and ladders.
// Their ids start with y, and none of their words is evidence for what it means by itself.
//
//go:embed idioms.jsonl
var idioms []byte

// phraseList lists expressions of which some words mean something else than by themselves, as phrases.txt says.
//
//go:embed phrases.txt
var phraseList string

// phrases returns the expressions of phraseList in normal form, each with a bit for each word that means something
// else. An expression that is a form of a term, or of another expression, gives its bits to that: texts are looked up
// as they stand first, so "heart attacks" beside "heart attack" would hide it.
func phrases(known *lexicon.Lexicon) map[string]uint8 {
	all := readPhrases()
	for _, phrase := range slices.Sorted(maps.Keys(all)) {
		words := strings.Fields(phrase)
		last := len(words) - 1
		for _, first := range forms(known, words[0]) {
			for _, end := range forms(known, words[last]) {
				base := strings.Join(slices.Concat([]string{first}, words[1:last], []string{end}), " ")
				_, isTerm := known.Find([]byte(base))
				if base != phrase && (isTerm || all[base] != 0) && all[phrase] != 0 {
					all[base] |= all[phrase]
					delete(all, phrase)
				}
			}
		}
	}
	return all
}

// forms returns a word and what it may be a form of.
func forms(known *lexicon.Lexicon, word string) []string {
	list := []string{word}
	for _, t := range known.Bases([]byte(word), nil) {
		list = append(list, known.String(t))
	}
	return list
}

// readPhrases reads phraseList.
func readPhrases() map[string]uint8 {
	n := newNormaliser()
	all := make(map[string]uint8)
	for line := range strings.Lines(phraseList) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for expression := range strings.SplitSeq(strings.TrimSpace(line), ",") {
			var words []string
			var bits uint8
			for word := range strings.FieldsSeq(expression) {
				plain, starred := strings.CutPrefix(word, "*")
				if starred {
					bits |= 1 << len(words)
				}
				words = append(words, n.words(plain)...)
			}
			if len(words) > 1 && len(words) <= lexicon.MaxPhrase {
				all[strings.Join(words, " ")] |= bits
			}
		}
	}
	return all
}

// readGlosses reads the synsets and puts their lemmas into normal form.
func readGlosses(data string) ([]*synset, error) {
	var all []*synset
	read := func(row []byte) error {
		s := new(synset)
		if err := json.Unmarshal(row, s); err != nil {
			return err
		}
		if len(s.ID) < 3 {
			return fmt.Errorf("synset %q has no part of speech", s.ID)
		}
		all = append(all, s)
		return nil
	}
	if err := eachRow(filepath.Join(data, "themes", "oewn_glosses.jsonl.gz"), read); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(slices.Concat(modern, idioms)) {
		if err := read(line); err != nil {
			return nil, fmt.Errorf("modern.jsonl and idioms.jsonl: %w", err)
		}
	}
	// The part of speech is the last letter of the id; the order of the ids is the order of the synsets.
	slices.SortStableFunc(all, func(a, b *synset) int { return strings.Compare(a.ID, b.ID) })
	n := newNormaliser()
	for _, s := range all {
		for _, lemma := range append([]string{s.Topic}, s.Synonyms...) {
			if isTaxon(lemma, s.Lexname) {
				continue
			}
			if f := n.normal(lemma); f != "" && !slices.Contains(s.lemmas, f) {
				s.lemmas = append(s.lemmas, f)
			}
		}
		s.Topic = n.normal(s.Topic)
		for i := range s.Hypernyms {
			s.Hypernyms[i] = n.normal(s.Hypernyms[i])
		}
		for i := range s.Domain {
			s.Domain[i] = n.normal(s.Domain[i])
		}
		s.gloss = n.words(s.Text)
		definition, _, _ := strings.Cut(s.Text, ". ")
		s.definition = min(len(n.words(definition)), len(s.gloss))
	}
	return all, nil
}

// isTaxon reports Latin names of species, which nobody types in a post: "Bromus secalinus".
func isTaxon(lemma, lexname string) bool {
	if lexname != "noun.plant" && lexname != "noun.animal" {
		return false
	}
	return unicode.IsUpper([]rune(lemma + "a")[0]) && strings.Contains(lemma, " ") && !strings.Contains(lemma, "'")
}

// normaliser tokenizes text as package themes does, so that what is built fits what is looked up.
type normaliser struct{ scratch text.Scratch }

func newNormaliser() *normaliser { return new(normaliser) }

func (n *normaliser) words(s string) []string {
	var words []string
	for _, t := range n.scratch.Tokenize(s) {
		if !t.Is(text.Emoji) && len(t.Folded) > 0 {
			words = append(words, string(t.Folded))
		}
	}
	return words
}

func (n *normaliser) normal(s string) string {
	words := n.words(s)
	if len(words) > 6 {
		return ""
	}
	return strings.Join(words, " ")
}

// eachRow calls do with each line of a file of JSON Lines, which may be gzip-compressed.
func eachRow(path string, do func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	if strings.HasSuffix(path, ".gz") {
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		lines = bufio.NewScanner(unzipped)
	}
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := do(lines.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return lines.Err()
}
