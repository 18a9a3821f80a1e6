// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes_test

import (
	"slices"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

// TestGlossaries guards against a damaged file, which is unpacked with the first theme for a text in another language,
// and against English themes that are taken for words of that language: "come" is "eats" in Spanish.
func TestGlossaries(t *testing.T) {
	t.Parallel()
	if got := themes.GlossaryLanguages(); !slices.Equal(got, []string{"de", "es", "fr", "it", "pt"}) {
		t.Fatalf("got glossaries of %q", got)
	}
	for _, test := range []struct{ language, theme, want string }{
		{"es", "perros", "dogs"},
		{"es", "Guerra", "war"},
		{"es", "come", ""},
		{"es", "dogs and cats", ""},
		{"es", "theft of bicycles", ""},
		{"de", "Hunde", "dogs"},
		{"fr", "chiens", "dogs"},
		{"pt", "guerra", "war"},
		{"it", "pioggia", "rain"},
		{"it", "qwertzuiop", ""},
		{"it", "", ""},
		{"it", "🎉", ""},
	} {
		if got := themes.GlossaryOf(test.language).Theme(test.theme); got != test.want {
			t.Errorf("%s, %q: got %q, want %q", test.language, test.theme, got, test.want)
		}
	}
	if themes.GlossaryOf("tlh") != nil {
		t.Error("Klingon: got a glossary")
	}
}
