// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// exampleText returns an example with parts of it replaced by others.
func exampleText(t *testing.T, name string, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile("../examples/" + name + ".caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("the example %s: got no %q in it, want some to replace", name, pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(string(text))
}

// exampleNodes runs a node behind the balancer, both in this process, on a Redis server with a user of its own.
func exampleNodes(t *testing.T) {
	server := redistest.Run(t, redistest.Options{
		AppendOnly: true, Users: []string{"user moderation on >s3cr3t ~mod:* &* +@all -@dangerous +info"},
	})
	t.Setenv("REDIS_PASSWORD", "s3cr3t")
	app := newUpstream(t, "the app", nil)
	front := "localhost:" + freeport.Port()
	node := exampleText(t, "nodes", "shutdown_delay 10s", "admin "+adminAddr+"\n\tpersist_config off\n\tlog {\n\t\toutput discard\n\t}",
		"redis.internal:6379", server.Addr(), "localhost:8080", exampleAddr, "localhost:3000", app.address())
	balancer := exampleText(t, "balancer", "10.0.0.11:8080 10.0.0.12:8080 10.0.0.13:8080", exampleAddr, "localhost:8000", front)
	load(t, node+"\n"+balancer)
	key := newKey(t, quota.Account{ID: "acme", Tier: "starter"})
	post := func() reply {
		return call(t, http.MethodPost, "http://"+front+"/v1/moderate/text", key, strings.NewReader(`{"content":"a text"}`), "Content-Type", "application/json")
	}
	ask := func(status int, mark string) {
		t.Helper()
		got := post()
		if got.status != status || got.header.Get("X-RateLimit-Status") != mark {
			t.Errorf("got %d %v %s, want %d and the status %q", got.status, got.header, got.body, status, mark)
		}
	}
	ask(http.StatusOK, "")
	for text, status := range map[string]int{insult: http.StatusUnprocessableEntity, friendly: http.StatusOK} {
		got := call(t, http.MethodPost, "http://"+front+"/comments/new", "", strings.NewReader(text), "Content-Type", "text/plain")
		if got.status != status {
			t.Errorf("%s: got %d %s, want %d", text, got.status, got.body, status)
		}
	}
	server.Kill()
	comesAbout(t, "the outage is noticed", func() bool {
		return strings.HasSuffix(strings.Join(series(t, "caddy_moderation_store_up"), ""), " 0")
	})
	// What was changed in the last seconds does not stand in.
	comesAbout(t, "the key is known", func() bool { return post().status != http.StatusServiceUnavailable })
	ask(http.StatusOK, "local")
}

// exampleBalancer: a node that is not ready, or is gone, gets no request, and no client notices.
func exampleBalancer(t *testing.T) {
	var ready [3]atomic.Bool
	var served [3]atomic.Int64
	var addresses []string
	for i := range ready {
		ready[i].Store(true)
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/health/ready":
				served[i].Add(1)
			case !ready[i].Load():
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		t.Cleanup(node.Close)
		if i == 2 {
			node.Close()
		}
		addresses = append(addresses, node.Listener.Addr().String())
	}
	ready[1].Store(false)
	load(t, "{\nadmin "+adminAddr+"\npersist_config off\nlog {\noutput discard\n}\n}\n"+exampleText(t, "balancer",
		"10.0.0.11:8080 10.0.0.12:8080 10.0.0.13:8080", strings.Join(addresses, " "), "localhost:8000", exampleAddr))
	comesAbout(t, "the node that is not ready is left out", func() bool {
		before := served[1].Load()
		for range 10 {
			if got := call(t, http.MethodPost, "http://"+exampleAddr+"/comments", "", nil); got.status != http.StatusOK {
				t.Fatalf("got %d %s, want %d", got.status, got.body, http.StatusOK)
			}
		}
		return served[1].Load() == before
	})
}
