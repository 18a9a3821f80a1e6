// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Disguised words are found by themes as they are by categories, and matches cover what was typed.
func TestThemesSeeThroughDisguises(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, c := range []struct{ theme, content, match string }{
		{"fireworks", "the fierworks tonight were loud", "fierworks"},
		{"fireworks", "f1r3works tonight", "f1r3works"},
		{"fireworks", "firew*rks tonight", "firew*rks"},
		{"snakes", "there is a snaake in the cellar", "snaake"},
		{"murder", "he was mruder victim number two", "mruder"},
		{"earthquake", "a huge e4rthquake just now", "e4rthquake"},
	} {
		t.Run(c.content, func(t *testing.T) {
			t.Parallel()
			got := moderate(t, e, engine.Request{Content: c.content, Themes: []string{c.theme}}).Themes[0]
			if !got.Flagged || len(got.Matches) == 0 {
				t.Fatalf("not flagged at %.3f, want it to be, with a match", got.Probability)
			}
			points := []rune(c.content)
			if m := got.Matches[0]; string(points[m.Begin:m.End]) != c.match {
				t.Errorf("match %q, want %q", string(points[m.Begin:m.End]), c.match)
			}
		})
	}
}

// TestThemesInOtherLanguages guards against themes that find English alone, in a text of a language that is read.
func TestThemesInOtherLanguages(t *testing.T) {
	t.Parallel()
	e := newEngine(t, engine.Options{})
	for _, c := range []struct {
		language, theme, content, match string
		hit                             bool
	}{
		{"es", "robo de bicicletas", "Anoche robaron tres bicicletas en el garaje de mi edificio", "bicicletas", true},
		{"es", "theft of bicycles", "Anoche un ladrón se llevó mi bicicleta del portal de casa", "bicicleta", true},
		{"es", "perros", "Mi vecina tiene dos perros que ladran toda la noche", "perros", true},
		{"es", "dogs", "Mi vecina tiene dos perros que ladran toda la noche", "perros", true},
		{"de", "dogs", "Unsere Nachbarn haben zwei Hunde, die nachts bellen", "Hunde", true},
		{"de", "Hochzeit", "Meine Schwester heiratet im Mai, die Braut trägt natürlich Weiß", "Braut", true},
		{"fr", "wedding", "Ma sœur a choisi sa robe de mariée, la cérémonie aura lieu à la mairie du village", "mariée", true},
		{"pt", "war", "Meu avô lutou na guerra e nunca quis falar sobre isso com a gente", "guerra", true},
		{"it", "rain", "Domani porta pioggia su tutta la regione, quindi niente mare", "pioggia", true},
		{"es", "dogs", "Mañana vamos a la playa con los niños si hace buen tiempo", "", false},
		{"de", "Hochzeit", "Morgen fahren wir mit den Kindern an den See, wenn das Wetter hält", "", false},
	} {
		t.Run(c.theme+"/"+c.content, func(t *testing.T) {
			t.Parallel()
			r := moderate(t, e, engine.Request{Content: c.content, Themes: []string{c.theme}})
			got := r.Themes[0]
			if r.Language.Tag != c.language || got.Theme != c.theme || got.Flagged != c.hit {
				t.Fatalf("language %s, theme %q, flagged = %v at %.3f, want %v",
					r.Language.Tag, got.Theme, got.Flagged, got.Probability, c.hit)
			}
			points, found := []rune(c.content), !c.hit
			for _, m := range got.Matches {
				found = found || string(points[m.Begin:m.End]) == c.match
			}
			if !found {
				t.Errorf("matches %v, want %q among them", got.Matches, c.match)
			}
		})
	}
}
