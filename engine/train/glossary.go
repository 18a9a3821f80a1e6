// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Glossary holds English words for the frequent words of another language. By way of it, what is known of English
// carries over: a word has the class and the cluster of its English word, and English texts are turned into texts of
// the language, word by word. A nil Glossary is empty.
type Glossary struct {
	english map[string]string // by folded word of the language
	// words are those of the language for an English word, the most frequent first.
	words map[string][]string
}

// ReadGlossary reads the glossary of a language: files LANGUAGE/gloss/*.txt with lines of a word, a space and an
// English word, the most frequent words first. It is nil where there is none.
func ReadGlossary(corpus fs.FS, language string) (*Glossary, error) {
	names, err := fs.Glob(corpus, language+"/gloss/g*.txt")
	if err != nil || len(names) == 0 {
		return nil, err
	}
	g := &Glossary{english: map[string]string{}, words: map[string][]string{}}
	for _, name := range names {
		file, err := fs.ReadFile(corpus, name)
		if err != nil {
			return nil, err
		}
		n := 0
		for line := range strings.Lines(string(file)) {
			n++
			fields := strings.Fields(line)
			if len(fields) == 0 {
				continue
			}
			if len(fields) != 2 {
				return nil, fmt.Errorf("%s, line %d: want a word and an English word", name, n)
			}
			word, english := strings.ToLower(fields[0]), strings.ToLower(fields[1])
			key := strings.Join(folded(word), " ")
			if key == "" || english == "-" || english == "=" {
				continue
			}
			if _, ok := g.english[key]; !ok {
				g.english[key] = english
			}
			if !slices.Contains(g.words[english], word) {
				g.words[english] = append(g.words[english], word)
			}
		}
	}
	return g, nil
}

// has reports whether a folded word has an English word.
func (g *Glossary) has(word string) bool {
	if g == nil {
		return false
	}
	_, ok := g.english[word]
	return ok
}

// negators returns the folded words that negate those after them.
func (g *Glossary) negators() []string {
	if g == nil {
		return nil
	}
	var out []string
	for word, english := range g.english {
		switch english {
		case "not", "no", "never", "nobody", "none", "nothing", "without", "cannot", "cant", "dont", "neither", "nor":
			out = append(out, word)
		}
	}
	slices.Sort(out)
	return out
}

// clusters adds the words of the glossary to the clusters of the language: a word belongs to the class of its English
// word, or else to its cluster.
func (g *Glossary) clusters(own map[uint64]uint16) map[uint64]uint16 {
	if g == nil {
		return own
	}
	english, err := model.Default()
	if err != nil {
		return own
	}
	out := map[uint64]uint16{}
	for h, c := range own {
		out[h] = c
	}
	for word, to := range g.english {
		if strings.Contains(word, " ") {
			continue
		}
		for part := range strings.SplitSeq(to, "_") {
			class := model.WordClassOf([]byte(part))
			if class != 0 {
				out[model.WordHash([]byte(word))] = model.ClassCluster(class)
				break
			}
			if c, ok := english.Cluster([]byte(part)); ok {
				out[model.WordHash([]byte(word))] = clusterCount + c
			}
		}
	}
	return out
}

// contractions are written out before texts are turned into another language.
var contractions = strings.NewReplacer(
	"n't", " not", "’", "'", "i'm", "i am", "'re", " are", "'ve", " have", "'ll", " will", "'d", " would",
	"cannot", "can not", "gonna", "going to", "wanna", "want to",
)

// Translate turns an English text into one of the language, word by word, and says which share of its words has a
// counterpart. Word order and grammar stay English.
func (g *Glossary) Translate(content string, r *rand.Rand) (out string, share float64) {
	content = contractions.Replace(content)
	var b strings.Builder
	known, all := 0, 0
	for content != "" {
		end := strings.IndexFunc(content, func(c rune) bool { return !unicode.IsLetter(c) })
		if end == 0 {
			_, size := utf8.DecodeRuneInString(content)
			b.WriteString(content[:size])
			content = content[size:]
			continue
		}
		if end < 0 {
			end = len(content)
		}
		word := content[:end]
		content = content[end:]
		all++
		words := g.words[strings.ToLower(word)]
		if len(words) == 0 {
			b.WriteString(word)
			continue
		}
		known++
		// The most frequent words are drawn most often.
		to := words[min(r.IntN(len(words)), r.IntN(len(words)))]
		switch {
		case len(word) > 1 && strings.ToUpper(word) == word:
			to = strings.ToUpper(to)
		case unicode.IsUpper(rune(word[0])) && word != "I":
			first, size := utf8.DecodeRuneInString(to)
			to = string(unicode.ToUpper(first)) + to[size:]
		}
		b.WriteString(to)
	}
	return b.String(), float64(known) / max(float64(all), 1)
}

// Translated returns the English examples turned into texts of the language, those of which enough words have a
// counterpart. They weigh less than the language's own.
func (g *Glossary) Translated(english []Example, weight float32, seed uint64) []Example {
	if g == nil || weight == 0 {
		return nil
	}
	const enough = 0.7
	r := rand.New(rand.NewPCG(seed, 21))
	var out []Example
	for _, e := range english {
		text, share := g.Translate(e.Text, r)
		if share < enough {
			continue
		}
		e.Text, e.Source, e.Group, e.Derived = text, mixedIn, 0, true
		for h := range e.Labels {
			e.Labels[h].Weight *= weight
		}
		out = append(out, e)
	}
	return out
}
