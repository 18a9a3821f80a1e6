// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn_test

import (
	"slices"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
)

// Reading again only what stands near the gap must give what reading everything again gives, at either end of the text too.
func TestGapsReadAsIfTheTokenWereNotThere(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(70)
	var s, other cnn.Scratch
	gaps := m.Occlude(&s, tokens, hashes)
	for _, w := range []struct{ first, end int }{{0, 70}, {0, 2}, {0, 9}, {20, 21}, {20, 22}, {5, 50}, {30, 70}, {69, 70}, {3, 67}, {12, 12}} {
		got := gaps.Logits(w.first, w.end)
		if want := min(w.end-w.first, cnn.MaxTokens); len(got) != want {
			t.Fatalf("window %v: %d readings, want %d", w, len(got), want)
		}
		end := w.first + len(got)
		for k, logits := range got {
			at := w.first + k
			left, leftHashes := slices.Delete(slices.Clone(tokens), at, at+1), slices.Delete(slices.Clone(hashes), at, at+1)
			if want := *m.Logits(&other, left, leftHashes, w.first, end-1); logits != want {
				t.Fatalf("window %v without token %d: %v, want %v", w, at, logits, want)
			}
		}
	}
}

func BenchmarkGaps(b *testing.B) {
	m, tokens, hashes := sample(64)
	var s cnn.Scratch
	for b.Loop() {
		m.Occlude(&s, tokens, hashes).Logits(8, 56)
	}
}
