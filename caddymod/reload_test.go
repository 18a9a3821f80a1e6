// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// TestReloadUnderLoad reloads in a loop while clients ask: no request fails, no count is lost, no goroutine stays.
//
// Caddy closes idle connections, and those that wait to be accepted, when it replaces a server. That happens before a
// request on them is read: the clients send it again, and a request that was lost after it was counted would be seen
// in the counts.
func TestReloadUnderLoad(t *testing.T) {
	dir := t.TempDir()
	config := func(i int) string {
		return siteConfig(dir, fmt.Sprintf("tier counted 0 0\n\t\tthreshold hate 0.%d", 50+i), "moderation_api")
	}
	load(t, config(0))
	key := newKey(t, quota.Account{ID: "counted", Tier: "counted"})
	settled := func() int {
		client.CloseIdleConnections()
		time.Sleep(200 * time.Millisecond)
		return runtime.NumGoroutine()
	}
	// One reload before the first count: what Caddy starts lazily is running then.
	reload(t, config(1))
	before := settled()

	stop := make(chan struct{})
	var served, broken atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := try(t, http.MethodPost, base+"/v1/moderate/text", key, strings.NewReader(`{"content":"a text"}`), "Content-Type", "application/json")
				switch {
				case err != nil:
					broken.Add(1)
				case got.status == http.StatusOK:
					served.Add(1)
				default:
					t.Errorf("under load: got %d %s, want %d", got.status, got.body, http.StatusOK)
				}
			}
		})
	}
	for i := range 20 {
		if err := caddy.Load(adapt(t, config(2+i)), true); err != nil {
			t.Errorf("reload %d: %v", i, err)
		}
		time.Sleep(20 * time.Millisecond) // long enough for the clients to use the new server
	}
	close(stop)
	group.Wait()
	usage, err := services(t).Gate.Usage(t.Context(), "counted")
	if err != nil || usage.Counts.Period != served.Load() {
		t.Errorf("got %d counted (%v), want the %d that were served", usage.Counts.Period, err, served.Load())
	}
	t.Logf("%d served over 20 reloads, %d connections broken before a request was read", served.Load(), broken.Load())

	deadline := time.Now().Add(10 * time.Second)
	after := settled()
	for after > before+5 && time.Now().Before(deadline) {
		after = settled()
	}
	if after > before+5 {
		t.Errorf("got %d goroutines after the reloads, want at most 5 more than the %d before", after, before)
	}
}

// TestInvalidReloadKeepsTheStore loads configurations that fail at different times; the running one goes on.
func TestInvalidReloadKeepsTheStore(t *testing.T) {
	dir := t.TempDir()
	good := siteConfig(dir, "", "moderation_api")
	load(t, good)
	adapted := string(adapt(t, good))
	missing := filepath.Join(dir, "missing.model")
	for name, broken := range map[string]string{
		"a wrong threshold":           strings.Replace(adapted, `"storage"`, `"thresholds":{"hate":3},"storage"`, 1),
		"an unknown category":         strings.Replace(adapted, `"storage"`, `"thresholds":{"spam":0.5},"storage"`, 1),
		"a missing model":             strings.Replace(adapted, `"storage"`, `"classifier":{"module":"embedded","model":"`+missing+`"},"storage"`, 1),
		"an unknown member":           strings.Replace(adapted, `"storage"`, `"storrage":1,"storage"`, 1),
		"an address in use":           strings.Replace(adapted, `":`+port+`"`, `":`+port+`",":9081",":9081"`, 1),
		"a directory no-one can make": strings.Replace(adapted, dir, filepath.Join(os.Args[0], "data"), 1),
		"another app that fails":      strings.Replace(adapted, `"apps":{`, `"apps":{"tls":{"certificates":{"load_files":[{"certificate":"/x","key":"/y"}]}},`, 1),
	} {
		if broken == adapted {
			t.Fatalf("%s: got the configuration unchanged, want it broken", name)
		}
		if err := caddy.Load([]byte(broken), true); err == nil {
			t.Errorf("%s: loading: got no error, want one", name)
		}
		replaced = true // for a moment, by its listeners
		client.CloseIdleConnections()
		if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != http.StatusOK {
			t.Errorf("%s: got %d %s, want %d", name, got.status, got.body, http.StatusOK)
		}
	}
}

// TestValidateBesideTheServer provisions and gives up configurations while the store is open, as caddy validate does.
func TestValidateBesideTheServer(t *testing.T) {
	dir := t.TempDir()
	load(t, siteConfig(dir, "", "moderation_api"))
	for range 3 {
		config := new(caddy.Config)
		if err := json.Unmarshal(adapt(t, siteConfig(dir, "demo off", "moderation_api")), config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(config); err != nil {
			t.Fatal(err)
		}
		if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != http.StatusOK {
			t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusOK)
		}
	}
}

// TestOneDirectoryInManySpellings reloads with the same directory written in other ways: it is one store.
func TestOneDirectoryInManySpellings(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	link := filepath.Join(parent, "link")
	if err := os.Symlink(parent, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	t.Setenv("MODERATION_TEST_DIR", dir)
	t.Chdir(parent)
	load(t, siteConfig(dir, "", "moderation_api"))
	key := newKey(t, quota.Account{ID: "spelled", Tier: "unlimited"})
	for i, spelling := range []string{dir + "/", "./data", parent + "//x/../data", filepath.Join(link, "data"), "{env.MODERATION_TEST_DIR}"} {
		reload(t, siteConfig(spelling, "", "moderation_api"))
		if got := usageOf(t, key); got.CurrentPeriod.Made != int64(i+1) {
			t.Errorf("%s: got %d requests, want %d", spelling, got.CurrentPeriod.Made, i+1)
		}
	}
}

// TestDirectoryCanBeChanged reloads with another directory: the old store is let go of, and can be taken again.
func TestDirectoryCanBeChanged(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	load(t, siteConfig(first, "", "moderation_api"))
	key := newKey(t, quota.Account{ID: "moving", Tier: "unlimited"})
	for _, step := range []struct {
		dir    string
		status int
	}{{second, 401}, {first, 200}, {second, 401}} {
		reload(t, siteConfig(step.dir, "", "moderation_api"))
		if got := moderate(t, key, `{"content":"text"}`); got.status != step.status {
			t.Errorf("got %d %s, want %d", got.status, got.body, step.status)
		}
	}
}

// TestRequestsInFlightKeepTheirStore changes the directory, and back, while requests are being sent: each is
// answered, and counted where it was let in. They were answered 503, and stayed counted.
func TestRequestsInFlightKeepTheirStore(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	load(t, siteConfig(first, "", "moderation_api"))
	key := newKey(t, quota.Account{ID: "moving", Tier: "unlimited"})
	const slow = 12
	bodies, answers := make([]*io.PipeWriter, slow), make([]chan reply, slow)
	for i := range bodies {
		var body *io.PipeReader
		body, bodies[i] = io.Pipe()
		answers[i] = make(chan reply, 1)
		go func() {
			got, err := try(t, http.MethodPost, base+"/v1/moderate/text", key, body, "Content-Type", "application/json")
			if err != nil {
				t.Error(err)
			}
			answers[i] <- got
		}()
		_, _ = io.WriteString(bodies[i], `{"content":`)
	}
	time.Sleep(100 * time.Millisecond) // the handlers read the bodies
	stop := make(chan struct{})
	var served atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := try(t, http.MethodPost, base+"/v1/moderate/text", acmeKey, strings.NewReader(`{"content":"a text"}`), "Content-Type", "application/json")
				switch {
				case err != nil: // a connection that was closed before a request on it was read
				case got.status == http.StatusOK:
					served.Add(1)
				default:
					t.Errorf("under load: got %d %s, want %d", got.status, got.body, http.StatusOK)
				}
			}
		})
	}
	finish := func(of []*io.PipeWriter, answers []chan reply) {
		for i := range of {
			_, _ = io.WriteString(of[i], `"a text"}`)
			_ = of[i].Close()
			if got := <-answers[i]; got.status != http.StatusOK {
				t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusOK)
			}
		}
	}
	made := func(account string) int64 {
		usage, err := services(t).Gate.Usage(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		return usage.Counts.Period
	}
	reload(t, siteConfig(second, "", "moderation_api"))
	finish(bodies[:slow/2], answers)
	reload(t, siteConfig(first, "", "moderation_api")) // which requests of the first configuration still use
	finish(bodies[slow/2:], answers[slow/2:])
	reload(t, siteConfig(second, "", "moderation_api"))
	close(stop)
	group.Wait()
	inSecond := made("acme")
	reload(t, siteConfig(first, "", "moderation_api"))
	if got := made("moving"); got != slow {
		t.Errorf("slow requests: got %d counted, want %d", got, slow)
	}
	if got := made("acme") + inSecond; got != served.Load() {
		t.Errorf("got %d counted in the two stores, want the %d that were served", got, served.Load())
	}
}

// TestReloadChangesPolicyAndTiers takes what a new configuration says at once.
func TestReloadChangesPolicyAndTiers(t *testing.T) {
	dir := t.TempDir()
	load(t, siteConfig(dir, "tier changing 1 0", "moderation_api"))
	key := newKey(t, quota.Account{ID: "changing", Tier: "changing"})
	for _, want := range []int{200, 402} {
		if got := moderate(t, key, `{"content":"text"}`); got.status != want {
			t.Fatalf("got %d %s, want %d", got.status, got.body, want)
		}
	}
	reload(t, siteConfig(dir, "tier changing 2 0", "moderation_api"))
	for _, want := range []int{200, 402} {
		if got := moderate(t, key, `{"content":"text"}`); got.status != want {
			t.Fatalf("got %d %s, want %d", got.status, got.body, want)
		}
	}
	reload(t, siteConfig(dir, "", "moderation_api"))
	if got := moderate(t, key, `{"content":"text"}`); got.status != http.StatusServiceUnavailable ||
		problemOf(t, got).Code != "tier_not_configured" {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusServiceUnavailable)
	}
}
