// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// tally collects what a report needs: numbers of every row, texts of the worst misses only.
type tally struct {
	model      string
	thresholds [NumLabels]float64
	misses     int

	rows     int
	rejected Rejected
	labels   [NumLabels]labelTally
	all      verdictTally
	kinds    map[string]*verdictTally
	themes   themeTally
	missed   [NumLabels + 1]worst // by label; the themes are last
}

// labelTally is what is known of one label.
type labelTally struct {
	scores []float64
	labels []float64 // as given, fractions too
	counts Counts
}

// verdictTally is what is known of yes and no.
type verdictTally struct {
	rows, flagged int
	counts        Counts // of the rows whose truth is known
}

func (t *verdictTally) add(flagged, yes, known bool) {
	t.rows++
	if flagged {
		t.flagged++
	}
	if known {
		t.counts.Add(flagged, yes)
	}
}

// themeTally is what is known of themes.
type themeTally struct {
	scored             map[string][]Scored // by theme
	all                verdictTally
	kinds              map[string]*verdictTally
	paraphrases, agree int
}

func newTally(judge *engine.Engine, o *Options) *tally {
	t := &tally{model: judge.Version(), misses: o.Misses, kinds: make(map[string]*verdictTally)}
	t.themes = themeTally{scored: make(map[string][]Scored), kinds: make(map[string]*verdictTally)}
	policy := judge.Policy()
	copy(t.thresholds[:], policy.Thresholds[:])
	copy(t.thresholds[engine.NumCategories:], o.AttributeThresholds[:])
	return t
}

// reject counts a row that the service would refuse.
func (t *tally) reject(row *Row) {
	t.rejected.Rows++
	if len(t.rejected.First) < mostMistakes {
		t.rejected.First = append(t.rejected.First, Refusal{File: row.File, Line: row.Line, Reason: row.Rejected})
	}
}

// add counts a row that was judged.
func (t *tally) add(row *Row, v *verdict) {
	t.rows++
	if row.Labelled() {
		t.addLabels(row, v)
	}
	if row.Theme != "" {
		t.addTheme(row, v)
	}
}

func (t *tally) addLabels(row *Row, v *verdict) {
	for i, label := range row.Labels {
		if math.IsNaN(label) {
			continue
		}
		l := &t.labels[i]
		l.scores = append(l.scores, v.scores[i])
		l.labels = append(l.labels, label)
		l.counts.Add(v.flagged[i], yes(label))
		if v.flagged[i] != yes(label) {
			t.miss(i, row, Miss{Label: Figure(label), Probability: Figure(v.scores[i]), Flagged: v.flagged[i]})
		}
	}
	is, known := row.harmful()
	t.all.add(v.harmful, is, known)
	if row.Kind != "" {
		of(t.kinds, row.Kind).add(v.harmful, is, known)
	}
}

func (t *tally) addTheme(row *Row, v *verdict) {
	themes := &t.themes
	themes.scored[row.Theme] = append(themes.scored[row.Theme], Scored{v.theme.Probability, row.Hit})
	themes.all.add(v.theme.Flagged, row.Hit, true)
	if row.Kind != "" {
		of(themes.kinds, row.Kind).add(v.theme.Flagged, row.Hit, true)
	}
	if row.Paraphrase != "" {
		themes.paraphrases++
		if v.theme.Flagged == v.paraphrase.Flagged {
			themes.agree++
		}
	}
	if v.theme.Flagged != row.Hit {
		label := 0.0
		if row.Hit {
			label = 1
		}
		t.miss(NumLabels, row, Miss{Theme: row.Theme, Label: Figure(label), Probability: Figure(v.theme.Probability), Flagged: v.theme.Flagged})
	}
}

func (t *tally) miss(label int, row *Row, m Miss) {
	if t.misses == 0 {
		return
	}
	m.File, m.Line, m.Kind, m.Text = row.File, row.Line, row.Kind, oneLine(row.Text)
	t.missed[label].add(m, t.misses)
}

// of returns the entry of a kind.
func of(kinds map[string]*verdictTally, kind string) *verdictTally {
	if kinds[kind] == nil {
		kinds[kind] = new(verdictTally)
	}
	return kinds[kind]
}

// worst keeps the misses with the largest errors.
type worst struct{ misses []Miss }

// add keeps a miss while it is one of the n worst.
func (w *worst) add(m Miss, n int) {
	// Sorting when twice as many have come costs little for each one, and bounds what is kept.
	w.misses = append(w.misses, m)
	if len(w.misses) >= 2*n {
		w.cut(n)
	}
}

// cut sorts the misses, the most confident first, and keeps n. Those that are equally wrong stay in the order of the
// rows.
func (w *worst) cut(n int) []Miss {
	slices.SortStableFunc(w.misses, func(a, b Miss) int { return cmp.Compare(b.wrong(), a.wrong()) })
	w.misses = w.misses[:min(n, len(w.misses))]
	return w.misses
}

// shownText is how many characters of a text a miss shows.
const shownText = 100

// oneLine writes the beginning of a text so that it cannot do anything to a terminal: in one line, without control
// characters.
func oneLine(text string) string {
	var b strings.Builder
	space, n := false, 0
	for _, r := range text {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
			n++
		}
		b.WriteRune(r)
		if n++; n > shownText {
			break
		}
	}
	return shortened(b.String(), shownText)
}

// report sums up.
func (t *tally) report() *Report {
	r := &Report{
		Model: t.model, Files: []string{}, Rows: t.rows, Rejected: t.rejected,
		Categories: make(map[string]Label), Attributes: make(map[string]Label),
		Flagged: t.all.verdicts(), Kinds: verdictsOf(t.kinds), Themes: t.themes.report(),
	}
	if r.Rejected.First == nil {
		r.Rejected.First = []Refusal{}
	}
	for i := range t.labels {
		of := r.Categories
		if i >= engine.NumCategories {
			of = r.Attributes
		}
		of[LabelName(i)] = t.labels[i].report(t.thresholds[i])
	}
	if t.misses > 0 {
		r.Misses = make(map[string][]Miss)
		for i := range t.missed {
			if misses := t.missed[i].cut(t.misses); len(misses) > 0 {
				r.Misses[missesOf(i)] = misses
			}
		}
	}
	return r
}

// missesOf is the name of a list of misses.
func missesOf(i int) string {
	if i == NumLabels {
		return "themes"
	}
	return LabelName(i)
}

func (t *labelTally) report(threshold float64) Label {
	scored := make([]Scored, len(t.scores))
	fractions := false
	for i, p := range t.scores {
		scored[i] = Scored{p, yes(t.labels[i])}
		fractions = fractions || t.labels[i] > 0 && t.labels[i] < 1
	}
	spearman := math.NaN()
	if fractions {
		spearman = Spearman(t.scores, t.labels)
	}
	c := t.counts
	return Label{
		Rows: len(scored), Positives: c.TP + c.FN, AUC: Figure(AUC(scored)), AveragePrecision: Figure(AveragePrecision(scored)),
		Threshold: threshold, Precision: Figure(c.Precision()), Recall: Figure(c.Recall()), F1: Figure(c.F1()), Misses: c.FP + c.FN,
		ECE: Figure(ECE(scored)), Spearman: Figure(spearman),
	}
}

func (t *verdictTally) verdicts() Verdicts {
	c := t.counts
	return Verdicts{
		Rows: t.rows, Flagged: t.flagged, FlaggedShare: Figure(ratio(t.flagged, t.rows)),
		Positives: c.TP + c.FN, Negatives: c.FP + c.TN, Recall: Figure(c.Recall()), Specificity: Figure(c.Specificity()),
		BalancedAccuracy: Figure(c.BalancedAccuracy()),
	}
}

func verdictsOf(kinds map[string]*verdictTally) map[string]Verdicts {
	out := make(map[string]Verdicts, len(kinds))
	for kind, t := range kinds {
		out[kind] = t.verdicts()
	}
	return out
}

// falseHitShares are the shares of false hits at which the recall of themes is told.
var falseHitShares = [...]float64{0.005, 0.01}

func (t *themeTally) report() Themes {
	c := t.all.counts
	r := Themes{
		Themes: len(t.scored), Verdicts: t.all.verdicts(), Precision: Figure(c.Precision()), F1: Figure(c.F1()), Misses: c.FP + c.FN,
		Kinds: verdictsOf(t.kinds), Paraphrases: t.paraphrases, Agreement: Figure(ratio(t.agree, t.paraphrases)),
	}
	var pooled []Scored
	var sum float64
	for _, theme := range slices.Sorted(maps.Keys(t.scored)) {
		pooled = append(pooled, t.scored[theme]...)
		if auc := AUC(t.scored[theme]); !math.IsNaN(auc) {
			r.BothClasses++
			sum += auc
		}
	}
	r.MacroAUC = Figure(sum / float64(r.BothClasses))
	for _, share := range falseHitShares {
		recall, threshold := RecallAtFalseHits(pooled, share)
		r.AtFalseHits = append(r.AtFalseHits, AtFalseHits{Share: share, Threshold: Figure(threshold), Recall: Figure(recall)})
	}
	return r
}
