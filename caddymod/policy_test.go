// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestNoListNamesTheVerdict guards against clients that have the proxy remove what the guard tells the app.
func TestNoListNamesTheVerdict(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()))
	for _, test := range []struct {
		name   string
		header []string
	}{
		{"Connection", []string{"Connection: x-moderation-recommendation"}},
		{"with others", []string{"Connection: close, X-Moderation-Recommendation ,x-moderation-status"}},
		{"with underscores", []string{"Connection: X_Moderation_Recommendation"}},
		{"several lines", []string{"Connection: close", "Connection: x-moderation-recommendation,", "connection: ,X-MODERATION-FLAGGED"}},
		{"other lists", []string{"Connection: keep-alive, Keep-Alive, TE", "Proxy-Connection: x-moderation-recommendation", "Keep-Alive: x-moderation-status",
			"TE: x-moderation-recommendation", "Upgrade: x-moderation-recommendation", "Trailer: x-moderation-recommendation"}},
		{"the type of the body", []string{"Connection: content-type, content-encoding, content_type"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := attempt{header: append(test.header, asJSON...), body: `{"comment":"` + borderlineText + `"}`}
			if status, body := a.raw(t); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			arrived := app.take()
			if len(arrived) != 1 {
				t.Fatalf("%d requests", len(arrived))
			}
			header := arrived[0].Header
			for name, want := range map[string]string{
				"X-Moderation-Recommendation": "review", "X-Moderation-Status": "judged", "X-Moderation-Flagged": "true", "Content-Type": "application/json",
			} {
				if got := header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Upgrade"} {
				if strings.Contains(strings.ToLower(header.Get(name)), "moderation") {
					t.Errorf("%s: %s", name, header.Get(name))
				}
			}
		})
	}
}
