// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files that the pages show into them")

// shownFile is a block that shows a whole file: its mark, the fence, and what is between the fences.
var shownFile = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```[a-z]+\n(.*?)```\n")

// Hazard: people copy an example from a page, and CI runs another one. Write the files into the pages with:
// go test ./docs -run TestPagesShowFiles -update
func TestPagesShowFiles(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		changed := shownFile.ReplaceAllStringFunc(string(text), func(block string) string {
			found := shownFile.FindStringSubmatch(block)
			file, err := os.ReadFile(filepath.Join(root, found[1]))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return block
			}
			shown[found[1]] = true
			if found[2] != string(file) && !*update {
				t.Errorf("%s shows another %s than there is; write it there with -update", name, found[1])
			}
			return strings.TrimSuffix(block, found[2]+"```\n") + string(file) + "```\n"
		})
		if *update && changed != string(text) {
			if err := os.WriteFile(name, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	clients, err := filepath.Glob(filepath.Join(root, "examples/clients/*"))
	if err != nil || len(clients) < 4 {
		t.Fatalf("got %d client examples (%v), want at least 4", len(clients), err)
	}
	for _, file := range clients {
		if name := "examples/clients/" + filepath.Base(file); !shown[name] {
			t.Errorf("docs/clients.md does not show %s", name)
		}
	}
}
