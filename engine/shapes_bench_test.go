// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// showWorst prints the worst shapes: go test ./engine -run TestNoShapeCostsMuchMore -v -shapes
var showWorst = flag.Bool("shapes", false, "measure every shape at every length and print the worst ones")

// batch is how many code points are judged between two readings of the clock.
const batch = 100_000

// mostOfOrdinary is what a text may cost at most, in terms of an ordinary one of the same length.
const mostOfOrdinary = 3

var shapeLengths = []int{200, 2000, 10_000}

// texts makes texts of a shape, a batch.
func (s shape) texts(seed uint64, length int) []string {
	r := rand.New(rand.NewPCG(seed, uint64(length)))
	texts := make([]string, batch/length)
	for i := range texts {
		texts[i] = s.text(r, length)
	}
	return texts
}

// race judges batches of two kinds in turns, so that what else runs on the machine slows both down, and keeps the best
// time of each: what disturbs only ever adds.
type race struct {
	judge          func(content string)
	shape, against []string
	best           [2]time.Duration
}

func (r *race) round() {
	for i, texts := range [][]string{r.against, r.shape} {
		start := time.Now()
		for _, text := range texts {
			r.judge(text)
		}
		if took := time.Since(start); r.best[i] == 0 || took < r.best[i] {
			r.best[i] = took
		}
	}
}

// ratio is what the shape costs in terms of the other.
func (r *race) ratio() float64 { return float64(r.best[1]) / float64(r.best[0]) }

// shapes returns the hostile shapes and the ordinary one.
func shapes(tb testing.TB) (all []shape, ordinary shape) {
	texts, err := everyday()
	if err != nil {
		tb.Fatal(err)
	}
	ordinary = shape{"ordinary", func(r *rand.Rand) string { return texts[r.IntN(len(texts))] + oneOf(r, " ", "\n") }}
	return append(hostile(wordsOf(texts)), ordinary), ordinary
}

// BenchmarkShapes judges texts that are made to be slow. Its x-ordinary is what they cost in terms of ordinary text of the
// same length, which is judged in turns with them.
func BenchmarkShapes(b *testing.B) {
	judge := newEngine(b, engine.Options{})
	all, ordinary := shapes(b)
	for _, length := range shapeLengths {
		against := ordinary.texts(1, length)
		for _, s := range all {
			b.Run(fmt.Sprintf("%s/%d", s.name, length), func(b *testing.B) {
				r := race{judge: func(content string) { moderate(b, judge, engine.Request{Content: content}) }, shape: s.texts(2, length), against: against}
				r.round()
				for b.Loop() {
					r.round()
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(r.best[1])/float64(len(r.shape)), "ns/text")
				b.ReportMetric(r.ratio(), "x-ordinary")
			})
		}
	}
}

// Hazard: somebody finds a text that costs many times what others of its length do, and sends it again and again.
func TestNoShapeCostsMuchMore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	judge := newEngine(t, engine.Options{})
	all, ordinary := shapes(t)
	lengths, rounds := []int{2000}, 3
	if *showWorst {
		lengths, rounds = shapeLengths, 5
	}
	type cost struct {
		name  string
		each  time.Duration
		ratio float64
	}
	var costs []cost
	for _, length := range lengths {
		against := ordinary.texts(1, length)
		for _, s := range all {
			r := race{judge: func(content string) { moderate(t, judge, engine.Request{Content: content}) }, shape: s.texts(2, length), against: against}
			for range rounds {
				r.round()
			}
			// A machine that does something else meanwhile gets more chances.
			for more := 0; more < 3 && r.ratio() > mostOfOrdinary; more++ {
				r.round()
			}
			costs = append(costs, cost{fmt.Sprintf("%s/%d", s.name, length), r.best[1] / time.Duration(len(r.shape)), r.ratio()})
			if r.ratio() > mostOfOrdinary {
				t.Errorf("%s of %d characters costs %.1f times what ordinary text does", s.name, length, r.ratio())
			}
		}
	}
	slices.SortFunc(costs, func(a, b cost) int { return cmp.Compare(b.ratio, a.ratio) })
	if !*showWorst {
		costs = costs[:5]
	}
	for _, c := range costs[:min(len(costs), 60)] {
		t.Logf("%5.2f x ordinary, %9v each: %s", c.ratio, c.each, c.name)
	}
}
