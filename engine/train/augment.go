// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"
)

// disguise is a way in which people hide a word.
type disguise struct {
	name  string
	apply func(word []rune, r *rand.Rand) []rune
}

// disguises are what Augment applies. Positives and negatives are disguised alike, or disguise itself would become harm.
var disguises = []disguise{
	{"leet", substitute(map[rune][]rune{'a': {'4', '@'}, 'e': {'3'}, 'i': {'1', '!'}, 'o': {'0'}, 's': {'5', '$'}, 't': {'7'}})},
	{"look-alike", substitute(map[rune][]rune{'a': {'а'}, 'e': {'е'}, 'o': {'о', 'ο'}, 'c': {'с'}, 'p': {'р'}, 'i': {'і'}, 'x': {'х'}, 'y': {'у'}})},
	{"zero width", between('\u200b')},
	{"spaced", between(' ')},
	{"dotted", between('.')},
	{"stretched", func(word []rune, r *rand.Rand) []rune {
		i := r.IntN(len(word))
		return append(append(append([]rune{}, word[:i]...), repeat(word[i], 2+r.IntN(3))...), word[i:]...)
	}},
	{"doubled", func(word []rune, r *rand.Rand) []rune {
		i := r.IntN(len(word))
		return append(append(append([]rune{}, word[:i]...), word[i]), word[i:]...)
	}},
	{"vowel dropped", func(word []rune, r *rand.Rand) []rune {
		for i := 1; i < len(word)-1; i++ {
			if strings.ContainsRune("aeiou", word[i]) {
				return append(append([]rune{}, word[:i]...), word[i+1:]...)
			}
		}
		return word
	}},
	{"masked", func(word []rune, r *rand.Rand) []rune {
		out := append([]rune{}, word...)
		for i := 1; i < len(out)-1; i++ {
			if strings.ContainsRune("aeiou", out[i]) {
				out[i] = '*'
				return out
			}
		}
		return out
	}},
	{"swapped", func(word []rune, r *rand.Rand) []rune {
		out := append([]rune{}, word...)
		if len(out) > 3 {
			i := 1 + r.IntN(len(out)-3)
			out[i], out[i+1] = out[i+1], out[i]
		}
		return out
	}},
	{"dropped", func(word []rune, r *rand.Rand) []rune {
		if len(word) < 5 {
			return word
		}
		i := 1 + r.IntN(len(word)-2)
		return append(append([]rune{}, word[:i]...), word[i+1:]...)
	}},
}

func substitute(table map[rune][]rune) func([]rune, *rand.Rand) []rune {
	return func(word []rune, r *rand.Rand) []rune {
		out := append([]rune{}, word...)
		for i, c := range out {
			if to := table[unicode.ToLower(c)]; len(to) > 0 && r.IntN(3) > 0 {
				out[i] = to[r.IntN(len(to))]
			}
		}
		return out
	}
}

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

func repeat(c rune, n int) []rune {
	out := make([]rune, n)
	for i := range out {
		out[i] = c
	}
	return out
}

// Disguise rewrites about a third of the longer words of a text in one way, or joins or recapitalises the whole.
func Disguise(text string, r *rand.Rand) string {
	switch r.IntN(len(disguises) + 3) {
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
		return joinSome(text, r)
	}
	d := disguises[r.IntN(len(disguises))]
	words := strings.Fields(text)
	for i, w := range words {
		if utf8.RuneCountInString(w) < 3 || r.IntN(5) < 3 {
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

// joinSome removes some of the spaces.
func joinSome(text string, r *rand.Rand) string {
	var b strings.Builder
	for _, c := range text {
		if c == ' ' && r.IntN(4) == 0 {
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Augment returns disguised copies of a part of the examples: the share is of those labelled for this project, a third
// of it of the others. Labels stay; the weight of a copy is half.
func Augment(examples []Example, share float64, seed uint64) []Example {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []Example
	for _, e := range examples {
		odds := share
		if !e.Written {
			odds /= 3
		}
		if r.Float64() >= odds || e.Source == "lexicon" {
			continue
		}
		e.Text = Disguise(e.Text, r)
		for h := range e.Labels {
			e.Labels[h].Weight /= 2
		}
		out = append(out, e)
	}
	return out
}

// Embed returns a part of the examples that were labelled for this project with ordinary harmless texts before and
// after them, so that the judge learns to find them there, and as many copies of harmless ones, so that context itself
// means nothing.
func Embed(examples []Example, share float64, seed uint64) []Example {
	r := rand.New(rand.NewPCG(seed, 4))
	var around []string
	for i := range examples {
		if e := &examples[i]; isOrdinary(e) && len(e.Text) < 300 {
			around = append(around, e.Text)
		}
	}
	if len(around) == 0 {
		return nil
	}
	var out []Example
	for _, e := range examples {
		if !e.Written || len(e.Text) > 500 || r.Float64() >= share {
			continue
		}
		parts := []string{e.Text}
		for range r.IntN(4) {
			parts = append([]string{around[r.IntN(len(around))]}, parts...)
		}
		for range r.IntN(4) {
			parts = append(parts, around[r.IntN(len(around))])
		}
		e.Text = strings.Join(parts, []string{" ", "\n", "\n\n"}[r.IntN(3)])
		for h := range e.Labels {
			e.Labels[h].Weight /= 2
		}
		out = append(out, e)
	}
	return out
}
