// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// caddyfileBlock is a Caddyfile in a page.
var caddyfileBlock = regexp.MustCompile("(?s)```caddyfile\n(.*?)```")

// TestGuides adapts the Caddyfiles of the README and of pages that are copied from: people do that without time to find
// out what is wrong.
func TestGuides(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/migrate-*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("finding the guides: got %d pages (%v), want some", len(pages), err)
	}
	pages = append(pages, "../README.md", "../docs/api.md", "../docs/configuration.md", "../docs/evaluate.md")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := caddyfileBlock.FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s: got no Caddyfile, want at least one", page)
		}
		for i, block := range blocks {
			t.Run(fmt.Sprintf("%s %d", filepath.Base(page), i+1), func(t *testing.T) {
				t.Parallel()
				_, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(block[1], map[string]any{"filename": "Caddyfile"})
				if err != nil || len(warnings) > 0 {
					t.Errorf("adapting: got the error %v and the warnings %v, want none", err, warnings)
				}
			})
		}
	}
}

// TestGuardPageConfigures provisions every Caddyfile, or part of one, in docs/guard.md.
func TestGuardPageConfigures(t *testing.T) {
	page, err := os.ReadFile("../docs/guard.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := caddyfileBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 {
		t.Errorf("docs/guard.md: got %d Caddyfiles, want at least 4", len(blocks))
	}
	for i, found := range blocks {
		block := found[1]
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			if !strings.Contains(block, "localhost:8080 {") && !strings.Contains(block, "example.com {") {
				block = "http://" + exampleAddr + " {\n" + block + "}\n"
			}
			config := new(caddy.Config)
			if err := json.Unmarshal(adapt(t, block), config); err != nil {
				t.Fatal(err)
			}
			if err := caddy.Validate(config); err != nil {
				t.Errorf("validating: %v in:\n%s", err, block)
			}
		})
	}
}
