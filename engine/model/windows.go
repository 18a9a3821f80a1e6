// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

const (
	// A text is classified in overlapping windows of two sizes. The large ones catch what only the context tells; the
	// small ones, sentences and pairs of sentences, find one bad sentence among good ones.
	largeTokens, largeStride = 48, 16
	// A sentence of more than sentenceTokens is cut; the next part starts half-way back.
	sentenceTokens = 24
	// pairTokens is the maximum length of a pair of sentences.
	pairTokens = 40
	// damping keeps one feature alone from deciding about a very short text.
	damping = 40
)

// Window is the run of tokens from First to End, which is exclusive.
type Window struct {
	First, End int
}

// AppendLargeWindows appends the large windows of n tokens: 48 tokens every 16. A text of up to 56 tokens is one
// window.
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

// Norm is the divisor of a sum over that many features. The square root keeps short and long windows comparable: signal
// adds up, but noise does not.
func Norm(features int) float64 { return math.Sqrt(float64(features) + damping) }
