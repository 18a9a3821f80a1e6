// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/audit"
)

// adminCall asks the admin endpoint as the command does that a person of the operating system has called.
func adminCall(t testing.TB, method, path, body string, status int) reply {
	t.Helper()
	got := call(t, method, "http://"+adminAddr+path, "", strings.NewReader(body), "Content-Type", "application/json",
		"Moderation-Operator", "root")
	if got.status != status {
		t.Fatalf("%s %s: got %d %s, want %d", method, path, got.status, got.body, status)
	}
	return got
}

// auditEntries returns the whole log.
func auditEntries(t testing.TB) (entries []audit.Entry) {
	t.Helper()
	for line := range strings.Lines(string(adminCall(t, http.MethodGet, "/moderation/audit", "", http.StatusOK).body)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		entries = append(entries, e)
	}
	return entries
}

// TestAudit guards against something that is done and leaves no entry, by the desk or by a command, and against an
// entry that tells a secret.
func TestAudit(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock))
	secret := regexp.MustCompile(`mod_sk_[0-9A-Za-z]{32}`)
	idOf := regexp.MustCompile(`key_[0-9A-Za-z]{16}`)
	changeable := regexp.MustCompile(`keys/(key_[0-9A-Za-z]{16})/r`)
	var secrets []string
	key := func(got reply) string {
		t.Helper()
		secrets = append(secrets, secret.FindString(string(got.body)))
		return idOf.FindString(string(got.body))
	}
	post := func(user, path string, form url.Values, status int) reply {
		t.Helper()
		got := visit(t, user, path, form)
		if got.status != status {
			t.Fatalf("%s: got %d %s", path, got.status, got.body)
		}
		return got
	}
	// listed returns a key of the account acme that can be changed, other than the given one.
	listed := func(than string) string {
		t.Helper()
		page := visit(t, "carol", "/desk/accounts/acme/keys", nil)
		for _, match := range changeable.FindAllSubmatch(page.body, -1) {
			if id := string(match[1]); id != than {
				return id
			}
		}
		t.Fatal("got no key")
		return ""
	}
	// By the desk.
	post("alice", "/desk/accounts", url.Values{"id": {"fresh"}, "name": {"<b>Fresh"}, "tier": {"unlimited"}}, 303)
	post("alice", "/desk/accounts/fresh", url.Values{"status": {"paused"}}, 303)
	key(post("carol", "/desk/accounts/acme/keys", url.Values{"name": {"site"}, "environment": {"test"}}, 201))
	made := listed("")
	key(post("alice", "/desk/accounts/acme/keys/"+made+"/rotate", url.Values{"overlap": {"1h"}}, 201))
	next := listed(made)
	post("carol", "/desk/accounts/acme/keys/"+made+"/revoke", url.Values{}, 303)
	post("alice", "/desk/accounts/fresh/settings", url.Values{"anchor_day": {"9"}}, 303)
	post("alice", "/desk/accounts/fresh/delete", url.Values{"confirm": {"fresh"}}, 303)
	// What is refused leaves none.
	post("alice", "/desk/accounts/acme/settings", url.Values{"anchor_day": {"99"}}, 400)
	post("alice", "/desk/accounts/acme/delete", url.Values{"confirm": {"other"}}, 409)
	post("alice", "/desk/accounts", url.Values{"id": {"acme"}, "tier": {"unlimited"}}, 409)
	post("dan", "/desk/accounts/acme/keys", url.Values{"name": {"x"}}, 404)
	// By commands.
	adminCall(t, "POST", "/moderation/accounts", `{"id":"other","tier":"unlimited"}`, 201)
	adminCall(t, "PATCH", "/moderation/accounts/other", `{"name":"Other","anchor_day":7}`, 200)
	third := key(adminCall(t, "POST", "/moderation/keys", `{"account":"other","scopes":["review"]}`, 201))
	adminCall(t, "POST", "/moderation/keys/"+third+"/rotate", `{}`, 201)
	adminCall(t, "POST", "/moderation/keys/"+third+"/revoke", ``, 200)
	adminCall(t, "DELETE", "/moderation/accounts/other", ``, 204)
	adminCall(t, "POST", "/moderation/feedback/delete", `{"account":"acme"}`, 200)
	adminCall(t, "GET", "/moderation/backup", ``, 200)
	adminCall(t, "DELETE", "/moderation/accounts/none", ``, 404)

	want := []audit.Entry{
		{Actor: "alice", Via: audit.Desk, Operator: true, Action: "account.create", Account: "fresh"},
		{Actor: "alice", Via: audit.Desk, Operator: true, Action: "account.update", Account: "fresh"},
		{Actor: "carol", Via: audit.Desk, Action: "key.create", Account: "acme", Target: made},
		{Actor: "alice", Via: audit.Desk, Operator: true, Action: "key.rotate", Account: "acme", Target: made},
		{Actor: "carol", Via: audit.Desk, Action: "key.revoke", Account: "acme", Target: made},
		{Actor: "alice", Via: audit.Desk, Operator: true, Action: "account.update", Account: "fresh"},
		{Actor: "alice", Via: audit.Desk, Operator: true, Action: "account.delete", Account: "fresh"},
		{Action: "account.create", Account: "other"}, {Action: "account.update", Account: "other"},
		{Action: "key.create", Account: "other", Target: third}, {Action: "key.rotate", Account: "other", Target: third},
		{Action: "key.revoke", Account: "other", Target: third}, {Action: "account.delete", Account: "other"},
		{Action: "feedback.delete", Account: "acme"}, {Action: "backup"},
	}
	got := auditEntries(t)
	if len(got) != len(want) {
		t.Fatalf("got %d entries, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if w.Via == "" {
			w.Actor, w.Via, w.Operator = "root", audit.Admin, true
		}
		g := got[i]
		if g.Actor != w.Actor || g.Via != w.Via || g.Operator != w.Operator || g.Action != w.Action ||
			g.Account != w.Account || g.Target != w.Target {
			t.Errorf("entry %d: got %+v, want %+v", i+1, g, w)
		}
	}
	for i, details := range map[int]map[string]string{
		0: {"name": " -> <b>Fresh", "tier": " -> unlimited", "status": " -> active"}, 1: {"status": "active -> paused"},
		2: {"name": "site", "environment": "test"}, 3: {"new_key": next, "overlap": "1h0m0s"},
		5: {"anchor_day": "0 -> 9"}, 8: {"name": " -> Other", "anchor_day": "0 -> 7"}, 9: {"scopes": "review"},
	} {
		if len(got[i].Details) != len(details) {
			t.Errorf("entry %d: got the details %v, want %v", i+1, got[i].Details, details)
		}
		for name, value := range details {
			if got[i].Details[name] != value {
				t.Errorf("entry %d: got %s %q, want %q", i+1, name, got[i].Details[name], value)
			}
		}
	}
	// The pages.
	page := visit(t, "alice", "/desk/audit", nil)
	contains(t, "the log", page, "account.delete", "&lt;b&gt;Fresh", "active -&gt; paused", `<bdi>root</bdi>`)
	own := visit(t, "carol", "/desk/accounts/acme/audit", nil)
	contains(t, "the log of an account", own, "key.revoke", "<bdi>carol</bdi>", "<bdi>the operator</bdi>")
	lacks(t, "the log of an account", own, "alice", "root", "fresh", "account.delete")
	export := visit(t, "alice", "/desk/audit.jsonl", nil)
	if lines := strings.Count(string(export.body), "\n"); lines != len(want) ||
		export.header.Get("Content-Type") != "application/jsonl" {
		t.Errorf("the export: got %d lines of %s", lines, export.header.Get("Content-Type"))
	}
	for _, s := range secrets {
		for name, text := range map[string]reply{"page": page, "account": own, "export": export} {
			if s == "" || strings.Contains(string(text.body), s) {
				t.Errorf("%s: the key %q stands there", name, s)
			}
		}
	}
	for _, path := range []string{"/desk/audit", "/desk/audit.jsonl"} {
		if got := visit(t, "carol", path, nil); got.status != http.StatusForbidden {
			t.Errorf("a member at %s: got %d", path, got.status)
		}
	}
	filtered := visit(t, "alice", "/desk/audit?actor=carol&action=key", nil)
	contains(t, "filtered", filtered, "key.create", "key.revoke")
	lacks(t, "filtered", filtered, "key.rotate", "account.create")
	verified := adminCall(t, "GET", "/moderation/audit/verify", "", http.StatusOK)
	if !strings.Contains(string(verified.body), `"entries":15`) {
		t.Errorf("got %s, want 15 entries", verified.body)
	}
	adminCall(t, "GET", "/moderation/audit?since=yesterday", "", http.StatusBadRequest)
	adminCall(t, "GET", "/moderation/audit?account=..", "", http.StatusBadRequest)
}

// TestAuditPages guards against entries that are shown on two pages or on none.
func TestAuditPages(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock))
	const many = 120
	for n := range many {
		status := []string{"paused", "active"}[n%2]
		if n == 0 {
			adminCall(t, "POST", "/moderation/accounts", `{"id":"many","tier":"unlimited"}`, 201)
			continue
		}
		adminCall(t, "PATCH", "/moderation/accounts/many", `{"status":"`+status+`"}`, 200)
	}
	path, seen := "/desk/audit?account=many", 0
	for path != "" {
		got := visit(t, "alice", path, nil)
		seen += strings.Count(string(got.body), "<code>account.")
		next := regexp.MustCompile(`<a href="([^"]+)" rel="next">`).FindSubmatch(got.body)
		if path = ""; next != nil {
			path = strings.ReplaceAll(string(next[1]), "&amp;", "&")
		}
	}
	if seen != many {
		t.Errorf("got %d entries on all pages, want %d", seen, many)
	}
}

// TestAuditTellsWholeChanges guards against an entry that does not say to what something was changed, because it was
// cut where nobody notices.
func TestAuditTellsWholeChanges(t *testing.T) {
	stayPut(t)
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock))
	visit(t, "alice", "/desk/accounts", url.Values{"id": {"fresh"}, "tier": {"unlimited"}})
	var words []string
	for i := range 25 {
		words = append(words, strings.Repeat("ш", 97)+strconv.Itoa(100+i))
	}
	const languages = "en de fr es it pt nl pl ru ja zh ko ar he tr sv da fi cs hu"
	for _, form := range []url.Values{
		{"block": {strings.Join(words, "\n")}, "languages": {languages}, "other_language": {"review"}},
		{"block": {""}, "languages": {languages[:56]}, "other_language": {"reject"}},
	} {
		if got := visit(t, "alice", "/desk/accounts/fresh/words", form); got.status != http.StatusSeeOther {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	entries := auditEntries(t)
	last := entries[len(entries)-1].Details
	if !strings.HasSuffix(last["block"], words[19]+", and 5 more") {
		t.Errorf("got the words %s", last["block"])
	}
	if !strings.HasSuffix(last["overrides"], `"cs"],"other_language":"reject"}`) {
		t.Errorf("got the overrides %s", last["overrides"])
	}
}
