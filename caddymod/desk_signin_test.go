// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// signInConfig is a configuration whose desk takes links.
func signInConfig(t testing.TB) string {
	return guardConfig(t, "moderation_desk /desk {\n	tokens\n}\nrespond next")
}

// linkFor makes a link and returns its token.
func linkFor(t testing.TB, body string) string {
	t.Helper()
	var made struct{ Token string }
	if err := json.Unmarshal(adminCall(t, http.MethodPost, "/moderation/desk/links", body, http.StatusCreated).body, &made); err != nil {
		t.Fatal(err)
	}
	return made.Token
}

// signInWith uses a token, and returns the cookie as a browser sends it, empty if there is none.
func signInWith(t testing.TB, token string) (cookie string, got reply) {
	t.Helper()
	got = visit(t, "", "/desk/sign-in", url.Values{"token": {token}})
	cookie, _, _ = strings.Cut(got.header.Get("Set-Cookie"), ";")
	return cookie, got
}

// TestDeskSignIn guards against a link that works twice, a session that goes on after its end, and roles that a link
// does not give.
func TestDeskSignIn(t *testing.T) {
	stayPut(t)
	config := signInConfig(t)
	load(t, config)
	// Nobody gets more than the page on which to sign in.
	for _, path := range []string{"/desk/", "/desk/accounts/acme", "/desk/accounts", "/desk/no-such"} {
		got := visit(t, "", path, nil)
		if got.status != http.StatusForbidden || !strings.Contains(string(got.body), `action="/desk/sign-in"`) {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	if got := visit(t, "", "/desk/sign-in", nil); got.status != http.StatusOK {
		t.Errorf("the page to sign in: got %d", got.status)
	}
	token := linkFor(t, `{"user":"carol","accounts":["acme"]}`)
	for name, wrong := range map[string]string{"none": "", "other": strings.Repeat("A", 43), "long": strings.Repeat("x", 5000)} {
		if cookie, got := signInWith(t, wrong); cookie != "" || got.status != http.StatusForbidden {
			t.Errorf("%s: got %d %q", name, got.status, cookie)
		}
	}
	// A form of another site begins no session.
	crossing := call(t, http.MethodPost, base+"/desk/sign-in", "", strings.NewReader("token="+token),
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site")
	if crossing.status != http.StatusForbidden || crossing.header.Get("Set-Cookie") != "" {
		t.Errorf("from another site: got %d", crossing.status)
	}
	// Two use one link at the same time.
	var cookies [8]string
	var began atomic.Int64
	var group sync.WaitGroup
	for n := range cookies {
		group.Go(func() {
			if cookie, _ := signInWith(t, base+"/desk/sign-in#"+token); cookie != "" {
				began.Add(1)
				cookies[n] = cookie
			}
		})
	}
	group.Wait()
	if began.Load() != 1 {
		t.Fatalf("got %d sessions of one link", began.Load())
	}
	carol := strings.Join(cookies[:], "")
	if strings.Contains(carol, token) {
		t.Error("the cookie has the token of the link")
	}
	for path, want := range map[string]int{
		"/desk/accounts/acme": 200, "/desk/accounts/acme/keys": 200, "/desk/accounts/small": 404, "/desk/accounts": 403,
		"/desk/audit": 403, "/desk/review": 403, "/desk/": 303,
	} {
		if got := visit(t, "", path, nil, "Cookie", carol); got.status != want {
			t.Errorf("carol at %s: got %d, want %d", path, got.status, want)
		}
	}
	contains(t, "who is signed in", visit(t, "", "/desk/accounts/acme", nil, "Cookie", carol), "<bdi>carol</bdi>",
		`action="/desk/sign-out"`)
	// Two cookies, as of a desk above this one.
	if got := visit(t, "", "/desk/accounts/acme", nil, "Cookie", "moderation_desk=x; "+carol); got.status != 200 {
		t.Errorf("with another cookie: got %d", got.status)
	}
	// A reload keeps the session, and so do roles by placeholders beside it.
	reload(t, strings.Replace(config, "tokens", "tokens\n"+"reviewer {http.request.header.X-User} carol", 1))
	if got := visit(t, "", "/desk/accounts/acme", nil, "Cookie", carol); got.status != 200 {
		t.Errorf("after a reload: got %d", got.status)
	}
	alice, _ := signInWith(t, linkFor(t, `{"user":"alice","operator":true}`))
	if got := visit(t, "", "/desk/accounts", nil, "Cookie", alice); got.status != 200 {
		t.Errorf("alice: got %d", got.status)
	}
	sessions := string(adminCall(t, http.MethodGet, "/moderation/desk/sessions", "", 200).body)
	for _, secret := range []string{token, strings.TrimPrefix(carol, "moderation_desk="), strings.TrimPrefix(alice, "moderation_desk=")} {
		if strings.Contains(sessions, secret) || !strings.Contains(sessions, `"carol"`) {
			t.Errorf("got the sessions %s", sessions)
		}
	}
	// Signing out, and being signed out.
	out := visit(t, "", "/desk/sign-out", url.Values{}, "Cookie", carol)
	if out.status != http.StatusSeeOther || !strings.Contains(out.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("signing out: got %d %s", out.status, out.header.Get("Set-Cookie"))
	}
	adminCall(t, http.MethodPost, "/moderation/desk/sign-out", `{"user":"alice"}`, 200)
	for name, cookie := range map[string]string{"carol": carol, "alice": alice} {
		if got := visit(t, "", "/desk/accounts/acme", nil, "Cookie", cookie); got.status != http.StatusForbidden {
			t.Errorf("%s after the end: got %d", name, got.status)
		}
	}
	over := visit(t, "", "/desk/accounts/acme/keys", url.Values{"name": {"late"}}, "Cookie", carol)
	if over.status != http.StatusForbidden {
		t.Errorf("a form after the end: got %d", over.status)
	}
	contains(t, "a form after the end", over, "You are signed out", `href="/desk/sign-in"`)
	lacks(t, "a form after the end", over, "http.auth.user.id")
	var actions []string
	for _, e := range auditEntries(t) {
		actions = append(actions, e.Action+" "+e.Actor)
	}
	want := "session.link root, session.begin carol, session.link root, session.begin alice, session.end carol, session.revoke root"
	if got := strings.Join(actions, ", "); got != want {
		t.Errorf("got the audit log %s, want %s", got, want)
	}
}

// TestDeskSignInOfDeletedAccount guards against members of a deleted account who are members of the next one with its
// id, by a session or by a link that nobody has used yet.
func TestDeskSignInOfDeletedAccount(t *testing.T) {
	stayPut(t)
	load(t, signInConfig(t))
	operator, _ := signInWith(t, linkFor(t, `{"user":"alice","operator":true}`))
	create := func() {
		t.Helper()
		got := visit(t, "", "/desk/accounts", url.Values{"id": {"reused"}, "tier": {"free"}}, "Cookie", operator)
		if got.status != http.StatusSeeOther {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	for name, remove := range map[string]func() reply{
		"the desk": func() reply {
			return visit(t, "", "/desk/accounts/reused/delete", url.Values{"confirm": {"reused"}}, "Cookie", operator)
		},
		"the command": func() reply {
			return adminCall(t, http.MethodDelete, "/moderation/accounts/reused", "", http.StatusNoContent)
		},
	} {
		create()
		member, _ := signInWith(t, linkFor(t, `{"user":"carol","accounts":["reused"]}`))
		both, _ := signInWith(t, linkFor(t, `{"user":"eve","accounts":["reused","acme"]}`))
		link := linkFor(t, `{"user":"dan","accounts":["reused"]}`)
		remove()
		create()
		for path, want := range map[string]int{"/desk/accounts/reused": 404, "/desk/accounts/acme": 200} {
			if got := visit(t, "", path, nil, "Cookie", both); got.status != want {
				t.Errorf("%s: a member of another account at %s: got %d, want %d", name, path, got.status, want)
			}
		}
		if got := visit(t, "", "/desk/accounts/reused", nil, "Cookie", member); got.status != http.StatusForbidden {
			t.Errorf("%s: a session: got %d, want 403", name, got.status)
		}
		if cookie, got := signInWith(t, link); cookie != "" || got.status != http.StatusForbidden {
			t.Errorf("%s: a link: got %d", name, got.status)
		}
		remove()
	}
	// An account of the configuration stays, and so do its members.
	member, _ := signInWith(t, linkFor(t, `{"user":"carol","accounts":["acme"]}`))
	form := url.Values{"confirm": {"acme"}}
	if got := visit(t, "", "/desk/accounts/acme/delete", form, "Cookie", operator); got.status != http.StatusConflict {
		t.Errorf("a declared account: got %d", got.status)
	}
	if got := visit(t, "", "/desk/accounts/acme", nil, "Cookie", member); got.status != http.StatusOK {
		t.Errorf("a member of a declared account: got %d", got.status)
	}
}

// TestDeskCookie guards against a session that a script, another site, another path or a plain connection can read.
func TestDeskCookie(t *testing.T) {
	stayPut(t)
	load(t, signInConfig(t))
	_, got := signInWith(t, linkFor(t, `{"user":"carol","reviewer":true}`))
	if set := got.header.Get("Set-Cookie"); !strings.HasSuffix(set, "; Path=/desk/; Max-Age=43200; HttpOnly; SameSite=Lax") {
		t.Errorf("got %s", set)
	}
	if got.header.Get("Location") != "/desk/" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v", got.header)
	}
}

// TestDeskLinks guards against links that nobody could use, or for persons without a role.
func TestDeskLinks(t *testing.T) {
	stayPut(t)
	load(t, signInConfig(t))
	for body, want := range map[string]string{
		`{"user":"","operator":true}`:                      "user has 1 to 200 bytes",
		`{"user":"carol"}`:                                 "no role",
		`{"user":"carol","accounts":["no-such"]}`:          "not found",
		`{"user":"carol","accounts":["../x"]}`:             "id may contain",
		`{"user":"carol","operator":true,"valid":"soon"}`:  "valid must be a duration",
		`{"user":"carol","operator":true,"valid":"-1h"}`:   "valid must be a duration",
		`{"user":"carol","operator":true,"valid":"1000h"}`: "up to 7 days",
		`{"user":"carol","admin":true}`:                    "admin",
	} {
		got := call(t, http.MethodPost, "http://"+adminAddr+"/moderation/desk/links", "", strings.NewReader(body),
			"Content-Type", "application/json")
		if got.status/100 != 4 || !strings.Contains(string(got.body), want) {
			t.Errorf("%s: got %d %s, want %q", body, got.status, got.body, want)
		}
	}
	adminCall(t, http.MethodPost, "/moderation/desk/sign-out", `{}`, 400)
	load(t, guardConfig(t, "moderation_desk /desk"+deskBlock))
	got := adminCall(t, http.MethodPost, "/moderation/desk/links", `{"user":"carol","operator":true}`, 409)
	if !strings.Contains(string(got.body), "option tokens") {
		t.Errorf("without the option: got %s", got.body)
	}
	for _, path := range []string{"/desk/sign-in"} {
		if got := visit(t, "", path, nil); got.status != http.StatusNotFound {
			t.Errorf("%s without the option: got %d", path, got.status)
		}
	}
}
