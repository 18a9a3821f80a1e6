// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/themes"
)

// measure prints how the screener does on the authored themes, fitted and held out, in both phrasings; on unrelated
// texts; and on the topic sets.
func measure(screener *themes.Screener, d *data, show bool) {
	for _, a := range d.files {
		for _, held := range []bool{false, true} {
			for _, paraphrase := range []bool{false, true} {
				measureAuthored(screener, d, a, held, paraphrase, show && !held && !paraphrase)
			}
			measureConsistency(screener, a, held)
		}
	}
	measureUnrelated(screener, d, show)
	var all figures
	for _, set := range d.topics {
		all.add(measureTopics(screener, set))
	}
	fmt.Println(all.mean("mean of the sets"))
}

// name is how a row is asked for.
func (r *row) name(paraphrase bool) string {
	if paraphrase {
		return r.Paraphrase
	}
	return r.Theme
}

// kinds are those of the authored rows.
var kinds = []string{
	"positive", "positive_implicit", "positive_obfuscated", "positive_buried", "negative_sense", "negative_half",
	"negative_neighbour",
}

// heldName names the fitted and the held-out themes in the output.
func heldName(held bool) string {
	if held {
		return "held back"
	}
	return "fitted"
}

func measureAuthored(screener *themes.Screener, d *data, a *authored, held, paraphrase, show bool) {
	type list struct{ hits, misses []float64 }
	var wanted []string
	byTheme := make(map[string]*list)
	flagged, total := make(map[string]int), make(map[string]int)
	positives, found := 0, 0
	for _, r := range a.rows {
		if a.heldBack[r.Theme] != held {
			continue
		}
		name := r.name(paraphrase)
		if !slices.Contains(wanted, name) {
			wanted = append(wanted, name)
		}
		hit := screener.Screen(r.Text, []string{name})[0]
		if byTheme[r.Theme] == nil {
			byTheme[r.Theme] = new(list)
		}
		l := byTheme[r.Theme]
		if r.Hit {
			l.hits = append(l.hits, hit.Probability)
			positives++
			found += one(hit.Flagged)
		} else {
			l.misses = append(l.misses, hit.Probability)
		}
		total[r.Kind]++
		flagged[r.Kind] += one(hit.Flagged)
		if show && hit.Flagged != r.Hit {
			fmt.Printf("  %-5v %.3f %-20s %-34s %.150s\n", r.Hit, hit.Probability, r.Kind, name, r.Text)
		}
	}
	if len(wanted) == 0 {
		return
	}
	var unrelated []float64
	alarms := 0
	for i := range 6000 {
		for k := range 3 {
			hit := screener.Screen(d.unseen[i%len(d.unseen)], []string{wanted[(i*7+k*13)%len(wanted)]})[0]
			unrelated = append(unrelated, hit.Probability)
			alarms += one(hit.Flagged)
		}
	}
	slices.Sort(unrelated)
	above05, above1 := 0, 0
	own, other := 0.0, 0.0
	for _, name := range a.themes() {
		l := byTheme[name]
		if l == nil {
			continue
		}
		for _, p := range l.hits {
			above05 += one(p > quantile(unrelated, 0.005))
			above1 += one(p > quantile(unrelated, 0.01))
		}
		own += auc(l.hits, l.misses) / float64(len(byTheme))
		other += auc(l.hits, unrelated) / float64(len(byTheme))
	}
	lengthy, longAlarms := 0, 0
	for i := range 300 {
		for k := range 3 {
			lengthy++
			theme := wanted[(i*5+k*17)%len(wanted)]
			longAlarms += one(screener.Screen(long(d.unseen, i*40, 9500, ""), []string{theme})[0].Flagged)
		}
	}
	label := heldName(held)
	if paraphrase {
		label += ", paraphrases"
	}
	n := float64(positives)
	fmt.Printf("%s, %s: AUC own misses %.3f unrelated %.3f | recall at 0.5%% %.3f at 1%% %.3f | ",
		a.name, label, own, other, float64(above05)/n, float64(above1)/n)
	fmt.Printf("flagged: recall %.3f, unrelated %.2f%%, unrelated 9,500 characters %.1f%%\n   ",
		float64(found)/n, percent(alarms, len(unrelated)), percent(longAlarms, lengthy))
	for _, k := range kinds {
		fmt.Printf(" %s %d/%d", k, flagged[k], total[k])
	}
	fmt.Println()
}

// measureConsistency prints how often a theme and its paraphrase get the same verdict.
func measureConsistency(screener *themes.Screener, a *authored, held bool) {
	same, hitSame, all, hits := 0, 0, 0, 0
	for _, r := range a.rows {
		if a.heldBack[r.Theme] != held || r.Theme == r.Paraphrase {
			continue
		}
		verdicts := screener.Screen(r.Text, []string{r.Theme, r.Paraphrase})
		agree := one(verdicts[0].Flagged == verdicts[1].Flagged)
		all, same = all+1, same+agree
		if r.Hit {
			hits, hitSame = hits+1, hitSame+agree
		}
	}
	if all > 0 {
		fmt.Printf("%s, %s: same verdict for the paraphrase %.1f%% (of hits %.1f%%)\n",
			a.name, heldName(held), percent(same, all), percent(hitSame, hits))
	}
}

//go:embed unrelated.txt
var unrelatedThemes string

// measureUnrelated prints how many unrelated texts hit themes that no pair was written for.
func measureUnrelated(screener *themes.Screener, d *data, show bool) {
	var wanted []string
	for line := range strings.Lines(unrelatedThemes) {
		if !strings.HasPrefix(line, "#") {
			wanted = append(wanted, strings.TrimSpace(line))
		}
	}
	alarms, all := make([]int, len(wanted)), 0
	for i, text := range d.unseen {
		for k := range 10 {
			n := (i*31 + k*17) % len(wanted)
			hit := screener.Screen(text, wanted[n:n+1])[0]
			all++
			if hit.Flagged {
				alarms[n]++
				if show {
					fmt.Printf("  ALARM %.3f %-34s %.150s\n", hit.Probability, hit.Theme, text)
				}
			}
		}
	}
	total, worst := 0, 0
	for n, a := range alarms {
		total += a
		if a > alarms[worst] {
			worst = n
		}
	}
	fmt.Printf("unrelated texts and other themes: %d of %d pairs flagged, %.2f%%; the most of %q, %.2f%%\n",
		total, all, percent(total, all), wanted[worst], percent(alarms[worst]*len(wanted), all))
}

// figures are what is measured on a topic set, by label and by paraphrase.
type figures struct {
	sets int
	list [8]float64
}

func (f *figures) add(o figures) {
	f.sets += o.sets
	for i, x := range o.list {
		f.list[i] += x
	}
}

func (f *figures) mean(name string) string {
	x := f.list
	for i := range x {
		x[i] /= float64(f.sets)
	}
	return fmt.Sprintf("%-18s label: AUC %.3f recall at 1%% %.3f at 5%% %.3f, paraphrase: AUC %.3f %.3f %.3f | "+
		"flagged: recall %.3f, wrong %.2f%%", name, x[0], x[1], x[2], x[3], x[4], x[5], x[6], 100*x[7])
}

// textsOfTopic is the maximum number of texts of each topic.
const textsOfTopic = 60

// measureTopics prints how well the screener tells the topics of a set apart, with one threshold for all of them. A
// text counts as a miss for every topic but its own, though it may well be about others too.
func measureTopics(screener *themes.Screener, set *topicSet) figures {
	f := figures{sets: 1}
	flagged, hits, wrong, misses := 0, 0, 0, 0
	for phrasing := range 2 {
		var wanted []string
		for _, t := range set.topics {
			wanted = append(wanted, []string{t.label, t.paraphrase}[phrasing])
		}
		right, others := make([][]float64, len(wanted)), make([][]float64, len(wanted))
		var every []float64
		for own, t := range set.topics {
			for _, text := range t.texts[:min(textsOfTopic, len(t.texts))] {
				for i, hit := range screener.Screen(text, wanted) {
					if i == own {
						right[i] = append(right[i], hit.Probability)
						hits++
						flagged += one(hit.Flagged)
						continue
					}
					others[i] = append(others[i], hit.Probability)
					every = append(every, hit.Probability)
					misses++
					wrong += one(hit.Flagged)
				}
			}
		}
		slices.Sort(every)
		at := [2]float64{quantile(every, 0.01), quantile(every, 0.05)}
		for i := range wanted {
			f.list[phrasing*3] += auc(right[i], others[i]) / float64(len(wanted))
			for k := range at {
				above := 0
				for _, p := range right[i] {
					above += one(p > at[k])
				}
				f.list[phrasing*3+1+k] += float64(above) / float64(len(right[i])*len(wanted))
			}
		}
	}
	f.list[6], f.list[7] = float64(flagged)/float64(hits), float64(wrong)/float64(misses)
	fmt.Println(f.mean(set.name))
	return f
}

// quantile is the value above which the share rate of a sorted list lies.
func quantile(sorted []float64, rate float64) float64 {
	return sorted[len(sorted)-1-int(rate*float64(len(sorted)))]
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// auc is the chance that a positive ranks above a negative.
func auc(positives, negatives []float64) float64 {
	sum := 0.0
	negatives = slices.Sorted(slices.Values(negatives))
	for _, p := range positives {
		below, _ := slices.BinarySearch(negatives, p)
		notAbove := below
		for notAbove < len(negatives) && negatives[notAbove] == p {
			notAbove++
		}
		sum += float64(below+notAbove) / 2
	}
	return sum / float64(max(1, len(positives)*len(negatives)))
}
