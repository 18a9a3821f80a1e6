// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn

import (
	"math"
	"math/bits"

	"github.com/caddy-moderation/caddy-moderation/engine/internal/kernel"
)

// table maps the high half of a known word's hash to the word's embedding.
//
// A server may hold the networks of many languages, so the table is small: the hashes are sorted, and their highest
// bits say between which of them to look. An index by open addressing took four times as much.
type table struct {
	hashes []uint32 // in ascending order, as the rows are
	starts []uint32 // by the highest bits of a hash: the first row with those, and the number of rows at the end
	shift  uint     // what a hash is shifted by to get its highest bits
	// The embeddings are in packed where their values are small enough, as those of most languages are, else in wide.
	wide   [][Channels]int8
	packed []packedVector
}

// packedVector is an embedding of three bits for each channel. Eight channels, the first in the lowest bits, take three
// bytes. A value is stored as what it is above -maxPacked.
type packedVector [Channels * 3 / 8]byte

// maxPacked is the largest absolute value in a packed embedding.
const maxPacked = 3

// fitsPacked reports whether embeddings, as bytes of int8, can be packed.
func fitsPacked(raw []byte) bool {
	for _, b := range raw {
		if v := int8(b); v < -maxPacked || v > maxPacked {
			return false
		}
	}
	return true
}

// setVectors sets the embeddings, one after the other, as bytes of int8.
func (t *table) setVectors(raw []byte) {
	if !fitsPacked(raw) {
		t.wide = make([][Channels]int8, len(raw)/Channels)
		for i := range t.wide {
			for c, b := range raw[i*Channels : (i+1)*Channels] {
				t.wide[i][c] = int8(b)
			}
		}
		return
	}
	t.packed = make([]packedVector, len(raw)/Channels)
	for i := range t.packed {
		p := &t.packed[i]
		for c, b := range raw[i*Channels : (i+1)*Channels] {
			group := uint32(b+maxPacked) << (c % 8 * 3)
			at := c / 8 * 3
			p[at], p[at+1], p[at+2] = p[at]|byte(group), p[at+1]|byte(group>>8), p[at+2]|byte(group>>16)
		}
	}
}

// eight returns the values of the channels from 8*group on, three bits each.
func (p *packedVector) eight(group int) uint32 {
	return uint32(p[3*group]) | uint32(p[3*group+1])<<8 | uint32(p[3*group+2])<<16
}

// embed sets out to the embedding in a row.
func (t *table) embed(out *[Channels]float32, row uint32, scale *[Channels]float32) {
	if t.packed == nil {
		for c, v := range &t.wide[row] {
			out[c] = float32(v) * scale[c]
		}
		return
	}
	p := &t.packed[row]
	for group := range Channels / 8 {
		values := p.eight(group)
		out, scale := (*[8]float32)(out[8*group:]), (*[8]float32)(scale[8*group:])
		for c := range out {
			out[c] = float32(int32(values>>(3*c)&7)-maxPacked) * scale[c]
		}
	}
}

// appendVector appends the embedding in a row as bytes of int8.
func (t *table) appendVector(out []byte, row int) []byte {
	if t.packed == nil {
		for _, v := range &t.wide[row] {
			out = append(out, byte(v))
		}
		return out
	}
	for c := range Channels {
		out = append(out, byte(t.packed[row].eight(c/8)>>(c%8*3)&7)-maxPacked)
	}
	return out
}

// short is the half of a hash that the table knows a word by.
func short(hash uint64) uint32 { return uint32(hash >> 32) }

// makeStarts makes starts of the hashes: two to four words for each element.
func (t *table) makeStarts() {
	high := bits.Len(uint(len(t.hashes) / 4))
	t.shift, t.starts = uint(32-high), make([]uint32, 1<<high+1)
	for _, h := range t.hashes {
		t.starts[h>>t.shift+1]++
	}
	for i := range t.starts[1:] {
		t.starts[i+1] += t.starts[i]
	}
}

// unknown is the row of a word that is not known. No table has so many rows.
const unknown = math.MaxUint32

// row returns the row of a word's embedding, or unknown.
func (t *table) row(hash uint32) uint32 {
	high := hash >> t.shift
	first, end := t.starts[high], t.starts[high+1]
	for i, h := range t.hashes[first:end] {
		if h == hash {
			return first + uint32(i)
		}
	}
	return unknown
}

// rows sets out to the rows of words, or unknown. All that they need is asked for first, so that it is on its way from
// memory at once, as the embeddings are on return.
func (t *table) rows(out []uint32, hashes []uint64) {
	for i, h := range hashes {
		out[i] = short(h) >> t.shift
	}
	kernel.Prefetch(t.starts, out)
	for i, high := range out {
		out[i] = t.starts[high]
	}
	kernel.Prefetch(t.hashes, out)
	for i, h := range hashes {
		out[i] = t.row(short(h))
	}
	if t.packed != nil {
		kernel.Prefetch(t.packed, out)
	} else {
		kernel.Prefetch(t.wide, out)
	}
}

// subwordRows are the embeddings of sub-words, in packed where their values are small enough, else in wide.
type subwordRows struct {
	wide   []int8
	packed []uint64 // of kernel.AddPackedRows
}

// makeSubwordRows makes rows of their values as bytes of int8.
func makeSubwordRows(raw []byte) (r subwordRows) {
	if !fitsPacked(raw) {
		r.wide = make([]int8, len(raw))
		for i, b := range raw {
			r.wide[i] = int8(b)
		}
		return r
	}
	r.packed = make([]uint64, len(raw)/16)
	for i, b := range raw {
		r.packed[i/16] |= uint64(b+kernel.PackedZero) << (i % 16 * 4)
	}
	return r
}

// count returns the number of rows.
func (r *subwordRows) count() int {
	if r.packed != nil {
		return len(r.packed) * 16 / Channels
	}
	return len(r.wide) / Channels
}

// add adds rows to sums.
func (r *subwordRows) add(sums *[Channels]int32, rows []uint16) {
	if r.packed != nil {
		kernel.AddPackedRows(sums, r.packed, rows)
	} else {
		kernel.AddRows(sums, r.wide, rows)
	}
}

// appendAll appends all rows as bytes of int8.
func (r *subwordRows) appendAll(out []byte) []byte {
	for _, v := range r.wide {
		out = append(out, byte(v))
	}
	for _, values := range r.packed {
		for i := range 16 {
			out = append(out, byte(values>>(4*i)&15)-kernel.PackedZero)
		}
	}
	return out
}
