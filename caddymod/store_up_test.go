// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// series returns the lines of a metric with this name on the metrics page.
func series(t *testing.T, name string) []string {
	t.Helper()
	replaced = true // the admin endpoint is
	page := call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil)
	if page.status != http.StatusOK {
		t.Fatalf("the metrics: got %d %s, want %d", page.status, page.body, http.StatusOK)
	}
	return regexp.MustCompile(`(?m)^`+name+`[ {].*$`).FindAllString(string(page.body), -1)
}

// TestStoreUpOnlyWhereAStoreIsUsed guards against alerts on a store that nothing uses: of a guard alone, of a
// configuration that was replaced and whose store stays open for its last requests, and of one that could not start.
// The steps are reloads of one server, in this order.
func TestStoreUpOnlyWhereAStoreIsUsed(t *testing.T) {
	dir := t.TempDir()
	use := func(module, name, site string) string {
		config := siteConfig(filepath.Join(dir, name), "demo off", site)
		return strings.Replace(config, "storage badger", "storage "+module, 1)
	}
	const none, up, down = "", "caddy_moderation_store_up 1", "caddy_moderation_store_up 0"
	guard := "{\nadmin " + adminAddr + "\npersist_config off\nlog {\noutput discard\n}\n}\n" + base +
		" {\nmoderate\nrespond ok\n}\n"
	counted := use("badger", "guard", "moderate {\naccount acme\n}\nrespond ok")
	api := use("badger", "api", "moderation_api")
	on := use("waiting", "waiting", "moderation_api") // what can be made to fail
	noDir := strings.Replace(api, filepath.Join(dir, "api"), "/dev/null/data", 1)

	disk.health.Store(nil)
	t.Cleanup(func() { disk.health.Store(nil) })
	full := fmt.Errorf("%w: the disk is full", storage.ErrUnavailable)
	load(t, guard)
	for i, step := range []struct {
		name, config string
		fails        bool // the configuration cannot be loaded, and the one before goes on
		sick         bool // the store of the module "waiting" is unavailable
		want         string
	}{
		{name: "a guard alone", want: none},
		{name: "a guard alone, whose request was moderated", config: guard, want: none},
		{name: "the API", config: api, want: up},
		{name: "a guard alone, while the store of the API lingers", config: guard, want: none},
		{name: "a store that cannot be opened, after no store", config: noDir, fails: true, want: none},
		{name: "a guard with an account", config: counted, want: up},
		{name: "the API again, while its store lingers", config: api, want: up},
		{name: "a store that cannot be opened", config: noDir, fails: true, want: up},
		{name: "a store that will fail", config: on, want: up},
		{name: "a store that has failed", sick: true, want: down},
		{name: "a guard alone, while a store that has failed lingers", config: guard, sick: true, want: none},
		{name: "the API on another store, while one that has failed lingers", config: api, sick: true, want: up},
		{name: "the store that has failed again", config: on, sick: true, want: down},
		{name: "the store when it has recovered", want: up},
	} {
		disk.health.Store(nil)
		if step.sick {
			disk.health.Store(&full)
		}
		if step.config != "" {
			if err := caddy.Load(adapt(t, step.config), true); (err != nil) != step.fails {
				t.Fatalf("step %d, %s: loading: got the error %v, want one: %v", i, step.name, err, step.fails)
			}
			replaced = true
			client.CloseIdleConnections()
		}
		if i == 1 {
			send(t, "text/plain", "a text")
		}
		if got := strings.Join(series(t, "caddy_moderation_store_up"), "\n"); got != step.want {
			t.Errorf("step %d, %s: got the series %q, want %q", i, step.name, got, step.want)
		}
	}
}

// TestBuildInfoHasOneSeries guards against dashboards that show two versions of one server: reloads, also those that
// change the classifier, and those that fail, leave one series, of what is in force. The same goes for all metrics: a
// reload that fails before it comes to the app must not take them from the page.
func TestBuildInfoHasOneSeries(t *testing.T) {
	dir := t.TempDir()
	embedded, foreign := siteConfig(dir, "", "moderation_api"), siteConfig(dir, "classifier foreign", "moderation_api")
	load(t, embedded)
	for _, step := range []struct {
		name, config string
		fails        bool
		early        bool // it fails before the app is provisioned
	}{
		{name: "the start"},
		{name: "a reload that changes nothing", config: embedded},
		{name: "another classifier", config: foreign},
		{name: "a reload that fails", config: strings.Replace(embedded, dir, "/dev/null/data", 1), fails: true},
		{name: "a reload that fails early", fails: true, early: true},
		{name: "the first classifier again", config: embedded},
	} {
		if step.early || step.config != "" {
			config := []byte(`{"admin":{"listen":"` + adminAddr + `","config":{"persist":false}},"apps":{"nosuch":{}}}`)
			if !step.early {
				config = adapt(t, step.config)
			}
			if err := caddy.Load(config, true); (err != nil) != step.fails {
				t.Fatalf("%s: loading: got the error %v, want one: %v", step.name, err, step.fails)
			}
			replaced = true
			client.CloseIdleConnections()
		}
		got := series(t, "caddy_moderation_build_info")
		version, _ := caddy.Version()
		want := fmt.Sprintf(`caddy_moderation_build_info{caddy_version=%q,model=%q,version="devel"} 1`, version, services(t).Engine.Version())
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %q", step.name, got, want)
		}
		moderate(t, acmeKey, `{"content":"a text"}`)
		for _, name := range []string{"requests_total", "store_up", "store_failures_total", "time_seconds"} {
			if len(series(t, "caddy_moderation_"+name)) == 0 {
				t.Errorf("%s: %s is not on the page", step.name, name)
			}
		}
	}
	plain := []byte(`{"admin":{"listen":"` + adminAddr + `","config":{"persist":false}}}`)
	if err := caddy.Load(plain, true); err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
	for _, name := range []string{"time_seconds", "store_up", "build_info"} {
		if got := series(t, "caddy_moderation_"+name); len(got) != 0 {
			t.Errorf("a configuration without the app: got %q, want nothing, by which the alert notices it", got)
		}
	}
}
