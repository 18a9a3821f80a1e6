// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// TestCacheNeverMistakesOneTextForAnother guards against a verdict on one text that is given for another, also while many
// take each other's places.
func TestCacheNeverMistakesOneTextForAnother(t *testing.T) {
	t.Parallel()
	memory := newCache()
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			hits := 0
			const slots = cacheSets * cacheWays
			for i := range 4 * slots {
				// Some come again soon, and all of them are more than what is remembered.
				number := i % (2 * slots)
				if i%4 == 0 {
					number = i % 1000
				}
				hash := memory.hash("text " + strconv.Itoa(number))
				result, known := memory.get(hash)
				if known && result.TokensUsed != number {
					t.Errorf("text %d is taken for %d", number, result.TokensUsed)
				}
				if known {
					hits++
				}
				memory.set(hash, engine.Result{TokensUsed: number})
			}
			if hits == 0 {
				t.Errorf("worker %d: nothing was remembered", worker)
			}
		})
	}
	wait.Wait()
}

// TestCacheSeedsDiffer guards against hashes that can be foretold.
func TestCacheSeedsDiffer(t *testing.T) {
	t.Parallel()
	a, b := newCache(), newCache()
	if hash := a.hash("x"); hash == b.hash("x") || hash[0] == hash[1] {
		t.Errorf("%v", hash)
	}
}

// TestCacheRemembersWhatComesAgain guards against texts that drive each other out while there is room.
func TestCacheRemembersWhatComesAgain(t *testing.T) {
	t.Parallel()
	memory := newCache()
	const texts = cacheSets * cacheWays / 4
	for number := range texts {
		memory.set(memory.hash(strconv.Itoa(number)), engine.Result{TokensUsed: number})
	}
	forgotten := 0
	for number := range texts {
		if _, known := memory.get(memory.hash(strconv.Itoa(number))); !known {
			forgotten++
		}
	}
	if forgotten > texts/100 {
		t.Errorf("%d of %d texts are forgotten", forgotten, texts)
	}
}
