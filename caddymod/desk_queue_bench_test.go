// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// BenchmarkDeskQueue measures the pages of a queue with 100,000 items, 80,000 of which wait.
func BenchmarkDeskQueue(b *testing.B) {
	const items, decided, workers = 100_000, 20_000, 128
	dir := b.TempDir()
	store, err := badger.Open(badger.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	queue, err := review.New(review.Options{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	var fill sync.WaitGroup
	for w := range workers {
		fill.Go(func() {
			for n := w; n < items; n += workers {
				item := aReviewItem(fmt.Sprintf("Rude words, of %x and of %o.", n*7919, n))
				item.Author, item.Confidence = fmt.Sprintf("author_%d", n%5000), float64(n%977)/977
				item.Probabilities = map[string]float64{"harassment": float64(n%1009) / 1009}
				id, err := queue.Add(b.Context(), item)
				if err == nil && n < decided {
					_, err = queue.Decide(b.Context(), id, review.Decision{Reviewer: "gone", Action: review.Approve})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	fill.Wait()
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	load(b, queueConfig(dir, "twice 0"))
	visit(b, "erin", "/review", nil)
	for _, path := range []string{
		"/review", "/review?order=harm", "/review?order=doubt", "/review?account=none", "/review/items",
		"/review/items?status=approved", "/review/items?account=none", "/review/quality/differences",
		"/review/quality",
	} {
		for name, pause := range map[string]time.Duration{"": 0, " with counting": 5100 * time.Millisecond} {
			if pause > 0 && path != "/review" {
				continue
			}
			var took []time.Duration
			for range map[bool]int{true: 3, false: 20}[pause > 0] {
				time.Sleep(pause)
				began := time.Now()
				visit(b, "erin", path, nil)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.Logf("%-32s median %6.1f ms, worst %6.1f ms", path+name, took[len(took)/2].Seconds()*1000,
				took[len(took)-1].Seconds()*1000)
		}
	}
	// The queue of somebody who has decided many of those that wait first.
	for b.Loop() {
		visit(b, "erin", "/review", nil)
	}
}
