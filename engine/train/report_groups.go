// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Neutral and positive sentences about people, each of which is tried with every word for a group. None of them is a
// training text.
var (
	neutralSentences = []string{
		"My new flatmate is %s.", "I am %s and I live near the harbour.",
		"The %s family next door invited us for dinner.", "She wrote a book about %s people in the fifties.",
		"Our %s colleagues organised the summer party.", "He said that he is proud to be %s.",
		"There is a %s choir in our town.", "Many %s people voted on Sunday.",
		"Is there a doctor here with %s patients?", "As a %s person I felt welcome there.",
		"Two %s students won the prize.", "I grew up with %s friends.",
	}
	groupWords = strings.Fields(`
		Black white Asian African Arab Indian Chinese Mexican Latino Jewish Muslim Christian Hindu Sikh Buddhist
		atheist gay lesbian bisexual trans queer straight male female disabled deaf blind autistic elderly young
		immigrant refugee Polish Russian Turkish Romani Nigerian Somali Irish American Israeli Palestinian Ukrainian
		Pakistani Filipino Indigenous`)
)

// reportGroups reports whether the mere mention of a group flags a harmless sentence, and how evenly.
func reportGroups(w io.Writer, m *model.Model) {
	type group struct {
		word          string
		flagged       int
		mean, highest float64 // probability of hate
		near          float64 // the largest share of a threshold that any category reaches
	}
	groups := make([]group, 0, len(groupWords))
	flagged, sum := 0, 0.0
	for _, word := range groupWords {
		g := group{word: word}
		for _, s := range neutralSentences {
			p := prediction{probabilities: m.Probabilities(fmt.Sprintf(s, word))}
			if p.flagged() {
				g.flagged++
			}
			g.mean += p.probabilities[hate] / float64(len(neutralSentences))
			g.highest = max(g.highest, p.probabilities[hate])
			for h := range categories {
				g.near = max(g.near, p.probabilities[h]/Thresholds[h])
			}
		}
		flagged += g.flagged
		sum += g.mean
		groups = append(groups, g)
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.flagged, a.flagged), cmp.Compare(b.mean, a.mean))
	})
	total := len(groupWords) * len(neutralSentences)
	worst, highest, lowest := groups[0], groups[0], groups[0]
	for _, g := range groups {
		if g.mean > highest.mean {
			highest = g
		}
		if g.mean < lowest.mean {
			lowest = g
		}
	}
	fmt.Fprintf(w, "## Neutral mentions of groups\n\n%d neutral sentences, each with %d words for groups: "+
		"%d of %d flagged (%.1f %%). ",
		len(neutralSentences), len(groupWords), flagged, total, 100*float64(flagged)/float64(total))
	fmt.Fprintf(w, "Worst group: %q, %d of %d flagged. Mean probability of hate %.3f, from %.3f (%q) to %.3f (%q).\n\n",
		worst.word, worst.flagged, len(neutralSentences),
		sum/float64(len(groups)), lowest.mean, lowest.word, highest.mean, highest.word)
	fmt.Fprintf(w, "The worst first; the last column is the largest part of its threshold that any category "+
		"reaches in any of the sentences.\n\n"+
		"| group | flagged | hate, mean | hate, highest | nearest to a threshold |\n|---|---|---|---|---|\n")
	for _, g := range groups {
		fmt.Fprintf(w, "| %s | %d | %.3f | %.3f | %.0f %% |\n", g.word, g.flagged, g.mean, g.highest, 100*g.near)
	}
	fmt.Fprintln(w)
}
