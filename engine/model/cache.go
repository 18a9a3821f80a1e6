// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import "math/bits"

// cache holds entries of recent words that are not in the [vocabulary]. It compares whole words and not hashes, so that
// nobody can build a text that changes the probabilities of another.
type cache struct {
	entries  []wordEntry
	uncached wordEntry // for words that are too long
}

const (
	cacheSize     = 1024 // in words; a power of two
	maxCachedWord = 15   // in bytes
)

// wordEntry is what is computed once for a word.
type wordEntry struct {
	word   [maxCachedWord]byte
	length uint8
	class  wordClass
	form   uint64 // see word.form; 0 until it is looked up

	// features is the number of features of the word's letters and weights are their sums; features is 0 until they are
	// looked up.
	features int32
	weights  [Heads]int32
}

// is reports whether the entry is that of a word.
func (e *wordEntry) is(word []byte) bool {
	return int(e.length) == len(word) && string(e.word[:len(word)]) == string(word)
}

// entry returns the entry of a word with its hash. Where the word is not in the cache, the entry is empty and takes the
// place of another.
func (c *cache) entry(word []byte, hash uint64) *wordEntry {
	if len(word) > maxCachedWord {
		c.uncached.form, c.uncached.features = 0, 0
		return &c.uncached
	}
	if c.entries == nil {
		c.entries = make([]wordEntry, cacheSize)
	}
	e := &c.entries[hash>>20%cacheSize]
	if e.is(word) {
		return e
	}
	e.length, e.form, e.features = uint8(len(word)), 0, 0
	copy(e.word[:], word)
	return e
}

// filter holds bits of the hashes in a map. It rules out most hashes that are not in the map, at the cost of one access
// to memory.
type filter []uint64

// newFilter makes a filter of the keys of a map.
func newFilter(m map[uint64]uint16) filter {
	f := make(filter, 1<<bits.Len(uint(len(m)/4))) // sixteen bits or more for each key
	for h := range m {
		f[h>>26%uint64(len(f))] |= 1 << (h >> 20 % 64)
	}
	return f
}

// lacks reports whether a hash is certainly not in the map. A nil filter lacks nothing.
func (f filter) lacks(h uint64) bool {
	return len(f) > 0 && f[h>>26%uint64(len(f))]>>(h>>20%64)&1 == 0
}
