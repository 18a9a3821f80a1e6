// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// Ids have the promised shape and differ.
func TestIDs(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile("^mod_[0-9A-Za-z]{24}$")
	seen := map[string]bool{}
	random := rand.NewChaCha8([32]byte{1})
	for range 5000 {
		id := newID(random)
		if !shape.MatchString(id) || seen[id] {
			t.Fatalf("got id %q after %d others, want a new one of the form %v", id, len(seen), shape)
		}
		seen[id] = true
	}
}

// A request without randomness has an id, too.
func TestIDWithoutRandomness(t *testing.T) {
	t.Parallel()
	const want = "mod_000000000000000000000000"
	if got := newID(strings.NewReader("short")); got != want {
		t.Errorf("got id %q, want %q", got, want)
	}
}
