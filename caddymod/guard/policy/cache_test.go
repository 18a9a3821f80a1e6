// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// TestCacheNeverMistakesOneTextForAnother guards against what is said about one text and taken for another, also while
// many take each other's places.
func TestCacheNeverMistakesOneTextForAnother(t *testing.T) {
	t.Parallel()
	cached := newCache()
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
				hash := cached.hash("text " + strconv.Itoa(number))
				result, known := cached.get(hash)
				if known && result.TokensUsed != number {
					t.Errorf("text %d is taken for %d", number, result.TokensUsed)
				}
				if known {
					hits++
				}
				cached.set(hash, engine.Result{TokensUsed: number})
			}
			if hits == 0 {
				t.Errorf("worker %d: nothing was remembered", worker)
			}
		})
	}
	wait.Wait()
}

// TestCacheSeedsDiffer guards against hashes that can be predicted.
func TestCacheSeedsDiffer(t *testing.T) {
	t.Parallel()
	a, b := newCache(), newCache()
	if hash := a.hash("x"); hash == b.hash("x") || hash[0] == hash[1] {
		t.Errorf("the hash is %x, want two that differ, and others than those of another cache", hash)
	}
}

// TestCacheRemembersWhatComesAgain guards against texts that drive each other out while there is room.
func TestCacheRemembersWhatComesAgain(t *testing.T) {
	t.Parallel()
	cached := newCache()
	const texts = cacheSets * cacheWays / 4
	for number := range texts {
		cached.set(cached.hash(strconv.Itoa(number)), engine.Result{TokensUsed: number})
	}
	forgotten := 0
	for number := range texts {
		if _, known := cached.get(cached.hash(strconv.Itoa(number))); !known {
			forgotten++
		}
	}
	if forgotten > texts/100 {
		t.Errorf("%d of %d texts are forgotten", forgotten, texts)
	}
}

// BenchmarkCache has texts that are known, and texts of which three of four are.
func BenchmarkCache(b *testing.B) {
	texts := make([]string, 1<<16)
	for i := range texts {
		texts[i] = "The committee met on Tuesday to talk about the new playground, and nobody agreed. " + strconv.Itoa(i)
	}
	b.Run("known", func(b *testing.B) {
		cached := newCache()
		for i := range 1000 {
			cached.set(cached.hash(texts[i]), engine.Result{TokensUsed: i})
		}
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				cached.get(cached.hash(texts[i%1000]))
			}
		})
	})
	b.Run("mixed", func(b *testing.B) {
		cached := newCache()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				text := texts[i%1000]
				if i%4 == 0 {
					text = texts[i%len(texts)]
				}
				hash := cached.hash(text)
				if _, known := cached.get(hash); !known {
					cached.set(hash, engine.Result{TokensUsed: i})
				}
			}
		})
	})
}
