// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// Word is a word of a [Dictionary].
type Word struct {
	// Folded is the word as [Token.Folded] has it.
	Folded string
	// Cost is how rare the word is: eight times the negative binary logarithm of its share of running text, so that a
	// word that is half as common costs 8 more; 255 at most.
	Cost uint8
}

// Dictionary holds the words that disguised ones are read as. It is immutable and safe for concurrent use. One
// of 40,000 words takes about a megabyte.
//
// Whether a word is known is a probe by its [Hash]. What a changed word reads as is looked up by a second hash, which is a
// polynomial of the letters: that of a word with two letters swapped, one put in or a piece cut out follows from those of
// its beginnings in a few operations, so that many readings can be tried.
type Dictionary struct {
	known  []uint16 // by Hash: marks of the words, 0 is free
	marks  []uint32 // by polynomial: marks of the words of ASCII letters, 0 is free
	costs  []uint8  // beside marks
	shift  uint     // what the hashes are shifted by
	filter []uint64 // bits of the polynomials of these words, to be rid of most readings at once
	starts []uint64 // the same of the beginnings of these words

	letters []byte                     // the same words, by first letter, length and cost
	columns [26][longestWord + 2]int32 // where in letters the words of a first letter and a length begin
}

// longestWord is the length in letters of the longest word that a disguise is read as.
const longestWord = 20

// mostWords bounds a dictionary; further words are left out.
const mostWords = 1 << 16

// NewDictionary makes a dictionary. The words may come in any order; of equal ones the first counts.
func NewDictionary(words []Word) *Dictionary {
	words = words[:min(len(words), mostWords)]
	places := uint(bits.Len(uint(len(words) + len(words)/2))) // tight, for the sake of the processor's cache
	d := &Dictionary{
		known: make([]uint16, 1<<places), marks: make([]uint32, 1<<places), costs: make([]uint8, 1<<places), shift: 64 - places,
		filter: make([]uint64, filterBits/64), starts: make([]uint64, filterBits/64),
	}
	var latin []Word
	for _, w := range words {
		if w.Folded == "" || d.Knows(Hash([]byte(w.Folded))) {
			continue
		}
		d.learn(Hash([]byte(w.Folded)))
		if len(w.Folded) <= longestWord && isLatin(w.Folded) {
			d.add(w)
			latin = append(latin, w)
		}
	}
	slices.SortStableFunc(latin, func(a, b Word) int {
		return cmp.Or(cmp.Compare(a.Folded[0], b.Folded[0]), cmp.Compare(len(a.Folded), len(b.Folded)), cmp.Compare(a.Cost, b.Cost), strings.Compare(a.Folded, b.Folded))
	})
	n := 0
	for first := range d.columns {
		for length := range d.columns[first] {
			d.columns[first][length] = int32(len(d.letters))
			for n < len(latin) && int(latin[n].Folded[0]-'a') == first && len(latin[n].Folded) == length {
				d.letters = append(d.letters, latin[n].Folded...)
				n++
			}
		}
	}
	return d
}

func isLatin(word string) bool {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return false
		}
	}
	return true
}

// Hash is the hash by which a dictionary and the features of the judge know a folded word. It takes eight bytes at a time.
func Hash(folded []byte) uint64 { return SeededHash(0x009E3779B97F4A7C, folded) }

// SeededHash hashes a short byte string. Other seeds give other hashes.
func SeededHash(seed uint64, b []byte) uint64 {
	h := mix(seed, uint64(len(b)))
	for len(b) >= 8 {
		h = mix(h, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	return mix(h, tailOf(b)+1)
}

// mix folds v into h. Multiply-and-xor-shift spreads every bit well enough for hashing.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// tailOf returns up to seven bytes as one number, the first the lowest. Reads that overlap need no loop, whose end nobody
// could predict.
func tailOf(b []byte) uint64 {
	n := uint(len(b))
	switch {
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<(8*(n-4))
	case n > 0:
		return uint64(b[0]) | uint64(b[n/2])<<(8*(n/2)) | uint64(b[n-1])<<(8*(n-1))
	}
	return 0
}

// Knows reports whether a word with the hash is in the dictionary. About one unknown word in 10,000 is taken
// for known, and so stays as it is.
func (d *Dictionary) Knows(hash uint64) bool {
	mark := uint16(hash>>16) | 1
	for at := hash >> d.shift; ; at++ {
		switch d.known[at&uint64(len(d.known)-1)] {
		case 0:
			return false
		case mark:
			return true
		}
	}
}

func (d *Dictionary) learn(hash uint64) {
	at := hash >> d.shift
	for d.known[at&uint64(len(d.known)-1)] != 0 {
		at++
	}
	d.known[at&uint64(len(d.known)-1)] = uint16(hash>>16) | 1
}

// base is that of the polynomials: letters are their coefficients.
const base = 0x9E3779B97F4A7C15

// powers are those of base.
var powers = func() (p [longestWord + 2]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * base
	}
	return p
}()

// polynomial returns the polynomial of a word, whose letters are anything.
func polynomial(word []byte) (h uint64) {
	for _, c := range word {
		h = h*base + coefficient(c)
	}
	return h
}

func coefficient(c byte) uint64 { return uint64(c) + 1 }

const filterBits = 1 << 20

// spread makes all bits of a polynomial count.
func spread(poly uint64) uint64 {
	poly ^= poly >> 32
	return poly * 0xff51afd7ed558ccd
}

func has(filter []uint64, hash uint64) bool {
	bit := hash >> (64 - 20)
	return filter[bit/64%(filterBits/64)]>>(bit%64)&1 != 0
}

func put(filter []uint64, hash uint64) {
	bit := hash >> (64 - 20)
	filter[bit/64] |= 1 << (bit % 64)
}

// add adds a word of ASCII letters.
func (d *Dictionary) add(w Word) {
	var poly uint64
	for i := range len(w.Folded) {
		poly = poly*base + coefficient(w.Folded[i])
		put(d.starts, spread(poly))
	}
	hash := spread(poly)
	put(d.filter, hash)
	at := hash >> d.shift & uint64(len(d.marks)-1)
	for d.marks[at] != 0 {
		at = (at + 1) & uint64(len(d.marks)-1)
	}
	d.marks[at], d.costs[at] = uint32(hash>>8)|1, w.Cost
}

// unknown is the cost of what is no word.
const unknown = 1 << 20

// cost returns what the word of a polynomial costs, or unknown.
func (d *Dictionary) cost(poly uint64) int {
	hash := spread(poly)
	if !has(d.filter, hash) {
		return unknown
	}
	mark := uint32(hash>>8) | 1
	for at := hash >> d.shift; ; at++ {
		at &= uint64(len(d.marks) - 1)
		switch d.marks[at] {
		case 0:
			return unknown
		case mark:
			return int(d.costs[at])
		}
	}
}

// begins reports whether words begin with the letters of a polynomial.
func (d *Dictionary) begins(poly uint64) bool { return has(d.starts, spread(poly)) }

// unmask returns the commonest word that fits a pattern, in which each * stands for a letter, or nil. It takes the number of
// words that it looks at from looks and stops when there are none left.
func (d *Dictionary) unmask(pattern []byte, looks *int) []byte {
	n := len(pattern)
	if n < 3 || n > longestWord || pattern[0] < 'a' || pattern[0] > 'z' {
		return nil
	}
	column := &d.columns[pattern[0]-'a']
	words := d.letters[column[n]:column[n+1]]
	for ; len(words) > 0 && *looks > 0; words = words[n:] {
		*looks--
		if fits(pattern, words[:n]) {
			return words[:n:n]
		}
	}
	return nil
}
