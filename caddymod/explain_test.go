// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// foreign is a classifier of another project that cannot explain itself.
type foreign struct{}

func (*foreign) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.classifiers.foreign", New: func() caddy.Module { return new(foreign) }}
}

func (*foreign) Classify(context.Context, string) (scores engine.Scores, _ error) {
	scores.Categories[engine.Hate] = 0.9
	return scores, nil
}

func (*foreign) Version() string { return "foreign-1" }

func (*foreign) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	return nil
}

// mute is a classifier that classifies, but cannot explain at the moment.
type mute struct{ foreign }

func (*mute) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.classifiers.mute", New: func() caddy.Module { return new(mute) }}
}

func (*mute) Explain(context.Context, string, [engine.NumCategories]bool) (engine.Explanation, error) {
	return engine.Explanation{}, errors.New("down")
}

func init() {
	caddy.RegisterModule(new(foreign))
	caddy.RegisterModule(new(mute))
}

// explained is what these tests read of an answer.
type explained struct {
	Result struct {
		Categories map[string]struct {
			Flagged     bool
			Probability float64
			Spans       []struct {
				Begin, End int
				Weight     float64
			}
			Passage *struct{ Begin, End int }
		}
	}
}

// withoutSpans returns an answer as an object without its spans and passages and what differs from request to request.
func withoutSpans(t testing.TB, got reply) map[string]any {
	t.Helper()
	var answer map[string]any
	got.decodeJSON(t, &answer)
	delete(answer, "id")
	delete(answer, "processed_at")
	for _, verdict := range answer["result"].(map[string]any)["categories"].(map[string]any) {
		delete(verdict.(map[string]any), "spans")
		delete(verdict.(map[string]any), "passage")
	}
	return answer
}

func TestExplain(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	const content = "😀 Café! You are a w\u200borthless b1tch, and i will k.i.l.l you."
	body := func(explain string) string {
		encoded, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		return `{"content":` + string(encoded) + `,"themes":["coffee"]` + explain + `}`
	}
	plain, off, on := moderate(t, acmeKey, body("")), moderate(t, acmeKey, body(`,"explain":false`)), moderate(t, acmeKey, body(`,"explain":true`))
	for name, got := range map[string]reply{"without explain": plain, "with explain false": off} {
		if got.status != http.StatusOK || strings.Contains(string(got.body), "spans") ||
			strings.Contains(string(got.body), "passage") {
			t.Errorf("%s: got %d %s, want %d without spans and passages", name, got.status, got.body, http.StatusOK)
		}
		if !reflect.DeepEqual(withoutSpans(t, got), withoutSpans(t, on)) {
			t.Errorf("%s: got %s\nwant what an explanation does not change: %s", name, got.body, on.body)
		}
	}
	var answer explained
	on.decodeJSON(t, &answer)
	points, named := []rune(content), map[string]bool{}
	for category, verdict := range answer.Result.Categories {
		if verdict.Spans == nil {
			t.Errorf("%s: got no spans, want some or an empty array: %s", category, on.body)
		}
		if explained := len(verdict.Spans) > 0; explained != (verdict.Flagged || verdict.Probability > 0.2) {
			t.Errorf("%s: got the spans %v for the probability %v, want some if it is flagged or above 0.2",
				category, verdict.Spans, verdict.Probability)
		}
		switch p := verdict.Passage; {
		case (p != nil) != (len(verdict.Spans) > 0):
			t.Errorf("%s: got the passage %v, want one where there are spans: %s", category, p, on.body)
		case p != nil && (p.Begin < 0 || p.End <= p.Begin || p.End > len(points)):
			t.Errorf("%s: got the passage %v, want one in the %d characters", category, *p, len(points))
		}
		for _, span := range verdict.Spans {
			for _, word := range []string{"w\u200borthless", "b1tch", "k.i.l.l"} {
				if strings.Contains(string(points[span.Begin:span.End]), word) {
					named[word] = true
				}
			}
		}
	}
	if len(named) == 0 {
		t.Errorf("no disguised word is named as it was typed: %s", on.body)
	}
}

func TestExplainWithAForeignClassifier(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "classifier foreign", "moderation_api"))
	var answer explained
	got := moderate(t, acmeKey, `{"content":"text","explain":true}`)
	got.decodeJSON(t, &answer)
	if hate := answer.Result.Categories["hate"]; got.status != http.StatusOK || !hate.Flagged || hate.Spans == nil ||
		len(hate.Spans) > 0 || hate.Passage != nil {
		t.Errorf("got %d %s, want %d without spans and passages", got.status, got.body, http.StatusOK)
	}
}

// Of a long text the answer names the sentence to read, in characters and not in bytes.
func TestPassageOfALongText(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	const insult = "You are a worthless pathetic idiot and everybody hates you."
	calm := strings.Repeat("Ça va 😀, the café by the canal opens at nine. We walked there and counted boats. ", 50)
	content := calm + insult + " " + calm
	body, err := json.Marshal(map[string]any{"content": content, "explain": true})
	if err != nil {
		t.Fatal(err)
	}
	got := moderate(t, acmeKey, string(body))
	var answer explained
	got.decodeJSON(t, &answer)
	verdict, begin := answer.Result.Categories["harassment"], len([]rune(calm))
	p := verdict.Passage
	if p == nil {
		t.Fatalf("got %d %s, want a passage", got.status, got.body)
	}
	if passage := string([]rune(content)[p.Begin:p.End]); p.End <= begin || p.Begin >= begin+len(insult) ||
		len(strings.Fields(passage)) > 50 {
		t.Errorf("got the passage %v, %q, want one that overlaps the insult at %d", *p, passage, begin)
	}
}

func TestExplainFails(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "classifier mute", "moderation_api"))
	if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != http.StatusOK {
		t.Errorf("without an explanation: %d %s", got.status, got.body)
	}
	got := moderate(t, acmeKey, `{"content":"text","explain":true}`)
	if p := problemOf(t, got); p.Code != string(problem.ClassifierUnavailable) {
		t.Errorf("with an explanation: %d %s", got.status, got.body)
	}
}
