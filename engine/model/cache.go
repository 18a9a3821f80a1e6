// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import "math/bits"

// cache keeps what is known of recent words that are not in the [vocabulary]. It holds whole words, not hashes, so that
// no text can be built that changes what another gets.
type cache struct {
	entries []known
	unkept  known // for words that are too long to be kept
}

const (
	cacheWords  = 1024 // a power of two
	cacheLetter = 15   // longest word that is kept, in bytes
)

// known is what is known of a word.
type known struct {
	word   [cacheLetter]byte
	length uint8
	class  wordClass
	form   uint64 // of the class or else of the cluster when it has one, else its hash; 0 while nothing is known

	// features is the number of features of the word's letters and weights is their sum; 0 while they are not known.
	features int32
	weights  [Heads]int32
}

// is reports whether the entry is that of a word.
func (k *known) is(word []byte) bool {
	return int(k.length) == len(word) && string(k.word[:len(word)]) == string(word)
}

// entry returns the entry of a word with its hash: the one that holds it, or an empty one to fill in.
func (c *cache) entry(word []byte, hash uint64) *known {
	if len(word) > cacheLetter {
		c.unkept.form, c.unkept.features = 0, 0
		return &c.unkept
	}
	if c.entries == nil {
		c.entries = make([]known, cacheWords)
	}
	e := &c.entries[hash>>20%cacheWords]
	if e.is(word) {
		return e
	}
	e.length, e.form, e.features = uint8(len(word)), 0, 0
	copy(e.word[:], word)
	return e
}

// filter holds bits of hashes, to be rid of most that are not in a map at the cost of one look at memory.
type filter []uint64

// newFilter makes a filter of the keys of a map.
func newFilter(m map[uint64]uint16) filter {
	f := make(filter, 1<<bits.Len(uint(len(m)/4))) // sixteen bits or more for each
	for h := range m {
		f[h>>26%uint64(len(f))] |= 1 << (h >> 20 % 64)
	}
	return f
}

// lacks reports whether a hash is certainly not in the map. A filter that was not made lacks nothing.
func (f filter) lacks(h uint64) bool {
	return len(f) > 0 && f[h>>26%uint64(len(f))]>>(h>>20%64)&1 == 0
}
