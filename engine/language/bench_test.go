// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language_test

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

// BenchmarkDetect measures a guess. go test -bench Detect -benchmem ./engine/language
func BenchmarkDetect(b *testing.B) {
	d, err := language.Default()
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range []struct{ name, text string }{
		{"sentence of 40 letters", "The weather was much better than we had hoped."},
		{"Spanish", "El tiempo fue mucho mejor de lo que esperábamos."},
		{"Russian", "Погода была намного лучше, чем мы надеялись."},
		{"Chinese", "天气比我们希望的要好得多。"},
		{"Korean", "날씨는 우리가 바랐던 것보다 훨씬 좋았다."},
	} {
		b.Run(text.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d.Detect(text.text)
			}
		})
	}
}
