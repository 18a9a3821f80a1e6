// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestGuardMatcher(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	@toxic moderation reject {
		category harassment 0.8
		category violence
	}
	respond @toxic "toxic" 403
	`+app.proxy()))
	if got := send(t, "application/json", `{"comment":"`+vile+`"}`); got.status != http.StatusForbidden || string(got.body) != "toxic" {
		t.Errorf("a vile post: got %d %s, want 403 \"toxic\"", got.status, got.body)
	}
	body := `{"comment":"` + fine + `"}`
	if got := send(t, "application/json", body); got.status != http.StatusOK {
		t.Errorf("a fine post: got %d %s, want 200", got.status, got.body)
	}
	if arrived := app.take(); len(arrived) != 1 || string(arrived[0].body) != body {
		t.Errorf("the app saw %v", arrived)
	}
}

// TestMatcherMatchesWhatItCannotRead guards against a gate that opens for what is too large.
func TestMatcherMatchesWhatItCannotRead(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	@unread moderation {
		status error partial
	}
	respond @unread "unread" 413
	`+app.proxy()))
	if got := send(t, "text/plain", strings.Repeat("bread ", 200_000)); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large post: got %d %s, want 413", got.status, got.body)
	}
	if got := send(t, "text/plain", fine); got.status != http.StatusOK {
		t.Errorf("a fine post: got %d %s, want 200", got.status, got.body)
	}
}
