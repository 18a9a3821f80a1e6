// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import "math/bits"

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
