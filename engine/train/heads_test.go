// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// The constants in sources.go name the heads of package model, in their order. Where their number differs, this assignment
// does not compile: package model's documentation says how a head is added.
var _ [spam + 1]struct{} = [model.Heads]struct{}{}

func TestEveryHeadHasItsPlaceInTheReport(t *testing.T) {
	t.Parallel()
	if categories != model.NumCategories {
		t.Errorf("%d categories, want %d as in package model", categories, model.NumCategories)
	}
	for h, threshold := range Thresholds {
		if !(threshold > 0 && threshold < 1) {
			t.Errorf("the report's threshold of %s is %v, want one above 0 and below 1", model.HeadNames[h], threshold)
		}
	}
}
