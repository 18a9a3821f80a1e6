// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/review"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// waiting is how many items wait in the benchmarks: go test -bench . ./review -waiting 100000
var waiting = flag.Int("waiting", 5000, "how many items wait in the queue of the benchmarks")

// BenchmarkQueue serves, lists, counts and decides items of a long queue in the embedded database.
func BenchmarkQueue(b *testing.B) {
	s, err := badger.Open(badger.Options{Dir: b.TempDir()})
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	q := open(b, review.Options{Store: s})
	var wg sync.WaitGroup
	const workers = 64
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < *waiting; i += workers {
				item := post(fmt.Sprintf("The text of post %d, which is as long as comments often are, and which a person "+
					"should decide because the service is not sure of it.", i))
				item.Probabilities = map[string]float64{"hate": float64(i%1000) / 1000}
				item.Author = fmt.Sprint("author_", i%5000)
				if _, err := q.Add(background, item); err != nil {
					b.Errorf("Add: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for _, order := range review.Orders() {
		b.Run("next by "+string(order), func(b *testing.B) {
			for b.Loop() {
				item, err := q.Next(background, "ann", order, "")
				must(b, err)
				must(b, q.Release(background, "ann", item.ID))
			}
		})
	}
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			_, _, err := q.List(background, review.Query{Limit: 50})
			must(b, err)
		}
	})
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			_, _, err := q.Stats(background)
			must(b, err)
		}
	})
	b.Run("author", func(b *testing.B) {
		for b.Loop() {
			_, _, err := q.OfAuthor(background, "author_7", "acme", 10)
			must(b, err)
		}
	})
	b.Run("next and decide", func(b *testing.B) {
		for b.Loop() {
			item, err := q.Next(background, "ann", review.ByAge, "")
			must(b, err)
			decide(b, q, item.ID, "ann", review.Approve)
		}
	})
	b.Run("add", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, err := q.Add(background, post("another text"))
				must(b, err)
			}
		})
	})
}
