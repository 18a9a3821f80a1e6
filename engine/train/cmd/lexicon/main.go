// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command lexicon makes the lexicon file that package themes embeds.
//
//	go run ./engine/train/cmd/lexicon --data DIR [--out FILE] [--dims 96]
//
// DIR holds themes/oewn_glosses.jsonl.gz, the synsets of the Open English WordNet as JSON Lines, and the running text
// that words are counted in (see corpus.go). The same data gives the same bytes on the same architecture.
package main

import (
	"errors"
	"flag"
	"log"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

func main() {
	log.SetFlags(log.Ltime)
	data := flag.String("data", "", "directory of the training data")
	out := flag.String("out", "engine/themes/lexicon.bin", "file to write")
	dims := flag.Int("dims", 96, "dimensions of the vectors, a multiple of 8 up to 128")
	words := flag.Int("words", 50000, "how many words get a vector")
	flag.Parse()
	if err := run(*data, *out, *dims, *words); err != nil {
		log.Fatal(err)
	}
}

func run(data, out string, dims, words int) error {
	if data == "" {
		return errors.New("--data is needed: the directory of the training data")
	}
	synsets, err := readGlosses(data)
	if err != nil {
		return err
	}
	log.Printf("%d synsets", len(synsets))
	d, err := vocabulary(data, synsets)
	if err != nil {
		return err
	}
	log.Printf("%d terms", len(d.Terms))
	plain, err := reopen(d)
	if err != nil {
		return err
	}
	rows, vectors, err := train(data, synsets, plain, dims, words)
	if err != nil {
		return err
	}
	d.Dims = dims
	for t, row := range rows {
		if row >= 0 {
			d.Vectors[t] = quantise(vectors[int(row)*dims : int(row+1)*dims])
		}
	}
	r := newRelations(synsets, plain, rows, vectors, dims)
	// Words of the project's own synsets are too new for the running text: they get the direction of their glosses.
	for i, s := range synsets {
		for _, lemma := range s.lemmas {
			t, ok := slices.BinarySearch(d.Terms, lemma)
			if ok && s.isModern() && d.Vectors[t] == nil && !strings.Contains(lemma, " ") {
				d.Vectors[t] = quantise(r.mean(uint32(i)))
			}
		}
	}
	d.Parents, d.Domains = r.above()
	d.Senses = r.senses(d.Terms)
	d.Derived = r.roots(d.Terms)
	d.Explains = r.explained(d.Terms, d.Senses)
	d.Opaque = r.opaque(d.Terms)
	file, err := d.Encode()
	if err != nil {
		return err
	}
	log.Printf("%d bytes", len(file))
	return os.WriteFile(out, file, 0o644)
}

// reopen makes a lexicon of what is known so far, so that words are looked up here as in package themes.
func reopen(d *lexicon.Data) (*lexicon.Lexicon, error) {
	file, err := d.Encode()
	if err != nil {
		return nil, err
	}
	return lexicon.Open(file)
}

// vocabulary collects the terms: the lemmas of the WordNet and the words of the running text that are not forms of
// them, with how often each was seen.
func vocabulary(data string, synsets []*synset) (*lexicon.Data, error) {
	set := make(map[string]bool)
	d := &lexicon.Data{}
	for _, s := range synsets {
		d.Kinds = append(d.Kinds, s.kind())
		for _, lemma := range s.lemmas {
			set[lemma] = true
		}
	}
	d.Parents, d.Domains = make([][]uint32, len(synsets)), make([][]uint32, len(synsets))
	fill := func() {
		d.Terms = d.Terms[:0]
		for term := range set {
			d.Terms = append(d.Terms, term)
		}
		slices.Sort(d.Terms)
		n := len(d.Terms)
		d.Seen, d.Opaque, d.Senses = make([]uint8, n), make([]uint8, n), make([][]lexicon.Sense, n)
		d.Derived, d.Explains, d.Vectors = make([][]lexicon.Link, n), make([][]lexicon.Link, n), make([][]int8, n)
	}
	fill()
	known, err := reopen(d)
	if err != nil {
		return nil, err
	}
	for phrase := range phrases(known) {
		set[phrase] = true
	}
	seen := make(map[string]int)
	if err := eachText(data, func(words []string) {
		for _, w := range words {
			seen[w]++
		}
	}); err != nil {
		return nil, err
	}
	for w, n := range seen {
		if n >= minSeen && isWord(w) && len(known.Bases([]byte(w), nil)) == 0 {
			set[w] = true
		}
	}
	// A plural of such a word is no term: "deepfakes" beside "deepfake".
	// Which ones are is settled before any goes, so that the order of the map does not matter.
	var plurals []string
	for w := range seen {
		if set[w] && strings.HasSuffix(w, "s") && set[w[:len(w)-1]] && len(known.Bases([]byte(w), nil)) == 0 {
			plurals = append(plurals, w)
		}
	}
	for _, w := range plurals {
		delete(set, w)
	}
	fill()
	full, err := reopen(d)
	if err != nil {
		return nil, err
	}
	times, total := make([]int, len(d.Terms)), 0
	for w, n := range seen {
		total += n
		if bases := full.Bases([]byte(w), nil); len(bases) > 0 {
			times[bases[0]] += n
		}
	}
	for t, n := range times {
		d.Seen[t] = 255
		if n > 0 {
			d.Seen[t] = uint8(min(8*math.Log2(float64(total)/float64(n)), 254))
		}
	}
	return d, nil
}

// train counts which words occur together, in running text and in the glosses, and turns the counts into a vector for
// each of the words most often seen. rows says which vector is whose, -1 for none.
func train(
	data string, synsets []*synset, terms *lexicon.Lexicon, dims, words int,
) (rows []int32, vectors []float32, err error) {
	numbers := make(map[string]int32)
	number := func(w string) int32 {
		if t, ok := numbers[w]; ok {
			return t
		}
		t := int32(-1)
		if bases := terms.Bases([]byte(w), nil); len(bases) > 0 && !lexicon.IsStop([]byte(w)) {
			t = int32(bases[0])
		}
		numbers[w] = t
		return t
	}
	numbered := func(words []string) []int32 {
		ids := make([]int32, 0, len(words))
		for _, w := range words {
			if !lexicon.IsStop([]byte(w)) {
				ids = append(ids, number(w))
			}
		}
		return ids
	}
	times := make([]int, terms.Size())
	count := func(ids []int32) {
		for _, id := range ids {
			if id >= 0 {
				times[id]++
			}
		}
	}
	var texts, glosses [][]int32
	if err := eachText(data, func(words []string) { texts = append(texts, numbered(words)) }); err != nil {
		return nil, nil, err
	}
	names := make([][]int32, len(synsets))
	for i, s := range synsets {
		glosses = append(glosses, numbered(s.gloss))
		for _, name := range slices.Concat(s.lemmas, s.Hypernyms, s.Domain) {
			names[i] = append(names[i], numbered(strings.Fields(name))...)
		}
	}
	for _, group := range [][][]int32{texts, glosses, names} {
		for _, ids := range group {
			count(ids)
		}
	}
	rows = mostSeen(times, words)
	toRows := func(ids []int32) {
		for i, id := range ids {
			if id >= 0 {
				ids[i] = rows[id]
			}
		}
	}
	c := newCounts()
	tokens := 0
	for _, ids := range texts {
		tokens += len(ids)
		toRows(ids)
		c.addText(ids, 1)
	}
	for i := range synsets {
		toRows(glosses[i])
		toRows(names[i])
		c.addText(glosses[i], 1)
		// What a word is explained with belongs to it, wherever it stands in the gloss.
		for _, a := range names[i] {
			for _, b := range slices.Concat(glosses[i], names[i]) {
				if a >= 0 && b >= 0 {
					c.add(uint32(a), uint32(b), 1)
				}
			}
		}
	}
	n := 0
	for _, row := range rows {
		n = max(n, int(row)+1)
	}
	log.Printf("%d tokens of running text, %d words with vectors, %d pairs", tokens, n, c.used)
	m := c.information(n)
	log.Printf("%d cells", len(m.to))
	return rows, m.embed(dims), nil
}

// mostSeen gives rows to the words most often seen, at least 5 times.
func mostSeen(times []int, words int) []int32 {
	order := make([]int, 0, len(times))
	for t, n := range times {
		if n >= 5 {
			order = append(order, t)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return times[b] - times[a] })
	order = order[:min(words, len(order))]
	// Rows in the order of the terms, because that is the order of the file.
	slices.Sort(order)
	rows := make([]int32, len(times))
	for i := range rows {
		rows[i] = -1
	}
	for row, t := range order {
		rows[t] = int32(row)
	}
	return rows
}
