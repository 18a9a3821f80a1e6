// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

const (
	// A text is judged in overlapping windows of two kinds. The large ones read what only the context tells; the small
	// ones, sentences and pairs of sentences, find one bad sentence among good ones.
	largeTokens, largeStride = 48, 16
	// A sentence without an end in sight is cut at sentenceTokens; the next starts half-way back.
	sentenceTokens = 24
	pairTokens     = 40
	// damping keeps very short texts from being judged by one feature alone.
	damping = 40
)

// Window is a run of tokens.
type Window struct {
	First, End int
}

// AppendLargeWindows appends the large windows of n tokens. A text that about fits is one window.
func AppendLargeWindows(out []Window, n int) []Window {
	if n <= largeTokens+largeStride/2 {
		return append(out, Window{0, n})
	}
	for first := 0; first+largeTokens < n; first += largeStride {
		out = append(out, Window{first, first + largeTokens})
	}
	return append(out, Window{n - largeTokens, n})
}

// appendSmallWindows appends the small windows of the tokens. A text of one sentence is one window.
func appendSmallWindows(out []Window, tokens []text.Token) []Window {
	last := Window{First: -1}
	for first := 0; first < len(tokens) || first == 0; {
		end := first
		for end < len(tokens) && end-first < sentenceTokens {
			end++
			if tokens[end-1].Flags&text.SentenceEnd != 0 {
				break
			}
		}
		sentence := Window{first, end}
		out = append(out, sentence)
		if last.First >= 0 && end-last.First <= pairTokens {
			out = append(out, Window{last.First, end})
		}
		if end >= len(tokens) {
			break
		}
		last, first = sentence, end
		if end-sentence.First == sentenceTokens && tokens[end-1].Flags&text.SentenceEnd == 0 {
			first -= sentenceTokens / 2
		}
	}
	return out
}

// Norm is what the sum of the weights of so many features is divided by. The square root keeps short and long windows
// comparable: evidence adds up, but noise does not.
func Norm(features int) float64 { return math.Sqrt(float64(features) + damping) }
