// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

// relations resolves what the glosses name by word: which meaning of "snake" is above "python", which meaning a word
// mostly has, and which words share a root. Doubt is settled by vectors: of several meanings, the one whose gloss is
// about the same things.
type relations struct {
	synsets []*synset
	words   *lexicon.Lexicon // terms only
	rows    []int32          // term to row of vectors, -1 is none
	vectors []float32
	dims    int

	topics map[string][]uint32 // lemma in first place to synsets
	lemmas map[string][]uint32 // lemma in any place to synsets
	means  []float32           // a vector for each synset
}

func newRelations(synsets []*synset, words *lexicon.Lexicon, rows []int32, vectors []float32, dims int) *relations {
	r := &relations{synsets: synsets, words: words, rows: rows, vectors: vectors, dims: dims,
		topics: make(map[string][]uint32), lemmas: make(map[string][]uint32)}
	for i, s := range synsets {
		r.topics[s.Topic] = append(r.topics[s.Topic], uint32(i))
		for _, lemma := range s.lemmas {
			r.lemmas[lemma] = append(r.lemmas[lemma], uint32(i))
		}
	}
	r.means = make([]float32, len(synsets)*dims)
	for i, s := range synsets {
		mean := r.means[i*dims : (i+1)*dims]
		for _, w := range s.gloss {
			r.addWord(mean, w, 1)
		}
		for _, name := range slices.Concat(s.Hypernyms, s.Domain) {
			for w := range strings.FieldsSeq(name) {
				r.addWord(mean, w, 2)
			}
		}
		// The synonyms say which meaning it is, unless the word has no other.
		for _, lemma := range s.lemmas {
			if len(r.lemmas[lemma]) == 1 {
				for w := range strings.FieldsSeq(lemma) {
					r.addWord(mean, w, 2)
				}
			}
		}
	}
	unit(r.means, dims)
	return r
}

// addWord adds the vector of a word, more of it the rarer the word.
func (r *relations) addWord(to []float32, word string, weight float32) {
	if lexicon.IsStop([]byte(word)) {
		return
	}
	bases := r.words.Bases([]byte(word), nil)
	if len(bases) == 0 || r.rows[bases[0]] < 0 {
		return
	}
	weight *= float32(min(r.words.Rarity(bases[0]), 16) / 16)
	at := int(r.rows[bases[0]]) * r.dims
	for i := range to {
		to[i] += weight * r.vectors[at+i]
	}
}

func (r *relations) vector(t int) []float32 {
	if r.rows[t] < 0 {
		return nil
	}
	at := int(r.rows[t]) * r.dims
	return r.vectors[at : at+r.dims]
}

func (r *relations) mean(s uint32) []float32 { return r.means[int(s)*r.dims : int(s+1)*r.dims] }

// resolve finds the meaning of a name that stands above the synset from.
func (r *relations) resolve(from uint32, name string, anyKind bool) (uint32, bool) {
	s := r.synsets[from]
	best, found, top := uint32(0), false, math.Inf(-1)
	consider := func(candidates []uint32, bonus float64) {
		for _, c := range candidates {
			other := r.synsets[c]
			if c == from || !anyKind && other.kind() != s.kind() || anyKind && other.kind() != 'n' {
				continue
			}
			score := float64(dot(r.mean(from), r.mean(c))) + bonus
			if other.Lexname == s.Lexname {
				score += 0.25
			}
			// A meaning with many names above it is more likely a class than one that is a class of nothing.
			if score > top {
				best, found, top = c, true, score
			}
		}
	}
	consider(r.topics[name], 0.3)
	consider(r.lemmas[name], 0)
	return best, found
}

// above resolves the parents and the fields of every synset.
func (r *relations) above() (parents, domains [][]uint32) {
	parents, domains = make([][]uint32, len(r.synsets)), make([][]uint32, len(r.synsets))
	for i, s := range r.synsets {
		for _, name := range s.Hypernyms {
			if p, ok := r.resolve(uint32(i), name, false); ok {
				parents[i] = append(parents[i], p)
			}
		}
		for _, name := range s.Domain {
			if d, ok := r.resolve(uint32(i), name, true); ok {
				domains[i] = append(domains[i], d)
			}
		}
		slices.Sort(parents[i])
		slices.Sort(domains[i])
		parents[i], domains[i] = slices.Compact(parents[i]), slices.Compact(domains[i])
	}
	return parents, domains
}

// senses lists the meanings of each term with how near each is to the use of the word.
func (r *relations) senses(terms []string) [][]lexicon.Sense {
	all := make([][]lexicon.Sense, len(terms))
	for t, term := range terms {
		ids := slices.Clone(r.lemmas[term])
		slices.Sort(ids)
		ids = slices.Compact(ids)
		v := r.vector(t)
		near := make([]float64, len(ids))
		for i, id := range ids {
			if v != nil {
				near[i] = float64(dot(v, r.mean(id)))
			}
			if r.synsets[id].Topic == term {
				near[i] += 0.05 // a word that names the meaning by itself stands first among its names
			}
		}
		if len(ids) == 0 {
			continue
		}
		top := slices.Max(near)
		for i, id := range ids {
			prior := 255 * math.Exp((near[i]-top)/0.12)
			all[t] = append(all[t], lexicon.Sense{Synset: lexicon.Synset(id), Prior: uint8(max(1, math.Round(prior)))})
		}
	}
	return all
}

// What a gloss must be like for its words to count: they are not too common, they are close to what the gloss as a
// whole is about, and the word that is explained is mostly used in that meaning.
const (
	glossRarity = 11.0
	glossClose  = 0.52
	glossPrior  = 128
	glossSenses = 4
)

// explained lists, for each term, the terms that are explained by it: "casino", a building for gambling.
func (r *relations) explained(terms []string, senses [][]lexicon.Sense) [][]lexicon.Link {
	out := make([]map[lexicon.Term]uint8, len(terms))
	for t, term := range terms {
		if len(senses[t]) > glossSenses {
			continue
		}
		for _, sense := range senses[t] {
			if sense.Prior < glossPrior {
				continue
			}
			s := r.synsets[sense.Synset]
			for _, w := range s.gloss[:s.definition] {
				if lexicon.IsStop([]byte(w)) {
					continue
				}
				bases := r.words.Bases([]byte(w), nil)
				if len(bases) == 0 || int(bases[0]) == t || w == term ||
					r.rows[bases[0]] < 0 || r.words.Rarity(bases[0]) < glossRarity {
					continue
				}
				near := dot(r.vector(int(bases[0])), r.mean(uint32(sense.Synset)))
				if v := r.vector(t); v != nil {
					near = (near + dot(r.vector(int(bases[0])), v)) / 2
				}
				if near < glossClose {
					continue
				}
				if out[bases[0]] == nil {
					out[bases[0]] = make(map[lexicon.Term]uint8)
				}
				out[bases[0]][lexicon.Term(t)] = max(out[bases[0]][lexicon.Term(t)], uint8(255*min(near, 1)))
			}
		}
	}
	return ordered(out)
}

// ordered turns maps into lists in the order of the terms.
func ordered(links []map[lexicon.Term]uint8) [][]lexicon.Link {
	out := make([][]lexicon.Link, len(links))
	for t := range links {
		for other, weight := range links[t] {
			out[t] = append(out[t], lexicon.Link{Term: other, Weight: weight})
		}
		slices.SortFunc(out[t], func(a, b lexicon.Link) int { return int(a.Term) - int(b.Term) })
	}
	return out
}

// opaque says, for each phrase, which of its words mean something else in it than by themselves, as a set of bits: the
// "dog" of "hot dog" has nothing to do with what a hot dog is. Other terms have none.
func (r *relations) opaque(terms []string) []uint8 {
	out := make([]uint8, len(terms))
	marked := phrases(r.words)
	for t, term := range terms {
		out[t] = marked[term]
		words := strings.Fields(term)
		if len(words) < 2 || len(words) > lexicon.MaxPhrase {
			continue
		}
		for i, w := range words {
			bases := r.words.Bases([]byte(w), nil)
			if len(bases) == 0 || r.rows[bases[0]] < 0 {
				continue
			}
			near := float32(-1)
			idiom := false
			for _, id := range r.lemmas[term] {
				idiom = idiom || r.synsets[id].isIdiom()
				near = max(near, dot(r.vector(int(bases[0])), r.mean(id)))
			}
			if idiom || near < transparent {
				out[t] |= 1 << i
			}
		}
	}
	return out
}

// transparent is the cosine between a word and the gloss of a phrase from which the word counts as meaning the same in
// the phrase.
const transparent = 0.25

// roots lists, for each single word, words of the same root: a common beginning, an ending that English derives words
// with, and either a gloss that explains one by the other or vectors that are close ("organ" and "organize" are not).
func (r *relations) roots(terms []string) [][]lexicon.Link {
	number := make(map[string]int, len(terms))
	for t, term := range terms {
		number[term] = t
	}
	explains := func(a, b string) bool {
		for _, id := range r.lemmas[a] {
			for _, w := range r.synsets[id].gloss {
				if w == b || w == b+"s" || w == b+"ing" || w == b+"ed" {
					return true
				}
			}
		}
		return false
	}
	links := make([]map[lexicon.Term]uint8, len(terms))
	link := func(a, b int, weight float64) {
		for _, p := range [2][2]int{{a, b}, {b, a}} {
			if links[p[0]] == nil {
				links[p[0]] = make(map[lexicon.Term]uint8)
			}
			other := lexicon.Term(p[1])
			links[p[0]][other] = max(links[p[0]][other], uint8(255*weight))
		}
	}
	for t, term := range terms {
		if strings.Contains(term, " ") || len(term) < 5 {
			continue
		}
		for _, ending := range endings {
			if !strings.HasSuffix(term, ending.suffix) || len(term)-len(ending.suffix) < 3 {
				continue
			}
			stem := term[:len(term)-len(ending.suffix)]
			withs := ending.with
			if n := len(stem); stem[n-1] == stem[n-2] && n > 3 {
				withs = append(slices.Clone(withs), "\b") // "squatter" is of "squat"
			}
			for _, with := range withs {
				base := stem + with
				if with == "\b" {
					base = stem[:len(stem)-1]
				}
				other, ok := number[base]
				if !ok || other == t || len(base) < 3 {
					continue
				}
				near := 0.0
				if a, b := r.vector(t), r.vector(other); a != nil && b != nil {
					near = float64(dot(a, b))
				}
				if explains(term, terms[other]) || explains(terms[other], term) {
					near = max(near, 0.1) + 0.4
				}
				if near >= 0.42 {
					link(t, other, min(1, 0.5+near/2))
				}
			}
		}
	}
	return ordered(links)
}

// endings are the suffixes with which English derives words, and what they replace.
var endings = []struct {
	suffix string
	with   []string
}{
	{"ing", []string{"", "e"}}, {"er", []string{"", "e", "y"}}, {"or", []string{"", "e"}},
	{"ist", []string{"", "e", "y", "ism", "o"}}, {"ism", []string{"", "e", "y", "ic"}},
	{"ation", []string{"", "e", "ate", "y"}}, {"ion", []string{"", "e"}}, {"ition", []string{"", "e"}},
	{"ment", []string{"", "e"}}, {"al", []string{"", "e", "y"}}, {"ial", []string{"", "e", "y"}},
	{"ical", []string{"", "y", "ic", "ics"}}, {"ic", []string{"", "e", "y", "ism", "ist", "ics"}},
	{"ity", []string{"", "e", "al"}}, {"ness", []string{""}}, {"iness", []string{"y"}},
	{"cy", []string{"t", "te", "t"}}, {"ency", []string{"ent"}}, {"ancy", []string{"ant"}},
	{"ence", []string{"ent", "", "e"}}, {"ance", []string{"ant", "", "e"}}, {"y", []string{"", "e", "er"}},
	{"ry", []string{"", "er"}}, {"ery", []string{"", "e", "er"}}, {"ous", []string{"", "y", "e"}},
	{"ful", []string{""}}, {"less", []string{""}}, {"ish", []string{""}}, {"ly", []string{"", "e", "al"}},
	{"ship", []string{""}}, {"hood", []string{""}}, {"ian", []string{"", "y", "e"}}, {"an", []string{"", "e"}},
	{"ive", []string{"ion", "e", ""}}, {"ure", []string{"", "e"}}, {"age", []string{"", "e"}},
	{"ed", []string{"", "e"}}, {"ize", []string{"", "e", "y"}}, {"ise", []string{"", "e", "y", "ize"}},
	{"ology", []string{"ologist", "ological"}}, {"graphy", []string{"graph", "grapher", "graphic"}},
	{"eer", []string{""}}, {"ant", []string{"", "e", "ation"}}, {"ee", []string{"", "e", "er"}}, {"th", []string{""}},
	{"sion", []string{"de", "d", "t", "se", "s"}}, {"ption", []string{"be", "ve", "pt"}},
	{"tion", []string{"t", "te", "ce"}}, {"our", []string{"or"}}, {"ogue", []string{"og"}},
	{"isation", []string{"ization", "ise", "ize"}}, {"ization", []string{"ize"}},
}

func dot(a, b []float32) float32 {
	var sum float32
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
