// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// TestAnalyzeIsAsDescribed: every answer is one that the OpenAPI document describes, which call checks.
func TestAnalyzeIsAsDescribed(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "tier once 1 0", "moderation_api {\nscoring_path perspective\n}"))
	const text = `{"comment":{"text":"Hello there. You are a stupid idiot!"},`
	for _, row := range []struct {
		body   string
		status int
	}{
		{text + `"requestedAttributes":{"TOXICITY":{},"FLIRTATION":{},"INSULT":{"scoreThreshold":0.999999}},"spanAnnotations":true,"clientToken":"t"}`, 200},
		{text + `"requestedAttributes":{}}`, 400},
		{text + `"requestedAttributes":{"TOXICITY":{}},"languages":["tlh"]}`, 400},
		{`{`, 400},
	} {
		got := call(t, http.MethodPost, base+"/v1alpha1/comments:analyze", acmeKey, strings.NewReader(row.body), "Content-Type", "application/json")
		if got.status != row.status {
			t.Errorf("got %d %s, want %d", got.status, got.body, row.status)
		}
	}
	body := text + `"requestedAttributes":{"TOXICITY":{}}}`
	once := newKey(t, quota.Account{ID: "once", Tier: "once"})
	for _, status := range []int{200, 429} {
		got := call(t, http.MethodPost, base+"/v1alpha1/comments:analyze", once, strings.NewReader(body), "Content-Type", "application/json")
		if got.status != status {
			t.Errorf("got %d %s, want %d", got.status, got.body, status)
		}
	}
	if got := call(t, http.MethodPost, base+"/v1alpha1/comments:analyze", "", strings.NewReader(body)); got.status != http.StatusUnauthorized {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusUnauthorized)
	}
	if got := call(t, http.MethodPut, base+"/v1alpha1/comments:analyze", acmeKey, strings.NewReader(body)); got.status != http.StatusMethodNotAllowed {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusMethodNotAllowed)
	}
	for _, query := range []string{"", "?version=v1alpha1", "?version=v2"} {
		call(t, http.MethodGet, base+"/$discovery/rest"+query, "", nil)
	}
}

// TestDiscoveryBehindProxies: the address of the document is the one that the client used, as far as Caddy trusts
// what is said of it.
func TestDiscoveryBehindProxies(t *testing.T) {
	config := siteConfig(t.TempDir(), "", "handle_path /a/b/* {\nmoderation_api\n}\nhandle {\nmoderation_api {\nscoring_path perspective\n}\n}")
	trusting := strings.Replace(config, "persist_config off", "persist_config off\nservers {\ntrusted_proxies static private_ranges\n}", 1)
	forwarded := []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example.com"}
	rows := []struct {
		name, config, path string
		headers            []string
		want               string
	}{
		{"plain", config, "", nil, base + "/"},
		{"a scoring path", config, "/api/perspective", nil, base + "/api/perspective/"},
		{"a prefix that is cut off", config, "/a/b", nil, base + "/a/b/"},
		{"nobody is trusted", config, "", forwarded, base + "/"},
		{"a trusted proxy", trusting, "", forwarded, "https://api.example.com/"},
		{"a trusted proxy and a prefix", trusting, "/a/b", forwarded, "https://api.example.com/a/b/"},
	}
	load(t, config)
	running := config
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.config != running {
				reload(t, row.config)
				running = row.config
			}
			got := call(t, http.MethodGet, base+row.path+"/$discovery/rest?version=v1alpha1", "", nil, row.headers...)
			var document struct {
				RootURL string `json:"rootUrl"`
			}
			if err := json.Unmarshal(got.body, &document); err != nil || document.RootURL != row.want {
				t.Errorf("the address is %q (%v), want %q", document.RootURL, err, row.want)
			}
		})
	}
}
