// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// showWorst prints the worst shapes: go test ./engine -run TestNoShapeCostsMuchMore -v -shapes
var showWorst = flag.Bool("shapes", false, "measure every shape at every length and print the worst ones")

// batch is how many code points are judged between two readings of the clock: enough for a text not to be remembered from
// the last time. aFew are fewer, for the test.
const batch, aFew = 100_000, 60_000

// mostOfOrdinary is what a text may cost at most, in terms of an ordinary one of the same length, and mostMeasured what the
// test lets pass: on a busy machine other programs take the caches away, and not from all texts alike.
const mostOfOrdinary, mostMeasured = 3, 4

var shapeLengths = []int{200, 2000, 10_000}

// texts makes texts of a shape, of so many code points in all.
func (s shape) texts(seed uint64, length, all int) []string {
	r := rand.New(rand.NewPCG(seed, uint64(length)))
	texts := make([]string, all/length)
	for i := range texts {
		texts[i] = s.text(r, length)
	}
	return texts
}

// race judges batches of two kinds in turns, so that what else runs on the machine slows both down, and keeps the best
// time of each: what disturbs only ever adds.
type race struct {
	against, shape func(content string) // judge a text of the other kind and of the shape
	others, texts  []string
	best           [2]time.Duration
}

func (r *race) round() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	measure := func(best *time.Duration, judge func(string), texts []string) {
		start := worked()
		for _, text := range texts {
			judge(text)
		}
		if took := (worked() - start) / time.Duration(len(texts)); *best == 0 || took < *best {
			*best = took
		}
	}
	measure(&r.best[0], r.against, r.others)
	measure(&r.best[1], r.shape, r.texts)
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
	judge := judging(b, newEngine(b, engine.Options{}))
	all, ordinary := shapes(b)
	for _, length := range shapeLengths {
		others := ordinary.texts(1, length, batch)
		for _, s := range all {
			b.Run(fmt.Sprintf("%s/%d", s.name, length), func(b *testing.B) {
				report(b, &race{against: judge, shape: judge, others: others, texts: s.texts(2, length, batch)})
			})
		}
	}
}

// judging returns a function that judges a text.
func judging(tb testing.TB, e *engine.Engine) func(string) {
	return func(content string) { moderate(tb, e, engine.Request{Content: content}) }
}

// report runs a race and reports the best times.
func report(b *testing.B, r *race) {
	r.round()
	for b.Loop() {
		r.round()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(r.best[1]), "ns/text")
	b.ReportMetric(r.ratio(), "x-ordinary")
}

// BenchmarkThemes judges ordinary texts with ten themes of 100 characters that were never seen before.
func BenchmarkThemes(b *testing.B) {
	e := newEngine(b, engine.Options{})
	_, ordinary := shapes(b)
	for _, length := range shapeLengths {
		others := ordinary.texts(1, length, batch)
		texts := others[:min(len(others), 20)]
		for _, kind := range themeKinds(b) {
			b.Run(fmt.Sprintf("%s/%d", kind.name, length), func(b *testing.B) {
				r := rand.New(rand.NewPCG(3, uint64(length)))
				judge := func(content string) {
					moderate(b, e, engine.Request{Content: content, Themes: kind.themes(r)})
				}
				report(b, &race{against: judging(b, e), shape: judge, others: others, texts: texts})
			})
		}
	}
}

// themeKind is a kind of themes.
type themeKind struct {
	name  string
	words []string
}

// themes makes ten themes of about 100 characters.
func (k themeKind) themes(r *rand.Rand) []string {
	themes := make([]string, 10)
	for i := range themes {
		var words []string
		for length := 0; ; {
			word := k.words[r.IntN(len(k.words))]
			if length += len(word) + 1; length > 100 {
				break
			}
			words = append(words, word)
		}
		themes[i] = strings.Join(words, " ")
	}
	return themes
}

func themeKinds(tb testing.TB) []themeKind {
	texts, err := everyday()
	if err != nil {
		tb.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 5))
	nonsense := make([]string, 5000)
	for i := range nonsense {
		nonsense[i] = letters(r, latin, 3, 9)
	}
	return []themeKind{
		{"sentences", strings.Fields(strings.Join(texts, " "))},
		{"words", wordsOf(texts)},
		{"wide words", strings.Fields("entity person animal plant food thing place act state group tool device body event feeling work change part")},
		{"nonsense", nonsense},
	}
}

// BenchmarkExplain explains texts that have much to explain: harmful ones in all categories.
func BenchmarkExplain(b *testing.B) {
	e := newEngine(b, engine.Options{})
	_, all := written(b)
	_, ordinary := shapes(b)
	harsh := map[string]string{
		"threats":    "i will kill you and your family, you worthless immigrant whore. hang yourself. ",
		"one threat": "i will find you and stab you in the throat. ",
	}
	for _, length := range shapeLengths {
		others := ordinary.texts(1, length, batch)
		for name, s := range map[string]shape{
			"mixed":    {piece: func(r *rand.Rand) string { return all[r.IntN(len(all))] + " " }},
			"ordinary": ordinary,
			"threats":  {piece: func(r *rand.Rand) string { return harsh["threats"] + all[r.IntN(len(all))] + " " }},
			"one in many": {piece: func(r *rand.Rand) string {
				if r.IntN(30) == 0 {
					return harsh["one threat"]
				}
				return ordinary.piece(r)
			}},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, length), func(b *testing.B) {
				explain := func(content string) {
					if _, _, err := e.Explain(b.Context(), engine.Request{Content: content}); err != nil {
						b.Fatal(err)
					}
				}
				texts := s.texts(2, length, batch)
				report(b, &race{against: judging(b, e), shape: explain, others: others, texts: texts[:min(len(texts), 50)]})
			})
		}
	}
}

// Hazard: somebody finds a text that costs many times what others of its length do, and sends it again and again.
func TestNoShapeCostsMuchMore(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("measures the time, for some seconds")
	}
	judge := judging(t, newEngine(t, engine.Options{}))
	kinds, ordinary := shapes(t)
	lengths, rounds, all := []int{2000}, 2, aFew
	if *showWorst {
		lengths, rounds, all = shapeLengths, 5, batch
	}
	type cost struct {
		name  string
		each  time.Duration
		ratio float64
	}
	var costs []cost
	for _, length := range lengths {
		others := ordinary.texts(1, length, all)
		for _, s := range kinds {
			r := race{against: judge, shape: judge, others: others, texts: s.texts(2, length, all)}
			for range rounds {
				r.round()
			}
			// A machine that does something else meanwhile gets more chances.
			for more := 0; more < 10 && r.ratio() > mostOfOrdinary; more++ {
				r.round()
			}
			costs = append(costs, cost{fmt.Sprintf("%s/%d", s.name, length), r.best[1], r.ratio()})
			if r.ratio() > mostMeasured {
				t.Errorf("%s of %d characters costs %.1f times what ordinary text does", s.name, length, r.ratio())
			}
		}
	}
	slices.SortFunc(costs, func(a, b cost) int { return cmp.Compare(b.ratio, a.ratio) })
	shown := 5
	if *showWorst {
		shown = 60
	}
	for _, c := range costs[:min(len(costs), shown)] {
		t.Logf("%5.2f x ordinary, %9v each: %s", c.ratio, c.each, c.name)
	}
}
