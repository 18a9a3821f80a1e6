// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/offheap"
)

// Word is a word of a [Dictionary].
type Word struct {
	// Folded is the word as [Token.Folded] has it.
	Folded string
	// Cost is how rare the word is: eight times the negative binary logarithm of its share of running text, at most
	// 255. A word that is half as common costs 8 more.
	Cost uint8
}

// Dictionary holds the words that changed words are recovered as. It is immutable and safe for concurrent use. With
// 40,000 words it takes about a megabyte, with 10,000 a fifth of that.
//
// A word is looked up by its [Hash]. The words that a changed one may stand for are looked up by a second hash, which
// is a polynomial of the letters: the hash of a word with two letters swapped, one inserted or some left out follows
// from those of its prefixes in a few operations, so that many candidates can be tried.
type Dictionary struct {
	known      []uint16 // by Hash: tags of the words, 0 is free
	knownShift uint     // what a Hash is shifted by to get a place in known
	tags       []uint32 // by polynomial: tags of the words of ASCII letters, 0 is free
	costs      []uint8  // of the words in tags
	tagShift   uint     // what the hash of a polynomial is shifted by to get a place in tags

	filter      []uint64 // bits of the polynomials of these words, which rule out most candidates at once
	prefixes    []uint64 // the same for the prefixes of these words
	filterShift uint     // what the hash of a polynomial is shifted by to get its bit

	negators map[string]struct{} // nil for those of English

	letters []byte                 // the same words, by first letter, length and cost
	columns [26][maxWord + 2]int32 // where in letters the words with a first letter and a length begin
}

// maxWord is the maximum length in letters of a word that others are recovered as.
const maxWord = 20

// maxWords is the maximum number of words in a dictionary. Further words are left out.
const maxWords = 1 << 16

// NewDictionary makes a dictionary of words in any order. Of equal words the first counts, and only the first 65,536
// words do. negators are the folded words that negate those after them; without any, those of English do.
func NewDictionary(words []Word, negators ...string) *Dictionary {
	words = words[:min(len(words), maxWords)]
	places := placesFor(len(words))
	d := &Dictionary{known: make([]uint16, 1<<places), knownShift: 64 - places}
	if len(negators) > 0 {
		d.negators = make(map[string]struct{}, len(negators))
		for _, n := range negators {
			d.negators[n] = struct{}{}
		}
	}
	latin := make([]Word, 0, len(words))
	for _, w := range words {
		if w.Folded == "" || d.Knows(Hash([]byte(w.Folded))) {
			continue
		}
		d.addHash(Hash([]byte(w.Folded)))
		if len(w.Folded) <= maxWord && isLatin(w.Folded) {
			latin = append(latin, w)
		}
	}
	d.addLatin(latin)
	slices.SortStableFunc(latin, func(a, b Word) int {
		return cmp.Or(
			cmp.Compare(a.Folded[0], b.Folded[0]), cmp.Compare(len(a.Folded), len(b.Folded)),
			cmp.Compare(a.Cost, b.Cost), strings.Compare(a.Folded, b.Folded),
		)
	})
	size := wideWord // unmask reads beyond the last word
	for _, w := range latin {
		size += len(w.Folded)
	}
	d.letters = make([]byte, 0, size)
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
	d.letters = d.letters[:size]
	return d
}

// MoveTo moves the tables of a dictionary that is not in use yet.
func (d *Dictionary) MoveTo(a *offheap.Arena) {
	d.known, d.tags, d.costs = offheap.Move(a, d.known), offheap.Move(a, d.tags), offheap.Move(a, d.costs)
	d.filter, d.prefixes = offheap.Move(a, d.filter), offheap.Move(a, d.prefixes)
	d.letters = offheap.Move(a, d.letters)
}

// isLatin reports whether a word is nothing but lower-case ASCII letters.
func isLatin[T string | []byte](word T) bool {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return false
		}
	}
	return true
}

// Hash is the hash of a folded word in a dictionary and among the features of package model.
func Hash(folded []byte) uint64 { return SeededHash(0x009E3779B97F4A7C, folded) }

// SeededHash hashes a short byte string, eight bytes at a time. Other seeds give other hashes.
func SeededHash(seed uint64, b []byte) uint64 {
	h := Mix(seed, uint64(len(b)))
	for len(b) >= 8 {
		h = Mix(h, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	return Mix(h, tailOf(b)+1)
}

// Mix returns the hash h with v mixed in, by multiplication and xor-shift. All hashes of words and features are made of
// it. Two rounds spread every bit well enough.
func Mix(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// tailOf returns up to seven bytes as one number, the first the lowest. Loads that overlap need no loop, whose end no
// processor could predict.
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

// Knows reports whether a word with this [Hash] is in the dictionary. About one unknown word in 10,000 is taken for a
// known one, and is not recovered then.
func (d *Dictionary) Knows(hash uint64) bool {
	tag := uint16(hash>>16) | 1
	for at := hash >> d.knownShift; ; at++ {
		switch d.known[at&uint64(len(d.known)-1)] {
		case 0:
			return false
		case tag:
			return true
		}
	}
}

// isEnglish reports whether the dictionary is that of English: those of other languages have negators of their own.
func (d *Dictionary) isEnglish() bool { return d.negators == nil }

// addHash adds the Hash of a word.
func (d *Dictionary) addHash(hash uint64) {
	at := hash >> d.knownShift
	for d.known[at&uint64(len(d.known)-1)] != 0 {
		at++
	}
	d.known[at&uint64(len(d.known)-1)] = uint16(hash>>16) | 1
}

// base is the base of the polynomials, whose coefficients are the letters.
const base = 0x9E3779B97F4A7C15

// powers are the powers of base.
var powers = func() (p [maxWord + 2]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * base
	}
	return p
}()

// polynomial returns the polynomial of a word of any bytes.
func polynomial(word []byte) (h uint64) {
	for _, c := range word {
		h = h*base + coefficient(c)
	}
	return h
}

func coefficient(c byte) uint64 { return uint64(c) + 1 }

// placesFor returns the binary logarithm of the number of places for n words: few, for the sake of the processor's
// cache.
func placesFor(n int) uint { return uint(bits.Len(uint(n + n/2))) }

// filterBits is the number of bits in a filter for each word, about; a power of two is made of it.
const filterBits = 16

// spread makes a hash of a polynomial: all bits of it count.
func spread(poly uint64) uint64 {
	poly ^= poly >> 32
	return poly * 0xff51afd7ed558ccd
}

func (d *Dictionary) has(filter []uint64, hash uint64) bool {
	bit := hash >> d.filterShift
	return filter[bit/64]>>(bit%64)&1 != 0
}

func (d *Dictionary) put(filter []uint64, hash uint64) {
	bit := hash >> d.filterShift
	filter[bit/64] |= 1 << (bit % 64)
}

// addLatin adds all words of ASCII letters.
func (d *Dictionary) addLatin(words []Word) {
	places := placesFor(len(words))
	d.tags, d.costs, d.tagShift = make([]uint32, 1<<places), make([]uint8, 1<<places), 64-places
	filter := max(uint(bits.Len(uint(filterBits*len(words)))), 6)
	d.filter, d.prefixes, d.filterShift = make([]uint64, 1<<filter/64), make([]uint64, 1<<filter/64), 64-filter
	for _, w := range words {
		d.add(w)
	}
}

// add adds a word of ASCII letters and its prefixes.
func (d *Dictionary) add(w Word) {
	var poly uint64
	for i := range len(w.Folded) {
		poly = poly*base + coefficient(w.Folded[i])
		d.put(d.prefixes, spread(poly))
	}
	hash := spread(poly)
	d.put(d.filter, hash)
	at := hash >> d.tagShift & uint64(len(d.tags)-1)
	for d.tags[at] != 0 {
		at = (at + 1) & uint64(len(d.tags)-1)
	}
	d.tags[at], d.costs[at] = uint32(hash>>8)|1, w.Cost
}

// unknown is the cost of what is not a word.
const unknown = 1 << 20

// cost returns the cost of the word with a polynomial, or unknown.
func (d *Dictionary) cost(poly uint64) int {
	hash := spread(poly)
	if !d.has(d.filter, hash) {
		return unknown
	}
	tag := uint32(hash>>8) | 1
	for at := hash >> d.tagShift; ; at++ {
		at &= uint64(len(d.tags) - 1)
		switch d.tags[at] {
		case 0:
			return unknown
		case tag:
			return int(d.costs[at])
		}
	}
}

// isPrefix reports whether a word begins with the letters of a polynomial. It also says so of a few with which no word
// begins.
func (d *Dictionary) isPrefix(poly uint64) bool { return d.has(d.prefixes, spread(poly)) }

// unmask returns the commonest word that fits a pattern, in which each * stands for a letter, or nil. It counts
// comparisons down by the words that it looks at, and stops at 0.
func (d *Dictionary) unmask(pattern []byte, comparisons *int) []byte {
	n := len(pattern)
	if n < 3 || n > maxWord || pattern[0] < 'a' || pattern[0] > 'z' {
		return nil
	}
	column := &d.columns[pattern[0]-'a']
	// Eight letters are compared at once: those that count are ones in mask.
	var want, mask [wideWord]byte
	for i, c := range pattern {
		if c != '*' {
			want[i], mask[i] = c, 0xff
		}
	}
	word := func(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	want0, want1, want2 := word(want[:], 0), word(want[:], 1), word(want[:], 2)
	mask0, mask1, mask2 := word(mask[:], 0), word(mask[:], 1), word(mask[:], 2)
	for at := int(column[n]); at < int(column[n+1]) && *comparisons > 0; at += n {
		*comparisons--
		letters := d.letters[at : at+wideWord]
		if (word(letters, 0)^want0)&mask0|(word(letters, 1)^want1)&mask1|(word(letters, 2)^want2)&mask2 == 0 {
			return letters[:n:n]
		}
	}
	return nil
}

// wideWord is the number of bytes that are compared for a word of up to [maxWord] letters.
const wideWord = 24
