// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPromisesAreTried guards against promises of docs/scaling.md that no round tries to break, and against rounds that
// try to break what nobody promises: each row of "What holds" is what a round says, and the page says what each round
// does.
func TestPromisesAreTried(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, r := range rounds {
		if !strings.Contains(page, r.promise) {
			t.Errorf("the round %s tries to break what the page does not promise: %q", r.name, r.promise)
		}
	}
	_, section, found := strings.Cut(string(text), "\n## What holds\n")
	if !found {
		t.Fatal("the page has no section \"What holds\"")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "Promise" {
			continue
		}
		rows++
		promise := strings.TrimSpace(cells[1])
		if !slices.ContainsFunc(rounds, func(r *round) bool { return r.promise == promise }) {
			t.Errorf("no round tries to break %q", promise)
		}
	}
	if rows == 0 {
		t.Error("the section promises nothing in a table")
	}
}
