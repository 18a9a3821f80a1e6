// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn_test

import (
	"slices"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
)

// Computing the layers near the gap alone must give the same bits as computing everything again, at both ends of the
// text too.
func TestOcclusionIsAsIfTheTokenWereNotThere(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(70)
	var s, other cnn.Scratch
	occlusion := m.Occlude(&s, tokens, hashes)
	for _, w := range []struct{ first, end int }{
		{0, 70}, {0, 2}, {0, 9}, {20, 21}, {20, 22}, {5, 50}, {30, 70}, {69, 70}, {3, 67}, {12, 12},
	} {
		got := occlusion.Logits(w.first, w.end)
		if want := min(w.end-w.first, cnn.MaxTokens); len(got) != want {
			t.Fatalf("window %v: %d rows of logits, want %d", w, len(got), want)
		}
		end := w.first + len(got)
		for k, logits := range got {
			at := w.first + k
			left := slices.Delete(slices.Clone(tokens), at, at+1)
			leftHashes := slices.Delete(slices.Clone(hashes), at, at+1)
			if want := *m.Logits(&other, left, leftHashes, w.first, end-1); logits != want {
				t.Fatalf("window %v without token %d: %v, want %v", w, at, logits, want)
			}
		}
	}
}

func BenchmarkOcclusion(b *testing.B) {
	m, tokens, hashes := sample(64)
	var s cnn.Scratch
	for b.Loop() {
		m.Occlude(&s, tokens, hashes).Logits(8, 56)
	}
}
