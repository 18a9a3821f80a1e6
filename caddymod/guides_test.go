// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// caddyfileBlock is a Caddyfile in a page.
var caddyfileBlock = regexp.MustCompile("(?s)```caddyfile\n(.*?)```")

// TestGuides: people copy the Caddyfiles of the guides when they have no time to find out what is wrong with them.
func TestGuides(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/migrate-*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no guides: %v", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := caddyfileBlock.FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no Caddyfile", page)
		}
		for i, block := range blocks {
			t.Run(fmt.Sprintf("%s %d", filepath.Base(page), i+1), func(t *testing.T) {
				t.Parallel()
				_, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(block[1], map[string]any{"filename": "Caddyfile"})
				if err != nil || len(warnings) > 0 {
					t.Errorf("%v %v", err, warnings)
				}
			})
		}
	}
}
