// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"math/bits"
	"slices"
)

// Clusters maps words, by [WordHash], to the numbers of clusters of words that are used alike. It is immutable. A map
// would take more than twice its memory.
type Clusters struct {
	hashes  []uint64 // in ascending order
	numbers []uint16 // of their clusters
	starts  []uint32 // by the highest bits of a hash: the first place in hashes with those, and the length at the end
	shift   uint     // what a hash is shifted by to get its highest bits
	filter  filter
}

// NewClusters makes Clusters of a map.
func NewClusters(numbers map[uint64]uint16) Clusters {
	hashes := slices.Sorted(maps.Keys(numbers))
	ordered := make([]uint16, len(hashes))
	for i, h := range hashes {
		ordered[i] = numbers[h]
	}
	return makeClusters(hashes, ordered)
}

// makeClusters makes Clusters of hashes in ascending order and the numbers of their clusters. It keeps both slices.
func makeClusters(hashes []uint64, numbers []uint16) Clusters {
	high := bits.Len(uint(len(hashes) / 4)) // two to four hashes for each start
	c := Clusters{
		hashes: hashes, numbers: numbers, filter: newFilter(hashes),
		starts: make([]uint32, 1<<high+1), shift: uint(64 - high),
	}
	for _, h := range hashes {
		c.starts[h>>c.shift+1]++
	}
	for i := range c.starts[1:] {
		c.starts[i+1] += c.starts[i]
	}
	return c
}

// find returns the number of the cluster of a word, or false for a word without one.
func (c *Clusters) find(hash uint64) (uint16, bool) {
	if len(c.hashes) == 0 {
		return 0, false
	}
	high := hash >> c.shift
	for at := c.starts[high]; at < c.starts[high+1]; at++ {
		if c.hashes[at] == hash {
			return c.numbers[at], true
		}
	}
	return 0, false
}

// filter holds bits of hashes. It rules out most hashes that are not among them, at the cost of one access to memory.
type filter []uint64

// newFilter makes a filter of hashes.
func newFilter(hashes []uint64) filter {
	f := make(filter, 1<<bits.Len(uint(len(hashes)/4))) // sixteen bits or more for each hash
	for _, h := range hashes {
		f[h>>26%uint64(len(f))] |= 1 << (h >> 20 % 64)
	}
	return f
}

// lacks reports whether a hash is certainly not among those of the filter. A nil filter lacks nothing.
func (f filter) lacks(h uint64) bool {
	return len(f) > 0 && f[h>>26%uint64(len(f))]>>(h>>20%64)&1 == 0
}
