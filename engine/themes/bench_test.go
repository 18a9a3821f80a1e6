// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

// ten are themes of several shapes, as people write them.
var ten = []string{"fireworks", "theft of bicycles", "content about layoffs at tech companies", "drugs or alcohol",
	"sale of human organs", "animals kept as pets", "illegal street racing", "astrology and horoscopes",
	"praise for terrorist attacks", "being chased for unpaid debts by collectors or bailiffs"}

// prose makes a text of n bytes with many different words.
func prose(n int) string {
	words := strings.Fields(sampleProse)
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(words[(i*7+i/len(words))%len(words)])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

const sampleProse = `
	the council met on tuesday evening to talk about the new library which will open in spring once the roof has been
	repaired several residents asked whether parking near the station could be made cheaper for nurses who work nights
	at the hospital while others wanted more benches trees and lamps along the river path my neighbour keeps bees and
	sells honey from her kitchen window every saturday she says the lavender was late this year because of frost our
	team lost again although the goalkeeper stopped two penalties afterwards everybody went for chips and argued about
	the referee until closing time does anyone know a plumber who answers the phone mine has vanished with the deposit
	and the boiler makes a noise like a kettle full of gravel thanks for all the kind messages about grandad he is
	home now watching cricket complaining about tea and asking when the garden will be dug software update broke the
	printer computer camera and music player so the whole office wrote letters by hand which was oddly pleasant recipe
	for plum cake three eggs sugar butter flour cinnamon bake slowly until golden the train to the coast was crowded
	with dogs children suitcases bicycles and one very large cheese history teacher showed us maps of castles roads
	bridges markets`

func BenchmarkScreen(b *testing.B) {
	for _, n := range []int{200, 2000, 10000} {
		content := prose(n)
		b.Run(fmt.Sprintf("cached/10themes/%dchars", n), func(b *testing.B) {
			screener := newScreener(b)
			screener.Screen(content, ten)
			b.ReportAllocs()
			for b.Loop() {
				screener.Screen(content, ten)
			}
		})
		b.Run(fmt.Sprintf("cold/10themes/%dchars", n), func(b *testing.B) {
			screener := newScreener(b)
			screener.Screen(content, ten)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				// A number makes a new theme of the same shape.
				wanted := make([]string, len(ten))
				for k := range ten {
					wanted[k] = fmt.Sprint(ten[k], " ", i)
				}
				screener.Screen(content, wanted)
			}
		})
	}
}

func BenchmarkScreenHostile(b *testing.B) {
	for name, content := range map[string]string{
		"one word":   strings.Repeat("firework ", 1111),
		"one letter": strings.Repeat("a ", 5000),
		"ideographs": strings.Repeat("爆竹", 5000),
		"no space":   strings.Repeat("x", 10000),
		"emoji":      strings.Repeat("🎆", 10000),
		"phrases":    strings.Repeat("hot dog set fire to the ", 416),
	} {
		b.Run(name, func(b *testing.B) {
			screener := newScreener(b)
			screener.Screen(content, ten)
			for b.Loop() {
				screener.Screen(content, ten)
			}
		})
	}
}

// BenchmarkBroadestThemes prepares themes whose words have the most hyponyms.
func BenchmarkBroadestThemes(b *testing.B) {
	screener := newScreener(b)
	screener.Screen("", ten)
	for i := 0; b.Loop(); i++ {
		wanted := make([]string, 10)
		for k := range wanted {
			const words = "entity person animal plant food thing place act state group tool device body "
			wanted[k] = fmt.Sprint(words, i, k)
		}
		screener.Screen("a tiger", wanted)
	}
}

func BenchmarkFirstTheme(b *testing.B) {
	for b.Loop() {
		if err := themes.Reopen(); err != nil {
			b.Fatal(err)
		}
	}
}

func newScreener(tb testing.TB) *themes.Screener {
	tb.Helper()
	screener, err := themes.New(themes.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return screener
}

// longTheme makes a theme of about 100 characters.
func longTheme(r *rand.Rand) string {
	words := strings.Fields(sampleProse)
	var b strings.Builder
	for b.Len() < 90 {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()[:b.Len()-1]
}

// BenchmarkLongThemes screens for ten new themes of about 100 characters each.
func BenchmarkLongThemes(b *testing.B) {
	for _, n := range []int{2000, 10000} {
		content := prose(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			screener := newScreener(b)
			screener.Screen(content, ten)
			r := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				wanted := make([]string, 10)
				for k := range wanted {
					wanted[k] = longTheme(r)
				}
				screener.Screen(content, wanted)
			}
		})
	}
}
