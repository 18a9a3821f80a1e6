// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// disguise is a way in which people disguise a word.
type disguise struct {
	name  string
	apply func(word []rune, r *rand.Rand) []rune
}

// disguises are those that Augment applies. It disguises positives and negatives alike; otherwise the model would
// learn that disguise is harm.
var disguises = []disguise{
	{"leet", substitute(map[rune][]rune{
		'a': {'4', '@'}, 'e': {'3'}, 'i': {'1', '!'}, 'o': {'0'}, 's': {'5', '$'}, 't': {'7'}, 'l': {'1'},
	})},
	{"look-alike", substitute(map[rune][]rune{
		'a': {'а'}, 'e': {'е'}, 'o': {'о', 'ο'}, 'c': {'с'}, 'p': {'р'}, 'i': {'і'}, 'x': {'х'}, 'y': {'у'},
	})},
	{"zero width", between('\u200b')},
	{"spaced", between(' ')},
	{"dotted", between('.')},
	{"stretched", func(word []rune, r *rand.Rand) []rune {
		i := r.IntN(len(word))
		return slices.Insert(slices.Clone(word), i, slices.Repeat(word[i:i+1], 2+r.IntN(3))...)
	}},
	{"doubled", func(word []rune, r *rand.Rand) []rune {
		i := r.IntN(len(word))
		return slices.Insert(slices.Clone(word), i, word[i])
	}},
	{"all doubled", func(word []rune, _ *rand.Rand) []rune {
		var out []rune
		for _, c := range word {
			out = append(out, c, c)
		}
		return out
	}},
	{"vowel dropped", func(word []rune, r *rand.Rand) []rune {
		if at := innerVowels(word); len(at) > 0 {
			i := at[r.IntN(len(at))]
			return slices.Delete(slices.Clone(word), i, i+1)
		}
		return word
	}},
	{"vowels dropped", func(word []rune, _ *rand.Rand) []rune {
		out := slices.Clone(word)
		for _, i := range slices.Backward(innerVowels(word)) {
			out = slices.Delete(out, i, i+1)
		}
		return out
	}},
	{"masked", func(word []rune, r *rand.Rand) []rune {
		out := slices.Clone(word)
		if at := innerVowels(word); len(at) > 0 {
			out[at[r.IntN(len(at))]] = '*'
		}
		return out
	}},
	{"swapped", func(word []rune, r *rand.Rand) []rune {
		out := slices.Clone(word)
		if len(out) > 3 {
			i := 1 + r.IntN(len(out)-2)
			out[i], out[i+1] = out[i+1], out[i]
		}
		return out
	}},
}

// innerVowels returns the positions of the vowels of a word, except at its ends.
func innerVowels(word []rune) (at []int) {
	for i := 1; i < len(word)-1; i++ {
		if strings.ContainsRune("aeiouAEIOU", word[i]) {
			at = append(at, i)
		}
	}
	return at
}

// substitute makes a disguise that replaces letters by those of a table.
func substitute(table map[rune][]rune) func([]rune, *rand.Rand) []rune {
	return func(word []rune, r *rand.Rand) []rune {
		out := slices.Clone(word)
		for i, c := range out {
			if to := table[unicode.ToLower(c)]; len(to) > 0 && r.IntN(3) > 0 {
				out[i] = to[r.IntN(len(to))]
			}
		}
		return out
	}
}

// between makes a disguise that puts a mark between the letters.
func between(mark rune) func([]rune, *rand.Rand) []rune {
	return func(word []rune, _ *rand.Rand) []rune {
		var out []rune
		for i, c := range word {
			if i > 0 {
				out = append(out, mark)
			}
			out = append(out, c)
		}
		return out
	}
}

// Disguise rewrites words of a text in one way: about a third of those of three letters and more, or all of those of
// four and more. Or it removes spaces or changes the capitals of the whole text.
func Disguise(text string, r *rand.Rand) string {
	switch r.IntN(len(disguises) + 4) {
	case 0:
		return strings.ToUpper(text)
	case 1:
		return strings.ToLower(strings.Map(func(c rune) rune {
			if unicode.IsPunct(c) && c != '\'' {
				return -1
			}
			return c
		}, text))
	case 2:
		return joinSome(text, 4, r)
	case 3:
		return joinSome(text, 1, r)
	}
	d := disguises[r.IntN(len(disguises))]
	all := r.IntN(2) == 0
	words := strings.Fields(text)
	for i, w := range words {
		if n := utf8.RuneCountInString(w); n < 3 || all && n < 4 || !all && r.IntN(3) > 0 {
			continue
		}
		start := strings.IndexFunc(w, unicode.IsLetter)
		end := strings.LastIndexFunc(w, unicode.IsLetter)
		if start < 0 {
			continue
		}
		_, size := utf8.DecodeRuneInString(w[end:])
		core := []rune(w[start : end+size])
		words[i] = w[:start] + string(d.apply(core, r)) + w[end+size:]
	}
	return strings.Join(words, " ")
}

// joinSome removes one in every of the spaces.
func joinSome(text string, every int, r *rand.Rand) string {
	var b strings.Builder
	for _, c := range text {
		if c == ' ' && r.IntN(every) == 0 {
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Augment returns disguised copies of a share of the examples, from 0 to 1; of those from public sources, of a third
// of that share. Copies keep the labels at half the weight.
func Augment(examples []Example, share float64, seed uint64) []Example {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []Example
	for _, e := range examples {
		chance := share
		if !e.InCorpus {
			chance /= 3
		}
		if r.Float64() >= chance || e.Source == "lexicon" {
			continue
		}
		e.Text, e.Derived = Disguise(e.Text, r), true
		for h := range e.Labels {
			e.Labels[h].Weight /= 2
		}
		out = append(out, e)
	}
	return out
}

// Surround returns copies of a share of the examples of the corpus, from 0 to 1, with ordinary harmless texts before
// and after them. The model learns to find harm inside a text, and from copies of harmless examples that context by
// itself means nothing. Copies keep the labels at half the weight.
func Surround(examples []Example, share float64, seed uint64) []Example {
	r := rand.New(rand.NewPCG(seed, 4))
	var around, pieces []string
	for i := range examples {
		switch e := &examples[i]; {
		case !isOrdinary(e):
		case e.IsDocument():
			pieces = append(pieces, e.Text)
		case len(e.Text) < 300 && e.Source != base(otherLanguages):
			around = append(around, e.Text)
		}
	}
	if len(around) == 0 {
		return nil
	}
	var out []Example
	for _, e := range examples {
		if !e.InCorpus || len(e.Text) > 500 || r.Float64() >= share {
			continue
		}
		if len(pieces) > 0 && r.IntN(2) == 0 {
			e.Text, e.Derived = Insert(pieces, e.Text, 100+r.IntN(900), r), true
		} else {
			parts := []string{e.Text}
			for range r.IntN(4) {
				parts = append([]string{around[r.IntN(len(around))]}, parts...)
			}
			for range r.IntN(4) {
				parts = append(parts, around[r.IntN(len(around))])
			}
			e.Text, e.Derived = strings.Join(parts, []string{" ", "\n", "\n\n"}[r.IntN(3)]), true
		}
		for h := range e.Labels {
			e.Labels[h].Weight /= 2
		}
		out = append(out, e)
	}
	return out
}
