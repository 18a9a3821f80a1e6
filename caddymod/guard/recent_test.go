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
			const slots = recentSets * recentWays
			for i := range 4 * slots {
				// Some come again soon, and all of them are more than what is remembered.
				number := i % (2 * slots)
				if i%4 == 0 {
					number = i % 1000
				}
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

// TestRecentRemembersWhatComesAgain guards against texts that drive each other out while there is room.
func TestRecentRemembersWhatComesAgain(t *testing.T) {
	t.Parallel()
	memory := newRecent()
	const texts = recentSets * recentWays / 4
	for number := range texts {
		memory.keep(memory.hash(strconv.Itoa(number)), engine.Result{TokensUsed: number})
	}
	forgotten := 0
	for number := range texts {
		if _, known := memory.find(memory.hash(strconv.Itoa(number))); !known {
			forgotten++
		}
	}
	if forgotten > texts/100 {
		t.Errorf("%d of %d texts are forgotten", forgotten, texts)
	}
}
