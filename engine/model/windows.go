// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import "math"

const (
	// windowTokens and windowStride cut a long text into overlapping windows: each is judged by itself and the worst
	// decides, so that one bad sentence in a long text is found and length alone never flags.
	windowTokens = 48
	windowStride = 16
	// damping keeps very short texts from being judged by one feature alone.
	damping = 40
)

// Window is a run of tokens, by the place of its features: those from First to End.
type Window struct {
	FirstToken, EndToken int
}

// Windows calls yield for each window of a text of so many tokens. A text that fits is one window.
func Windows(tokens int, yield func(Window) bool) {
	if tokens <= windowTokens+windowStride/2 {
		yield(Window{0, tokens})
		return
	}
	for first := 0; ; first += windowStride {
		if first+windowTokens >= tokens {
			yield(Window{tokens - windowTokens, tokens})
			return
		}
		if !yield(Window{first, first + windowTokens}) {
			return
		}
	}
}

// Norm is what the sum of the weights of so many features is divided by. The square root keeps short and long windows
// comparable: evidence adds up, but noise does not.
func Norm(features int) float64 { return math.Sqrt(float64(features) + damping) }
