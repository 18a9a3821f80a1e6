// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestDocumentedWhole: docs/operations.md names every route and every command.
func TestDocumentedWhole(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(text)
	for _, route := range new(API).Routes() {
		if !strings.Contains(document, "`"+route.Pattern+"`") && !strings.Contains(document, "`"+route.Pattern+"?") && route.Pattern != "/moderation/" {
			t.Errorf("the route %s is not documented", route.Pattern)
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
		if !command.HasSubCommands() && !strings.Contains(document, path+" ") && !strings.Contains(document, "`"+path+"`") {
			t.Errorf("the command %q is not documented", path)
		}
	}
	check(root)
}
