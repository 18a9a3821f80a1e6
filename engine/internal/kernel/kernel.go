// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel holds the loops that take the time in reading and in learning to read.
//
// Each element of a result is built by multiplications and additions in one order, each rounded to float32 by itself,
// whatever the processor: the assembly and the plain Go give the same bits. The build tag purego leaves the assembly out.
package kernel

import (
	"math"
	"slices"
)

// Block is what the length of dst in [MulAdd] and of d in [Outer] must be a multiple of.
const Block = 32

// MulAdd adds the product of a row of numbers and a matrix to dst: dst[c] += x[j] * w[j*len(dst)+c] for all j, in their
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

// MulAddRows adds the product of two matrices to dst, each row as [MulAdd] does. The lengths of dst and x must be multiples
// of rows.
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

// Outer adds the product of a column x and a row d to a matrix: w[j*len(d)+c] += x[j] * d[c]. The length of w must be
// len(x)*len(d).
func Outer(w, x, d []float32) {
	check(len(d), len(x), len(w))
	if len(x) == 0 {
		return
	}
	for c := 0; c < len(d); c += Block {
		outer(w[c:], x, d[c:c+Block], len(d))
	}
}

// Gate adds gated values to what is there: out[c] = in[c] + value[c] * g, where g goes from 0 to 1 with gate[c], as a
// softsign does: (1 + gate[c] / (1 + |gate[c]|)) / 2. All must have the same length, a multiple of [Block].
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

// AddRows adds rows of a table of int8 to sums, which has [Block] elements, as has a row. Every row must be in the table.
func AddRows(sums *[Block]int32, table []int8, rows []uint16) {
	if len(rows) == 0 {
		return
	}
	if most := int(slices.Max(rows)); (most+1)*Block > len(table) {
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

func check(columns, rows, cells int) {
	if columns%Block != 0 || rows*columns != cells {
		panic("kernel: the sizes do not fit")
	}
}

func mulAddGo(dst, x, w []float32, stride int) {
	dst = dst[:Block]
	for j, v := range x {
		row := w[j*stride : j*stride+Block]
		for c := range dst {
			dst[c] += float32(v * row[c]) // the conversion forbids a fused multiply-add
		}
	}
}

// mulAddPairGo does two rows of dst and x, the rows of dst stride apart.
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
