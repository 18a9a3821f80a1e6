// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// A report that changes from run to run, or noise that leaves a text as it is, would measure nothing.
func TestNoiseChangesTextsTheSameWayEveryTime(t *testing.T) {
	t.Parallel()
	const content = "Nobody should believe everything that people write on walls, not even on old ones."
	for _, n := range train.Noises {
		half, all := n.Apply(content, 0.5, 3), n.Apply(content, 1, 3)
		if half == content || all == content {
			t.Errorf("%s: got the text as it was, want it disguised", n.Name)
		}
		if half != n.Apply(content, 0.5, 3) || all != n.Apply(content, 1, 3) {
			t.Errorf("%s: two calls gave different texts, want the same", n.Name)
		}
		if n.Name == "joined" {
			if strings.Contains(strings.TrimRight(all, "."), "should ") {
				t.Errorf("joined: got %q, want no spaces after long words", all)
			}
			continue
		}
		for _, short := range []string{" on ", " not ", " old "} {
			if !strings.Contains(all, short) {
				t.Errorf("%s: got %q, want words of fewer than four letters as they were", n.Name, all)
			}
		}
	}
}

func TestNoiseLeavesTextWithoutLongWordsAlone(t *testing.T) {
	t.Parallel()
	for _, n := range train.Noises {
		for _, content := range []string{"", "I am not so, 12345!", "😀"} {
			if got := n.Apply(content, 1, 1); got != content {
				t.Errorf("%s: got %q, want %q as it was", n.Name, got, content)
			}
		}
	}
}
