// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHealth: who watches the server sees by the error, which ends the command with status 1, that it is not well, and
// reads why. A command that succeeds although the service cannot count would keep a broken server in use.
func TestHealth(t *testing.T) {
	for _, row := range []struct {
		name, moderation string
		line             string
		stdout, fails    string
	}{
		{"ready", "storage badger DIR", "health", "ready\n", ""},
		{"live", "storage badger DIR", "health --live", "live\n", ""},
		{"a broken store", "storage broken DIR", "health", "", "not ready: storage unavailable"},
		{"a store without its server", "storage away DIR", "health", "ready, in the mode local: storage unavailable: nobody answers\n", ""},
		{"a broken store that lives", "storage broken DIR", "health --live", "live\n", ""},
		{"no app", "", "health", "", "not ready: the running configuration does not use the moderation app"},
		{"no app lives", "", "health --live", "live\n", ""},
		{"an argument", "", "health now", "", "takes no argument, but has 1: moderation health [flags]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			load(t, row.moderation)
			if strings.Contains(row.moderation, "broken") {
				// The app may have asked the store once when it started.
				send(t, http.MethodGet, "/moderation/health/ready", "")
			}
			stdout, _, err := run(t, strings.Fields(row.line)...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if stdout != row.stdout || message != row.fails {
				t.Errorf("got %q and the error %q, want %q and %q", stdout, message, row.stdout, row.fails)
			}
		})
	}
}

func TestHealthAsJSON(t *testing.T) {
	load(t, "storage badger DIR")
	stdout, _, err := run(t, "health", "--json")
	if err != nil || !strings.Contains(stdout, `"status": "ready"`) || !strings.Contains(stdout, `"model": "`) {
		t.Errorf("got %s and the error %v, want the status and the model", stdout, err)
	}
}

// TestHealthOfAnotherServer: a server that answers but is no Caddy with these modules is not well.
func TestHealthOfAnotherServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	other := strings.TrimPrefix(server.URL, "http://")
	_, _, err := runAt(t, other, newCLI(), "health")
	if want := "the server at " + other + " runs without the moderation modules"; err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
	server.Close()
	_, _, err = runAt(t, other, newCLI(), "health")
	if err == nil || !strings.Contains(err.Error(), "no server answers at "+other) {
		t.Errorf("got the error %v, want that nobody answers", err)
	}
}
