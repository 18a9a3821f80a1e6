// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// TestFirstStartCommands pastes the commands that the first start prints, for each way to write the option "admin". It
// also notices when Caddy keeps that option elsewhere: then the commands lack the address.
func TestFirstStartCommands(t *testing.T) {
	short, err := os.MkdirTemp("", "admin") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	free := freeAddress(t)
	_, port, _ := strings.Cut(free, ":")
	socket := "unix/" + filepath.Join(short, "a b.sock")
	t.Setenv("ADMIN_TEST_ADDRESS", free)
	for _, test := range []struct{ name, admin, address string }{
		{"an address", "localhost:" + port, "localhost:" + port},
		{"a port", ":" + port, "localhost:" + port},
		{"all addresses", "0.0.0.0:" + port, "localhost:" + port},
		{"a placeholder", "{env.ADMIN_TEST_ADDRESS}", free},
		{"a socket", `"` + socket + `|0600"`, socket},
		{"none", "off", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.HasPrefix(test.address, "unix") && runtime.GOOS == "windows" {
				t.Skip("Caddy's unix sockets have no permissions on Windows")
			}
			shown := firstStart(t, test.admin)
			commands := regexp.MustCompile(`(?m)^ +(\S+) moderation (.*)$`).FindAllStringSubmatch(shown, -1)
			if test.address == "" {
				if len(commands) != 0 || !strings.Contains(shown, "The admin endpoint is off") {
					t.Errorf("shown: %s, want no command", shown)
				}
				return
			}
			secret := secrets.FindString(shown)
			if _, err := services(t).Gate.Authenticate(t.Context(), secret); err != nil || len(commands) != 2 {
				t.Fatalf("shown: %s, want a key that is valid (%v), and two commands", shown, err)
			}
			for _, command := range commands {
				if command[1] != os.Args[0] {
					t.Errorf("got the program %s, want %s", command[1], os.Args[0])
				}
				// As a shell does: a word with a blank is in quotation marks.
				var words []string
				for i, part := range strings.Split(command[2], "'") {
					if i%2 == 1 {
						words = append(words, part)
					} else {
						words = append(words, strings.Fields(part)...)
					}
				}
				if words[len(words)-2] != "--address" || words[len(words)-1] != test.address {
					t.Errorf("got the command %q, want the address %s", words, test.address)
				}
				stdout, stderr, err := runAt(t, "", newCLI(), words...)
				if err != nil {
					t.Fatalf("%q: %v, %s", words, err, stderr)
				}
				if words[0] != "key" {
					continue
				}
				if _, err := services(t).Gate.Authenticate(t.Context(), secret); err == nil {
					t.Error("the key of the first start is valid after it was replaced")
				}
				secret = strings.TrimSpace(stdout)
			}
			who, err := services(t).Gate.Authenticate(t.Context(), secret)
			if err != nil || who.Limits.RequestsPerMonth != 0 || who.Limits.RequestsPerMinute != 0 {
				t.Errorf("got the limits %+v (%v), want none", who.Limits, err)
			}
		})
	}
}

// firstStart runs the service with an empty database until the test ends, and returns what it prints.
func firstStart(t *testing.T, admin string) string {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "shown"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	config := "{\nadmin " + admin + "\npersist_config off\nlog {\noutput discard\n}\nmoderation {\nstorage badger " +
		filepath.Join(dir, "data") + "\n}\n}\n"
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	terminal := os.Stderr
	os.Stderr = file
	err = caddy.Load(adapted, true)
	os.Stderr = terminal
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	shown, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(shown)
}
