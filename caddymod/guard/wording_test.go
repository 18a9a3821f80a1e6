// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// TestWordings guards against a language that lacks a sentence, a sentence that no code says any more, and a language
// that is read and has no page.
func TestWordings(t *testing.T) {
	t.Parallel()
	said := []string{
		"Your message was not accepted", "Nothing was sent. Go back to change your message.",
		"Please go back and try again.", judged, unjudgedDetail,
		"The text is about something that is not allowed here.", "The text is in a language that is not expected here.",
		"The text holds words that are not allowed here.", "The answer is larger than what can be judged.",
		"The answer could not be judged now. Try again.",
	}
	for c := range engine.NumCategories {
		said = append(said, engine.Category(c).String())
	}
	for _, code := range []problem.Code{
		problem.BodyTooLarge, problem.TextTooLong, problem.IncompleteBody, problem.AmbiguousBody,
		problem.RequestTimeout, problem.NotJudged, problem.ResponseRejected,
		problem.UnsupportedMediaType, problem.UnsupportedEncoding,
	} {
		said = append(said, code.Title())
	}
	all := wordings().all
	if len(all) != len(model.Languages()) {
		t.Errorf("pages in %d languages, models of %d", len(all), len(model.Languages()))
	}
	for _, l := range all[1:] {
		for _, english := range said {
			own, ok := l.sentences[english]
			if !ok || strings.TrimSpace(own) == "" || strings.Contains(english, "{}") != strings.Contains(own, "{}") {
				t.Errorf("%s: %q is %q", l.Tag, english, own)
			}
		}
		if len(l.sentences) != len(said) {
			t.Errorf("%s: %d sentences, want %d", l.Tag, len(l.sentences), len(said))
		}
	}
}

// TestWordingFor guards against a page in a language that the visitor does not read.
func TestWordingFor(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"": "en", "de": "de", "de-AT,de;q=0.9,en;q=0.5": "de", "en-GB,de;q=0.1": "en", "fi": "en", "fi,es;q=0.3": "es",
		"*": "en", "pt-BR": "pt", "zh-TW": "zh", "zh-Hans-CN,zh;q=0.8": "zh", "xx;;q=": "en",
		"de;q=0": "en", strings.Repeat("de,", 1000): "en", "\x00\xff": "en",
	} {
		if got := wordingFor([]string{accept}).Tag; got != want {
			t.Errorf("%.60q: got %s, want %s", accept, got, want)
		}
	}
	if got := wordingFor(nil).Tag; got != "en" {
		t.Errorf("no field: got %s", got)
	}
	p := problem.New(problem.ContentRejected, judgedAs([]string{"hate", "violence"}))
	p.Categories = []string{"hate", "violence"}
	for tag, want := range map[string]string{"en": "The text was judged as hate and violence.", "de": "Hass, Gewalt"} {
		if got := wordingFor([]string{tag}).detail(p); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", tag, got, want)
		}
	}
}
