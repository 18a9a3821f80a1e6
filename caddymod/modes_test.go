// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// TestModesOfASharedStore: a node that goes on without the server of its store stays in the balancer, says so to it and
// to clients, and one that refuses leaves. The steps are those of one server, in this order.
func TestModesOfASharedStore(t *testing.T) {
	load(t, onWaiting(t, "moderation_health\nmoderation_api"))
	lost := fmt.Errorf("%w: redis.internal cannot be reached", storage.ErrUnavailable)
	for _, step := range []struct {
		mode   app.Mode
		ready  int
		body   string // of the probe
		admin  string // what the admin endpoint says
		served int
		status string // X-RateLimit-Status
		basis  string // of what is counted
	}{
		{app.Normal, 200, `{"status":"ready","mode":"normal"}`, `"mode":"normal"`, 200, "", ""},
		{app.Local, 200, `{"status":"ready","mode":"local"}`, `"mode":"local","reason":"storage unavailable: redis.internal`, 200, "local", "local"},
		{app.Allow, 200, `{"status":"ready","mode":"allow"}`, `"mode":"allow","reason":"storage unavailable: redis.internal`, 200, "unknown", "unknown"},
		{app.Deny, 503, `{"status":"not ready"}`, `"status":"not ready","mode":"deny","reason":"storage unavailable: redis.internal`, 503, "", ""},
		{app.Normal, 200, `{"status":"ready","mode":"normal"}`, `"mode":"normal"`, 200, "", ""},
	} {
		disk.mode.Store(&step.mode)
		disk.health.Store(nil)
		if step.mode != app.Normal {
			disk.health.Store(&lost)
		}
		var got reply
		for range 1000 { // an answer may be two seconds old
			got = call(t, http.MethodGet, base+"/health/ready", "", nil)
			if got.status == step.ready && string(got.body) == step.body+"\n" {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got.status != step.ready || string(got.body) != step.body+"\n" {
			t.Errorf("%s: got %d %s, want %d %s", step.mode, got.status, got.body, step.ready, step.body)
		}
		got = call(t, http.MethodGet, "http://"+adminAddr+"/moderation/health/ready", "", nil)
		if got.status != step.ready || !strings.Contains(string(got.body), step.admin) {
			t.Errorf("%s, the admin endpoint: got %d %s, want %d and %s", step.mode, got.status, got.body, step.ready, step.admin)
		}
		before := series(t, "caddy_moderation_outage_requests_total")
		got = moderate(t, acmeKey, `{"content":"a text"}`)
		if got.status != step.served || got.header.Get("X-RateLimit-Status") != step.status {
			t.Errorf("%s: got %d %v %s, want %d and X-RateLimit-Status: %q", step.mode, got.status, got.header, got.body, step.served, step.status)
		}
		after := series(t, "caddy_moderation_outage_requests_total")
		grown := strings.Join(after, "\n") != strings.Join(before, "\n")
		if grown != (step.basis != "") || grown && !strings.Contains(strings.Join(after, "\n"), `basis="`+step.basis+`"`) {
			t.Errorf("%s: got the counts %q after %q", step.mode, after, before)
		}
		for _, line := range series(t, "caddy_moderation_store_mode") {
			if on := strings.HasSuffix(line, " 1"); on != strings.Contains(line, `mode="`+string(step.mode)+`"`) {
				t.Errorf("%s: got %s", step.mode, line)
			}
		}
		if got := len(series(t, "caddy_moderation_store_mode")); got != 4 {
			t.Errorf("%s: got %d series of the mode, want 4", step.mode, got)
		}
	}
}
