// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Noise is a way to disguise words that the report measures. It is independent of the disguises of [Augment], which the
// weights are fitted on, and stands for the noise in unknown text.
type Noise struct {
	// Name is the name in the report.
	Name string
	// change disguises the letters of one word.
	change func(letters []rune, r *rand.Rand) []rune
}

// Noises are all ways to disguise words, in the order of the report.
var Noises = []Noise{
	{"leetspeak", func(w []rune, r *rand.Rand) []rune {
		tables := [...]string{"aeiost 431057", "aeiost @3!0$7", "aeiostlg 43105719", "aeio 4310"}
		return translate(w, tables[r.IntN(len(tables))], 1, r)
	}},
	{"homoglyphs", func(w []rune, r *rand.Rand) []rune {
		return translate(w, [...]string{
			"acehiopsxyjk асеһіорѕхујк",
			"aeikopuvxny αεικορυνχηγ",
			"abcdefghijklmnopqrstuvwxyz ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ",
			"aeioucns áéíóúçñš",
		}[r.IntN(4)], 0.8, r)
	}},
	{"zero-width", func(w []rune, r *rand.Rand) []rune {
		return apart(w, func() string {
			return [...]string{"\u200b", "\u200c", "\u200d", "\u2060", "\u00ad", "\ufeff", ""}[r.IntN(7)]
		})
	}},
	{"spaced", func(w []rune, _ *rand.Rand) []rune { return apart(w, func() string { return " " }) }},
	{"dotted", func(w []rune, _ *rand.Rand) []rune { return apart(w, func() string { return "." }) }},
	{"doubled", func(w []rune, r *rand.Rand) []rune {
		all, at := r.IntN(2) == 0, r.IntN(len(w))
		var out []rune
		for i, c := range w {
			if out = append(out, c); all || i == at {
				out = append(out, c)
			}
		}
		return out
	}},
	{"swapped", func(w []rune, r *rand.Rand) []rune {
		out := append([]rune{}, w...)
		for from := r.IntN(len(w)); from < 2*len(w); from++ {
			if i := from % len(w); i > 0 && i+1 < len(w) && w[i] != w[i+1] {
				out[i], out[i+1] = out[i+1], out[i]
				break
			}
		}
		return out
	}},
	{"dropped vowel", func(w []rune, r *rand.Rand) []rune {
		if i := vowel(w, r); i >= 0 {
			return append(append([]rune{}, w[:i]...), w[i+1:]...)
		}
		return w
	}},
	{"joined", nil},
	{"asterisk", func(w []rune, r *rand.Rand) []rune {
		out := append([]rune{}, w...)
		i := vowel(w, r)
		if i < 0 {
			i = 1 + r.IntN(len(w)-2)
		}
		out[i] = '*'
		return out
	}},
}

// Apply disguises about the given share, from 0 to 1, of the words of four and more letters, and at least one if
// there is one. The rest of the text stays. The same text and seed give the same result.
func (n Noise) Apply(text string, share float64, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, uint64(len(text))))
	const shortest = 4
	var out strings.Builder
	runes := []rune(text)
	var words [][2]int
	for i := 0; i < len(runes); {
		if !unicode.IsLetter(runes[i]) {
			i++
			continue
		}
		from := i
		for i < len(runes) && unicode.IsLetter(runes[i]) {
			i++
		}
		if i-from >= shortest {
			words = append(words, [2]int{from, i})
		}
	}
	if len(words) == 0 {
		return text
	}
	chosen := map[int]int{} // the ends of words by their beginnings
	sure := r.IntN(len(words))
	for i, w := range words {
		if r.Float64() < share || i == sure {
			chosen[w[0]] = w[1]
		}
	}
	for i := 0; i < len(runes); i++ {
		end, ok := chosen[i]
		switch {
		case !ok:
			out.WriteRune(runes[i])
		case n.change == nil:
			// Join the word with the words before and after it.
			before := strings.TrimSuffix(out.String(), " ")
			out.Reset()
			out.WriteString(before + string(runes[i:end]))
			if i = end - 1; i+2 < len(runes) && runes[i+1] == ' ' && unicode.IsLetter(runes[i+2]) {
				i++
			}
		default:
			out.WriteString(string(n.change(runes[i:end], r)))
			i = end - 1
		}
	}
	return out.String()
}

// translate replaces letters with the given probability. The table holds the letters, a space, and what replaces them.
func translate(w []rune, table string, chance float64, r *rand.Rand) []rune {
	from, to, _ := strings.Cut(table, " ")
	by := []rune(to)
	out := append([]rune{}, w...)
	for i, c := range w {
		if at := strings.IndexRune(from, unicode.ToLower(c)); at >= 0 && r.Float64() < chance {
			out[i] = by[at]
		}
	}
	return out
}

// apart puts a mark between the letters.
func apart(w []rune, mark func() string) []rune {
	var out []rune
	for i, c := range w {
		if i > 0 {
			out = append(out, []rune(mark())...)
		}
		out = append(out, c)
	}
	return out
}

// vowel returns the position of a random vowel of a word but its first letter, or -1.
func vowel(w []rune, r *rand.Rand) int {
	at := -1
	seen := 0
	for i := 1; i < len(w); i++ {
		if strings.ContainsRune("aeiouAEIOU", w[i]) {
			if seen++; r.IntN(seen) == 0 {
				at = i
			}
		}
	}
	return at
}

// reportNoise reports, for each noise, how many of the flagged harmful texts stay flagged, and how many harmless ones
// are flagged, with half of the words of four letters and more disguised and with all of them.
func reportNoise(w io.Writer, m *model.Model, all []prediction) {
	var bad, good []*prediction
	before := 0.0
	for i := range all {
		switch p := &all[i]; {
		case !p.InCorpus:
		case p.Harmless():
			good = append(good, p)
			before += indicator(p.flagged())
		case p.flagged():
			bad = append(bad, p)
		}
	}
	fmt.Fprintf(w, "## Disguised copies\n\nOf %d harmful texts that are flagged as they are written, the share that stays "+
		"flagged; and of %d harmless texts the share that is flagged, as they are written %.3f.\n\n"+
		"| disguise | harmful, half of the words | all words | harmless, half | all |\n|---|---|---|---|---|\n",
		len(bad), len(good), before/float64(len(good)))
	for _, n := range Noises {
		share := func(of []*prediction, words float64) float64 {
			flagged := 0.0
			for i, p := range of {
				copied := prediction{probabilities: m.Probabilities(n.Apply(p.Text, words, uint64(i)))}
				flagged += indicator(copied.flagged())
			}
			return flagged / float64(len(of))
		}
		fmt.Fprintf(w, "| %s | %.3f | %.3f | %.3f | %.3f |\n",
			n.Name, share(bad, 0.5), share(bad, 1), share(good, 0.5), share(good, 1))
	}
	fmt.Fprintln(w)
}
