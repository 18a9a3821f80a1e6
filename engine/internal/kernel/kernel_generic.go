// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 || purego

package kernel

func mulAdd(dst, x, w []float32, stride int) { mulAddGo(dst, x, w, stride) }

func mulAddPair(dst, x, w []float32, stride int) { mulAddPairGo(dst, x, w, stride) }

func outer(w, x, d []float32, stride int) { outerGo(w, x, d, stride) }

func gated(out, in, value, gate []float32) { gatedGo(out, in, value, gate) }

func addRows(sums *[Block]int32, table []int8, rows []uint16) { addRowsGo(sums, table, rows) }

func addHashed(sums *[Wide]uint16, table, hashes []uint64, shift uint) {
	addHashedGo(sums, table, hashes, shift)
}

func maxRows(maxima *[Block]float32, rows []float32) { maxRowsGo(maxima, rows) }

func prefixSums(sums []Sums, own [][Lanes]int16, table []uint64, found []uint32, ends []int32) {
	prefixSumsGo(sums, own, table, found, ends)
}

// Prefetch does nothing.
func Prefetch[T any](_ []T, _ []uint32) {}

// PrefetchMasked does nothing.
func PrefetchMasked(_, _ []uint64) {}
