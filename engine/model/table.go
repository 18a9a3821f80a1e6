// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/bits"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
)

// slots is the number of rows in a bucket: their four tags fill one machine word and their weights one cache line.
const slots = 4

// table maps feature hashes to rows of int8 weights. The low bits of a hash choose the bucket; the high 16 bits, one of
// them always set, are the tag that tells the rows of a bucket apart. A feature that was never learned has the tag of
// one of a full bucket's four rows about once in 8,000 times, so unknown text adds next to nothing. The hash is public:
// colliding words can be found on purpose.
//
// A weight is stored as an unsigned byte, 128 being zero, as [kernel.PrefixSums] adds them up.
type table struct {
	tags []uint64 // one per bucket: four tags, 0 is an empty slot
	rows []uint64 // two per slot
	mask uint64
}

func newTable(buckets int) table {
	return table{tags: make([]uint64, buckets), rows: make([]uint64, buckets*slots*2), mask: uint64(buckets - 1)}
}

// tagOf returns the tag of a hash; it is never 0.
func tagOf(hash uint64) uint64 { return hash>>48 | 1<<15 }

// find returns the index in rows of a hash's row, or -1.
func (t *table) find(hash uint64) int {
	const low, high = 0x0001000100010001, 0x8000800080008000
	bucket := hash & t.mask
	// The 16 bits of the tag become zero. The lowest zero is found exactly.
	x := t.tags[bucket] ^ tagOf(hash)*low
	zero := (x - low) & ^x & high
	if zero == 0 {
		return -1
	}
	return int(bucket)*slots*2 + bits.TrailingZeros64(zero)>>4<<1
}

// insert adds a row and reports whether the bucket had room and no row with the same tag.
func (t *table) insert(hash uint64, weights [lanes]int8) bool {
	if t.find(hash) >= 0 {
		return false
	}
	bucket := hash & t.mask
	for slot := range slots {
		if t.tags[bucket]>>(16*slot)&0xffff != 0 {
			continue
		}
		t.tags[bucket] |= tagOf(hash) << (16 * slot)
		t.setRow(int(bucket)*slots+slot, weights)
		return true
	}
	return false
}

func (t *table) setRow(slot int, weights [lanes]int8) {
	for i, w := range weights {
		word, shift := slot*2+i/8, i%8*8
		t.rows[word] = t.rows[word]&^(0xff<<shift) | uint64(uint8(w)^0x80)<<shift
	}
}

// lookup returns the indexes in rows of the hashes that are in the table, in their order, using the memory of found. It
// replaces each element of ends, an index in hashes, by the matching index in the result, and overwrites hashes.
//
// Nearly all of the time is waiting for memory. So the rows are on their way on return, and the caller had better ask
// for the tags while it made the hashes, with [kernel.PrefetchMasked]. There is no branch on whether a hash is in the
// table, which no processor could predict.
func (t *table) lookup(found []uint32, hashes []uint64, ends []int32) []uint32 {
	const low, high = 0x0001000100010001, 0x8000800080008000
	if cap(found) < len(hashes)+1 {
		found = make([]uint32, len(hashes)*2+1)
	}
	found = found[:len(hashes)+1]
	n := 0
	for i, hash := range hashes {
		bucket := hash & t.mask
		x := t.tags[bucket] ^ tagOf(hash)*low
		zero := (x - low) & ^x & high
		found[n] = uint32(bucket)*slots*2 + uint32(bits.TrailingZeros64(zero))>>4<<1
		n += int((zero | -zero) >> 63)
		hashes[i] = uint64(n)
	}
	for i, end := range ends {
		if end > 0 {
			ends[i] = int32(hashes[end-1])
		}
	}
	kernel.Prefetch(t.rows, found[:n])
	return found[:n]
}
