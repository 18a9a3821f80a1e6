// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// TestRoutes is a conversation with the admin endpoint, each answer with its exact text.
func TestRoutes(t *testing.T) {
	load(t, "storage badger DIR")
	rows := []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "accounts", `{"id":"acme","name":"Acme <Corp>","tier":"starter","anchor_day":31}`, 201,
			`{"id":"acme","name":"Acme <Corp>","tier":"starter","status":"active","anchor_day":31,"created":"INSTANT","updated":"INSTANT"}`},
		{"POST", "accounts", `{"id":"acme"}`, 409, `{"error":"account acme: already exists"}`},
		{"POST", "accounts", `{"id":"fixed"}`, 409, `{"error":"account fixed: already exists"}`},
		{"POST", "accounts", `{"id":"a b"}`, 400,
			`{"error":"id may contain a-z, A-Z, 0-9, '.', '_' and '-', and must begin with a letter or a digit"}`},
		{"POST", "accounts", `{"id":"b","tier":"gold"}`, 400, `{"error":"tier \"gold\" is not configured; configured are free, starter"}`},
		{"POST", "accounts", `{"id":"b","anchor_day":32}`, 400, `{"error":"anchor_day must be 1 to 31, or 0 for the calendar month"}`},
		{"POST", "accounts", `{"id":"b","teir":"free"}`, 400, `{"error":"the body has an unknown member: /teir"}`},
		{"POST", "accounts", `{"id":7}`, 400, `{"error":"the body has a member of the wrong type: /id"}`},
		{"POST", "accounts", `{"id":"b"`, 400, `{"error":"the body is not a well-formed JSON object"}`},
		{"POST", "accounts", ``, 400, `{"error":"the body is not a well-formed JSON object"}`},
		{"POST", "accounts", strings.Repeat(" ", maxBody+1), 413, `{"error":"the body is too large; it may have 65536 bytes"}`},
		{"POST", "accounts", `{"id":"b","overrides":{"thresholds":{"hat":0.5}}}`, 400,
			`{"error":"overrides.thresholds: unknown category \"hat\": must be one of hate, harassment, self-harm, sexual, violence"}`},
		{"POST", "accounts", `{"id":"b","overrides":{"thresholds":{"hate":0.5},"requests_per_month":0}}`, 201,
			`{"id":"b","tier":"free","status":"active","overrides":{"requests_per_month":0,"thresholds":{"hate":0.5}},"created":"INSTANT","updated":"INSTANT"}`},
		{"PATCH", "accounts/b", `{"status":"paused","overrides":{}}`, 200, `{"id":"b","tier":"free","status":"paused","created":"INSTANT","updated":"INSTANT"}`},
		{"PATCH", "accounts/b", `{"overrides":{"thresholds":{"spam":0.5}}}`, 400,
			`{"error":"overrides.thresholds: unknown category \"spam\": must be one of hate, harassment, self-harm, sexual, violence"}`},
		{"PATCH", "accounts/b", `{"overrides":{"harm_share":2}}`, 400,
			`{"error":"overrides.harm_share is 2; a share of harm must be from 0.01% to 99%, such as 2% or 0.02"}`},
		{"PATCH", "accounts/b", `{"overrides":{"harm_share":0}}`, 400,
			`{"error":"overrides.harm_share is 0; a share of harm must be from 0.01% to 99%, such as 2% or 0.02"}`},
		{"PATCH", "accounts/b", `{"overrides":{"harm_share":"2%"}}`, 400,
			`{"error":"the body has a member of the wrong type: /overrides/harm_share"}`},
		{"PATCH", "accounts/b", `{"overrides":{"harm_share":0.02}}`, 200,
			`{"id":"b","tier":"free","status":"paused","overrides":{"harm_share":0.02},"created":"INSTANT","updated":"INSTANT"}`},
		{"PATCH", "accounts/b", `{"overrides":{}}`, 200, `{"id":"b","tier":"free","status":"paused","created":"INSTANT","updated":"INSTANT"}`},
		{"PATCH", "accounts/b", `{"status":"actve"}`, 400,
			`{"error":"status \"actve\" is not known; accounts that are active, trialing or past_due are served, those that are canceled or paused are refused; with \"force\": true any word is set, and the account is refused"}`},
		{"POST", "accounts", `{"id":"c","status":"actve"}`, 400,
			`{"error":"status \"actve\" is not known; accounts that are active, trialing or past_due are served, those that are canceled or paused are refused; with \"force\": true any word is set, and the account is refused"}`},
		{"PATCH", "accounts/b", `{"status":"on_hold","force":true}`, 200,
			`{"id":"b","tier":"free","status":"on_hold","created":"INSTANT","updated":"INSTANT"}`},
		{"PATCH", "accounts/b", `{"status":"paused"}`, 200, `{"id":"b","tier":"free","status":"paused","created":"INSTANT","updated":"INSTANT"}`},
		{"PATCH", "accounts/fixed", `{"status":"paused"}`, 409, `{"error":"account fixed: declared in the configuration"}`},
		{"PATCH", "accounts/nobody", `{"status":"paused"}`, 404, `{"error":"account nobody: not found"}`},
		{"PUT", "accounts/b", `{}`, 405, `{"error":"the method must be DELETE or GET or PATCH"}`},
		{"GET", "accounts", ``, 200, `[{"id":"acme","name":"Acme <Corp>","tier":"starter","status":"active","anchor_day":31,"created":"INSTANT","updated":"INSTANT"}
,{"id":"b","tier":"free","status":"paused","created":"INSTANT","updated":"INSTANT"}
,{"id":"fixed","tier":"starter","status":"active","created":"INSTANT","updated":"INSTANT","declared":true}
]`},
		{"DELETE", "accounts/b", ``, 204, ``},
		{"GET", "accounts/b", ``, 404, `{"error":"account b: not found"}`},
		{"DELETE", "accounts/fixed", ``, 409, `{"error":"account fixed: declared in the configuration"}`},
		{"GET", "keys", ``, 200, `[{"id":"key_IDIDIDIDIDIDIDID","account":"fixed","name":"in the file","created":"INSTANT","declared":true}
]`},
		{"GET", "keys?account=acme", ``, 200, `[]`},
		{"GET", "keys?account=nobody", ``, 404, `{"error":"account nobody: not found"}`},
		{"POST", "keys", `{"account":"acme","name":"n","environment":"e","expires":"2999-01-01T00:00:00+01:00"}`, 201,
			`{"secret":"mod_sk_SECRETSECRETSECRETSECRETSECRETSE","key":{"id":"key_IDIDIDIDIDIDIDID","account":"acme","name":"n","environment":"e","created":"INSTANT","expires":"2998-12-31T23:00:00Z"}}`},
		{"POST", "keys", `{"account":"acme","expires":"2001-01-01T00:00:00Z"}`, 400, `{"error":"expires must be in the future"}`},
		{"POST", "keys", `{"account":"nobody"}`, 404, `{"error":"account nobody: not found"}`},
		{"POST", "keys", `{"account":"acme","expires":"soon"}`, 400, `{"error":"the body has a member of the wrong type: /expires"}`},
		{"GET", "keys/key_x", ``, 404, `{"error":"key key_x: not found"}`},
		{"POST", "keys/key_x/revoke", ``, 404, `{"error":"key key_x: not found"}`},
		{"POST", "keys/key_x/rotate", ``, 404, `{"error":"key key_x: not found"}`},
		{"POST", "keys/key_x/rotate", `{"overlap":"soon"}`, 400, `{"error":"overlap must be a duration such as 24h or 7d"}`},
		{"POST", "keys/key_x/rotate", `{"overlap":"-1h"}`, 400, `{"error":"overlap must be 0 or more"}`},
		{"GET", "keys/key_x/rotate", ``, 405, `{"error":"the method must be POST"}`},
		{"GET", "usage/nobody", ``, 404, `{"error":"account nobody: not found"}`},
		{"GET", "feedback/export?account=a%20b", ``, 400,
			`{"error":"id may contain a-z, A-Z, 0-9, '.', '_' and '-', and must begin with a letter or a digit"}`},
		{"GET", "feedback/export", ``, 200, ``},
		{"POST", "feedback/export", ``, 405, `{"error":"the method must be GET"}`},
		{"GET", "feedback/export?account=nosuch", ``, 404, `{"error":"account nosuch: not found"}`},
		{"GET", "feedback/delete", ``, 405, `{"error":"the method must be POST"}`},
		{"GET", "nothing", ``, 404, `{"error":"there is no such route"}`},
		{"GET", "health/live", ``, 200, `{"status":"live"}`},
		{"HEAD", "health/live", ``, 200, ``},
	}
	for _, row := range rows {
		got := send(t, row.method, "/moderation/"+row.path, row.body)
		if body := normalized(got.body); got.status != row.status || body != row.want && body != normalized(row.want) {
			t.Errorf("%s %s %.60s\ngot  %d %s\nwant %d %s",
				row.method, row.path, row.body, got.status, body, row.status, row.want)
		}
		if got.status == http.StatusMethodNotAllowed && got.header.Get("Allow") == "" {
			t.Errorf("%s %s: got no Allow, want one", row.method, row.path)
		}
		if row.path != "nothing" && got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: got Cache-Control %q, want no-store",
				row.method, row.path, got.header.Get("Cache-Control"))
		}
	}
	if got := send(t, http.MethodPost, "/moderation/accounts", `{"id":"c"}`, "Content-Type", "text/plain"); got.status != http.StatusUnsupportedMediaType {
		t.Errorf("a text: got %d, want %d", got.status, http.StatusUnsupportedMediaType)
	}
}

// TestKeysWork: a key lets in from the moment that it is made until the moment that it is revoked or rotated away.
func TestKeysWork(t *testing.T) {
	load(t, "storage badger DIR")
	gate := services(t).Gate
	valid := func(secret string) bool {
		_, err := gate.Authenticate(context.Background(), secret)
		if err != nil && !errors.Is(err, quota.ErrUnauthorized) {
			t.Fatal(err)
		}
		return err == nil
	}
	create := func(path, body string) madeKey {
		got := send(t, http.MethodPost, "/moderation/keys"+path, body)
		var made madeKey
		if err := json.Unmarshal([]byte(got.body), &made); err != nil || got.status != http.StatusCreated {
			t.Fatalf("making a key: got %d %s (%v), want %d", got.status, got.body, err, http.StatusCreated)
		}
		return made
	}
	first := create("", `{"account":"fixed"}`)
	if !valid(first.Secret) {
		t.Fatal("a new key is refused")
	}
	second := create("/"+first.Key.ID+"/rotate", `{"overlap":"1h"}`)
	if !valid(first.Secret) || !valid(second.Secret) {
		t.Error("after a rotation with an overlap: want both keys valid")
	}
	if second.Old == nil || second.Old.ID != first.Key.ID || second.Old.Expires == nil || second.Key.Expires != nil {
		t.Errorf("a rotation: got the keys %+v and %+v, want a new one without an expiry and an old one with one",
			second.Key, second.Old)
	}
	send(t, http.MethodPost, "/moderation/keys/"+first.Key.ID+"/rotate", "").want(t, http.StatusConflict,
		fmt.Sprintf(`{"error":"key %[1]s: replaced already by %[2]s; rotate %[2]s instead, or, if nobody has it, `+
			`revoke it and rotate %[1]s again"}`, first.Key.ID, second.Key.ID))
	third := create("/"+second.Key.ID+"/rotate", ``)
	if valid(second.Secret) || !valid(third.Secret) {
		t.Error("after a rotation without an overlap: want only the new key valid")
	}
	if got := send(t, http.MethodPost, "/moderation/keys/"+third.Key.ID+"/revoke", ""); got.status != http.StatusOK {
		t.Fatalf("revoking a key: got %d %s, want %d", got.status, got.body, http.StatusOK)
	}
	if valid(third.Secret) {
		t.Error("got a valid key after it was revoked")
	}
	// No answer but those above holds a key or a hash.
	for _, path := range []string{"keys", "keys/" + first.Key.ID, "accounts", "accounts/fixed", "usage/fixed"} {
		got := send(t, http.MethodGet, "/moderation/"+path, "")
		if got.status != http.StatusOK {
			t.Errorf("%s: got %d, want %d", path, got.status, http.StatusOK)
		}
		for _, key := range []madeKey{first, second, third} {
			hash := fmt.Sprintf("%x", quota.HashKey(key.Secret))
			if strings.Contains(got.body, key.Secret) || strings.Contains(got.body, hash) ||
				strings.Contains(got.body, `"Hash"`) {
				t.Errorf("%s: got %s, want neither a key nor its hash", path, got.body)
			}
		}
	}
}

func TestUsage(t *testing.T) {
	load(t, "storage badger DIR")
	gate := services(t).Gate
	secret := must(t, "key", "create", "--account", "fixed")
	who, err := gate.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	admitted, err := gate.Admit(t.Context(), who, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Settle(t.Context(), admitted, quota.Outcome{Flagged: []string{"hate"}}); err != nil {
		t.Fatal(err)
	}
	var usage usageReport
	got := send(t, http.MethodGet, "/moderation/usage/fixed", "")
	if err := json.Unmarshal([]byte(got.body), &usage); err != nil {
		t.Fatalf("the usage: got %d %s (%v), want a report", got.status, got.body, err)
	}
	if usage.Period.Requests != 3 || usage.Days[0].Requests != 3 || usage.Flagged["hate"] != 1 ||
		len(usage.Days) != 30 ||
		*usage.Limits != (quota.Limits{RequestsPerMonth: 25000, RequestsPerMinute: 60}) || usage.Account.ID != "fixed" {
		t.Errorf("the usage: got %s, want 3 requests, one flagged as hate, and the limits of starter", got.body)
	}
	used := slices.IndexFunc(usage.Keys, func(k keyUsage) bool { return k.ID == who.Key.ID })
	if used < 0 || usage.Keys[used].Requests != 3 || usage.Keys[used].LastUsed != usage.Days[0].Date {
		t.Errorf("the usage of %s: got %+v, want 3 requests today", who.Key.ID, usage.Keys)
	}
	// The key tells its account.
	var one usageOfKey
	line := must(t, "usage", "--key", who.Key.ID, "--json")
	if err := json.Unmarshal([]byte(line), &one); err != nil || one.Account != "fixed" || one.Key.Requests != 3 {
		t.Errorf("the usage of %s: got %s (%v), want 3 requests of fixed", who.Key.ID, line, err)
	}
	if _, stderr, err := run(t, "usage", "--account", "fixed", "--key", "key_x"); err == nil ||
		!strings.Contains(stderr, "account fixed has no key key_x") {
		t.Errorf("the usage of a key that is not there: got %q, %v; want an error that names it", stderr, err)
	}
}

func TestReadiness(t *testing.T) {
	load(t, "storage badger DIR")
	send(t, http.MethodGet, "/moderation/health/ready", "").
		want(t, http.StatusOK, fmt.Sprintf(`{"status":"ready","version":"devel","model":%q,"calibrated_for":%[2]v,"harm_share":%[2]v}`,
			services(t).Engine.Version(), services(t).Engine.HarmShare()))
}

func TestReadinessOfABrokenStore(t *testing.T) {
	load(t, "storage broken DIR")
	// The app may have asked the store once when it started.
	send(t, http.MethodGet, "/moderation/health/ready", "")
	got := send(t, http.MethodGet, "/moderation/health/ready", "")
	got.want(t, http.StatusServiceUnavailable, `{"status":"not ready","reason":"storage unavailable"}`)
	if got.header.Get("Retry-After") == "" {
		t.Error("got no Retry-After, want one")
	}
	send(t, http.MethodGet, "/moderation/health/live", "").want(t, http.StatusOK, `{"status":"live"}`)
}

// TestWithoutTheApp: the routes are there in every configuration of a server that has the modules.
func TestWithoutTheApp(t *testing.T) {
	load(t, "")
	for _, path := range []string{"accounts", "keys", "usage/x", "feedback/export", "backup"} {
		send(t, http.MethodGet, "/moderation/"+path, "").
			want(t, http.StatusNotFound, `{"error":"the running configuration does not use the moderation app"}`)
	}
	if got := send(t, http.MethodGet, "/moderation/health/ready", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("ready: got %d, want %d", got.status, http.StatusServiceUnavailable)
	}
}

// TestFailuresAreGeneric: what the store says of itself is for the log.
func TestFailuresAreGeneric(t *testing.T) {
	load(t, "storage broken DIR")
	send(t, http.MethodGet, "/moderation/feedback/export?account=early", "").
		want(t, http.StatusInternalServerError, `{"error":"the server failed; its log says why"}`)
}

// TestBrokenOffAnswers: a part of an answer is never taken for the whole.
func TestBrokenOffAnswers(t *testing.T) {
	load(t, "storage broken DIR")
	for _, path := range []string{"/moderation/feedback/export", "/moderation/backup"} {
		answer, err := newClient(address).open(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		received := 0
		buffer := make([]byte, 4096)
		for err == nil {
			var n int
			n, err = answer.Read(buffer)
			received += n
		}
		if received == 0 || err.Error() == "EOF" {
			t.Errorf("%s: got %d bytes and the error %v, want a part and another error than EOF", path, received, err)
		}
		if err := answer.Close(); err != nil {
			t.Errorf("closing the answer: %v", err)
		}
	}
}
