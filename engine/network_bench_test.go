// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// BenchmarkModerateNetwork moderates texts that the network classifies too. It classifies harsh ones only, so most
// texts cost less, as in BenchmarkModerate.
func BenchmarkModerateNetwork(b *testing.B) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	const harsh = "you are a complete idiot and everyone here is sick of you. "
	for _, t := range []struct{ name, content string }{
		{"a sentence", harsh},
		{"40 words", "the film was so bad that i wanted to kill the writer. " + harsh +
			"what a load of crap this town has become since those people moved in next door to us all."},
		{"a sentence in 2000", natural[:970] + harsh + natural[:970]},
		{"a long quarrel", strings.Repeat(
			harsh+natural[:200]+" i will hurt you, just wait, you stupid pig. "+natural[200:400], 5)},
	} {
		b.Run(t.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Moderate(b.Context(), engine.Request{Content: t.content}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
