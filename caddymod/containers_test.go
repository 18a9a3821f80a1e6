// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// TestContainerCaddyfiles guards against an image, a compose file or a pod whose configuration the server refuses, and
// against a recipe that nobody can paste. scripts/containers and scripts/clients run them.
func TestContainerCaddyfiles(t *testing.T) {
	for _, row := range []struct {
		file   string
		secret string // the file of a key, in whose place one of the test's stands
		env    string // of MODERATION_DEMO
		fails  string // what the error says
	}{
		{file: "../packaging/docker/Caddyfile"},
		{file: "../packaging/docker/Caddyfile", env: "on"},
		{file: "../packaging/docker/Caddyfile", env: "perhaps", fails: "perhaps"},
		{file: "../packaging/compose/Caddyfile", secret: "/run/secrets/api_key"},
		{file: "../packaging/kubernetes/base/Caddyfile", secret: "/run/secrets/moderation/website"},
		{file: "../packaging/compose/Caddyfile", fails: "/run/secrets/api_key"},
	} {
		t.Run(row.file+" "+row.env, func(t *testing.T) {
			if row.env != "" {
				t.Setenv("MODERATION_DEMO", row.env)
			}
			text, err := os.ReadFile(row.file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(caddyfile.Format(text), text) {
				t.Error("it is not formatted as caddy fmt does")
			}
			if row.secret != "" {
				key := filepath.Join(t.TempDir(), "key")
				if err := os.WriteFile(key, []byte(acmeKey), 0o600); err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(text, []byte(row.secret)) {
					t.Fatalf("got no %s in it, want the file of the key", row.secret)
				}
				text = bytes.ReplaceAll(text, []byte(row.secret), []byte(key))
			}
			err = validate(text)
			switch {
			case err != nil && (row.fails == "" || !strings.Contains(err.Error(), row.fails)):
				t.Errorf("got the error %v, want %q", err, row.fails)
			case err == nil && row.fails != "":
				t.Errorf("got no error, want one with %q", row.fails)
			}
		})
	}
}

// TestFixedHostsCaddyfile reads the recipe of docs/fixed-hosts.md.
func TestFixedHostsCaddyfile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/fixed-hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n```caddyfile\n")
	text, _, ok := strings.Cut(text, "\n```\n")
	if !ok {
		t.Fatal("the page has no Caddyfile")
	}
	text += "\n"
	if string(caddyfile.Format([]byte(text))) != text {
		t.Error("it is not formatted as caddy fmt does")
	}
	if _, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil); err != nil || len(warnings) > 0 {
		t.Errorf("got the error %v and the warnings %v, want none", err, warnings)
	}
}

// validate adapts a Caddyfile and provisions what it says, as "caddy validate" does.
func validate(text []byte) error {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		return err
	}
	return caddy.Validate(config)
}
