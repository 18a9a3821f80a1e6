// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	unorm "golang.org/x/text/unicode/norm"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// evasion is a way in which people disguise a word of a language, so that it is not found. The ways are those of
// [Augment], for more scripts, and a few that only exist in some.
type evasion struct {
	name string
	// scripts are those of the words that people disguise so; nil for all.
	scripts []*unicode.RangeTable
	// languages are the BCP 47 tags of the languages in which people do; nil for all.
	languages []string
	// apply changes letters, which have their combining marks with them. What returns the same letters has not found
	// anything to disguise.
	apply func(letters []string, r *rand.Rand) []string
}

// evasions returns all ways, in the order of the report.
func evasions() []evasion {
	latin := []*unicode.RangeTable{unicode.Latin}
	// Scripts with letters for vowels, in which a word survives the loss of one.
	vowelled := []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek}
	// Scripts whose letters people repeat and swap. A syllable or an ideograph twice is another word.
	alphabets := append(slices.Clone(vowelled), unicode.Arabic)
	return []evasion{
		{"leet", latin, nil, swapLetters(map[rune]string{
			'a': "4@", 'e': "3", 'i': "1!", 'o': "0", 's': "5$", 't': "7", 'l': "1",
		})},
		{"look-alike", vowelled, nil, swapLetters(map[rune]string{
			'a': "а", 'e': "е", 'o': "оο", 'c': "с", 'p': "р", 'i': "і", 'x': "х", 'y': "у",
			// Cyrillic as Latin; capitals look like more letters than small ones.
			'а': "a", 'е': "e", 'о': "o", 'р': "p", 'с': "c", 'у': "y", 'х': "x", 'к': "k", 'і': "i",
			'А': "A", 'В': "B", 'Е': "E", 'К': "K", 'М': "M", 'Н': "H", 'О': "O", 'Р': "P", 'С': "C", 'Т': "T",
			'Х': "X",
			// Greek as Latin.
			'α': "a", 'ο': "o", 'ν': "v", 'ρ': "p", 'υ': "u", 'ι': "i", 'κ': "k", 'χ': "x", 'γ': "y", 'τ': "t",
			'ε': "e",
			'ά': "á", 'ό': "ó", 'ί': "í", 'ύ': "ú", 'έ': "é",
			'Α': "A", 'Β': "B", 'Ε': "E", 'Ζ': "Z", 'Η': "H", 'Ι': "I", 'Κ': "K", 'Μ': "M", 'Ν': "N", 'Ο': "O",
			'Ρ': "P", 'Τ': "T", 'Υ': "Y", 'Χ': "X",
		})},
		{"zero width", nil, nil, putBetween("\u200b")},
		{"spaced", nil, nil, putBetween(" ")},
		{"dotted", nil, nil, putBetween(".")},
		{"stretched", alphabets, nil, func(letters []string, r *rand.Rand) []string {
			i := r.IntN(len(letters))
			return slices.Insert(slices.Clone(letters), i, slices.Repeat(letters[i:i+1], 2+r.IntN(3))...)
		}},
		{"doubled", alphabets, nil, func(letters []string, r *rand.Rand) []string {
			i := r.IntN(len(letters))
			return slices.Insert(slices.Clone(letters), i, letters[i])
		}},
		{"all doubled", alphabets, nil, func(letters []string, _ *rand.Rand) []string {
			var out []string
			for _, l := range letters {
				out = append(out, l, l)
			}
			return out
		}},
		{"vowel dropped", vowelled, nil, func(letters []string, r *rand.Rand) []string {
			if at := vowelsInside(letters); len(at) > 0 {
				i := at[r.IntN(len(at))]
				return slices.Delete(slices.Clone(letters), i, i+1)
			}
			return letters
		}},
		{"vowels dropped", vowelled, nil, func(letters []string, _ *rand.Rand) []string {
			out := slices.Clone(letters)
			for _, i := range slices.Backward(vowelsInside(letters)) {
				out = slices.Delete(out, i, i+1)
			}
			return out
		}},
		{"masked", nil, nil, func(letters []string, r *rand.Rand) []string {
			at := vowelsInside(letters)
			if c, _ := utf8.DecodeRuneInString(letters[0]); !unicode.In(c, vowelled...) {
				at = []int{1 + r.IntN(len(letters)-1)}
			}
			if len(at) == 0 {
				return letters
			}
			out := slices.Clone(letters)
			out[at[r.IntN(len(at))]] = "*"
			return out
		}},
		{"swapped", alphabets, nil, func(letters []string, r *rand.Rand) []string {
			out := slices.Clone(letters)
			if len(out) > 3 {
				i := 1 + r.IntN(len(out)-2)
				out[i], out[i+1] = out[i+1], out[i]
			}
			return out
		}},
		{"accents left out", []*unicode.RangeTable{unicode.Latin, unicode.Greek}, nil,
			func(letters []string, _ *rand.Rand) []string {
				out := make([]string, len(letters))
				for i, l := range letters {
					out[i] = string(bareLetter(l))
				}
				return out
			}},
		{"umlauts as two letters", latin, []string{"de", "sv", "da"}, func(letters []string, _ *rand.Rand) []string {
			pairs := strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss", "å", "aa", "æ", "ae", "ø", "oe",
				"Ä", "Ae", "Ö", "Oe", "Ü", "Ue", "Å", "Aa", "Æ", "Ae", "Ø", "Oe")
			out := make([]string, len(letters))
			for i, l := range letters {
				out[i] = pairs.Replace(l)
			}
			return out
		}},
	}
}

// swapLetters makes a way that replaces about two thirds of the letters that a table has.
func swapLetters(table map[rune]string) func([]string, *rand.Rand) []string {
	return func(letters []string, r *rand.Rand) []string {
		out := slices.Clone(letters)
		for i, l := range letters {
			c, size := utf8.DecodeRuneInString(l)
			if size != len(l) {
				continue
			}
			to := []rune(table[c])
			if len(to) == 0 {
				to = []rune(table[unicode.ToLower(c)])
			}
			if len(to) > 0 && r.IntN(3) > 0 {
				out[i] = string(to[r.IntN(len(to))])
			}
		}
		return out
	}
}

// putBetween makes a way that puts a mark between the letters.
func putBetween(mark string) func([]string, *rand.Rand) []string {
	return func(letters []string, _ *rand.Rand) []string {
		return slices.Concat(letters[:1], prefixed(letters[1:], mark))
	}
}

// prefixed returns the letters with a mark before each.
func prefixed(letters []string, mark string) []string {
	out := make([]string, len(letters))
	for i, l := range letters {
		out[i] = mark + l
	}
	return out
}

// bareLetter returns a letter without its accents.
func bareLetter(letter string) rune {
	c, _ := utf8.DecodeRuneInString(unorm.NFD.String(letter))
	switch c {
	case 'ı':
		return 'i'
	case 'ø':
		return 'o'
	case 'đ':
		return 'd'
	case 'ł':
		return 'l'
	}
	return c
}

// vowelsInside returns the positions of the vowels of a word, except at its ends.
func vowelsInside(letters []string) (at []int) {
	for i := 1; i < len(letters)-1; i++ {
		if c := unicode.ToLower(bareLetter(letters[i])); strings.ContainsRune("aeiouyæаеиоуыэюяієαεηιουω", c) {
			at = append(at, i)
		}
	}
	return at
}

// lettersOf splits a word into letters with their combining marks. A virama joins consonants.
func lettersOf(word []rune) []string {
	const virama = '\u094d'
	var out []string
	for i, c := range word {
		if i > 0 && (unicode.IsMark(c) || word[i-1] == virama || c == '\u200d' || c == '\u200c') {
			out[len(out)-1] += string(c)
		} else {
			out = append(out, string(c))
		}
	}
	return out
}

// disguiseWord disguises a word, and reports whether it could be.
func (e *evasion) disguiseWord(word []rune, r *rand.Rand) (string, bool) {
	if e.scripts != nil && !unicode.In(word[0], e.scripts...) {
		return "", false
	}
	letters := lettersOf(word)
	if len(letters) < 2 {
		return "", false
	}
	// Chance may leave every letter as it is, as no person would.
	for range 10 {
		if out := strings.Join(e.apply(letters, r), ""); out != string(word) {
			return out, true
		}
	}
	return "", false
}

// disguise disguises the words of a text at these places, and reports whether any of them could be.
func (e *evasion) disguise(text []rune, words []placeOf, r *rand.Rand) (string, bool) {
	words = slices.SortedFunc(slices.Values(words), func(a, b placeOf) int { return cmp.Compare(a.begin, b.begin) })
	var out strings.Builder
	at, changed := 0, false
	for _, p := range words {
		word, ok := e.disguiseWord(text[p.begin:p.end], r)
		if !ok {
			continue
		}
		out.WriteString(string(text[at:p.begin]) + word)
		at, changed = p.end, true
	}
	out.WriteString(string(text[at:]))
	return out.String(), changed
}

// placeOf is the place of a word in a text, in code points.
type placeOf struct{ begin, end int }

// withoutSpaces reports whether a letter is of a script that is written without spaces between words.
func withoutSpaces(c rune) bool {
	return unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana) || c == 'ー'
}

// wordsOf returns the words of a text: runs of letters and their marks. In scripts without spaces each letter is a
// word.
func wordsOf(text []rune) (words []placeOf) {
	inWord := func(c rune) bool { return unicode.IsLetter(c) || unicode.IsMark(c) || c == '\u200c' || c == '\u200d' }
	for i := 0; i < len(text); i++ {
		if !unicode.IsLetter(text[i]) {
			continue
		}
		begin := i
		for i+1 < len(text) && inWord(text[i+1]) && !withoutSpaces(text[i]) && !withoutSpaces(text[i+1]) {
			i++
		}
		words = append(words, placeOf{begin, i + 1})
	}
	return words
}

// telltale returns the places of the one or two words of a flagged text that carry the most of the verdict: of the
// words that the model names as evidence for a flagged category, that without which the text is the least flagged, and
// another one that carries half as much or more.
func telltale(m *model.Model, text []rune, p *prediction) []placeOf {
	var wanted [model.Heads]bool
	for h := range categories {
		wanted[h] = p.probabilities[h] > Thresholds[h]
	}
	var evidence []model.Evidence
	for _, x := range m.Explain(string(text), wanted) {
		evidence = append(evidence, x.Evidence...)
	}
	isEvidence := func(w placeOf) bool {
		return slices.ContainsFunc(evidence, func(e model.Evidence) bool { return w.begin < e.End && e.Begin < w.end })
	}
	type candidate struct {
		placeOf
		carries float64
	}
	var candidates []candidate
	for _, w := range wordsOf(text) {
		if w.end-w.begin < 2 && !withoutSpaces(text[w.begin]) || !isEvidence(w) {
			continue
		}
		without := prediction{probabilities: m.Probabilities(string(slices.Concat(text[:w.begin], text[w.end:])))}
		candidates = append(candidates, candidate{w, math.Log(p.margin()) - math.Log(without.margin()+1e-12)})
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.carries, a.carries) })
	var out []placeOf
	for _, c := range candidates {
		if len(out) == 2 || len(out) == 1 && c.carries < candidates[0].carries/2 {
			break
		}
		w := c.placeOf
		if withoutSpaces(text[w.begin]) {
			w = widen(text, w, isEvidence)
		}
		if !slices.ContainsFunc(out, func(o placeOf) bool { return w.begin < o.end && o.begin < w.end }) {
			out = append(out, w)
		}
	}
	return out
}

// widen makes a word of a letter of a script without spaces: the letters beside it are in it if they are evidence as
// well, and one is in any case.
func widen(text []rune, w placeOf, isEvidence func(placeOf) bool) placeOf {
	letter := func(i int) bool { return i >= 0 && i < len(text) && withoutSpaces(text[i]) }
	wide := w
	if letter(w.begin-1) && isEvidence(placeOf{w.begin - 1, w.begin}) {
		wide.begin--
	}
	if letter(w.end) && isEvidence(placeOf{w.end, w.end + 1}) {
		wide.end++
	}
	switch {
	case wide != w:
	case letter(w.end):
		wide.end++
	case letter(w.begin - 1):
		wide.begin--
	}
	return wide
}

// Evasions writes a section on how much harm in the rows of a language's examination stays found when the words that
// carry it are disguised, one way at a time.
func Evasions(w io.Writer, m *model.Model, rows []Example) {
	all := predict(m, rows)
	all = slices.DeleteFunc(all, func(p prediction) bool { return p.Harmless() || !p.flagged() })
	ways := evasions()
	type tally struct{ texts, kept int }
	results := make([][]tally, len(all))
	inParallel(len(all), func(i int) {
		text := []rune(unorm.NFC.String(all[i].Text))
		words := telltale(m, text, &all[i])
		results[i] = make([]tally, len(ways))
		for k := range ways {
			way := &ways[k]
			if way.languages != nil && !slices.Contains(way.languages, m.Header().Language) {
				continue
			}
			r := rand.New(rand.NewPCG(uint64(i), uint64(k)))
			disguised, ok := way.disguise(text, words, r)
			if !ok {
				continue
			}
			p := prediction{probabilities: m.Probabilities(disguised)}
			results[i][k] = tally{1, int(indicator(p.flagged()))}
		}
	})
	by, total := make([]tally, len(ways)), tally{}
	for _, of := range results {
		for k, t := range of {
			by[k].texts, by[k].kept = by[k].texts+t.texts, by[k].kept+t.kept
			total.texts, total.kept = total.texts+t.texts, total.kept+t.kept
		}
	}
	fmt.Fprintf(w, "## Disguised words\n\n%d harmful texts are flagged as they are. The one or two words of each that "+
		"carry the most of the verdict are disguised, one way at a time; a text without a letter that a way changes "+
		"is left out. Share still flagged:\n\n| way | texts | still flagged |\n|---|---|---|\n", len(all))
	for k, t := range by {
		if t.texts > 0 {
			fmt.Fprintf(w, "| %s | %d | %.3f |\n", ways[k].name, t.texts, float64(t.kept)/float64(t.texts))
		}
	}
	fmt.Fprintf(w, "| all | %d | %.3f |\n\n", total.texts, float64(total.kept)/float64(max(total.texts, 1)))
}
