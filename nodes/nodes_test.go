// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/nodes"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// TestList guards against a node that is gone and seems to be there, against one that is there twice, and against a
// list that grows with each start.
func TestList(t *testing.T) {
	t.Parallel()
	list := nodes.List{Store: storagetest.NewMemory()}
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []struct {
		id, name string
		ago      time.Duration
	}{
		{"old", "a", 48 * time.Hour}, {"gone", "b", time.Hour}, {"two", "d", time.Minute}, {"one", "c", 30 * time.Second},
		{"one", "c", 0}, {"ended", "e", 0},
	} {
		must(list.Add(t.Context(), nodes.Node{ID: node.id, Name: node.name}, now.Add(-node.ago)))
	}
	must(list.Remove(t.Context(), "ended"))
	shown := func() string {
		t.Helper()
		all, err := list.All(t.Context(), now)
		must(err)
		var names []string
		for _, node := range all {
			names = append(names, map[bool]string{true: "!", false: ""}[node.Gone(now)]+node.ID)
		}
		return strings.Join(names, " ")
	}
	if got := shown(); got != "one two !gone" {
		t.Errorf("got %q", got)
	}
	must(list.Trim(t.Context(), now.Add(23*time.Hour+30*time.Minute)))
	if got := shown(); got != "one two" {
		t.Errorf("after a trim: got %q", got)
	}
}
