// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestGuardCountsForAnAccount(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	handle /open {
		moderate {
			account small
		}
		`+app.proxy()+`
	}
	handle /limited {
		moderate {
			account small
			enforce_quota
			on_error reject
		}
		`+app.proxy()+`
	}
	moderation_api`))
	body := `{"comment":"` + fine + `"}`
	inOneMinute()
	// Three a minute are allowed, and more are counted.
	for range 5 {
		if got := call(t, http.MethodPost, base+"/open", "", strings.NewReader(body), "Content-Type", "application/json"); got.status != http.StatusOK {
			t.Fatalf("got %d %s, want 200 beyond the limits too", got.status, got.body)
		}
	}
	got := call(t, http.MethodPost, base+"/limited", "", strings.NewReader(body), "Content-Type", "application/json")
	var problem refusal
	got.decodeJSON(t, &problem)
	if got.status != http.StatusServiceUnavailable || problem.Code != "not_judged" {
		t.Errorf("beyond the limits: got %d %s, want 503 not_judged", got.status, got.body)
	}
}

// TestGuardAloneKeepsNoAccounts guards against a database and a demo account that nobody has asked for.
func TestGuardAloneKeepsNoAccounts(t *testing.T) {
	app := newBackend(t)
	data := t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	load(t, "{\nadmin "+adminAddr+"\npersist_config off\nlog {\noutput discard\n}\n}\n"+base+" {\nmoderate\n"+app.proxy()+"\n}")
	if got := send(t, "application/json", `{"comment":"`+vile+`"}`); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a vile post: got %d %s, want 422", got.status, got.body)
	}
	if found, _ := filepath.Glob(data + "/*/moderation"); len(found) != 0 {
		t.Errorf("there is %v", found)
	}
	got := call(t, http.MethodGet, "http://"+adminAddr+"/moderation/health/ready", "", nil)
	if got.status != http.StatusOK {
		t.Errorf("ready: got %d %s, want 200", got.status, got.body)
	}
	got = call(t, http.MethodGet, "http://"+adminAddr+"/moderation/accounts", "", nil)
	if got.status != http.StatusServiceUnavailable || !strings.Contains(string(got.body), "keeps no accounts") {
		t.Errorf("accounts: got %d %s, want 503 and why", got.status, got.body)
	}
}

// TestGuardChargesWhatAnotherHasModerated guards against verdicts that are taken over from a matcher or another
// handler with their usage uncounted, and against a handler that takes over what another one could not moderate.
func TestGuardChargesWhatAnotherHasModerated(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	@toxic moderation reject
	handle /matched {
		respond @toxic "toxic" 403
		route {
			respond @toxic "toxic" 403
			moderate {
				account small
				enforce_quota
				on_error reject
			}
			moderate {
				account small
				enforce_quota
				on_error reject
				threshold hate 0.6
			}
			`+app.proxy()+`
		}
	}
	handle /open {
		route {
			moderate {
				account small
				enforce_quota
			}
			moderate
			`+app.proxy()+`
		}
	}`))
	post := func(path, text string) int {
		body, _ := json.Marshal(map[string]string{"comment": text})
		return call(t, http.MethodPost, base+path, "", bytes.NewReader(body), "Content-Type", "application/json").status
	}
	inOneMinute()
	// The account may have three a minute, and each post counts one however many handlers ask.
	for i := range 3 {
		if got := post("/matched", fine); got != http.StatusOK {
			t.Fatalf("post %d: %d", i+1, got)
		}
	}
	if got := post("/matched", fine); got != http.StatusServiceUnavailable {
		t.Errorf("a post beyond the limit: %d", got)
	}
	// The first handler can moderate no more and lets messages pass; the second has no limit.
	if got := post("/open", vile); got != http.StatusUnprocessableEntity {
		t.Errorf("a vile post where the first of two handlers fails: %d", got)
	}
	if got := post("/open", fine); got != http.StatusOK {
		t.Errorf("a fine post where the first of two handlers fails: got %d, want 200", got)
	}
}
