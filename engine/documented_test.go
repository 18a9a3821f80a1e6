// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Hazard: a head is added or renamed, and the documents that list the heads do not say so.
func TestHeadsAreDocumented(t *testing.T) {
	t.Parallel()
	categories := make([]string, engine.NumCategories)
	for i := range categories {
		categories[i] = engine.Category(i).String()
	}
	attributes := make([]string, engine.NumAttributes)
	for i := range attributes {
		attributes[i] = engine.Attribute(i).String()
	}
	for _, document := range []struct {
		name  string
		lists [][]string
	}{
		{"README.md", [][]string{categories}},
		{"docs/model-card.md", [][]string{categories, attributes}},
		{"docs/evaluate.md", [][]string{categories, attributes}},
		{"caddymod/api/openapi.json", [][]string{categories, attributes}},
		{"docs/api.md", [][]string{categories, attributes}},
		{"docs/configuration.md", [][]string{categories}},
		{"docs/perspective.md", [][]string{attributes}},
	} {
		content, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(document.name)))
		if err != nil {
			t.Errorf("reading a document that lists the heads: %v", err)
			continue
		}
		for _, names := range document.lists {
			for _, name := range names {
				if !strings.Contains(string(content), name) {
					t.Errorf("%s does not mention %s, want it among the others", document.name, name)
				}
			}
		}
	}
}
