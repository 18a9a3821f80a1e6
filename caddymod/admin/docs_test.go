// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestDocumented checks that docs/operations.md names every route and every command.
func TestDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(text)
	for _, route := range new(API).Routes() {
		documented := strings.Contains(document, "`"+route.Pattern+"`") || strings.Contains(document, "`"+route.Pattern+"?")
		if !documented && route.Pattern != "/moderation/" {
			t.Errorf("docs/operations.md: got no route %s, want it documented", route.Pattern)
		}
	}
	root := &cobra.Command{Use: "moderation"}
	newCLI().addTo(root)
	var check func(command *cobra.Command)
	check = func(command *cobra.Command) {
		for _, sub := range command.Commands() {
			check(sub)
		}
		path := strings.TrimPrefix(command.CommandPath(), "moderation ")
		documented := strings.Contains(document, path+" ") || strings.Contains(document, "`"+path+"`")
		if !command.HasSubCommands() && !documented {
			t.Errorf("docs/operations.md: got no command %q, want it documented", path)
		}
	}
	check(root)
}
