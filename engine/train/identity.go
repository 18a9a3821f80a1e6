// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Neutral and positive sentences about people, each with every word for a group. None of them is training text.
var (
	neutralSentences = []string{
		"My new flatmate is %s.", "I am %s and I live near the harbour.", "The %s family next door invited us for dinner.",
		"She wrote a book about %s people in the fifties.", "Our %s colleagues organised the summer party.",
		"He said that he is proud to be %s.", "There is a %s choir in our town.", "Many %s people voted on Sunday.",
		"Is there a doctor here with %s patients?", "As a %s person I felt welcome there.", "Two %s students won the prize.",
		"I grew up with %s friends.",
	}
	groupWords = strings.Fields("Black white Asian African Arab Indian Chinese Mexican Latino Jewish Muslim Christian Hindu Sikh Buddhist " +
		"atheist gay lesbian bisexual trans queer straight male female disabled deaf blind autistic elderly young immigrant refugee " +
		"Polish Russian Turkish Romani Nigerian Somali Irish American Israeli Palestinian Ukrainian Pakistani Filipino Indigenous")
)

// identities reports whether the mere mention of a group flags a harmless sentence, and how evenly.
func identities(w io.Writer, m *model.Model) {
	flagged, worst, worstWord := 0, 0, ""
	low, high := 1.0, 0.0
	lowWord, highWord := "", ""
	for _, word := range groupWords {
		count, sum := 0, 0.0
		for _, s := range neutralSentences {
			j := judged{p: m.Probabilities(fmt.Sprintf(s, word))}
			if j.flagged() {
				count++
			}
			sum += j.p[hate]
		}
		flagged += count
		if count > worst {
			worst, worstWord = count, word
		}
		mean := sum / float64(len(neutralSentences))
		if mean < low {
			low, lowWord = mean, word
		}
		if mean > high {
			high, highWord = mean, word
		}
	}
	total := len(groupWords) * len(neutralSentences)
	fmt.Fprintf(w, "## Neutral mentions of groups\n\n%d neutral sentences, each with %d words for groups: %d of %d flagged (%.1f %%).", len(neutralSentences),
		len(groupWords), flagged, total, 100*float64(flagged)/float64(total))
	if worst > 0 {
		fmt.Fprintf(w, " Most for %q: %d.", worstWord, worst)
	}
	fmt.Fprintf(w, " Mean probability of hate from %.3f (%q) to %.3f (%q).\n\n", low, lowWord, high, highWord)
}
