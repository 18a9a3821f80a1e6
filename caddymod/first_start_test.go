// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestFirstStartPrintsAnAddressThatWorks runs the printed command, as a client.
func TestFirstStartPrintsAnAddressThatWorks(t *testing.T) {
	for _, test := range []struct{ name, sites, want string }{
		{"a port", ":9080 {\n moderation_api\n}", "http://localhost:9080/v1/moderate/text"},
		{"a host", "http://localhost:9080 {\n moderation_api\n}", "http://localhost:9080/v1/moderate/text"},
		{"another host", "http://127.0.0.1:9080 {\n moderation_api\n}", "http://127.0.0.1:9080/v1/moderate/text"},
		{"a base path", ":9080 {\n moderation_api /moderation\n}", "http://localhost:9080/moderation/v1/moderate/text"},
		{"in handle_path", ":9080 {\n handle_path /api/* {\n moderation_api\n }\n}", "http://localhost:9080/api/v1/moderate/text"},
		{"a handler alone", ":9080 {\n moderation_text /check\n}", "http://localhost:9080/check"},
		{"in a route", ":9080 {\n route /x/* {\n respond hello\n }\n route {\n moderation_api\n }\n}", "http://localhost:9080/v1/moderate/text"},
		{"the second site", "http://localhost:9081 {\n respond hello\n}\nhttp://localhost:9080 {\n moderation_api\n}", "http://localhost:9080/v1/moderate/text"},
		{"bound to an address", ":9080 {\n bind 127.0.0.1\n moderation_api\n}", "http://127.0.0.1:9080/v1/moderate/text"},
		{"no site", ":9080 {\n respond hello\n}", "http://localhost:8080/v1/moderate/text"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			shown := filepath.Join(dir, "shown")
			file, err := os.Create(shown)
			if err != nil {
				t.Fatal(err)
			}
			terminal := os.Stderr
			os.Stderr = file
			config := "{\n admin " + adminAddr + "\n persist_config off\n log {\n output discard\n }\n moderation {\n storage badger " + filepath.Join(dir, "data") + "\n }\n}\n" + test.sites
			err = caddy.Load(adapt(t, config), true)
			os.Stderr = terminal
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				client.CloseIdleConnections()
				_ = caddy.Stop()
				_ = file.Close()
			})
			text, err := os.ReadFile(shown)
			if err != nil {
				t.Fatal(err)
			}
			command := regexp.MustCompile(`curl (\S+) \\\n +-H 'Authorization: Bearer (\S+)' \\\n +-H '(\S+): (\S+)' \\\n +-d '(.*)'`).FindStringSubmatch(string(text))
			if command == nil || command[1] != test.want {
				t.Fatalf("want %s, shown: %s", test.want, text)
			}
			if test.name == "no site" {
				return
			}
			got := call(t, http.MethodPost, command[1], command[2], strings.NewReader(command[5]), command[3],
				command[4])
			if got.status != http.StatusOK {
				t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusOK)
			}
		})
	}
}
