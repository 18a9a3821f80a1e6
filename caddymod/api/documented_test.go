// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// provisionedAPI returns what the handler makes of a directive, as JSON: every option of its parts, with the defaults.
func provisionedAPI(t *testing.T, directive string) string {
	t.Helper()
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		t.Fatal(err)
	}
	handler := new(API)
	if err := handler.UnmarshalCaddyfile(caddyfile.NewTestDispenser(directive)); err != nil {
		t.Fatal(err)
	}
	if err := handler.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	if err := handler.Validate(); err != nil {
		t.Fatal(err)
	}
	handler.BodyTimeout = handler.text.BodyTimeout // where its default is filled in
	document, err := json.MarshalIndent(handler, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

// Hazard: docs/configuration.md states a default of moderation_api that is another one.
func TestEveryDefaultIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- test: defaults of moderation_api -->\n```caddyfile\n")
	block, _, closed := strings.Cut(rest, "```\n")
	_, block, inSite := strings.Cut(block, "{\n")
	block, _, ended := strings.Cut(block, "\n}\n")
	if !found || !closed || !inSite || !ended {
		t.Fatal("docs/configuration.md: got no site with the defaults of moderation_api")
	}
	given, want := provisionedAPI(t, block), provisionedAPI(t, "moderation_api")
	if given != want {
		t.Errorf("the documented defaults: got\n%s\nwant those of an empty directive,\n%s", given, want)
	}
	for _, option := range []string{"body_timeout", "unscored", "max_inputs", "max_characters", "max_body"} {
		if !strings.Contains(want, `"`+option+`"`) || !strings.Contains(block, "\t"+option+" ") {
			t.Errorf("the option %s: want it in the block and among the defaults:\n%s", option, want)
		}
	}
}
