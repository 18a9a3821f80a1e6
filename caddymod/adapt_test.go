// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// separator stands between a Caddyfile and what it becomes in a golden file.
const separator = "\n----------\n"

// TestAdapt compares what Caddyfiles become, and the texts of errors, with golden files: a Caddyfile, a line of
// dashes, and the JSON or the error. A JSON is also provisioned, which must work, or end in the error that a third
// part holds.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("../testdata/caddyfile/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	t.Setenv("MODERATION_TEST_KEY", acmeKey)
	t.Setenv("MODERATION_TEST_SHORT", "short")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(golden), separator)
			got := adaptText(input)
			if *update {
				if err := os.WriteFile(file, []byte(input+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// adaptText is the JSON of a Caddyfile or the error, and the error of provisioning it.
func adaptText(input string) string {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err.Error() + "\n"
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, adapted, "", "\t"); err != nil {
		return err.Error() + "\n"
	}
	text := pretty.String() + "\n"
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		return text + err.Error() + "\n"
	}
	if err := caddy.Validate(config); err != nil {
		// Caddy loads apps in no order: which of them asked for the moderation app, and failed with it, is left out.
		// So is the path to a handler.
		own := err.Error()
		for _, outer := range []string{"moderation: ", "loading handler modules: "} {
			if at := strings.LastIndex(own, outer); at >= 0 {
				own = own[at+len(outer):]
				break
			}
		}
		return text + separator[1:] + own + "\n"
	}
	return text
}
