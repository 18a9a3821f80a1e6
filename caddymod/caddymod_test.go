// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// The tests of this package run real configurations in this process. Caddy is one per process, so they do not run in
// parallel.
package caddymod_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-moderation/caddy-moderation/caddymod"
	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
)

// Addresses that the configurations of these tests listen on. Caddy shares ports with other processes, so that tests
// that run at the same time on one machine would answer each other's requests if the ports were fixed.
var (
	port      = freeport.Port()
	base      = "http://localhost:" + port
	adminAddr = "localhost:" + freeport.Port()
)

// Keys of accounts that the configurations declare by their hashes.
const (
	acmeKey  = "mod_sk_0123456789abcdefghijklmnopqrstuv"
	smallKey = "mod_sk_small6789abcdefghijklmnopqrstuv"
)

// hashOf is a key as a configuration declares it.
func hashOf(key string) string {
	hash := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(hash[:])
}

// siteConfig is a configuration with an account without limits and one that may make 3 requests a minute.
func siteConfig(dir, moderation, site string) string {
	return `{
	admin ` + adminAddr + `
	persist_config off
	log {
		output discard
	}
	moderation {
		storage badger ` + dir + `
		tier free 1000 3
		tier unlimited 0 0
		account acme {
			tier unlimited
			key ` + hashOf(acmeKey) + `
		}
		account small {
			tier free
			key ` + hashOf(smallKey) + `
		}
		` + moderation + `
	}
}
` + base + ` {
	` + site + `
}
`
}

// adapt turns a Caddyfile into JSON.
func adapt(t testing.TB, config string) []byte {
	t.Helper()
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatalf("adapting: %v", err)
	}
	for _, warning := range warnings {
		if !strings.Contains(warning.Message, "not formatted") {
			t.Errorf("adapting: %v", warning)
		}
	}
	return adapted
}

// load runs a Caddyfile until the test ends.
func load(t testing.TB, config string) {
	t.Helper()
	replaced = false
	if err := caddy.Load(adapt(t, config), true); err != nil {
		t.Fatalf("loading: %v", err)
	}
	t.Cleanup(func() {
		client.CloseIdleConnections() // they lead to a server that will be gone
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
}

// replaced says that the running configuration has replaced another one. The kernel may have queued connections at a
// listener that Caddy then closes; they are reset before anybody reads from them, and [call] asks again.
var replaced bool

// reload replaces the running configuration, and returns when no connection leads to the old one any more: Caddy
// closes the old listeners in the background, and until then the kernel hands them a part of the new connections.
func reload(t testing.TB, config string) {
	t.Helper()
	replaced = true
	generation := strconv.FormatInt(generations.Add(1), 10)
	if err := caddy.Load(marked(t, adapt(t, config), generation), true); err != nil {
		t.Fatalf("reloading: %v", err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for answers := 0; answers < 24; answers++ {
		if got := running(); got != generation {
			answers = -1
			time.Sleep(2 * time.Millisecond)
			if time.Now().After(deadline) {
				t.Fatalf("reloading: %q answers, want configuration %s", got, generation)
			}
		}
	}
	client.CloseIdleConnections()
}

// generations counts the configurations that replaced others.
var generations atomic.Int64

// generationPath is where a server says which configuration it runs.
const generationPath = "/.generation"

// marked lets each server of a configuration say which one it is.
func marked(t testing.TB, config []byte, generation string) []byte {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(config, &tree); err != nil {
		t.Fatalf("reading a configuration: %v", err)
	}
	servers := tree["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any)
	for _, server := range servers {
		server := server.(map[string]any)
		routes, _ := server["routes"].([]any)
		server["routes"] = append([]any{map[string]any{
			"match":    []any{map[string]any{"path": []string{generationPath}}},
			"handle":   []any{map[string]any{"handler": "static_response", "body": generation}},
			"terminal": true,
		}}, routes...)
	}
	config, err := json.Marshal(tree)
	if err != nil {
		t.Fatalf("writing a configuration: %v", err)
	}
	return config
}

// running asks over a connection of its own which configuration answers; an error stands for itself.
func running() string {
	once := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := once.Get(base + generationPath)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// client keeps enough connections for concurrent tests.
var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
	MaxIdleConnsPerHost: 128,
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	},
}}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request; headers are pairs of names and values.
func call(t testing.TB, method, url, key string, body io.Reader, headers ...string) reply {
	t.Helper()
	for attempt := 1; ; attempt++ {
		got, err := try(t, method, url, key, body, headers...)
		if err == nil {
			return got
		}
		// The admin endpoint is replaced with each configuration, also with the first one of a test.
		if !replaced && !strings.Contains(url, adminAddr) || attempt == 100 {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		if body, ok := body.(io.Seeker); ok {
			_, _ = body.Seek(0, io.SeekStart)
		}
	}
}

// try is call for tests in which a connection may break.
func try(t testing.TB, method, url, key string, body io.Reader, headers ...string) (reply, error) {
	t.Helper()
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		return reply{}, err
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, err
	}
	got := reply{response.StatusCode, response.Header, received}
	checkAnswer(t, method, request.URL.Path, got)
	return got, nil
}

// moderate asks for a verdict on a JSON body.
func moderate(t testing.TB, key, body string, headers ...string) reply {
	t.Helper()
	headers = append([]string{"Content-Type", "application/json"}, headers...)
	return call(t, http.MethodPost, base+"/v1/moderate/text", key, strings.NewReader(body), headers...)
}

// decodeJSON reads an answer's body.
func (r reply) decodeJSON(t testing.TB, into any) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader(r.body)).Decode(into); err != nil {
		t.Fatalf("reading %q: %v", r.body, err)
	}
}

// TestServesText is the shortest way through the whole service.
func TestServesText(t *testing.T) {
	load(t, siteConfig(t.TempDir(), "", "moderation_api"))
	got := moderate(t, acmeKey, `{"content":"I will find you and kill you, you worthless piece of shit."}`)
	var result struct {
		Status, Content string
		Result          struct {
			Flagged        bool
			Categories     map[string]struct{ Flagged bool }
			Recommendation string
		}
	}
	got.decodeJSON(t, &result)
	if got.status != http.StatusOK || result.Status != "completed" || !result.Result.Flagged ||
		len(result.Result.Categories) != 5 {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusOK)
	}
	// An account without limits is told of none.
	if got.header.Get("RateLimit") != "" || got.header.Get("X-RateLimit-Limit") != "" {
		t.Errorf("an account without limits: got the header %v, want no limits", got.header)
	}
}
