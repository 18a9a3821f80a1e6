// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// otherWork is what a server does between two texts, to the processor's caches: it reads as much memory as its fastest
// levels hold.
type otherWork []uint64

func newOtherWork() otherWork { return make(otherWork, 1<<20/8) }

// do reads one word of each cache line.
func (w otherWork) do() (sum uint64) {
	for i := 0; i < len(w); i += 8 {
		sum += w[i]
	}
	return sum
}

// BenchmarkModerateCold moderates texts as a server does: each is another one, and other work has taken the
// processor's caches since the one before. Its ns/text is the processor time of moderating alone. Ordinary texts
// are everyday ones, of which the network classifies some; the mixed ones are half harmful, and the network
// classifies nearly all of them.
func BenchmarkModerateCold(b *testing.B) {
	e := newEngine(b, engine.Options{})
	_, ordinary := shapes(b)
	_, all := corpus(b)
	mixed := shape{"mixed", func(r *rand.Rand) string { return oneOf(r, all...) + " " }}
	work := newOtherWork()
	for _, s := range []shape{ordinary, mixed} {
		for _, length := range shapeLengths {
			texts := s.texts(1, length, 2_000_000)
			b.Run(fmt.Sprintf("%s/%d", s.name, length), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				b.ReportAllocs()
				var sum uint64
				var took time.Duration
				for i := 0; b.Loop(); i++ {
					sum += work.do()
					start := threadTime()
					moderate(b, e, engine.Request{Content: texts[i%len(texts)]})
					took += threadTime() - start
				}
				b.ReportMetric(float64(took)/float64(b.N), "ns/text")
				_ = sum
			})
		}
	}
}
