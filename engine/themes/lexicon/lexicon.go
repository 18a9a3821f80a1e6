// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package lexicon holds what the judge of themes knows about English words: which words and phrases exist, what their
// meanings are, which meaning is a kind of which, which words derive from each other, how often words are used, and a
// vector for each common word that is close to those of words used in the same places.
//
// The facts come from the Open English WordNet; frequencies and vectors were counted by engine/train/cmd/lexicon. Everything
// is kept in flat sorted arrays, about 16 MB, and never changes after it was loaded, so it is safe for concurrent use.
package lexicon

import (
	"math"
	"math/bits"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
)

// Term is the number of a word or phrase. Terms are numbered in the order of their bytes.
type Term uint32

// Synset is the number of a meaning that one or more terms share.
type Synset uint32

// Sense is a meaning of a term.
type Sense struct {
	Synset Synset
	// Prior is how near the meaning is to the way the term is mostly used, relative to its best meaning: 255 is the
	// best one.
	Prior uint8
}

// Link is a term that has to do with another one, as "pregnant" with "pregnancy".
type Link struct {
	Term Term
	// Weight is how close the two are in use, from 0 to 255.
	Weight uint8
}

// Lexicon answers questions about words.
type Lexicon struct {
	text   []byte   // all terms one after another
	ends   []uint32 // where each term ends in text
	slots  []uint32 // hash table of terms: number + 1, 0 is free
	seen   []uint8  // how common each term is
	opaque []uint8  // for a phrase, which of its words mean something else in it
	reach  []uint8  // words in the longest phrase that starts with the term

	senses    relation // term to synsets
	priors    []uint8  // beside senses.to
	members   relation // synset to terms
	kinds     []uint8
	parents   relation // synset to more general synsets
	children  relation
	domains   relation // synset to the synsets of its field
	field     relation // synset to the synsets whose field it is
	derived   relation // term to terms
	nearness  []uint8  // beside derived.to
	explains  relation // term to the terms whose glosses speak of it
	closeness []uint8  // beside explains.to

	dims    int
	vectors []int8
	vector  []uint32 // term to row of vectors + 1, 0 is none
	scale   []float32
	signs   []uint64
	spread  []float32 // dims x dims covariance of the unit vectors, column by column
}

// relation is a sparse table: row i is to[at[i]:at[i+1]].
type relation struct{ at, to []uint32 }

func (r *relation) row(i uint32) []uint32 { return r.to[r.at[i]:r.at[i+1]] }

// Size is the number of terms.
func (l *Lexicon) Size() int { return len(l.ends) }

// Synsets is the number of meanings.
func (l *Lexicon) Synsets() int { return len(l.kinds) }

// Bytes returns the term as it is written: lower case, words divided by one space. The bytes must not be changed.
func (l *Lexicon) Bytes(t Term) []byte {
	begin := uint32(0)
	if t > 0 {
		begin = l.ends[t-1]
	}
	return l.text[begin:l.ends[t]:l.ends[t]]
}

// String is [Lexicon.Bytes] as a string.
func (l *Lexicon) String(t Term) string { return string(l.Bytes(t)) }

// Find looks a word or phrase up.
func (l *Lexicon) Find(term []byte) (Term, bool) {
	mask := uint64(len(l.slots) - 1)
	for i := hash(term) & mask; ; i = (i + 1) & mask {
		slot := l.slots[i]
		if slot == 0 {
			return 0, false
		}
		begin := uint32(0)
		if slot > 1 {
			begin = l.ends[slot-2]
		}
		if string(l.text[begin:l.ends[slot-1]]) == string(term) {
			return Term(slot - 1), true
		}
	}
}

// PhraseLength is the number of words of the longest known phrase that starts with the term, 0 when there is none.
func (l *Lexicon) PhraseLength(t Term) int { return int(l.reach[t]) }

// Opaque reports whether the i-th word of a phrase means something else in it than by itself, as "dog" in "hot dog".
func (l *Lexicon) Opaque(phrase Term, i int) bool { return l.opaque[phrase]>>i&1 == 1 }

// Rarity is 0 for the commonest words and grows by 1 with each halving of frequency; words that were never seen in
// running text have [NeverSeen].
func (l *Lexicon) Rarity(t Term) float64 {
	if l.seen[t] == 255 {
		return NeverSeen
	}
	return float64(l.seen[t]) / 8
}

// NeverSeen is the rarity of words that were not met in the running text that was counted.
const NeverSeen = 22.0

// SenseCount is the number of meanings of a term.
func (l *Lexicon) SenseCount(t Term) int { return len(l.senses.row(uint32(t))) }

// Sense returns the i-th meaning of a term.
func (l *Lexicon) Sense(t Term, i int) Sense {
	at := l.senses.at[t] + uint32(i)
	return Sense{Synset(l.senses.to[at]), l.priors[at]}
}

// Members calls each with the terms of a meaning.
func (l *Lexicon) Members(s Synset, each func(Term)) {
	for _, t := range l.members.row(uint32(s)) {
		each(Term(t))
	}
}

// Kind is the part of speech of a meaning: one of n (noun), v (verb), a and s (adjective), r (adverb).
func (l *Lexicon) Kind(s Synset) byte { return l.kinds[s] }

// Children calls each with the meanings that are kinds of s.
func (l *Lexicon) Children(s Synset, each func(Synset)) {
	for _, c := range l.children.row(uint32(s)) {
		each(Synset(c))
	}
}

// Parents calls each with the meanings that s is a kind of.
func (l *Lexicon) Parents(s Synset, each func(Synset)) {
	for _, c := range l.parents.row(uint32(s)) {
		each(Synset(c))
	}
}

// Field calls each with the meanings that belong to the field s, as "foul" belongs to "sport".
func (l *Lexicon) Field(s Synset, each func(Synset)) {
	for _, c := range l.field.row(uint32(s)) {
		each(Synset(c))
	}
}

// DerivedCount is the number of terms that share a root with the term.
func (l *Lexicon) DerivedCount(t Term) int { return len(l.derived.row(uint32(t))) }

// Derived returns the i-th term that shares a root with the term.
func (l *Lexicon) Derived(t Term, i int) Link {
	at := l.derived.at[t] + uint32(i)
	return Link{Term(l.derived.to[at]), l.nearness[at]}
}

// ExplainsCount is the number of terms whose glosses speak of the term, as that of "casino" speaks of gambling.
func (l *Lexicon) ExplainsCount(t Term) int { return len(l.explains.row(uint32(t))) }

// Explains returns the i-th term whose gloss speaks of the term.
func (l *Lexicon) Explains(t Term, i int) Link {
	at := l.explains.at[t] + uint32(i)
	return Link{Term(l.explains.to[at]), l.closeness[at]}
}

// Dims is the number of dimensions of the vectors, at most 128 and a multiple of 8.
func (l *Lexicon) Dims() int { return l.dims }

// Vector returns the vector of a term and the factor that makes its length 1; nil when the term has none.
func (l *Lexicon) Vector(t Term) ([]int8, float32) {
	row := l.vector[t]
	if row == 0 {
		return nil, 0
	}
	at := int(row-1) * l.dims
	return l.vectors[at : at+l.dims : at+l.dims], l.scale[row-1]
}

// Signs returns the signs of the first 64 dimensions of a term's vector. Two vectors point the same way about as often
// as their signs agree, so that most words can be ruled out without multiplying.
func (l *Lexicon) Signs(t Term) uint64 {
	row := l.vector[t]
	if row == 0 {
		return 0
	}
	return l.signs[row-1]
}

// Spread is the standard deviation of the cosine between the unit vector v and the words of the lexicon, which is how a
// cosine is to be compared between a vague v (large) and a distinct one (small).
func (l *Lexicon) Spread(v []float32) float32 {
	var sum float32
	var turned [128]float32 // the product of the covariance and v
	if l.dims%kernel.Block == 0 {
		kernel.MulAdd(turned[:l.dims], v, l.spread)
	} else {
		for j, x := range v {
			for i, c := range l.spread[j*l.dims : (j+1)*l.dims] {
				turned[i] += float32(c * x)
			}
		}
	}
	for i, x := range v {
		sum += float32(turned[i] * x)
	}
	return float32(math.Sqrt(float64(max(sum, 1e-9))))
}

// prepare derives what is not stored: the hash table, the inverse relations and the figures about vectors.
func (l *Lexicon) prepare(synsets int) {
	size := 1 << bits.Len(uint(len(l.ends)*3/2))
	l.slots = make([]uint32, size)
	l.reach = make([]uint8, len(l.ends))
	begin := uint32(0)
	for t, end := range l.ends {
		term := l.text[begin:end]
		begin = end
		i := hash(term) & uint64(size-1)
		for l.slots[i] != 0 {
			i = (i + 1) & uint64(size-1)
		}
		l.slots[i] = uint32(t + 1)
	}
	begin = 0
	for _, end := range l.ends {
		term := l.text[begin:end]
		begin = end
		words, first := uint8(1), -1
		for i, c := range term {
			if c == ' ' {
				if first < 0 {
					first = i
				}
				words++
			}
		}
		if words == 1 || words > MaxPhrase {
			continue
		}
		if t, ok := l.Find(term[:first]); ok {
			l.reach[t] = max(l.reach[t], words)
		}
	}
	l.members = invert(&l.senses, synsets)
	l.children = invert(&l.parents, synsets)
	l.field = invert(&l.domains, synsets)
	l.measure()
}

// MaxPhrase is the largest number of words in a phrase that is looked for in a text.
const MaxPhrase = 4

// measure computes the scales, signs and covariance of the vectors.
func (l *Lexicon) measure() {
	if l.dims == 0 {
		return
	}
	rows := len(l.vectors) / l.dims
	l.scale, l.signs = make([]float32, rows), make([]uint64, rows)
	sums := make([]int64, l.dims*l.dims)
	for r := range rows {
		v := l.vectors[r*l.dims : (r+1)*l.dims]
		var square int32
		for i, x := range v {
			square += int32(x) * int32(x)
			if x > 0 && i < 64 {
				l.signs[r] |= 1 << i
			}
		}
		l.scale[r] = float32(1 / math.Sqrt(float64(max(square, 1))))
		// A sample is enough for the covariance and keeps loading short.
		if r%16 != 0 {
			continue
		}
		norm := 127 * 127 * float32(64) / float32(max(square, 1))
		for i, x := range v {
			f := int64(float32(x) * norm)
			to := sums[i*l.dims : (i+1)*l.dims]
			for j, y := range v {
				to[j] += f * int64(y)
			}
		}
	}
	l.spread = make([]float32, len(sums))
	for i, s := range sums {
		// Column by column, as Spread takes it.
		l.spread[i%l.dims*l.dims+i/l.dims] = float32(float64(s) / (127 * 127 * 64) / float64((rows+15)/16))
	}
}

// invert turns "i leads to j" into "j leads to i". The rows of the result are in ascending order.
func invert(r *relation, targets int) relation {
	at := make([]uint32, targets+1)
	for _, j := range r.to {
		at[j+1]++
	}
	for i := range targets {
		at[i+1] += at[i]
	}
	to := make([]uint32, len(r.to))
	next := append([]uint32(nil), at...)
	for i := range len(r.at) - 1 {
		for _, j := range r.row(uint32(i)) {
			to[next[j]] = uint32(i)
			next[j]++
		}
	}
	return relation{at, to}
}

// hash is FNV-1a with a final mix, so that the low bits are good enough for a table.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}
