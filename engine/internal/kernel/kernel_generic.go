// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 || purego

package kernel

func mulAdd(dst, x, w []float32, stride int) { mulAddGo(dst, x, w, stride) }

func mulAddPair(dst, x, w []float32, stride int) { mulAddPairGo(dst, x, w, stride) }

func outer(w, x, d []float32, stride int) { outerGo(w, x, d, stride) }

func gated(out, in, value, gate []float32) { gatedGo(out, in, value, gate) }

func addRows(sums *[Block]int32, table []int8, rows []uint16) { addRowsGo(sums, table, rows) }
