// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

func TestEveryHeadHasItsPlaceInTheReport(t *testing.T) {
	t.Parallel()
	for h, threshold := range Thresholds {
		if !(threshold > 0 && threshold < 1) {
			t.Errorf("the report's threshold of %s is %v, want one above 0 and below 1", model.HeadNames[h], threshold)
		}
	}
}
