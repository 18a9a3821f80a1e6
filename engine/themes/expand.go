// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import (
	"math"

	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

// How much the words around a word of a theme are worth. A word itself is worth 1. The order matters more than the
// figures, because the weights of the scorer are fitted on top of them (engine/train/cmd/themes).
const (
	synonymWorth   = 0.90
	derivedWorth   = 0.90
	kindWorth      = 0.90 // of a direct hyponym; a kind of a kind is worth kindDecay of that
	kindDecay      = 0.97
	fieldWorth     = 0.70 // of a word that belongs to the field, as "foul" to "sport"
	explainedWorth = 0.75 // of a word whose gloss speaks of it, as that of "casino" of gambling, where the two are as close as can be
	doubtPerLog    = 0.35 // a word of n senses is worth 1 / (1 + 0.35 ln n)
	maxDepth       = 10
	maxSynsets     = 4000 // for all words of a theme together
	longTheme      = 6    // words from which on a theme describes rather than names, and each word gets less
	maxOfWord      = 32   // synsets, for a word of such a theme: the nearest ones
	rareDepth      = 2    // below it words that were never met in running text are left out
	leastWorth     = 0.12
)

// doubts is what a word of so many senses is worth.
var doubts = func() (d [100]float64) {
	for n := range d {
		d[n] = 1 / (1 + doubtPerLog*math.Log(float64(max(1, n))))
	}
	return d
}()

// widen adds a term, what means the same, what derives from it and what is a kind of it as evidence for a slot.
func (b *builder) widen(s uint8, t lexicon.Term) {
	if b.words > longTheme {
		all := b.budget
		b.budget = min(b.budget, maxOfWord)
		defer func(budget int) { b.budget += all - budget }(b.budget)
	}
	b.add(key(t), s, 1)
	b.derivatives(s, t, 1)
	for i := range b.lex.ExplainsCount(t) {
		link := b.lex.Explains(t, i)
		b.add(key(link.Term), s, explainedWorth*float64(link.Weight)/255)
	}
	doubt := doubts[min(b.lex.SenseCount(t), len(doubts)-1)]
	for i := range b.lex.SenseCount(t) {
		sense := b.lex.Sense(t, i)
		worth := doubt * math.Sqrt(float64(sense.Prior)/255)
		if worth < leastWorth {
			continue
		}
		b.members(s, sense.Synset, synonymWorth*worth, 0)
		b.kinds(s, sense.Synset, kindWorth*worth)
		b.lex.Field(sense.Synset, func(f lexicon.Synset) {
			if b.budget--; b.budget > 0 {
				b.members(s, f, fieldWorth*worth, 1)
			}
		})
	}
}

// kinds adds the hyponyms of a meaning, level by level, so that the nearest ones come within the budget.
func (b *builder) kinds(s uint8, of lexicon.Synset, worth float64) {
	all := append(b.kin[:0], of)
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
				b.members(s, child, worth, depth)
				all = append(all, child)
			})
		}
		worth *= kindDecay
	}
	for _, synset := range all {
		b.visited[synset/64] = 0
	}
	b.kin = all
}

// members adds the words of a meaning: each worth less the less it is used in that meaning, and the commoner it is,
// because common words stand in texts on anything. What derives from them counts too where they mean the same (depth 0).
func (b *builder) members(s uint8, of lexicon.Synset, worth float64, depth int) {
	m := b.lexicon.members
	for i := m.at[of]; i < m.at[of+1]; i++ {
		w := worth * m.typical[i]
		if w < leastWorth {
			continue
		}
		t := m.terms[i]
		if depth > rareDepth && b.lex.Rarity(t) == lexicon.NeverSeen {
			continue
		}
		b.add(key(t), s, w)
		if depth == 0 {
			b.derivatives(s, t, w)
		}
	}
}

// members are the words of each meaning that may be worth something: those of the meaning s from at[s] to at[s+1].
type members struct {
	at      []uint32
	terms   []lexicon.Term
	typical []float64 // how far each stands for the meaning
}

// membersOf finds the members of all meanings. What they are worth is needed for thousands of them when a theme is wide.
func membersOf(lex *lexicon.Lexicon) *members {
	m := &members{at: make([]uint32, 1, lex.Synsets()+1)}
	for s := range lex.Synsets() {
		lex.Members(lexicon.Synset(s), func(t lexicon.Term) {
			if w := typical(lex, t, lexicon.Synset(s)); w >= leastWorth {
				m.terms, m.typical = append(m.terms, t), append(m.typical, w)
			}
		})
		m.at = append(m.at, uint32(len(m.terms)))
	}
	return m
}

// derivatives adds the words that share a root with a term.
func (b *builder) derivatives(s uint8, t lexicon.Term, worth float64) {
	for i := range b.lex.DerivedCount(t) {
		link := b.lex.Derived(t, i)
		b.add(key(link.Term), s, worth*derivedWorth*float64(link.Weight)/255)
	}
}

// plainRarity is the rarity from which a word counts as not common, about one in 8,000.
const plainRarity = 13

// typical is how far a word that is used stands for one meaning of it, from 0 to 1.
func typical(lex *lexicon.Lexicon, t lexicon.Term, of lexicon.Synset) float64 {
	n := lex.SenseCount(t)
	share := 1.0
	for i := 0; n > 1 && i < n; i++ {
		if sense := lex.Sense(t, i); sense.Synset == of {
			share = math.Sqrt(float64(sense.Prior) / 255)
			break
		}
	}
	common := min(1, lex.Rarity(t)/plainRarity)
	return share * doubts[min(n, len(doubts)-1)] * common * common
}
