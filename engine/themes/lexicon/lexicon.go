// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package lexicon holds what the theme screener knows about English words: which words and phrases exist, what their
// meanings are, which meaning is a hyponym of which, which words derive from each other, how often words are used,
// and an embedding of each common word, which is close to those of words used in similar contexts.
//
// The facts come from the Open English WordNet. engine/train/cmd/lexicon computed the frequencies and embeddings. A
// lexicon is a set of flat sorted arrays of about 16 MB. It does not change after loading, so it is safe for
// concurrent use.
package lexicon

import (
	"math"
	"math/bits"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
)

// Term is the number of a word or phrase. Terms are numbered in byte order.
type Term uint32

// Synset is the number of a meaning that one or more terms share.
type Synset uint32

// Sense is a meaning of a term.
type Sense struct {
	Synset Synset
	// Prior is how close the meaning is to the usual use of the term, relative to its closest meaning, which has 255.
	Prior uint8
}

// Link is a term that is related to another one, as "pregnant" to "pregnancy".
type Link struct {
	Term Term
	// Weight is how close the two are in use, from 0 to 255.
	Weight uint8
}

// Lexicon holds the words and what is known about them. [Open] makes one. It is safe for concurrent use.
type Lexicon struct {
	text   []byte   // all terms one after another
	ends   []uint32 // where each term ends in text
	slots  []uint32 // hash table of terms: number + 1, 0 is free
	seen   []uint8  // 8 times the rarity of each term; 255 means never seen
	opaque []uint8  // a bit for each word of a phrase that means something else in it
	reach  []uint8  // number of words in the longest phrase that starts with the term

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
	explains  relation // term to the terms whose glosses mention it
	closeness []uint8  // beside explains.to

	dims    int
	vectors []int8
	vector  []uint32 // term to row of vectors + 1, 0 is none
	scale   []float32
	signs   []uint64
	// covariance is the dims x dims covariance of the unit vectors, column by column.
	covariance []float32
}

// relation is a sparse table: row i is to[at[i]:at[i+1]].
type relation struct{ at, to []uint32 }

func (r *relation) row(i uint32) []uint32 { return r.to[r.at[i]:r.at[i+1]] }

// Size returns the number of terms.
func (l *Lexicon) Size() int { return len(l.ends) }

// Synsets returns the number of meanings.
func (l *Lexicon) Synsets() int { return len(l.kinds) }

// Bytes returns the spelling of a term: lower case, words separated by one space. The caller must not change the bytes.
func (l *Lexicon) Bytes(t Term) []byte {
	begin := uint32(0)
	if t > 0 {
		begin = l.ends[t-1]
	}
	return l.text[begin:l.ends[t]:l.ends[t]]
}

// String returns the spelling of a term.
func (l *Lexicon) String(t Term) string { return string(l.Bytes(t)) }

// Find looks up a word or phrase, in the spelling of [Lexicon.Bytes].
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

// PhraseLength returns the number of words of the longest known phrase that starts with the term, or 0 if none does.
func (l *Lexicon) PhraseLength(t Term) int { return int(l.reach[t]) }

// Opaque reports whether the i-th word of a phrase means something else in it than by itself, as "dog" in "hot dog".
func (l *Lexicon) Opaque(phrase Term, i int) bool { return l.opaque[phrase]>>i&1 == 1 }

// Rarity returns the binary logarithm of how rare a term is: 1 more for each halving of its frequency in running text.
// Terms that never occurred there have [NeverSeen].
func (l *Lexicon) Rarity(t Term) float64 {
	if l.seen[t] == 255 {
		return NeverSeen
	}
	return float64(l.seen[t]) / 8
}

// NeverSeen is the rarity of words that did not occur in the running text that was counted.
const NeverSeen = 22.0

// SenseCount returns the number of meanings of a term.
func (l *Lexicon) SenseCount(t Term) int { return len(l.senses.row(uint32(t))) }

// Sense returns the i-th meaning of a term.
func (l *Lexicon) Sense(t Term, i int) Sense {
	at := l.senses.at[t] + uint32(i)
	return Sense{Synset(l.senses.to[at]), l.priors[at]}
}

// Members calls each with every term of a meaning.
func (l *Lexicon) Members(s Synset, each func(Term)) {
	for _, t := range l.members.row(uint32(s)) {
		each(Term(t))
	}
}

// Kind returns the part of speech of a meaning: n (noun), v (verb), a or s (adjective), r (adverb).
func (l *Lexicon) Kind(s Synset) byte { return l.kinds[s] }

// Children calls each with the direct hyponyms of a meaning.
func (l *Lexicon) Children(s Synset, each func(Synset)) {
	for _, c := range l.children.row(uint32(s)) {
		each(Synset(c))
	}
}

// Parents calls each with the direct hypernyms of a meaning.
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

// DerivedCount returns the number of terms that share a root with the term.
func (l *Lexicon) DerivedCount(t Term) int { return len(l.derived.row(uint32(t))) }

// Derived returns the i-th term that shares a root with the term.
func (l *Lexicon) Derived(t Term, i int) Link {
	at := l.derived.at[t] + uint32(i)
	return Link{Term(l.derived.to[at]), l.nearness[at]}
}

// ExplainsCount returns the number of terms whose glosses mention the term, as that of "casino" mentions gambling.
func (l *Lexicon) ExplainsCount(t Term) int { return len(l.explains.row(uint32(t))) }

// Explains returns the i-th term whose gloss mentions the term.
func (l *Lexicon) Explains(t Term, i int) Link {
	at := l.explains.at[t] + uint32(i)
	return Link{Term(l.explains.to[at]), l.closeness[at]}
}

// Dims returns the number of dimensions of the vectors, at most 128 and a multiple of 8.
func (l *Lexicon) Dims() int { return l.dims }

// Vector returns the vector of a term and the factor that scales its length to 1, or nil if the term has none.
func (l *Lexicon) Vector(t Term) ([]int8, float32) {
	row := l.vector[t]
	if row == 0 {
		return nil, 0
	}
	at := int(row-1) * l.dims
	return l.vectors[at : at+l.dims : at+l.dims], l.scale[row-1]
}

// Signs returns a bit for the sign of each of the first 64 dimensions of a term's vector. The closer two vectors are,
// the more of their signs agree, so most words can be ruled out without a multiplication.
func (l *Lexicon) Signs(t Term) uint64 {
	row := l.vector[t]
	if row == 0 {
		return 0
	}
	return l.signs[row-1]
}

// Spread returns the standard deviation of the cosines between the unit vector v and the words of the lexicon. It is
// large for a vague v and small for a distinct one; a cosine divided by it can be compared between both.
func (l *Lexicon) Spread(v []float32) float32 {
	var sum float32
	var product [128]float32 // of the covariance and v
	if l.dims%kernel.Block == 0 {
		kernel.MulAdd(product[:l.dims], v, l.covariance)
	} else {
		for j, x := range v {
			for i, c := range l.covariance[j*l.dims : (j+1)*l.dims] {
				product[i] += float32(c * x)
			}
		}
	}
	for i, x := range v {
		sum += float32(product[i] * x)
	}
	return float32(math.Sqrt(float64(max(sum, 1e-9))))
}

// prepare computes what a file does not store: the hash table, the inverse relations and the scales of the vectors.
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

// MaxPhrase is the maximum number of words in a phrase that is searched for in a text.
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
	l.covariance = make([]float32, len(sums))
	for i, s := range sums {
		l.covariance[i%l.dims*l.dims+i/l.dims] = float32(float64(s) / (127 * 127 * 64) / float64((rows+15)/16))
	}
}

// invert returns the inverse of a relation to the given number of targets. Its rows are in ascending order.
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
