// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import (
	"math"

	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

// Weights of the words related to a word of a theme, as evidence for it. The word itself weighs 1. The order of these
// weights matters more than their values, because the scorer's weights are fitted on top (engine/train/cmd/themes).
const (
	synonymWeight   = 0.90
	derivedWeight   = 0.90
	hyponymWeight   = 0.90 // of a direct hyponym; each level further down weighs hyponymDecay of the one above
	hyponymDecay    = 0.97
	fieldWeight     = 0.70 // of a word that belongs to the field, as "foul" to "sport"
	glossWeight     = 0.75 // of a word whose gloss mentions it, as that of "casino" gambling, at the closest link
	ambiguityPerLog = 0.35 // a word of n senses weighs 1 / (1 + 0.35 ln n)
	minWeight       = 0.12 // words of less weight are left out
)

// Bounds of an expansion.
const (
	maxDepth          = 10   // levels of hyponyms
	maxUnseenDepth    = 2    // the level below which words that never occurred in running text are left out
	maxSynsets        = 4000 // for all words of a theme together
	maxSynsetsPerWord = 32   // for each word of a theme longer than longTheme; the nearest ones are taken
	longTheme         = 6    // words; a longer theme describes rather than names
)

// senseWeights are the weights of words by their number of senses.
var senseWeights = func() (w [100]float64) {
	for n := range w {
		w[n] = 1 / (1 + ambiguityPerLog*math.Log(float64(max(1, n))))
	}
	return w
}()

// expand adds a term, its synonyms, derivatives, hyponyms and the words of its field as evidence for slot s.
func (b *builder) expand(s uint8, t lexicon.Term) {
	if b.words > longTheme {
		all := b.budget
		b.budget = min(b.budget, maxSynsetsPerWord)
		defer func(budget int) { b.budget += all - budget }(b.budget)
	}
	b.add(key(t), s, 1)
	b.derivatives(s, t, 1)
	for i := range b.lex.ExplainsCount(t) {
		link := b.lex.Explains(t, i)
		b.add(key(link.Term), s, glossWeight*float64(link.Weight)/255)
	}
	byCount := senseWeights[min(b.lex.SenseCount(t), len(senseWeights)-1)]
	for i := range b.lex.SenseCount(t) {
		sense := b.lex.Sense(t, i)
		weight := byCount * math.Sqrt(float64(sense.Prior)/255)
		if weight < minWeight {
			continue
		}
		b.members(s, sense.Synset, synonymWeight*weight, 0)
		b.hyponyms(s, sense.Synset, hyponymWeight*weight)
		b.lex.Field(sense.Synset, func(f lexicon.Synset) {
			if b.budget--; b.budget > 0 {
				b.members(s, f, fieldWeight*weight, 1)
			}
		})
	}
}

// hyponyms adds the hyponyms of a meaning level by level, so that the nearest ones fit into the budget.
func (b *builder) hyponyms(s uint8, of lexicon.Synset, weight float64) {
	all := append(b.queue[:0], of)
	b.visited[of/64] |= 1 << (of % 64)
	for depth, from := 1, 0; depth <= maxDepth && from < len(all); depth++ {
		level := all[from:]
		from = len(all)
		for _, parent := range level {
			b.lex.Children(parent, func(child lexicon.Synset) {
				if b.visited[child/64]>>(child%64)&1 == 1 || b.budget <= 0 {
					return
				}
				b.visited[child/64] |= 1 << (child % 64)
				b.budget--
				b.members(s, child, weight, depth)
				all = append(all, child)
			})
		}
		weight *= hyponymDecay
	}
	for _, synset := range all {
		b.visited[synset/64] = 0
	}
	b.queue = all
}

// members adds the words of a meaning. A word weighs less the more rarely it has that meaning, and the commoner it is,
// because common words stand in texts on any subject. Derivatives are added only at depth 0, where the words are
// synonyms.
func (b *builder) members(s uint8, of lexicon.Synset, weight float64, depth int) {
	m := b.lexicon.members
	for i := m.at[of]; i < m.at[of+1]; i++ {
		w := weight * m.typical[i]
		if w < minWeight {
			continue
		}
		t := m.terms[i]
		if depth > maxUnseenDepth && b.lex.Rarity(t) == lexicon.NeverSeen {
			continue
		}
		b.add(key(t), s, w)
		if depth == 0 {
			b.derivatives(s, t, w)
		}
	}
}

// members are the words of each meaning that weigh at least minWeight. Those of the meaning s are at at[s] to at[s+1].
type members struct {
	at      []uint32
	terms   []lexicon.Term
	typical []float64 // beside terms; see typicality
}

// membersOf computes the members of all meanings once, because a broad theme needs thousands of them.
func membersOf(lex *lexicon.Lexicon) *members {
	m := &members{at: make([]uint32, 1, lex.Synsets()+1)}
	for s := range lex.Synsets() {
		lex.Members(lexicon.Synset(s), func(t lexicon.Term) {
			if w := typicality(lex, t, lexicon.Synset(s)); w >= minWeight {
				m.terms, m.typical = append(m.terms, t), append(m.typical, w)
			}
		})
		m.at = append(m.at, uint32(len(m.terms)))
	}
	return m
}

// derivatives adds the words that share a root with a term.
func (b *builder) derivatives(s uint8, t lexicon.Term, weight float64) {
	for i := range b.lex.DerivedCount(t) {
		link := b.lex.Derived(t, i)
		b.add(key(link.Term), s, weight*derivedWeight*float64(link.Weight)/255)
	}
}

// uncommonRarity is the rarity from which a word is not common: about one word in 8,000.
const uncommonRarity = 13

// typicality estimates how strongly a use of a word points to one of its meanings, from 0 to 1.
func typicality(lex *lexicon.Lexicon, t lexicon.Term, of lexicon.Synset) float64 {
	n := lex.SenseCount(t)
	share := 1.0
	for i := 0; n > 1 && i < n; i++ {
		if sense := lex.Sense(t, i); sense.Synset == of {
			share = math.Sqrt(float64(sense.Prior) / 255)
			break
		}
	}
	common := min(1, lex.Rarity(t)/uncommonRarity)
	return share * senseWeights[min(n, len(senseWeights)-1)] * common * common
}
