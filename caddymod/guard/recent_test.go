// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// TestRecentNeverMistakesOneTextForAnother guards against a verdict on one text that is given for another, also while many
// take each other's places.
func TestRecentNeverMistakesOneTextForAnother(t *testing.T) {
	t.Parallel()
	memory := newRecent()
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			hits := 0
			for i := range 4 * recentSlots {
				number := i % (2 * recentSlots)
				hash := memory.hash("text " + strconv.Itoa(number))
				result, known := memory.find(hash)
				if known && result.TokensUsed != number {
					t.Errorf("text %d is taken for %d", number, result.TokensUsed)
				}
				if known {
					hits++
				}
				memory.keep(hash, engine.Result{TokensUsed: number})
			}
			if hits == 0 {
				t.Errorf("worker %d: nothing was remembered", worker)
			}
		})
	}
	wait.Wait()
}

// TestRecentSeedsDiffer guards against hashes that can be foretold.
func TestRecentSeedsDiffer(t *testing.T) {
	t.Parallel()
	a, b := newRecent(), newRecent()
	if hash := a.hash("x"); hash == b.hash("x") || hash[0] == hash[1] {
		t.Errorf("%v", hash)
	}
}
