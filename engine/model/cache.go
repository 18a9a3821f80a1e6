// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

// cache keeps the sums of the letters of recent words. Most words of a text are common ones, and their sub-words are
// most of the work. It holds whole words, not hashes, so that no text can be built that changes what another gets.
type cache struct {
	entries  [cacheWords]cached
	uncached cached // for words that are too long to be kept
}

const (
	cacheWords  = 2048 // a power of two
	cacheLetter = 15   // longest word that is kept, in bytes
)

// cached is a word with its sums. features is 0 while the sums are not known.
type cached struct {
	word     [cacheLetter]byte
	length   uint8
	features int32
	weights  [lanes]int32
}

// entry returns the entry of a word: the one that holds it, or one to fill in.
func (c *cache) entry(word []byte) *cached {
	if len(word) > cacheLetter {
		c.uncached.features = 0
		return &c.uncached
	}
	e := &c.entries[hashBytes(seedWord, word)%cacheWords]
	if int(e.length) == len(word) && string(e.word[:len(word)]) == string(word) {
		return e
	}
	e.length, e.features = uint8(len(word)), 0
	copy(e.word[:], word)
	return e
}
