// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var hasAVX2 = cpu.X86.HasAVX2

//go:noescape
func mulAddAVX2(dst, x, w *float32, n, stride int)

//go:noescape
func outerAVX2(w, x, d *float32, n, stride int)

func mulAdd(dst, x, w []float32, stride int) {
	if !hasAVX2 {
		mulAddGo(dst, x, w, stride)
		return
	}
	_ = w[(len(x)-1)*stride+Block-1]
	mulAddAVX2(&dst[0], &x[0], &w[0], len(x), 4*stride)
}

//go:noescape
func mulAddPairAVX2(dst, x, w *float32, n, stride int)

func mulAddPair(dst, x, w []float32, stride int) {
	if !hasAVX2 {
		mulAddPairGo(dst, x, w, stride)
		return
	}
	n := len(x) / 2
	_, _ = w[(n-1)*stride+Block-1], dst[stride+Block-1]
	mulAddPairAVX2(&dst[0], &x[0], &w[0], n, 4*stride)
}

func outer(w, x, d []float32, stride int) {
	if !hasAVX2 {
		outerGo(w, x, d, stride)
		return
	}
	_ = w[(len(x)-1)*stride+Block-1]
	outerAVX2(&w[0], &x[0], &d[0], len(x), 4*stride)
}

//go:noescape
func gatedAVX2(out, in, value, gate *float32, blocks int)

func gated(out, in, value, gate []float32) {
	if !hasAVX2 {
		gatedGo(out, in, value, gate)
		return
	}
	gatedAVX2(&out[0], &in[0], &value[0], &gate[0], len(out)/8)
}

//go:noescape
func addRowsAVX2(sums *int32, table *int8, rows *uint16, n int)

func addRows(sums *[Block]int32, table []int8, rows []uint16) {
	if !hasAVX2 {
		addRowsGo(sums, table, rows)
		return
	}
	addRowsAVX2(&sums[0], &table[0], &rows[0], len(rows))
}

//go:noescape
func addHashedAVX2(sums *uint16, table, hashes *uint64, n int, shift uint)

func addHashed(sums *[Wide]uint16, table, hashes []uint64, shift uint) {
	if !hasAVX2 {
		addHashedGo(sums, table, hashes, shift)
		return
	}
	addHashedAVX2(&sums[0], &table[0], &hashes[0], len(hashes), shift)
}

//go:noescape
func maxRowsAVX2(maxima, rows *float32, n int)

func maxRows(maxima *[Block]float32, rows []float32) {
	if !hasAVX2 {
		maxRowsGo(maxima, rows)
		return
	}
	maxRowsAVX2(&maxima[0], &rows[0], len(rows)/Block)
}

//go:noescape
func prefixSumsAVX2(sums *Sums, own *[Lanes]int16, table *uint64, found *uint32, ends *int32, n int)

func prefixSums(sums []Sums, own [][Lanes]int16, table []uint64, found []uint32, ends []int32) {
	if !hasAVX2 {
		prefixSumsGo(sums, own, table, found, ends)
		return
	}
	prefixSumsAVX2(&sums[0], &own[0], unsafe.SliceData(table), unsafe.SliceData(found), &ends[0], len(ends))
}

//go:noescape
func prefetch(table unsafe.Pointer, at *uint32, n, size int)

// Prefetch has the processor load the first bytes of elements of the table, which are at most a cache line large, while
// it does other work.
func Prefetch[T any](table []T, at []uint32) {
	var element T
	prefetch(unsafe.Pointer(unsafe.SliceData(table)), unsafe.SliceData(at), len(at), int(unsafe.Sizeof(element)))
}

//go:noescape
func prefetchMasked(table unsafe.Pointer, hashes *uint64, n, mask int)

// PrefetchMasked does so with the elements at hashes modulo the length of the table, a power of two.
func PrefetchMasked(table, hashes []uint64) {
	prefetchMasked(unsafe.Pointer(unsafe.SliceData(table)), unsafe.SliceData(hashes), len(hashes), len(table)-1)
}
