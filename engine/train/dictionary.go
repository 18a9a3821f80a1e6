// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

const (
	// dictionaryWords is the maximum number of words in the dictionary of a weights file.
	dictionaryWords = 40_000
	// dictionaryLetters is the maximum length of such a word in bytes.
	dictionaryLetters = 20
	// dictionaryMinimum is how often a word must occur that is in no other list, so that the file reveals no name or
	// rare word of anybody's text.
	dictionaryMinimum = 20
	// harmfulShare is the weight of harmful texts in the frequencies. Words are disguised where harm is meant, so a
	// disguised word is more often a harmful one than its share of all text says.
	harmfulShare = 0.5
	// misspelled is how much commoner, in the units of [text.Word], a word must be than an unlisted one that could be a
	// misspelling of it, to be what is meant.
	misspelled = 5 * 8
	// Listed words of at most shortLetters bytes and at least shortCost (one in 500,000) are left out: what looks
	// like one is more often a common word without a vowel.
	shortLetters = 4
	shortCost    = 19 * 8
	// ordinaryCost is the maximum cost of words that are surely not misspelled, whether listed or not: one in 10,000.
	ordinaryCost = 13 * 8
)

// Dictionary returns the words that disguised ones may stand for, the commonest first. It counts those of the examples
// that are not derived from others. glossary is that of another language than English, or nil. own reports whether a
// folded word is in a list of words of the language, and foreign whether it is to be left out; both may be nil.
func Dictionary(examples []Example, glossary *Glossary, own, foreign func(folded []byte) bool) []text.Word {
	counts := map[string]*[2]float64{}
	capitals := map[string]float64{} // how often a word begins with a capital inside a sentence
	var totals [2]float64
	listed, profane := map[string]bool{}, map[string]bool{} // in lists of words, and of bad words
	s := text.Get()
	defer text.Put(s)
	for i := range examples {
		e := &examples[i]
		if e.Derived || e.Source == mixedIn {
			continue
		}
		kind := 0
		if e.harmful() {
			kind = 1
		}
		tokens := s.Tokenize(e.Text)
		if e.Source == "lexicon" && len(tokens) == 1 {
			profane[string(tokens[0].Folded)] = true
		}
		runes := []rune(e.Text)
		for i, t := range tokens {
			const unusual = text.Emoji | text.Mention | text.Hashtag | text.Obfuscated | text.Stretched
			if t.Flags&unusual != 0 || len(t.Folded) > dictionaryLetters {
				continue
			}
			n := counts[string(t.Folded)]
			if n == nil {
				n = new([2]float64)
				counts[string(t.Folded)] = n
			}
			n[kind]++
			if i > 0 && !tokens[i-1].Is(text.SentenceEnd) && !t.Is(text.Caps) && unicode.IsUpper(runes[t.Begin]) {
				capitals[string(t.Folded)]++
			}
			totals[kind]++
		}
	}
	var words []text.Word
	for word, n := range counts {
		inClass := glossary == nil && model.HasWordClass(word) || glossary.has(word)
		if !inClass && foreign != nil && foreign([]byte(word)) {
			continue
		}
		inList := inClass || own != nil && own([]byte(word))
		if !inList && !profane[word] && n[0]+n[1] < dictionaryMinimum {
			continue
		}
		isName := capitals[word] > (n[0]+n[1])/2
		listed[word] = inList || isName
		share := (1-harmfulShare)*n[0]/max(totals[0], 1) + harmfulShare*n[1]/max(totals[1], 1)
		cost := uint8(min(max(math.Round(-8*math.Log2(share)), 0), 255))
		if len(word) <= shortLetters && cost >= shortCost && !inClass && !profane[word] {
			continue
		}
		words = append(words, text.Word{Folded: word, Cost: cost})
	}
	slices.SortFunc(words, func(a, b text.Word) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), strings.Compare(a.Folded, b.Folded))
	})
	words = withoutMisspelled(words[:min(len(words), dictionaryWords*5/4)], listed)
	return words[:min(len(words), dictionaryWords)]
}

// folded returns the folded words of a text.
func folded(content string) (words []string) {
	s := text.Get()
	defer text.Put(s)
	for _, t := range s.Tokenize(content) {
		words = append(words, string(t.Folded))
	}
	return words
}

// harmful reports whether the example is positive for any head but spam.
func (e *Example) harmful() bool {
	for h := range e.Labels {
		if h != spam && e.Positive(h) {
			return true
		}
	}
	return false
}

// withoutMisspelled leaves out unlisted words that would be recovered as a much commoner one if they were not known.
func withoutMisspelled(words []text.Word, listed map[string]bool) []text.Word {
	costs := map[string]uint8{}
	var known []text.Word
	for _, w := range words {
		costs[w.Folded] = w.Cost
		if listed[w.Folded] || w.Cost <= ordinaryCost {
			known = append(known, w)
		}
	}
	d := text.NewDictionary(known)
	s := text.Get()
	defer text.Put(s)
	return slices.DeleteFunc(words, func(w text.Word) bool {
		if listed[w.Folded] || w.Cost <= ordinaryCost {
			return false
		}
		tokens := s.TokenizeWith(w.Folded, d)
		if len(tokens) != 1 || !tokens[0].Is(text.Recovered) {
			return false
		}
		meant, ok := costs[string(tokens[0].Folded)]
		return ok && int(meant)+misspelled <= int(w.Cost)
	})
}
