// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// A placeholder that is left in a sentence, or a group that has contempt and no refusal of it, would teach nonsense.
func TestPatternsAreWholeAndBalanced(t *testing.T) {
	t.Parallel()
	all := train.Patterns()
	if again := train.Patterns(); !reflect.DeepEqual(all, again) {
		t.Error("two calls made different sentences, want the same")
	}
	seen := map[string]int{}
	harmful := 0
	for _, e := range all {
		if strings.ContainsAny(e.Text, "%{}") || strings.Contains(e.Text, "  ") || strings.TrimSpace(e.Text) != e.Text {
			t.Errorf("%q is not a whole sentence", e.Text)
		}
		seen[e.Text]++
		if !e.Harmless() {
			harmful++
		}
	}
	if len(seen) < len(all)*9/10 {
		t.Errorf("%d of %d sentences differ, want nine of ten", len(seen), len(all))
	}
	if stances := len(train.Stances()); 2*harmful != stances {
		t.Errorf("%d of %d stances are contempt, want half", harmful, stances)
	}
	for _, e := range train.Captions() {
		if !e.Harmless() {
			t.Errorf("the caption %q is harmful, want none", e.Text)
		}
	}
}
