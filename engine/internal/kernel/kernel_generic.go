// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package kernel

func mulAdd(dst, x, w []float32, stride int) { mulAddGo(dst, x, w, stride) }

func outer(w, x, d []float32, stride int) { outerGo(w, x, d, stride) }

func gated(out, in, value, gate []float32) { gatedGo(out, in, value, gate) }
