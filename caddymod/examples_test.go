// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// What people say in these tests. The verdicts have a distance from the levels that decide: see what the model says
// with POST /v1/moderate/text.
const (
	insult     = "Shut up, you pathetic idiot."                                  // harassment 0.999: reject
	borderline = "Your jokes are stupid and so are you."                         // harassment 0.789, between 0.7 and 0.85: review
	mocking    = "Only a fool would laugh at your jokes."                        // harassment 0.543: approve
	distress   = "I can't go on, I want to end my life."                         // self-harm 0.998: reject
	erotic     = "I want to have sex with you all night long."                   // sexual 0.998: reject
	hateful    = "All immigrants are vermin and should be exterminated."         // hate 0.998: reject
	friendly   = "The bread was excellent, thank you! ¡Qué rico! \u00e9 e\u0301" // approve
)

// examples are the tests of the files in ../examples, by name.
var examples = map[string]func(t *testing.T){
	"blog-comments": exampleBlog,
	"chat":          exampleChat,
	"contact-form":  exampleContact,
	"crisis":        exampleCrisis,
	"photo-upload":  exampleUpload,
	"llm-gateway":   exampleGateway,
	"shadow-mode":   exampleShadow,
	"per-route":     exampleRoutes,
	"error-page":    exampleErrorPage,
	"review-queue":  exampleQueue,
	"two-sites":     exampleTwoSites,
	"matcher":       exampleMatcher,
	"word-lists":    exampleWords,
	"nodes":         exampleNodes,
	"balancer":      exampleBalancer,
}

// TestExamples runs every file of examples, with an app behind it. To each something vile is posted and something fine.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.caddyfile")
	if err != nil || len(files) != len(examples) {
		t.Errorf("got %d examples (%v), want the %d that are tested", len(files), err, len(examples))
	}
	page, err := os.ReadFile("../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../examples/" + name + ".caddyfile")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(caddyfile.Format(text), text) {
				t.Error("it is not formatted as caddy fmt does")
			}
			if !bytes.Contains(page, []byte("(../examples/"+name+".caddyfile)")) {
				t.Error("docs/recipes.md has no link to it")
			}
			examples[name](t)
		})
	}
}

// runExample runs an example until the test ends. Pairs say what stands in it and what to put there: addresses of
// apps and names of files.
func runExample(t *testing.T, name string, pairs ...string) {
	t.Helper()
	text, err := os.ReadFile("../examples/" + name + ".caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(config, pairs[i]) {
			t.Fatalf("the example %s: got no %q in it, want some to replace", name, pairs[i])
		}
		config = strings.ReplaceAll(config, pairs[i], pairs[i+1])
	}
	config = strings.ReplaceAll(config, "localhost:8080", exampleAddr)
	load(t, `{
	admin `+adminAddr+`
	persist_config off
	log {
		output discard
	}
	moderation {
		storage badger `+filepath.Join(t.TempDir(), "data")+`
		demo off
	}
}
`+config)
}
