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

// tally collects what a report needs: numbers of every row, but texts of the listed misses only.
type tally struct {
	model      string
	harmShare  float64
	thresholds [NumLabels]float64
	misses     int

	rows     int
	rejected Rejected
	labels   [NumLabels]labelTally
	all      verdictTally
	kinds    map[string]*verdictTally
	language map[string]*verdictTally
	themes   themeTally
	missed   [NumLabels + 1]missList // by label; the themes are last
}

// labelTally collects the scores of one label.
type labelTally struct {
	scores []float64
	labels []float64 // as in the rows, so fractions, too
	counts Counts
}

// verdictTally counts verdicts.
type verdictTally struct {
	rows, flagged int
	counts        Counts // of the rows whose true answer is known
}

// add counts a verdict; known says whether the true answer is.
func (t *verdictTally) add(flagged, positive, known bool) {
	t.rows++
	if flagged {
		t.flagged++
	}
	if known {
		t.counts.Add(flagged, positive)
	}
}

// themeTally collects the scores of themes.
type themeTally struct {
	scored             map[string][]Scored // by theme
	all                verdictTally
	kinds              map[string]*verdictTally
	paraphrases, agree int
}

func newTally(e *engine.Engine, o *Options) *tally {
	t := &tally{model: e.Version(), harmShare: e.HarmShare(), misses: o.Misses, kinds: make(map[string]*verdictTally)}
	t.language = make(map[string]*verdictTally)
	t.themes = themeTally{scored: make(map[string][]Scored), kinds: make(map[string]*verdictTally)}
	if o.HarmShare != 0 && t.harmShare != 0 {
		t.harmShare = o.HarmShare
	}
	policy := e.Policy()
	copy(t.thresholds[:], policy.Thresholds[:])
	copy(t.thresholds[engine.NumCategories:], o.AttributeThresholds[:])
	return t
}

// reject counts a row that the service would refuse.
func (t *tally) reject(row *Row) {
	t.rejected.Rows++
	if len(t.rejected.First) < maxMistakes {
		t.rejected.First = append(t.rejected.First, Refusal{File: row.File, Line: row.Line, Reason: row.Rejected})
	}
}

// add counts a row that was moderated.
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
		l.counts.Add(v.flagged[i], positive(label))
		if v.flagged[i] != positive(label) {
			t.miss(i, row, Miss{Label: Figure(label), Probability: Figure(v.scores[i]), Flagged: v.flagged[i]})
		}
	}
	is, known := row.harmful()
	t.all.add(v.harmful, is, known)
	if row.Kind != "" {
		of(t.kinds, row.Kind).add(v.harmful, is, known)
	}
	if tag := cmp.Or(row.Language, v.language); tag != "" {
		of(t.language, tag).add(v.harmful, is, known)
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
		p := Figure(v.theme.Probability)
		t.miss(NumLabels, row, Miss{Theme: row.Theme, Label: Figure(label), Probability: p, Flagged: v.theme.Flagged})
	}
}

// miss records a wrong verdict on a label, or on a theme if label is NumLabels.
func (t *tally) miss(label int, row *Row, m Miss) {
	if t.misses == 0 {
		return
	}
	m.File, m.Line, m.Kind, m.Text = row.File, row.Line, row.Kind, oneLine(row.Text)
	t.missed[label].add(m, t.misses)
}

// of returns the entry of a kind or a language.
func of(kinds map[string]*verdictTally, kind string) *verdictTally {
	if kinds[kind] == nil {
		kinds[kind] = new(verdictTally)
	}
	return kinds[kind]
}

// missList keeps the misses with the largest distance.
type missList struct{ misses []Miss }

// add adds a miss. It is dropped once n misses have a larger distance.
func (w *missList) add(m Miss, n int) {
	// Sorting only when there are twice as many costs little per miss, and bounds the memory.
	w.misses = append(w.misses, m)
	if len(w.misses) >= 2*n {
		w.cut(n)
	}
}

// cut sorts the misses by distance, the largest first, and keeps n. Those of equal distance stay in the order of the
// rows.
func (w *missList) cut(n int) []Miss {
	slices.SortStableFunc(w.misses, func(a, b Miss) int { return cmp.Compare(b.distance(), a.distance()) })
	w.misses = w.misses[:min(n, len(w.misses))]
	return w.misses
}

// shownText is the maximum number of characters of a text that a miss shows.
const shownText = 100

// oneLine returns the beginning of a text in one line without control characters, so that a terminal obeys nothing in
// it.
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

// report makes the report.
func (t *tally) report() *Report {
	r := &Report{
		Model: t.model, HarmShare: t.harmShare, Files: []string{}, Rows: t.rows, Rejected: t.rejected,
		Categories: make(map[string]Label), Attributes: make(map[string]Label),
		Flagged: t.all.verdicts(), Kinds: verdictsOf(t.kinds), Languages: verdictsOf(t.language),
		Themes: t.themes.report(),
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

// missesOf returns the name of a list of misses in the report.
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
		scored[i] = Scored{p, positive(t.labels[i])}
		fractions = fractions || t.labels[i] > 0 && t.labels[i] < 1
	}
	spearman := math.NaN()
	if fractions {
		spearman = Spearman(t.scores, t.labels)
	}
	c := t.counts
	return Label{
		Rows:             len(scored),
		Positives:        c.TP + c.FN,
		AUC:              Figure(AUC(scored)),
		AveragePrecision: Figure(AveragePrecision(scored)),
		Threshold:        threshold,
		Precision:        Figure(c.Precision()),
		Recall:           Figure(c.Recall()),
		F1:               Figure(c.F1()),
		Misses:           c.FP + c.FN,
		ECE:              Figure(ECE(scored)),
		Spearman:         Figure(spearman),
	}
}

func (t *verdictTally) verdicts() Verdicts {
	c := t.counts
	return Verdicts{
		Rows:             t.rows,
		Flagged:          t.flagged,
		FlaggedShare:     Figure(ratio(t.flagged, t.rows)),
		Positives:        c.TP + c.FN,
		Negatives:        c.FP + c.TN,
		Recall:           Figure(c.Recall()),
		Specificity:      Figure(c.Specificity()),
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

// falseHitShares are the shares of false hits at which the recall of themes is reported.
var falseHitShares = [...]float64{0.005, 0.01}

func (t *themeTally) report() Themes {
	c := t.all.counts
	r := Themes{
		Themes:      len(t.scored),
		Verdicts:    t.all.verdicts(),
		Precision:   Figure(c.Precision()),
		F1:          Figure(c.F1()),
		Misses:      c.FP + c.FN,
		Kinds:       verdictsOf(t.kinds),
		Paraphrases: t.paraphrases,
		Agreement:   Figure(ratio(t.agree, t.paraphrases)),
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
		at := AtFalseHits{Share: share, Threshold: Figure(threshold), Recall: Figure(recall)}
		r.AtFalseHits = append(r.AtFalseHits, at)
	}
	return r
}
