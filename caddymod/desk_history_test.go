// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

var spaces = regexp.MustCompile(`(<[^>]*>|\s)+`)

// plain returns the words of a page.
func plain(page reply) string { return spaces.ReplaceAllString(string(page.body), " ") }

// says reports what a page does not say.
func says(t testing.TB, what string, page reply, wanted ...string) {
	t.Helper()
	text := plain(page)
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%s: the page does not say %q: %d %s", what, want, page.status, text)
		}
	}
}

// TestDeskHistory guards against decisions that the history of an account does not show, against those of another
// account in it, and against a history that a restart loses.
func TestDeskHistory(t *testing.T) {
	dir := t.TempDir()
	config := siteConfig(dir, "demo off", "moderation_desk /desk"+deskBlock+"moderation_api\nmoderate /comments {\naccount acme\n}\nrespond ok\n")
	load(t, config)
	for _, content := range []string{"What a lovely day.", "I will kill you, you worthless piece of shit."} {
		if got := moderate(t, smallKey, `{"content": "`+content+`"}`); got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	if got := moderate(t, smallKey, `{"content": 1}`); got.status != http.StatusBadRequest && got.status != http.StatusUnprocessableEntity {
		t.Fatalf("a bad body: got %d %s", got.status, got.body)
	}
	if got := moderate(t, smallKey, `{"content": "One too many."}`); got.status != http.StatusTooManyRequests {
		t.Fatalf("a fourth call: got %d %s", got.status, got.body)
	}
	send(t, "text/plain", "A guarded and friendly post.")
	check := func(when string) {
		t.Helper()
		for _, days := range []string{"", "?days=90", "?days=364", "?days=x"} {
			page := visit(t, "dan", "/desk/accounts/small/history"+days, nil)
			says(t, when+" "+days, page, "Requests answered: 2, refused: 2", "approve 1 50.0%", "reject 1 50.0%",
				"rate_limit_exceeded 1 50.0%")
		}
		says(t, when+", the guard's account", visit(t, "carol", "/desk/accounts/acme/history", nil),
			"Requests answered: 1, refused: 0", "approve 1 100.0%", "No request was refused")
		says(t, when+", thresholds", visit(t, "dan", "/desk/accounts/small/thresholds", nil), "About 2 texts")
	}
	check("at once")
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	load(t, config)
	check("after a restart")
	reload(t, strings.Replace(config, "respond ok", "respond other", 1))
	check("after a reload")
}

// TestDeskThresholds guards against a page that changes a threshold before somebody asks for it, and against one that
// shows something else than what would happen.
func TestDeskThresholds(t *testing.T) {
	stayPut(t)
	dir := t.TempDir()
	load(t, siteConfig(dir, "demo off", "moderation_desk /desk"+deskBlock+"moderation_api"))
	visit(t, "alice", "/desk/accounts", url.Values{"id": {"beta"}, "tier": {"unlimited"}})
	key := regexp.MustCompile(`mod_sk_\w+`).FindString(string(visit(t, "alice", "/desk/accounts/beta/keys", url.Values{"name": {"k"}}).body))
	for _, content := range []string{"What a lovely day.", "I will kill you, you worthless piece of shit."} {
		if got := moderate(t, key, `{"content": "`+content+`"}`); got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	const path = "/desk/accounts/beta/thresholds"
	page := visit(t, "alice", path, nil)
	says(t, "nothing typed", page, "Harassment 1 50.0%", "reject 1 50.0%")
	lacks(t, "nothing typed", page, "With these thresholds", "from now on")
	high := url.Values{}
	for _, category := range []string{"hate", "harassment", "self-harm", "sexual", "violence"} {
		high.Set("threshold."+category, "0.9999999")
	}
	page = visit(t, "alice", path+"?"+high.Encode(), nil)
	says(t, "high thresholds", page, "Harassment 1 50.0% 0 0.0%", "reject 1 50.0% 0 0.0%", "Use these thresholds")
	says(t, "asked only", visit(t, "alice", path, nil), "reject 1 50.0%")
	bad := visit(t, "alice", path+"?threshold.hate=%22%3E2", nil)
	if bad.status != http.StatusBadRequest || strings.Count(string(bad.body), "aria-invalid") != 1 {
		t.Errorf("a bad threshold: got %d %s", bad.status, bad.body)
	}
	if got := visit(t, "alice", "/desk/accounts/beta/settings", high); got.status != http.StatusSeeOther {
		t.Fatalf("using them: got %d %s", got.status, got.body)
	}
	says(t, "used", visit(t, "alice", path, nil), "Harassment 0 0.0%", "reject 0 0.0%")

	// The account is deleted, and one with its name does not begin with its figures.
	visit(t, "alice", "/desk/accounts/beta/delete", url.Values{"confirm": {"beta"}})
	visit(t, "alice", "/desk/accounts", url.Values{"id": {"beta"}, "tier": {"unlimited"}})
	says(t, "another account", visit(t, "alice", "/desk/accounts/beta/history", nil), "Nothing was judged")
}

// TestDeskHistoryOfOtherInterfaces guards against a mistake of a client that looks like one of the service.
func TestDeskHistoryOfOtherInterfaces(t *testing.T) {
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock+"moderation_api"))
	for path, bodies := range map[string][]string{
		"/v1/moderations": {`{"input": ["What a lovely day.", "Thank you."]}`, `{"input": 7}`, `{`},
		"/v1alpha1/comments:analyze": {
			`{"comment": {"text": "Thank you."}, "requestedAttributes": {"TOXICITY": {}}}`,
			`{"comment": {"text": ""}, "requestedAttributes": {"TOXICITY": {}}}`,
		},
	} {
		for i, body := range bodies {
			got := call(t, http.MethodPost, base+path, acmeKey, strings.NewReader(body), "Content-Type", "application/json")
			if (i == 0) != (got.status == http.StatusOK) {
				t.Errorf("%s with %s: got %d %s", path, body, got.status, got.body)
			}
		}
	}
	page := visit(t, "carol", "/desk/accounts/acme/history", nil)
	says(t, "other interfaces", page, "Requests answered: 2, refused: 3", "approve 3 100.0%", "invalid_request 3 100.0%")
	lacks(t, "other interfaces", page, "internal_error")
}
