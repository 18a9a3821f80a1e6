// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// heard are the events that the module of this file heard.
var heard struct {
	sync.Mutex
	events []caddy.Event
}

// Listener is an event handler for tests.
type Listener struct{}

func (*Listener) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.moderation_test", New: func() caddy.Module { return new(Listener) }}
}

func (*Listener) Handle(_ context.Context, event caddy.Event) error {
	heard.Lock()
	defer heard.Unlock()
	heard.events = append(heard.events, event)
	return nil
}

func init() { caddy.RegisterModule(new(Listener)) }

const nasty = "I will find you and kill you, you worthless piece of shit."

// observed runs a configuration with everything on that can be seen from outside, and returns the file of its access
// log.
func observed(t *testing.T, site string) (accessLog string) {
	t.Helper()
	dir := t.TempDir()
	accessLog = filepath.Join(dir, "access.log")
	config := siteConfig(filepath.Join(dir, "data"), "", site+`
	log {
		output file `+accessLog+`
		format filter {
			wrap json
			request>uri query {
				replace key REDACTED
			}
			request>headers>X-Goog-Api-Key replace REDACTED
		}
	}`)
	var parsed map[string]any
	if err := json.Unmarshal(adapt(t, config), &parsed); err != nil {
		t.Fatal(err)
	}
	parsed["apps"].(map[string]any)["events"] = map[string]any{
		"subscriptions": []any{map[string]any{
			"events":   []string{"moderation_refused", "moderation_flagged"},
			"handlers": []any{map[string]any{"handler": "moderation_test"}},
		}},
	}
	changed, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	heard.events = nil
	if err := caddy.Load(changed, true); err != nil {
		t.Fatal(err)
	}
	replaced = true
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = caddy.Stop()
	})
	return accessLog
}

// TestNoSecretIsSeen asks in every way, and then looks for keys and content wherever the service can be seen from.
func TestNoSecretIsSeen(t *testing.T) {
	accessLog := observed(t, "moderation_api {\n scoring_path perspective\n }")
	t.Setenv("MODERATION_TEST_KEY", acmeKey)
	key := newKey(t, quota.Account{ID: "seen", Tier: "unlimited"})
	wrongKey := strings.Replace(acmeKey, "0123", "WRNG", 1)
	feedback := `{"comment":{"text":"` + nasty + `"},"attributeScores":{"TOXICITY":{"summaryScore":{"value":1}}}}`
	var replies []reply
	for _, k := range []string{key, acmeKey, smallKey, wrongKey} {
		replies = append(replies,
			moderate(t, k, `{"content":"`+nasty+`","themes":["secret theme"]}`),
			moderate(t, k, `{"content":"`+nasty+`","content":1}`),
			moderate(t, k, `{"themes":["secret theme"],"content":["`+nasty+`"]}`),
			moderate(t, k, nasty),
			call(t, http.MethodGet, base+"/v1/usage", k, nil),
			call(t, http.MethodGet, base+"/v1/usage?key="+k, "", nil),
		)
		for _, path := range []string{"/v1alpha1/comments:suggestscore", "/api/perspective/v1alpha1/comments:suggestscore"} {
			url := base + path
			replies = append(replies,
				call(t, http.MethodPost, url+"?key="+k, "", strings.NewReader(feedback), "Content-Type", "application/json"),
				call(t, http.MethodPost, url, "", strings.NewReader(feedback), "Content-Type", "application/json", "X-Goog-Api-Key", k),
				call(t, http.MethodPost, url+"?key="+wrongKey, k, strings.NewReader(feedback), "Content-Type", "application/json"),
			)
		}
	}
	seen := map[string]string{}
	for i, r := range replies {
		if r.status >= 400 {
			seen[fmt.Sprintf("answer %d", i)] = string(r.body) + fmt.Sprint(r.header)
		}
	}
	seen["metrics"] = string(call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil).body)
	seen["config"] = string(call(t, http.MethodGet, "http://"+adminAddr+"/config/", "", nil).body)
	heard.Lock()
	for i, event := range heard.events {
		seen[fmt.Sprintf("event %d", i)] = fmt.Sprint(event.Data)
	}
	heard.Unlock()
	log, err := os.ReadFile(accessLog)
	if err != nil {
		t.Fatal(err)
	}
	seen["access log"] = string(log)
	for place, text := range seen {
		for _, secret := range []string{key, acmeKey, smallKey, wrongKey, "worthless", "secret theme"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: got a text with %q, want none: %.500s", place, secret, text)
			}
		}
	}
	if len(seen["metrics"]) == 0 || len(seen["access log"]) == 0 || len(heard.events) == 0 {
		t.Error("a place was not looked at")
	}
}

// TestAccessLogTellsWhoAsked checks the fields that the service adds.
func TestAccessLogTellsWhoAsked(t *testing.T) {
	accessLog := observed(t, "moderation_api")
	got := moderate(t, acmeKey, `{"content":"`+nasty+`"}`)
	moderate(t, "", `{"content":"x"}`)
	log, err := os.ReadFile(accessLog)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	var first, second map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(lines[1]), &second); err != nil {
		t.Fatal(err)
	}
	if first["moderation_id"] != got.header.Get("X-Request-Id") || first["moderation_account"] != "acme" ||
		first["user_id"] != "acme" ||
		!strings.HasPrefix(first["moderation_key"].(string), "key_") || first["moderation_recommendation"] != "reject" {
		t.Errorf("the first line of the log: got %s, want acme, its key, and a rejection", lines[0])
	}
	if second["moderation_id"] == nil || second["moderation_account"] != nil || second["user_id"] != "" {
		t.Errorf("the second line of the log: got %s, want an id and no account", lines[1])
	}
}

// TestEventsTellOfRefusalsAndFlags checks the data of both events.
func TestEventsTellOfRefusalsAndFlags(t *testing.T) {
	observed(t, "moderation_api")
	moderate(t, "", `{"content":"x"}`)
	got := moderate(t, acmeKey, `{"content":"`+nasty+`"}`)
	moderate(t, acmeKey, `{"content":""}`)
	heard.Lock()
	defer heard.Unlock()
	if len(heard.events) != 2 {
		t.Fatalf("got %d events, want 2: %v", len(heard.events), heard.events)
	}
	refused, flagged := heard.events[0], heard.events[1]
	if refused.Name() != "moderation_refused" || refused.Data["reason"] != "missing_key" ||
		refused.Data["operation"] != "text" {
		t.Errorf("the first event: got %s %v, want moderation_refused for a missing key", refused.Name(), refused.Data)
	}
	if flagged.Name() != "moderation_flagged" || flagged.Data["id"] != got.header.Get("X-Request-Id") ||
		flagged.Data["account"] != "acme" ||
		flagged.Data["recommendation"] != "reject" || len(flagged.Data["categories"].([]string)) == 0 {
		t.Errorf("the second event: got %s %v, want moderation_flagged with the categories of acme's text",
			flagged.Name(), flagged.Data)
	}
}

// TestMetricsSurviveReload counts on after a configuration is replaced, and is registered once.
func TestMetricsSurviveReload(t *testing.T) {
	dir := t.TempDir()
	site := "moderation_api /a\n\tmoderation_api /b\n\tmoderation_key_auth /k\n\tmoderation_rate_limit /k"
	load(t, siteConfig(dir, "", site))
	count := func() (value float64) {
		t.Helper()
		const name = `caddy_moderation_requests_total{operation="text",outcome="ok"} `
		metrics := string(call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil).body)
		_, rest, ok := strings.Cut(metrics, name)
		if !ok {
			return 0
		}
		if _, err := fmt.Sscan(rest, &value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	before := count()
	ask := func(path string) {
		t.Helper()
		got := call(t, http.MethodPost, base+path+"/v1/moderate/text", acmeKey, strings.NewReader(`{"content":"x"}`), "Content-Type", "application/json")
		if got.status != http.StatusOK {
			t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusOK)
		}
	}
	ask("/a")
	ask("/b")
	reload(t, siteConfig(dir, "demo off", site))
	ask("/a")
	if after := count(); after != before+3 {
		t.Errorf("after 3 requests: got the count %v, want 3 more than %v", after, before)
	}
}

// TestMetricsOfLanguages guards against texts that no model reads and nobody hears of.
func TestMetricsOfLanguages(t *testing.T) {
	app := newBackend(t)
	load(t, siteConfig(t.TempDir(), "", "moderation_api\n\tmoderate /posts\n\t"+app.proxy()))
	count := func(tag string, supported bool) (value float64) {
		t.Helper()
		name := fmt.Sprintf("caddy_moderation_languages_total{language=%q,supported=\"%v\"} ", tag, supported)
		metrics := string(call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil).body)
		if _, rest, ok := strings.Cut(metrics, name); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				t.Fatal(err)
			}
		}
		return value
	}
	for _, test := range []struct {
		text, tag string
		supported bool
	}{
		{"Mañana vamos a la playa con los niños si hace buen tiempo", "es", true},
		{"Huomenna menemme lasten kanssa rannalle, jos on kaunis ilma.", "fi", false},
	} {
		before := count(test.tag, test.supported)
		call(t, http.MethodPost, base+"/v1/moderate/text", acmeKey, strings.NewReader(`{"content":"`+test.text+`"}`),
			"Content-Type", "application/json")
		call(t, http.MethodPost, base+"/posts", "", strings.NewReader(test.text), "Content-Type", "text/plain")
		if after := count(test.tag, test.supported); after != before+2 {
			t.Errorf("%s: got the count %v after a call and a post, want 2 more than %v", test.tag, after, before)
		}
	}
}

// Interface guard
var _ caddyevents.Handler = (*Listener)(nil)
