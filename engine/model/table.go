// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
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
// A weight is stored as an unsigned byte, 128 being zero, as [kernel.PrefixSums] adds them up. The rows of a bucket are
// neighbours and in one line of the processor's cache or two. There are none for empty slots, a fifth of all, so that
// many languages fit in memory.
type table struct {
	tags []uint64 // one per bucket: four tags, those of empty slots are 0 and at the end
	rows []uint64 // two per filled slot
	// firsts tell the first row of each bucket. An element is for eight buckets: the first row of them all, and in the
	// low 40 bits five bits for each, which say how many rows later its own begin.
	firsts []uint64
	mask   uint64
}

const (
	bucketsPerFirst = 8
	firstBits       = 5
	allFirstBits    = bucketsPerFirst * firstBits
)

// row returns the number of a slot's row.
func (t *table) row(bucket uint64, slot int) uint32 {
	f := t.firsts[bucket/bucketsPerFirst]
	return uint32(f>>allFirstBits) + uint32(f>>(bucket%bucketsPerFirst*firstBits)&(1<<firstBits-1)) + uint32(slot)
}

// tagOf returns the tag of a hash; it is never 0.
func tagOf(hash uint64) uint64 { return hash>>48 | 1<<15 }

// find returns the slot of a hash in its bucket's tags, or -1.
func find(tags, hash uint64) int {
	const low, high = 0x0001000100010001, 0x8000800080008000
	// The 16 bits of the tag become zero. The lowest zero is found exactly.
	x := tags ^ tagOf(hash)*low
	zero := (x - low) & ^x & high
	if zero == 0 {
		return -1
	}
	return bits.TrailingZeros64(zero) >> 4
}

// tableBuilder is a table that is being made.
type tableBuilder struct {
	tags []uint64
	rows [][slots][Heads]int8
}

func newTableBuilder(buckets int) tableBuilder {
	return tableBuilder{tags: make([]uint64, buckets), rows: make([][slots][Heads]int8, buckets)}
}

// insert adds a row, unless its bucket has no room or has a row with the same tag.
func (t *tableBuilder) insert(hash uint64, weights [Heads]int8) {
	bucket := hash & uint64(len(t.tags)-1)
	if find(t.tags[bucket], hash) >= 0 {
		return
	}
	if slot := filledSlots(t.tags[bucket]); slot < slots {
		t.tags[bucket] |= tagOf(hash) << (16 * slot)
		t.rows[bucket][slot] = weights
	}
}

// filledSlots returns the number of filled slots of a bucket by its tags.
func filledSlots(tags uint64) int { return (bits.Len64(tags) + 15) / 16 }

// marshal encodes the table for compression: all tags, then the weights of the filled slots, head by head, as the bytes
// of a [table].
func (t *tableBuilder) marshal() []byte {
	body := make([]byte, 0, len(t.tags)*slots*(2+Heads))
	for _, tags := range t.tags {
		body = binary.LittleEndian.AppendUint64(body, tags)
	}
	for head := range Heads {
		for bucket, tags := range t.tags {
			for slot := range filledSlots(tags) {
				body = append(body, byte(t.rows[bucket][slot][head])^zeroWeight)
			}
		}
	}
	return body
}

// zeroWeight is the byte of the weight 0.
const zeroWeight = 0x80

// unmarshalTable decodes what marshal encoded. It is false where the body is of a wrong length, or has an empty slot
// before a filled one.
func unmarshalTable(body []byte, buckets int) (t table, ok bool) {
	if len(body) < buckets*8 {
		return t, false
	}
	t = table{
		tags: make([]uint64, buckets), firsts: make([]uint64, (buckets+bucketsPerFirst-1)/bucketsPerFirst),
		mask: uint64(buckets - 1),
	}
	filled := 0
	for bucket := range t.tags {
		tags := binary.LittleEndian.Uint64(body[bucket*8:])
		t.tags[bucket] = tags
		first := &t.firsts[bucket/bucketsPerFirst]
		if bucket%bucketsPerFirst == 0 {
			*first = uint64(filled) << allFirstBits
		}
		*first |= (uint64(filled) - *first>>allFirstBits) << (bucket % bucketsPerFirst * firstBits)
		for slot := range filledSlots(tags) {
			if tags>>(16*slot)&0xffff == 0 {
				return t, false
			}
			filled++
		}
	}
	body = body[buckets*8:]
	if len(body) != Heads*filled {
		return t, false
	}
	var none [2]uint64 // a row whose free lanes hold zero
	for lane := Heads; lane < lanes; lane++ {
		none[lane/8] |= zeroWeight << (lane % 8 * 8)
	}
	t.rows = make([]uint64, 0, 2*filled)
	for range filled {
		t.rows = append(t.rows, none[:]...)
	}
	for head := range Heads {
		word, shift := head/8, head%8*8
		for row, weight := range body[:filled] {
			t.rows[2*row+word] |= uint64(weight) << shift
		}
		body = body[filled:]
	}
	return t, true
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
		found[n] = t.row(bucket, bits.TrailingZeros64(zero)>>4) * 2
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
