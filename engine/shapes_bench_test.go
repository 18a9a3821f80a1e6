// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// showSlowest prints the slowest shapes: go test ./engine -run TestNoShapeCostsMuchMore -v -shapes
var showSlowest = flag.Bool("shapes", false, "measure every shape at every length and print the slowest ones")

// batch is the number of code points that are moderated between two looks at the clock: enough for a text to be out of
// the caches when its turn comes again. testBatch is the smaller one of the test.
const batch, testBatch = 100_000, 60_000

// maxRatio is what a text may cost at most, relative to an ordinary one of the same length: what looks as if it were in
// several languages is read by their models, too. maxMeasured is what the test lets pass: on a busy machine other
// programs take the caches away, and not from all texts alike.
const maxRatio, maxMeasured = 5, 8

var shapeLengths = []int{200, 2000, 10_000}

// texts makes texts of a shape, each of length code points and all together of all.
func (s shape) texts(seed uint64, length, all int) []string {
	r := rand.New(rand.NewPCG(seed, uint64(length)))
	texts := make([]string, all/length)
	for i := range texts {
		texts[i] = s.text(r, length)
	}
	return texts
}

// comparison moderates batches of ordinary texts and of texts of a shape in turns, so that other programs slow both
// down, and keeps the shortest time of each: a disturbance can only add.
type comparison struct {
	moderateOrdinary, moderateShape func(content string)
	ordinary, texts                 []string
	best                            [2]time.Duration // for a text, of ordinary ones and of the shape
}

// round moderates all texts once.
func (c *comparison) round() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	measure := func(best *time.Duration, moderate func(string), texts []string) {
		start := threadTime()
		for _, text := range texts {
			moderate(text)
		}
		if took := (threadTime() - start) / time.Duration(len(texts)); *best == 0 || took < *best {
			*best = took
		}
	}
	measure(&c.best[0], c.moderateOrdinary, c.ordinary)
	measure(&c.best[1], c.moderateShape, c.texts)
}

// ratio is what a text of the shape costs, relative to an ordinary one.
func (c *comparison) ratio() float64 { return float64(c.best[1]) / float64(c.best[0]) }

// shapes returns the hostile shapes and the ordinary one.
func shapes(tb testing.TB) (all []shape, ordinary shape) {
	texts, err := everyday()
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skip("needs engine/train/corpus, which is in a checkout of the repository but not in the module cache")
	}
	if err != nil {
		tb.Fatal(err)
	}
	ordinary = shape{"ordinary", func(r *rand.Rand) string { return texts[r.IntN(len(texts))] + oneOf(r, " ", "\n") }}
	return append(hostile(wordsOf(texts)), ordinary), ordinary
}

// BenchmarkShapes moderates texts that are made to be slow. Its x-ordinary is what they cost relative to ordinary text
// of the same length, which it moderates in turns with them.
func BenchmarkShapes(b *testing.B) {
	moderated := moderator(b, newEngine(b, engine.Options{}))
	all, ordinary := shapes(b)
	for _, length := range shapeLengths {
		ordinaryTexts := ordinary.texts(1, length, batch)
		for _, s := range all {
			b.Run(fmt.Sprintf("%s/%d", s.name, length), func(b *testing.B) {
				report(b, &comparison{
					moderateOrdinary: moderated, moderateShape: moderated,
					ordinary: ordinaryTexts, texts: s.texts(2, length, batch),
				})
			})
		}
	}
}

// moderator returns a function that moderates a text.
func moderator(tb testing.TB, e *engine.Engine) func(string) {
	return func(content string) { moderate(tb, e, engine.Request{Content: content}) }
}

// report runs a comparison and reports the best times.
func report(b *testing.B, c *comparison) {
	c.round()
	for b.Loop() {
		c.round()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(c.best[1]), "ns/text")
	b.ReportMetric(c.ratio(), "x-ordinary")
}

// BenchmarkThemes moderates ordinary texts with ten themes of 100 characters, which are new each time.
func BenchmarkThemes(b *testing.B) {
	e := newEngine(b, engine.Options{})
	_, ordinary := shapes(b)
	for _, length := range shapeLengths {
		ordinaryTexts := ordinary.texts(1, length, batch)
		texts := ordinaryTexts[:min(len(ordinaryTexts), 20)]
		for _, source := range themeSources(b) {
			b.Run(fmt.Sprintf("%s/%d", source.name, length), func(b *testing.B) {
				r := rand.New(rand.NewPCG(3, uint64(length)))
				withThemes := func(content string) {
					moderate(b, e, engine.Request{Content: content, Themes: source.themes(r)})
				}
				report(b, &comparison{
					moderateOrdinary: moderator(b, e), moderateShape: withThemes,
					ordinary: ordinaryTexts, texts: texts,
				})
			})
		}
	}
}

// themeSource is what themes are made of.
type themeSource struct {
	name  string
	words []string
}

// themes makes ten themes of about 100 characters.
func (s themeSource) themes(r *rand.Rand) []string {
	themes := make([]string, 10)
	for i := range themes {
		var words []string
		for length := 0; ; {
			word := s.words[r.IntN(len(s.words))]
			if length += len(word) + 1; length > 100 {
				break
			}
			words = append(words, word)
		}
		themes[i] = strings.Join(words, " ")
	}
	return themes
}

func themeSources(tb testing.TB) []themeSource {
	texts, err := everyday()
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skip("needs engine/train/corpus, which is in a checkout of the repository but not in the module cache")
	}
	if err != nil {
		tb.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 5))
	nonsense := make([]string, 5000)
	for i := range nonsense {
		nonsense[i] = letters(r, latin, 3, 9)
	}
	return []themeSource{
		{"sentences", strings.Fields(strings.Join(texts, " "))},
		{"words", wordsOf(texts)},
		{"wide words", strings.Fields("entity person animal plant food thing place act state group tool device body " +
			"event feeling work change part")},
		{"nonsense", nonsense},
	}
}

// BenchmarkExplain explains texts with much to explain: harmful ones, in all categories.
func BenchmarkExplain(b *testing.B) {
	e := newEngine(b, engine.Options{})
	_, all := corpus(b)
	_, ordinary := shapes(b)
	harsh := map[string]string{
		"threats":    "i will kill you and your family, you worthless immigrant whore. hang yourself. ",
		"one threat": "i will find you and stab you in the throat. ",
	}
	for _, length := range shapeLengths {
		ordinaryTexts := ordinary.texts(1, length, batch)
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
				report(b, &comparison{
					moderateOrdinary: moderator(b, e), moderateShape: explain,
					ordinary: ordinaryTexts, texts: texts[:min(len(texts), 50)],
				})
			})
		}
	}
}

// Hazard: a text costs many times what others of its length do, and an attacker sends it again and again.
func TestNoShapeCostsMuchMore(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("takes some seconds, and measures the time")
	}
	moderated := moderator(t, newEngine(t, engine.Options{}))
	all, ordinary := shapes(t)
	lengths, rounds, size := []int{2000}, 2, testBatch
	if *showSlowest {
		lengths, rounds, size = shapeLengths, 5, batch
	}
	type cost struct {
		name  string
		each  time.Duration
		ratio float64
	}
	var costs []cost
	for _, length := range lengths {
		ordinaryTexts := ordinary.texts(1, length, size)
		for _, s := range all {
			c := comparison{
				moderateOrdinary: moderated, moderateShape: moderated,
				ordinary: ordinaryTexts, texts: s.texts(2, length, size),
			}
			for range rounds {
				c.round()
			}
			// A busy machine gets more chances.
			for more := 0; more < 10 && c.ratio() > maxRatio; more++ {
				c.round()
			}
			costs = append(costs, cost{fmt.Sprintf("%s/%d", s.name, length), c.best[1], c.ratio()})
			if c.ratio() > maxMeasured {
				t.Errorf("%s of %d characters costs %.1f times what ordinary text does, want at most %d",
					s.name, length, c.ratio(), maxMeasured)
			}
		}
	}
	slices.SortFunc(costs, func(a, b cost) int { return cmp.Compare(b.ratio, a.ratio) })
	shown := 5
	if *showSlowest {
		shown = 60
	}
	for _, c := range costs[:min(len(costs), shown)] {
		t.Logf("%5.2f x ordinary, %9v each: %s", c.ratio, c.each, c.name)
	}
}
