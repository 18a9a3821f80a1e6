// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Hazard: the README's first screen tells other figures of misses and false alarms than the model card has measured.
func TestReadmeTellsTheMeasuredLimit(t *testing.T) {
	t.Parallel()
	card, err := os.ReadFile("model-card.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	// Of 100 texts: flagged harmful and harmless ones of the examination, and of the annotated texts by strangers.
	exam := rates(t, string(card), `(?m)^\| all \| 1995 \| \d+ \| [\d.]+ \| ([\d.]+) \| ([\d.]+) \|$`)
	strangers := rates(t, string(card), `(?m)^\| annotated \| \d+ \| \d+ \| [\d.]+ \| ([\d.]+) \| ([\d.]+) \|$`)
	text := strings.Join(strings.Fields(string(readme)), " ")
	for _, want := range []string{
		fmt.Sprintf("it flagged %d of 100 harmful texts of an examination", exam[0]),
		fmt.Sprintf("only %d of 100 harmful texts by strangers", strangers[0]),
		fmt.Sprintf("it flagged %d and %d of 100", exam[1], strangers[1]),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("README.md: got no %q, want what docs/model-card.md has", want)
		}
	}

	_, table, found := strings.Cut(string(card), "## Ordinary harmless text that is flagged\n")
	table, _, _ = strings.Cut(table, "\n## ")
	kinds := regexp.MustCompile(`(?m)^\| \w+ \| \d+ \| ([\d.]+) % `).FindAllStringSubmatch(table, -1)
	few := 0
	for _, kind := range kinds {
		if share, err := strconv.ParseFloat(kind[1], 64); err == nil && share < 1 {
			few++
		}
	}
	const most = "of most kinds of ordinary text, fewer than 1 of 100"
	if !found || len(kinds) < 10 || few < len(kinds)*8/10 || !strings.Contains(text, most) {
		t.Errorf("%d of %d kinds of ordinary text are flagged in fewer than 1 of 100; README.md has %q: %v", few, len(kinds),
			most, strings.Contains(text, most))
	}
}

// rates returns how many of 100 texts a row of the card says are flagged: of harmful and of harmless ones.
func rates(t *testing.T, card, row string) (of100 [2]int) {
	t.Helper()
	found := regexp.MustCompile(row).FindStringSubmatch(card)
	if found == nil {
		t.Fatalf("docs/model-card.md: got no row %s", row)
	}
	recall, errRecall := strconv.ParseFloat(found[1], 64)
	specificity, errSpecificity := strconv.ParseFloat(found[2], 64)
	if errRecall != nil || errSpecificity != nil {
		t.Fatalf("docs/model-card.md: got the figures %q, want numbers", found)
	}
	return [2]int{int(math.Round(100 * recall)), int(math.Round(100 * (1 - specificity)))}
}
