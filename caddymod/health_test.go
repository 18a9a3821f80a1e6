// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// probe asks a health route of the site, and checks what every answer must have: one of three bodies, and nothing that
// caches keep or that a stranger could learn from.
func probe(t *testing.T, url string) int {
	t.Helper()
	replaced = true // for tests that reload
	got := call(t, http.MethodGet, url, "", nil)
	want := map[bool]string{true: `{"status":"not ready"}`, false: `{"status":"ready"}`}[got.status == http.StatusServiceUnavailable]
	if strings.HasSuffix(url, "/live") {
		want = `{"status":"live"}`
	}
	if string(got.body) != want+"\n" || got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != "no-store" ||
		(got.status == http.StatusServiceUnavailable) != (got.header.Get("Retry-After") == "1") || got.header.Get("Ratelimit") != "" {
		t.Errorf("%s: got %d %v %s, want %s", url, got.status, got.header, got.body, want)
	}
	return got.status
}

// awaitProbe probes until the status is the wanted one: answers are up to two seconds old.
func awaitProbe(t *testing.T, url string, want int) {
	t.Helper()
	for range 1000 {
		if probe(t, url) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: never got %d", url, want)
}

// TestHealthOnTheSite guards against probes that are redirected, rewritten, refused for want of a key, counted, or told
// what is wrong where strangers can ask.
func TestHealthOnTheSite(t *testing.T) {
	load(t, onWaiting(t, `moderation_health
	redir / /elsewhere
	rewrite /health/* /rewritten
	moderation_key_auth
	moderate
	moderation_api`))
	if live, ready := probe(t, base+"/health/live"), probe(t, base+"/health/ready"); live != http.StatusOK || ready != http.StatusOK {
		t.Errorf("got %d live, %d ready, want 200", live, ready)
	}
	for _, row := range []struct {
		method, path string
		status       int
	}{
		{http.MethodHead, "/health/live", http.StatusOK},
		{http.MethodHead, "/health/ready", http.StatusOK},
		{http.MethodPost, "/health/ready", http.StatusMethodNotAllowed},
		{http.MethodOptions, "/health/live", http.StatusMethodNotAllowed},
		{http.MethodGet, "/health", http.StatusUnauthorized}, // the next handlers'
		{http.MethodGet, "/health/ready/", http.StatusUnauthorized},
		{http.MethodGet, "/health/other", http.StatusUnauthorized},
	} {
		got := call(t, row.method, base+row.path, "", nil)
		if got.status != row.status || row.status == http.StatusMethodNotAllowed && got.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: got %d %v %s, want %d", row.method, row.path, got.status, got.header, got.body, row.status)
		}
	}
	for _, line := range series(t, "caddy_moderation_requests_total") {
		if !strings.Contains(line, `outcome="unauthorized"`) {
			t.Errorf("a probe was counted: %s", line)
		}
	}
	full := fmt.Errorf("%w: the disk of /var/lib/secret is full", storage.ErrUnavailable)
	disk.health.Store(&full)
	awaitProbe(t, base+"/health/ready", http.StatusServiceUnavailable)
	if got := call(t, http.MethodGet, "http://"+adminAddr+"/moderation/health/ready", "", nil); !strings.Contains(string(got.body), "/var/lib/secret is full") {
		t.Errorf("the admin endpoint: got %d %s, want the reason", got.status, got.body)
	}
	if got := probe(t, base+"/health/live"); got != http.StatusOK {
		t.Errorf("live while the store is unavailable: got %d, want 200", got)
	}
	disk.health.Store(nil)
	awaitProbe(t, base+"/health/ready", http.StatusOK)
}

// TestHealthNeedsNoStore guards against a directive for probes that makes a guard alone open a store, and against a
// guard alone that is never ready. It also has the base path and a matcher.
func TestHealthNeedsNoStore(t *testing.T) {
	config := "{\nadmin " + adminAddr + "\npersist_config off\nlog {\noutput discard\n}\n}\n" + base + " {\n%s\nmoderate\nrespond app\n}\n"
	load(t, fmt.Sprintf(config, "moderation_health /internal/health"))
	if live, ready := probe(t, base+"/internal/health/live"), probe(t, base+"/internal/health/ready"); live != http.StatusOK || ready != http.StatusOK {
		t.Errorf("got %d live, %d ready, want 200", live, ready)
	}
	if got := call(t, http.MethodGet, base+"/health/ready", "", nil); string(got.body) != "app" {
		t.Errorf("the default path: got %d %s, want the app", got.status, got.body)
	}
	if up := series(t, "caddy_moderation_store_up"); len(up) > 0 {
		t.Errorf("got %s, want no store", up)
	}
	reload(t, fmt.Sprintf(config, "@lb header X-Lb yes\nmoderation_health @lb /"))
	if got := call(t, http.MethodGet, base+"/ready", "", nil); string(got.body) != "app" {
		t.Errorf("a stranger: got %d %s, want the app", got.status, got.body)
	}
	if got := call(t, http.MethodGet, base+"/ready", "", nil, "X-Lb", "yes"); string(got.body) != `{"status":"ready"}`+"\n" {
		t.Errorf("who may ask: got %d %s, want ready", got.status, got.body)
	}
}

// TestNotReadyWhileStopping guards against a load balancer that sends requests until the last moment: within
// shutdown_delay the service says that it is not ready, and still answers everything.
func TestNotReadyWhileStopping(t *testing.T) {
	config := strings.Replace(onWaiting(t, "moderation_health\nmoderation_api"), "persist_config off", "persist_config off\nshutdown_delay 3s", 1)
	load(t, config)
	if got := probe(t, base+"/health/ready"); got != http.StatusOK {
		t.Fatalf("before: got %d, want 200", got)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- caddy.Stop() }()
	for drained := false; !drained; {
		got, err := try(t, http.MethodGet, base+"/health/ready", "", nil)
		select {
		case err := <-stopped:
			t.Fatalf("it stopped (%v) and was never seen not ready", err)
		default:
		}
		drained = err == nil && got.status == http.StatusServiceUnavailable
	}
	if got := probe(t, base+"/health/live"); got != http.StatusOK {
		t.Errorf("live while stopping: got %d, want 200", got)
	}
	if got := moderate(t, acmeKey, `{"content":"a text"}`); got.status != http.StatusOK {
		t.Errorf("a request while stopping: got %d %s, want 200", got.status, got.body)
	}
	client.CloseIdleConnections()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := try(t, http.MethodGet, base+"/health/live", "", nil); err == nil {
		t.Error("after the stop: got an answer, want none")
	}
}
