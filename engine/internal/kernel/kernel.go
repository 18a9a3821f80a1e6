// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel holds the inner loops of the convolutional network and of its training.
//
// The multiplications and additions for an element of a result have one order, and each is rounded to float32 by
// itself, on every processor: the assembly and the plain Go give the same bits. The build tag purego leaves the
// assembly out.
package kernel

import (
	"math"
	"slices"
)

// Block is the number of columns that the loops do at once. Numbers of columns must be multiples of it; the functions
// of this package panic where sizes do not fit.
const Block = 32

// MulAdd adds the product of the row x and the matrix w to dst: dst[c] += x[j] * w[j*len(dst)+c] for all j, in their
// order. The length of w must be len(x)*len(dst).
func MulAdd(dst, x, w []float32) {
	check(len(dst), len(x), len(w))
	if len(x) == 0 {
		return
	}
	for c := 0; c < len(dst); c += Block {
		mulAdd(dst[c:c+Block], x, w[c:], len(dst))
	}
}

// MulAddRows adds the product of the matrices x and w to dst, each row as [MulAdd] does. The lengths of dst and x
// must be multiples of rows.
func MulAddRows(dst, x, w []float32, rows int) {
	if rows == 0 && len(dst) == 0 && len(x) == 0 {
		return
	}
	if rows <= 0 || len(dst)%rows != 0 || len(x)%rows != 0 {
		panic("kernel: the sizes do not fit")
	}
	columns, n := len(dst)/rows, len(x)/rows
	check(columns, n, len(w))
	if n == 0 {
		return
	}
	for ; rows >= 2; rows -= 2 {
		for c := 0; c < columns; c += Block {
			mulAddPair(dst[c:columns+c+Block], x[:2*n], w[c:], columns)
		}
		dst, x = dst[2*columns:], x[2*n:]
	}
	if rows == 1 {
		MulAdd(dst, x, w)
	}
}

// Outer adds the product of the column x and the row d to the matrix w: w[j*len(d)+c] += x[j] * d[c]. The length of w
// must be len(x)*len(d).
func Outer(w, x, d []float32) {
	check(len(d), len(x), len(w))
	if len(x) == 0 {
		return
	}
	for c := 0; c < len(d); c += Block {
		outer(w[c:], x, d[c:c+Block], len(d))
	}
}

// Gate adds gated values to in: out[c] = in[c] + value[c] * g, where g is a softsign of gate[c] from 0 to 1:
// (1 + gate[c] / (1 + |gate[c]|)) / 2. All slices must have the same length, a multiple of [Block].
func Gate(out, in, value, gate []float32) {
	n := len(out)
	if n%Block != 0 || len(in) != n || len(value) != n || len(gate) != n {
		panic("kernel: the sizes do not fit")
	}
	if n > 0 {
		gated(out, in, value, gate)
	}
}

func gatedGo(out, in, value, gate []float32) {
	for c, g := range gate {
		soft := g / (1 + math.Float32frombits(math.Float32bits(g)&^(1<<31)))
		out[c] = in[c] + float32(value[c]*float32(float32(soft*0.5)+0.5))
	}
}

// MaxRows sets each element of maxima to the largest of it and of the same element of all rows.
func MaxRows(maxima *[Block]float32, rows []float32) {
	if len(rows)%Block != 0 {
		panic("kernel: the sizes do not fit")
	}
	if len(rows) > 0 {
		maxRows(maxima, rows)
	}
}

func maxRowsGo(maxima *[Block]float32, rows []float32) {
	for ; len(rows) > 0; rows = rows[Block:] {
		for c, v := range rows[:Block] {
			if v > maxima[c] {
				maxima[c] = v
			}
		}
	}
}

// AddRows adds rows of a table to sums. A row has [Block] elements; every one of rows must be in the table.
func AddRows(sums *[Block]int32, table []int8, rows []uint16) {
	if len(rows) == 0 {
		return
	}
	if last := int(slices.Max(rows)); (last+1)*Block > len(table) {
		panic("kernel: the sizes do not fit")
	}
	addRows(sums, table, rows)
}

func addRowsGo(sums *[Block]int32, table []int8, rows []uint16) {
	for _, r := range rows {
		for c, v := range table[int(r)*Block : (int(r)+1)*Block] {
			sums[c] += int32(v)
		}
	}
}

// PackedZero is what stands for zero in a table of [AddPackedRows], whose values are from -PackedZero to PackedZero.
const PackedZero = 3

// AddPackedRows is [AddRows] for a table of four bits for each value. Two elements are a row of [Block] values, the
// first in the lowest bits. Each is stored as what it is above -PackedZero.
func AddPackedRows(sums *[Block]int32, table []uint64, rows []uint16) {
	const (
		low = 0x0f0f0f0f0f0f0f0f
		// So many values that are at most 2*PackedZero have a sum of eight bits.
		most = 255 / (2 * PackedZero)
	)
	for len(rows) > 0 {
		some := rows[:min(len(rows), most)]
		rows = rows[len(some):]
		var a, b, c, d uint64 // eight sums each, of the even and the odd values of both elements
		for _, r := range some {
			x, y := table[2*int(r)], table[2*int(r)+1]
			a += x & low
			b += x >> 4 & low
			c += y & low
			d += y >> 4 & low
		}
		zero := int32(len(some) * PackedZero)
		for i := range 8 {
			shift := 8 * i
			sums[2*i] += int32(a>>shift&0xff) - zero
			sums[2*i+1] += int32(b>>shift&0xff) - zero
			sums[16+2*i] += int32(c>>shift&0xff) - zero
			sums[17+2*i] += int32(d>>shift&0xff) - zero
		}
	}
}

// Wide is the number of bytes in a row of a table that [AddHashed] adds up, and maxHashed the number of such rows that
// sums of 16 bits have room for.
const (
	Wide      = 48
	maxHashed = 257
)

// AddHashed adds rows of bytes of a table to sums: those that the hashes, shifted right by so many bits, are the
// numbers of. The table has [Wide] bytes a row, the first in the lowest bits, and 1<<(64-shift) rows; shift is below
// 64. There are at most 256 hashes, so that sums that were zero do not overflow.
func AddHashed(sums *[Wide]uint16, table, hashes []uint64, shift uint) {
	if len(hashes) == 0 {
		return
	}
	if shift >= 64 || len(hashes) >= maxHashed || len(table)/(Wide/8) != 1<<(64-shift) {
		panic("kernel: the sizes do not fit")
	}
	addHashed(sums, table, hashes, shift)
}

func addHashedGo(sums *[Wide]uint16, table, hashes []uint64, shift uint) {
	var even, odd [Wide / 8]uint64
	for _, h := range hashes {
		at := int(h>>shift) * (Wide / 8)
		for k, row := range table[at : at+Wide/8] {
			even[k] += row & 0x00ff00ff00ff00ff
			odd[k] += row >> 8 & 0x00ff00ff00ff00ff
		}
	}
	for k := range even {
		for i := range 4 {
			sums[8*k+2*i] += uint16(even[k] >> (16 * i))
			sums[8*k+2*i+1] += uint16(odd[k] >> (16 * i))
		}
	}
}

// Lanes is the number of weights in a row of a table that [PrefixSums] adds up, and maxTokenRows how many of these rows
// the sums of 16 bits have room for.
const (
	Lanes        = 16
	maxTokenRows = 255
)

// Sums are sums of the rows of such a table.
type Sums [Lanes]int32

// PrefixSums sets each of sums but the first, which must be set, to the sum before it plus own, where there is one for
// each of ends, plus some rows of the table: those that found lists from the last end to this one, at most 255. A row
// is two elements of the table: 16 unsigned bytes, of which 128 stands for zero. found holds the index of its first
// element, and all of them must be in the table.
func PrefixSums(sums []Sums, own [][Lanes]int16, table []uint64, found []uint32, ends []int32) {
	last := int32(0)
	for _, end := range ends {
		if end < last || end > last+maxTokenRows {
			panic("kernel: the sizes do not fit")
		}
		last = end
	}
	if len(sums) != len(ends)+1 || len(own) < len(ends) || int(last) > len(found) {
		panic("kernel: the sizes do not fit")
	}
	if len(ends) > 0 {
		prefixSums(sums, own, table, found, ends)
	}
}

func prefixSumsGo(sums []Sums, own [][Lanes]int16, table []uint64, found []uint32, ends []int32) {
	const even = 0x00ff00ff00ff00ff
	from := int32(0)
	for k, end := range ends {
		var a, b, c, d uint64 // four sums each, of the even and the odd bytes of both elements
		for _, at := range found[from:end] {
			x, y := table[at], table[at+1]
			a += x & even
			b += x >> 8 & even
			c += y & even
			d += y >> 8 & even
		}
		zero := (end - from) * 128
		from = end
		last, next, own := &sums[k], &sums[k+1], &own[k]
		for i := range 4 {
			shift := 16 * i
			next[2*i] = last[2*i] + int32(own[2*i]) + int32(a>>shift&0xffff) - zero
			next[2*i+1] = last[2*i+1] + int32(own[2*i+1]) + int32(b>>shift&0xffff) - zero
			next[8+2*i] = last[8+2*i] + int32(own[8+2*i]) + int32(c>>shift&0xffff) - zero
			next[9+2*i] = last[9+2*i] + int32(own[9+2*i]) + int32(d>>shift&0xffff) - zero
		}
	}
}

func check(columns, rows, cells int) {
	if columns%Block != 0 || rows*columns != cells {
		panic("kernel: the sizes do not fit")
	}
}

// mulAddGo adds the product of x and the first Block columns of a matrix with rows of stride elements to dst.
func mulAddGo(dst, x, w []float32, stride int) {
	dst = dst[:Block]
	for j, v := range x {
		row := w[j*stride : j*stride+Block]
		for c := range dst {
			dst[c] += float32(v * row[c]) // the conversion forbids a fused multiply-add
		}
	}
}

// mulAddPairGo is mulAddGo for two rows of dst and x. The rows of dst are stride elements apart.
func mulAddPairGo(dst, x, w []float32, stride int) {
	n := len(x) / 2
	mulAddGo(dst, x[:n], w, stride)
	mulAddGo(dst[stride:], x[n:], w, stride)
}

func outerGo(w, x, d []float32, stride int) {
	d = d[:Block]
	for j, v := range x {
		row := w[j*stride : j*stride+Block]
		for c := range d {
			row[c] += float32(v * d[c])
		}
	}
}
