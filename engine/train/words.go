// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	"slices"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

const (
	// frequentWords is how many common words a weights file names.
	frequentWords = 16_384
	// frequentLetters is the length in bytes of the longest of them.
	frequentLetters = 15
	// frequentMinimum is how often a word must be met, so that the list holds no name or rare word of anybody's text.
	frequentMinimum = 20
)

// frequent returns the commonest words of the texts, folded, the commonest first.
func frequent(examples []Example) []string {
	s := text.Get()
	defer text.Put(s)
	counts := map[string]int{}
	for i := range examples {
		for _, t := range s.Tokenize(examples[i].Text) {
			if !t.Is(text.Emoji) && len(t.Folded) <= frequentLetters {
				counts[string(t.Folded)]++
			}
		}
	}
	var words []string
	for word, n := range counts {
		if n >= frequentMinimum {
			words = append(words, word)
		}
	}
	slices.SortFunc(words, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return words[:min(len(words), frequentWords)]
}
