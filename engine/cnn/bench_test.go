// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn_test

import (
	"fmt"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// BenchmarkLogits classifies a window in the middle of a text, half of whose words are known.
func BenchmarkLogits(b *testing.B) {
	for _, n := range []int{10, 40, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tokens := make([]text.Token, n+2*cnn.ReceptiveRadius)
			hashes := make([]uint64, len(tokens))
			var words []cnn.Word
			for i := range tokens {
				tokens[i] = text.Token{Folded: fmt.Appendf(nil, "word%d", i), Flags: text.Flags(i * 37 % 1024)}
				hashes[i] = text.Hash(tokens[i].Folded)
				if i%2 == 0 {
					w := cnn.Word{Hash: hashes[i]}
					copy(w.Vector[:], random(uint64(i), cnn.Channels, 1))
					words = append(words, w)
				}
			}
			m := cnn.New(cnn.NewDense(random(1, cnn.DenseSize, 0.1)), words, random(2, cnn.SubwordRows*cnn.Channels, 1), 127)
			var s cnn.Scratch
			b.ReportAllocs()
			for b.Loop() {
				m.Logits(&s, tokens, hashes, cnn.ReceptiveRadius, cnn.ReceptiveRadius+n)
			}
		})
	}
}
