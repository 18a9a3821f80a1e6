// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// counts are the period and minute counts of an account.
func counts(t *testing.T, account string) quota.Counts {
	t.Helper()
	usage, err := services(t).Gate.Usage(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	return usage.Counts
}

// TestMiddlewareGuardsAnything puts key and rate checks in front of handlers that are not ours.
func TestMiddlewareGuardsAnything(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fails":
			w.WriteHeader(http.StatusBadGateway)
		case "/stream":
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
			}
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		case "/early":
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(w, "early")
		default:
			fmt.Fprint(w, "hello")
		}
	}))
	defer app.Close()
	load(t, siteConfig(t.TempDir(), "tier thousand 1000 0", `moderation_key_auth
	moderation_rate_limit
	respond /who "{http.auth.user.id} {http.moderation.tier}"
	error /error 418
	encode
	reverse_proxy `+app.URL))
	key := newKey(t, quota.Account{ID: "guarded", Tier: "thousand"})
	for i, test := range []struct {
		path   string
		status int
		counts bool
		body   string
	}{
		{"/hello", 200, true, "hello"},
		{"/stream", 200, true, "data: 0\n\ndata: 1\n\ndata: 2\n\n"},
		{"/nothing", 204, true, ""},
		{"/early", 200, true, "early"},
		{"/who", 200, true, "guarded thousand"},
		{"/fails", 502, false, ""},
		{"/error", 418, false, ""},
	} {
		before := counts(t, "guarded").Period
		got := call(t, http.MethodGet, base+test.path, key, nil)
		if got.status != test.status || string(got.body) != test.body {
			t.Errorf("%s: got %d %q, want %d %q", test.path, got.status, got.body, test.status, test.body)
		}
		after := counts(t, "guarded")
		if counted := after.Period - before; counted == 1 != test.counts || after.Minute < int64(i)-1 {
			t.Errorf("%s: got %d more in the period and %d in the minute, want it counted in the period: %v",
				test.path, counted, after.Minute, test.counts)
		}
		if !strings.HasPrefix(got.header.Get("RateLimit"), fmt.Sprintf(`"month";r=%d;t=`, 1000-after.Period)) {
			t.Errorf("%s: got the RateLimit %q, want the %d that are counted",
				test.path, got.header.Get("RateLimit"), after.Period)
		}
	}
	if got := call(t, http.MethodGet, base+"/hello", "", nil); got.status != http.StatusUnauthorized ||
		problemOf(t, got).Code != "missing_key" {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusUnauthorized)
	}
}

// TestNothingIsChargedTwice puts the middleware in front of handlers that could do without.
func TestNothingIsChargedTwice(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "tier thousand 1000 0", "moderation_key_auth\n\tmoderation_rate_limit\n\tmoderation_api"))
	key := newKey(t, quota.Account{ID: "once", Tier: "thousand"})
	for i := range int64(3) {
		if got := moderate(t, key, `{"content":"text"}`); got.status != http.StatusOK {
			t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusOK)
		}
		if c := counts(t, "once"); c.Period != i+1 {
			t.Errorf("after %d requests: got the count %d, want %d", i+1, c.Period, i+1)
		}
	}
	if got := moderate(t, key, `{"content":""}`); got.status != http.StatusBadRequest {
		t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusBadRequest)
	}
	if c := counts(t, "once"); c.Period != 3 {
		t.Errorf("an error is charged: %d", c.Period)
	}
	var u = usageOf(t, key)
	if u.CurrentPeriod.Made != 4 {
		t.Errorf("the usage: got %+v, want 4 requests", u)
	}
}

// TestStandaloneHandlers serves the operations at addresses of the operator's choice.
func TestStandaloneHandlers(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_text /check\n\tmoderation_usage /me"))
	got := call(t, http.MethodPost, base+"/check", acmeKey, strings.NewReader(`{"content":"x"}`), "Content-Type", "application/json")
	if got.status != http.StatusOK {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusOK)
	}
	got = call(t, http.MethodGet, base+"/me", acmeKey, nil)
	if got.status != http.StatusOK || !strings.Contains(string(got.body), `"requests_made":2`) {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusOK)
	}
}

// TestAuthenticationProvider uses keys with Caddy's own authentication handler, and the rate limit behind it.
func TestAuthenticationProvider(t *testing.T) {
	config := siteConfig(t.TempDir(), "tier two 2 0", `route {
		basic_auth {
			x $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
		}
		moderation_rate_limit
		respond "{http.auth.user.id} {http.auth.user.tier}"
	}`)
	// There is no directive for a provider of another module's: its place is taken in the JSON.
	adapted := adapt(t, config)
	var parsed any
	if err := json.Unmarshal(adapted, &parsed); err != nil {
		t.Fatal(err)
	}
	var swap func(any)
	swap = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if v["handler"] == "authentication" {
				v["providers"] = map[string]any{"moderation_key": map[string]any{}}
			}
			for _, inner := range v {
				swap(inner)
			}
		case []any:
			for _, inner := range v {
				swap(inner)
			}
		}
	}
	swap(parsed)
	changed, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	load(t, config)
	if err := caddy.Load(changed, true); err != nil {
		t.Fatal(err)
	}
	replaced = true
	client.CloseIdleConnections()
	key := newKey(t, quota.Account{ID: "provided", Tier: "two"})
	for i, want := range []int{200, 200, 402} {
		got := call(t, http.MethodGet, base+"/", key, nil)
		if got.status != want || want == 200 && string(got.body) != "provided two" {
			t.Errorf("request %d: %d %s", i, got.status, got.body)
		}
	}
	got := call(t, http.MethodGet, base+"/", "", nil)
	if got.status != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") != `Bearer realm="moderation"` {
		t.Errorf("without a key: got %d %v %s, want %d with a challenge",
			got.status, got.header, got.body, http.StatusUnauthorized)
	}
}

// TestAccountsHaveTheirOwnThresholds moderates the same text for two accounts.
func TestAccountsHaveTheirOwnThresholds(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	strict := map[string]float64{}
	for _, category := range []string{"hate", "harassment", "self-harm", "sexual", "violence"} {
		strict[category] = 1e-9
	}
	key := newKey(t, quota.Account{ID: "strict", Tier: "unlimited", Overrides: quota.Overrides{Thresholds: strict}})
	const body = `{"content":"The museum opens at nine on weekdays."}`
	flagged := func(got reply) bool {
		t.Helper()
		var result struct{ Result struct{ Flagged bool } }
		got.decodeJSON(t, &result)
		return result.Result.Flagged
	}
	if !flagged(moderate(t, key, body)) {
		t.Error("the account's thresholds do not count")
	}
	if flagged(moderate(t, acmeKey, body)) {
		t.Error("the account's thresholds count for another one")
	}
}
