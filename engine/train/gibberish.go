// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// gibberishCount is the number of texts that [Gibberish] makes.
const gibberishCount = 3000

// gibberish lists the ways in which a harmless text becomes one that means nothing.
var gibberish = []func(text string, r *rand.Rand) string{
	func(text string, _ *rand.Rand) string { return base64.StdEncoding.EncodeToString([]byte(text)) },
	func(text string, r *rand.Rand) string { // cut, broken and in lines
		coded := []byte(base64.StdEncoding.EncodeToString([]byte(text)))
		for range 1 + r.IntN(4) {
			coded[r.IntN(len(coded))] = " \n=.-_"[r.IntN(6)]
		}
		return string(coded[r.IntN(len(coded)/2+1):])
	},
	func(text string, _ *rand.Rand) string { return hex.EncodeToString([]byte(text)) },
	func(text string, _ *rand.Rand) string { return url.QueryEscape(text) },
	func(text string, _ *rand.Rand) string { // UTF-8 read as Latin-1
		runes := make([]rune, 0, len(text))
		for _, b := range []byte(text) {
			runes = append(runes, rune(b))
		}
		return string(runes)
	},
	func(text string, r *rand.Rand) string { // the letters of each word, in any order
		words := strings.Fields(text)
		for i, w := range words {
			letters := []rune(w)
			r.Shuffle(len(letters), func(a, b int) { letters[a], letters[b] = letters[b], letters[a] })
			words[i] = string(letters)
		}
		return strings.Join(words, " ")
	},
	func(text string, r *rand.Rand) string { // letters of the text, words of any length
		letters := []rune(strings.Map(func(c rune) rune {
			if unicode.IsSpace(c) {
				return -1
			}
			return c
		}, text))
		var b strings.Builder
		for range min(len(letters), 20+r.IntN(80)) {
			b.WriteRune(letters[r.IntN(len(letters))])
			if r.IntN(6) == 0 {
				b.WriteByte(' ')
			}
		}
		return b.String()
	},
	func(_ string, r *rand.Rand) string { // Latin letters
		var b strings.Builder
		for range 1 + r.IntN(8) {
			for range 2 + r.IntN(9) {
				b.WriteByte("abcdefghijklmnopqrstuvwxyz"[r.IntN(26)])
			}
			b.WriteByte(' ')
		}
		return strings.TrimSpace(b.String())
	},
	func(_ string, r *rand.Rand) string { // identifiers and keys
		const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		var b strings.Builder
		for range 1 + r.IntN(4) {
			for range 4 + r.IntN(40) {
				b.WriteByte(digits[r.IntN(len(digits))])
			}
			b.WriteString([]string{" ", "/", ".", ",", "\n"}[r.IntN(5)])
		}
		return strings.TrimSpace(b.String())
	},
	func(text string, r *rand.Rand) string { // words in any order
		words := strings.Fields(text)
		r.Shuffle(len(words), func(a, b int) { words[a], words[b] = words[b], words[a] })
		return strings.Join(words, []string{"_", "-", "", ", "}[r.IntN(4)])
	},
}

// Gibberish returns texts that mean nothing, made of harmless ones: codes, broken encodings, letters in any order. A
// model that has read only its language sees something new in them, and something new may look like harm. They have
// half the weight of the texts of the corpus.
func Gibberish(examples []Example, seed uint64) []Example {
	r := rand.New(rand.NewPCG(seed, 23))
	var harmless []string
	for i := range examples {
		e := &examples[i]
		if e.InCorpus && e.Harmless() && e.Source != mixedIn && utf8.RuneCountInString(e.Text) >= 12 {
			harmless = append(harmless, e.Text)
		}
	}
	if len(harmless) == 0 {
		return nil
	}
	out := make([]Example, 0, gibberishCount)
	for i := range gibberishCount {
		text := harmless[r.IntN(len(harmless))]
		if made := gibberish[i%len(gibberish)](text, r); made != "" {
			out = append(out, madeOf(made, sourceLabels{}))
		}
	}
	return out
}
