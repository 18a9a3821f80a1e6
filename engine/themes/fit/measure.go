// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

// pair is a judged pair of theme and text.
type pair struct {
	probability float64
	hit         bool
	flagged     bool
	kind        string
}

// measure prints what the judge does on the authored themes, fitted and held back, in both phrasings, and on unrelated
// texts.
func measure(judge *themes.Judge, d *data, show bool) {
	var names []string
	for _, r := range d.authored {
		if !slices.Contains(names, r.Theme) {
			names = append(names, r.Theme)
		}
	}
	for _, held := range []bool{false, true} {
		for _, paraphrase := range []bool{false, true} {
			var wanted []string
			seen := make(map[string]bool)
			for _, r := range d.authored {
				name := r.Theme
				if paraphrase {
					name = r.Paraphrase
				}
				if d.heldBack[r.Theme] == held && !seen[name] {
					seen[name] = true
					wanted = append(wanted, name)
				}
			}
			byTheme := make(map[string][]pair)
			kinds := make(map[string][2]int)
			for _, r := range d.authored {
				if d.heldBack[r.Theme] != held {
					continue
				}
				name := r.Theme
				if paraphrase {
					name = r.Paraphrase
				}
				hit := judge.Judge(r.Text, []string{name})[0]
				byTheme[r.Theme] = append(byTheme[r.Theme], pair{hit.Probability, r.Hit, hit.Flagged, r.Kind})
				k := kinds[r.Kind]
				k[0]++
				if hit.Flagged {
					k[1]++
				}
				kinds[r.Kind] = k
				if show && !held && !paraphrase && hit.Flagged != r.Hit {
					fmt.Printf("  %-5v %.3f %-20s %-34s %.150s\n", r.Hit, hit.Probability, r.Kind, name, r.Text)
				}
			}
			var negatives []float64
			alarms, judged := 0, 0
			for i := range 6000 {
				text := d.unseen[i%len(d.unseen)]
				for k := range 3 {
					hit := judge.Judge(text, []string{wanted[(i*7+k*13)%len(wanted)]})[0]
					negatives = append(negatives, hit.Probability)
					judged++
					if hit.Flagged {
						alarms++
						if show && !held && !paraphrase && alarms < 25 {
							fmt.Printf("  ALARM %.3f %-34s %.150s\n", hit.Probability, hit.Theme, text)
						}
					}
				}
			}
			slices.Sort(negatives)
			at := func(rate float64) float64 { return negatives[len(negatives)-1-int(rate*float64(len(negatives)))] }
			positives, recall05, recall1, flagged := 0, 0, 0, 0
			ownAUC, unrelatedAUC := 0.0, 0.0
			for _, pairs := range byTheme {
				var own, neg []float64
				for _, p := range pairs {
					if p.hit {
						own = append(own, p.probability)
						positives++
						recall05 += one(p.probability > at(0.005))
						recall1 += one(p.probability > at(0.01))
						flagged += one(p.flagged)
					} else {
						neg = append(neg, p.probability)
					}
				}
				ownAUC += auc(own, neg) / float64(len(byTheme))
				unrelatedAUC += auc(own, negatives) / float64(len(byTheme))
			}
			lengthy, longAlarms := 0, 0
			for i := 0; i < 300; i++ {
				for _, h := range judge.Judge(long(d.unseen, i*40, 9500, ""), pick(wanted, i)) {
					lengthy++
					longAlarms += one(h.Flagged)
				}
			}
			label := map[bool]string{false: "fitted ", true: "heldout"}[held] + map[bool]string{false: " themes     ", true: " paraphrases"}[paraphrase]
			fmt.Printf("%s AUC own-negatives %.3f unrelated %.3f | recall at 0.5%% %.3f at 1%% %.3f | flagged: recall %.3f, unrelated %.2f%%, unrelated 9,500 characters %.1f%%\n", label,
				ownAUC, unrelatedAUC, float64(recall05)/float64(positives), float64(recall1)/float64(positives), float64(flagged)/float64(positives),
				100*float64(alarms)/float64(judged), 100*float64(longAlarms)/float64(lengthy))
			var parts []string
			for _, k := range []string{"positive", "positive_implicit", "positive_obfuscated", "positive_buried", "negative_sense", "negative_half", "negative_neighbour"} {
				parts = append(parts, fmt.Sprintf("%s %d/%d", k, kinds[k][1], kinds[k][0]))
			}
			fmt.Println("   ", strings.Join(parts, ", "))
		}
	}
}

func pick(list []string, i int) []string {
	var out []string
	for k := range 3 {
		out = append(out, list[(i*5+k*17)%len(list)])
	}
	return out
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// auc is the chance that a positive ranks above a negative.
func auc(positives, negatives []float64) float64 {
	sum := 0.0
	for _, p := range positives {
		for _, n := range negatives {
			if p > n {
				sum++
			} else if p == n {
				sum += 0.5
			}
		}
	}
	return sum / float64(max(1, len(positives)*len(negatives)))
}
