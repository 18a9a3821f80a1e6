// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language_test

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

// TestIsOther guards against a text that is taken for one in another language on a suspicion.
func TestIsOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		tag         string
		probability float64
		expected    []string
		want        bool
	}{
		{"another", "de", 0.99, []string{"en", "fr"}, true},
		{"not surely", "de", 0.89, []string{"en"}, false},
		{"none expected", "de", 0.99, nil, false},
		{"not known", language.Undetermined, 0.99, []string{"en"}, false},
		{"no tag", "", 0.99, []string{"en"}, false},
		{"one of them", "fr", 0.99, []string{"en", "fr"}, false},
		{"with a region", "pt", 0.99, []string{"pt-BR"}, false},
		{"in another script", "hi-Latn", 0.99, []string{"HI"}, false},
		{"a close relative", "no", 0.99, []string{"da"}, false},
	} {
		if got := language.IsOther(c.tag, c.probability, c.expected); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

// TestCheckTag guards against tags that no language can have.
func TestCheckTag(t *testing.T) {
	t.Parallel()
	for tag, valid := range map[string]bool{
		"en": true, "pt-BR": true, "hi-Latn": true, "zh-Hant-TW": true,
		"": false, "e": false, "en_US": false, "english-": true, "-en": false, "en us": false, "deutschen": false,
	} {
		if err := language.CheckTag(tag); (err == nil) != valid {
			t.Errorf("%q: got %v", tag, err)
		}
	}
}
