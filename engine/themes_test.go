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
