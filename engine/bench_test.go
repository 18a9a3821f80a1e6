// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// natural is varied ordinary English. Benchmarks that need more repeat it.
const natural = `The bus was late again this morning, so I walked along the canal and counted herons. There were four, each
looking as if somebody had cancelled its meeting. My sister says I should write these things down before I forget them. We
argued about the kitchen for an hour: she wants green, I want anything that hides the tea stains, and the landlord wants us
to stop painting. Does anyone know where to buy decent rye flour in the north of the city? The shop near the station closed
in March and the big one only sells white. Yesterday's match was a disgrace, frankly; we gave the ball away every thirty
seconds and the goalkeeper spent the second half shouting at a pigeon. Still, the soup afterwards was worth it. If you're
free on Thursday, bring the spare drill and the long ladder, because the gutter has come down over the bins and nobody else
on the street will touch it. I've read the report twice. It doesn't say who decided, when they decided or what it cost, which
is impressive for something of ninety pages. `

func BenchmarkModerate(b *testing.B) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	cut := func(unit string, length int) string {
		return string([]rune(strings.Repeat(unit, length/len([]rune(unit))+1))[:length])
	}
	random := func(length int, alphabet string) string {
		r := rand.New(rand.NewPCG(1, 2))
		letters := []rune(alphabet)
		out := make([]rune, length)
		for i := range out {
			out[i] = letters[r.IntN(len(letters))]
		}
		return string(out)
	}
	type text struct{ name, content string }
	var texts []text
	for _, length := range []int{200, 2000, 10_000} {
		texts = append(texts, text{fmt.Sprintf("natural/%d", length), cut(natural, length)})
	}
	const length = 10_000
	texts = append(texts,
		text{"random letters", random(length, "abcdefghijklmnopqrstuvwxyz      ")},
		text{"random Cyrillic", random(length, "абвгдежзийклмнопрстуфхцчшщъыьэюя      ")},
		text{"four-byte emoji", random(length, "😀😁😂🤣😃😄😅😆😉😊")},
		text{"four-byte letters", random(length, "𝐚𝐛𝐜𝐝𝐞𝐟𝐠𝐡 ")},
		text{"ideographs", random(length, "我爱你们都是好人天地日月")},
		text{"stacked marks", cut("k̷̛͜i̴͝l̶l̵ ", length)},
		text{"one word", random(length, "abcdefghijklmnopqrstuvwxyz")},
		text{"single letters", cut("a b c d e f g h ", length)},
		text{"leetspeak", cut("th15 15 4 t3$t 0f 5p33d ", length)},
	)
	for _, t := range texts {
		b.Run(t.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Moderate(b.Context(), engine.Request{Content: t.content}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
