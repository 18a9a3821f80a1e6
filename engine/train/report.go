// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Thresholds are the thresholds of the report, by head: the service's defaults for the categories, 0.5 for the
// attributes.
var Thresholds = [model.Heads]float64{
	hate: 0.7, harassment: 0.7, selfHarm: 0.5, sexual: 0.8, violence: 0.6,
	toxicity: 0.5, severe: 0.5, identity: 0.5, insult: 0.5, profanity: 0.5, threat: 0.5, explicit: 0.5, spam: 0.5,
}

// prediction is an example with its probabilities.
type prediction struct {
	*Example
	probabilities model.Probabilities
}

func (p *prediction) flagged() bool {
	for h := range categories {
		if p.probabilities[h] > Thresholds[h] {
			return true
		}
	}
	return false
}

// margin returns the largest ratio of a category's odds to those of its threshold. It ranks texts by "any category".
func (p *prediction) margin() float64 {
	best := 0.0
	for h := range categories {
		odds := p.probabilities[h] / (1 - p.probabilities[h] + 1e-12) / (Thresholds[h] / (1 - Thresholds[h]))
		best = max(best, odds)
	}
	return best
}

// predict computes the probabilities of examples.
func predict(m *model.Model, examples []Example) []prediction {
	all := make([]prediction, len(examples))
	inParallel(len(examples), func(i int) {
		all[i] = prediction{Example: &examples[i], probabilities: m.Probabilities(examples[i].Text)}
	})
	return all
}

// Evaluate writes a report on a model in Markdown. The examples must not have been used to fit or calibrate it.
func Evaluate(w io.Writer, m *model.Model, examples []Example) {
	all := predict(m, examples)
	fmt.Fprintf(w, "Model %s, %d training texts, %d held-back texts.\n\n", m.Version(), m.Header().Examples, len(all))
	reportRanking(w, all)
	inCorpus := func(p *prediction) bool { return p.InCorpus }
	reportHeads(w, "Categories, on texts written or labelled for this project", all, inCorpus, 0, categories)
	bySource := func(p *prediction) bool { return !p.InCorpus && p.Source != "lexicon" }
	reportHeads(w, "Attributes, on the crowd labels of their sources", all, bySource, categories, model.Heads)
	sources := map[string]bool{}
	for i := range all {
		if all[i].InCorpus {
			sources[all[i].Source] = true
		}
	}
	fmt.Fprintf(w, "## Any category, by file\n\n| file | texts | harmful | AUC | recall | specificity |\n"+
		"|---|---|---|---|---|---|\n")
	reportAny(w, "all", all, inCorpus)
	written := func(p *prediction) bool { return p.InCorpus && p.Source != "annotated" }
	reportAny(w, "own texts (all but annotated)", all, written)
	for _, s := range sorted(sources) {
		reportAny(w, s, all, func(p *prediction) bool { return p.InCorpus && p.Source == s })
	}
	reportOrdinary(w, all)
	reportCode(w, all)
	reportGroups(w, m)
	reportNoise(w, m, all)
	reportLengths(w, m, all)
}

// sorted returns the members of a set in order.
func sorted(set map[string]bool) []string {
	var names []string
	for s := range set {
		names = append(names, s)
	}
	slices.Sort(names)
	return names
}

// reportHeads writes a table of the heads in the range [from, to), over the examples that use selects.
func reportHeads(w io.Writer, title string, all []prediction, use func(*prediction) bool, from, to int) {
	fmt.Fprintf(w, "## %s\n\n| head | texts | yes | AUC | AP | ECE | threshold | precision | recall | F1 | "+
		"balanced accuracy |\n|---|---|---|---|---|---|---|---|---|---|---|\n", title)
	for h := from; h < to; h++ {
		var s []evaluate.Scored
		positives := 0
		for i := range all {
			if p := &all[i]; use(p) && p.Labelled(h) {
				s = append(s, evaluate.Scored{Score: p.probabilities[h], Positive: p.Positive(h)})
				if p.Positive(h) {
					positives++
				}
			}
		}
		if positives == 0 || positives == len(s) {
			continue
		}
		at := evaluate.AtThreshold(s, Thresholds[h])
		fmt.Fprintf(w, "| %s | %d | %d | %.3f | %.3f | %.3f | %.1f | %.2f | %.2f | %.2f | %.3f |\n",
			model.HeadNames[h], len(s), positives, evaluate.AUC(s), evaluate.AveragePrecision(s), evaluate.ECE(s),
			Thresholds[h], at.Precision(), at.Recall(), at.F1(), at.BalancedAccuracy())
	}
	fmt.Fprintln(w)
}

// reportAny writes a row of a table about "any category", over the examples that use selects.
func reportAny(w io.Writer, name string, all []prediction, use func(*prediction) bool) {
	var rank, flag []evaluate.Scored
	positives := 0
	for i := range all {
		p := &all[i]
		if !use(p) {
			continue
		}
		harmful := !p.Harmless()
		if harmful {
			positives++
		}
		rank = append(rank, evaluate.Scored{Score: p.margin(), Positive: harmful})
		flag = append(flag, evaluate.Scored{Score: indicator(p.flagged()), Positive: harmful})
	}
	if len(rank) == 0 {
		return
	}
	at := evaluate.AtThreshold(flag, 0.5)
	fmt.Fprintf(w, "| %s | %d | %d | %.3f | %.3f | %.3f |\n",
		name, len(rank), positives, evaluate.AUC(rank), at.Recall(), at.Specificity())
}

// Examine writes a section on an examination: texts that nothing is ever trained or tuned on, with labels of all five
// categories (see [ReadTexts]). It reports figures of the whole only, so that nobody is tempted to correct single
// answers. Contrasts are all pairs of a harmful and a harmless text of the same group. Of two texts that differ by
// little, the harmful one should score nearer to a threshold.
func Examine(w io.Writer, m *model.Model, rows []Example) {
	all := predict(m, rows)
	everything := func(*prediction) bool { return true }
	reportHeads(w, "Examination, texts that nothing was trained or tuned on", all, everything, 0, categories)
	fmt.Fprintf(w, "| any category | texts | harmful | AUC | recall | specificity |\n|---|---|---|---|---|---|\n")
	reportAny(w, "all", all, everything)
	reportAny(w, "in groups of contrasts", all, func(p *prediction) bool { return p.Group > 0 })
	reportAny(w, "alone", all, func(p *prediction) bool { return p.Group == 0 })
	ranked := make([]evaluate.Scored, len(all))
	for i := range all {
		ranked[i] = evaluate.Scored{Score: all[i].margin(), Positive: !all[i].Harmless()}
	}
	if recall, _ := evaluate.RecallAtFalseHits(ranked, 0.05); recall > 0 {
		fmt.Fprintf(w, "\nAt a specificity of 0.95, the recall of all is %.3f.\n", recall)
	}
	groups := map[int][]*prediction{}
	for i := range all {
		if p := &all[i]; p.Group > 0 {
			groups[p.Group] = append(groups[p.Group], p)
		}
	}
	pairs, ordered := 0, 0.0
	for _, group := range groups {
		for _, bad := range group {
			for _, good := range group {
				if bad.Harmless() || !good.Harmless() {
					continue
				}
				pairs++
				switch a, b := bad.margin(), good.margin(); {
				case a > b:
					ordered++
				case a == b:
					ordered += 0.5
				}
			}
		}
	}
	if pairs > 0 {
		fmt.Fprintf(w, "\nOf %d contrasts %.1f %% are in the right order.\n", pairs, 100*ordered/float64(pairs))
	}
	fmt.Fprintln(w)
}

// crowds are the sources that say how many of several annotators called a text toxic, or how offensive it is. [Read]
// makes labels of yes and no of it, and leaves out what is between.
var crowds = []struct {
	name, meaning string
	share         func(sourceLabels) float64
}{
	{"convabuse", "share of the readers who saw abuse", func(n sourceLabels) float64 { return n["abuse"] }},
	{"davidson2017", "share of the readers who saw offence or hate",
		func(n sourceLabels) float64 { return 1 - n["neither"] }},
	{"ruddit", "offensiveness by best-worst scaling", func(n sourceLabels) float64 { return n["offensiveness_score"] }},
}

// Agreement writes the rank correlation (Spearman) of TOXICITY with the fractions of crowds, on texts of their
// sources that are in neither the training nor the calibration split.
func Agreement(w io.Writer, m *model.Model, data fs.FS, dataset *Dataset) error {
	seen := map[uint64]bool{}
	for _, s := range []Split{Training, Calibration} {
		for i := range dataset.Splits[s] {
			seen[key(dataset.Splits[s][i].Text)] = true
		}
	}
	fmt.Fprintf(w, "## TOXICITY and the fractions of crowds\n\n| source | what it says | texts | Spearman |\n"+
		"|---|---|---|---|\n")
	for _, c := range crowds {
		var fractions, probabilities []float64
		err := lines(data, "moderation/"+c.name+".jsonl.gz", func(r row) {
			if k := key(r.Text); !seen[k] {
				fractions = append(fractions, c.share(r.Labels))
				probabilities = append(probabilities, m.Probabilities(r.Text)[toxicity])
			}
		})
		if err != nil {
			return fmt.Errorf("reading the fractions of crowds: %w", err)
		}
		fmt.Fprintf(w, "| %s | %s | %d | %.3f |\n",
			c.name, c.meaning, len(fractions), evaluate.Spearman(fractions, probabilities))
	}
	fmt.Fprintln(w)
	return nil
}

// reportOrdinary reports how much ordinary text is flagged.
func reportOrdinary(w io.Writer, all []prediction) {
	fmt.Fprintf(w, "\n## Ordinary harmless text that is flagged\n\n"+
		"| source or register | texts | any category | hate | harassment | self-harm | sexual | violence |\n"+
		"|---|---|---|---|---|---|---|---|\n")
	names := map[string]bool{}
	for i := range all {
		if isOrdinary(all[i].Example) {
			names[ordinaryName(all[i].Example)] = true
		}
	}
	for _, name := range sorted(names) {
		var texts, flagged float64
		var by [categories]float64
		for i := range all {
			p := &all[i]
			if !isOrdinary(p.Example) || ordinaryName(p.Example) != name {
				continue
			}
			texts++
			if p.flagged() {
				flagged++
			}
			for h := range by {
				if p.probabilities[h] > Thresholds[h] {
					by[h]++
				}
			}
		}
		fmt.Fprintf(w, "| %s | %.0f | %.2f %% |", name, texts, 100*flagged/texts)
		for h := range by {
			fmt.Fprintf(w, " %.2f %% |", 100*by[h]/texts)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// ordinaryName returns what the report calls the source or register of an ordinary text.
func ordinaryName(e *Example) string {
	switch {
	case e.Measured:
		return e.Kind
	case e.Register != "":
		return e.Register
	}
	return e.Source
}

// reportCode reports how much harmless code and talk about code is flagged, and how much harm within code is found. It
// uses the files whose names begin with "code".
func reportCode(w io.Writer, all []prediction) {
	names := map[string]bool{}
	for i := range all {
		if strings.HasPrefix(all[i].Source, "code") {
			names[all[i].Source] = true
		}
	}
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "## Source code and talk about it\n\n| file | harmless texts | flagged | harmful texts | found |\n"+
		"|---|---|---|---|---|\n")
	for _, name := range sorted(names) {
		var texts, flagged [2]int // by harmless and harmful
		for i := range all {
			p := &all[i]
			if p.Source != name {
				continue
			}
			kind := 0
			if !p.Harmless() {
				kind = 1
			}
			texts[kind]++
			if p.flagged() {
				flagged[kind]++
			}
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d |\n", name, texts[0], flagged[0], texts[1], flagged[1])
	}
	fmt.Fprintln(w)
}

// indicator returns 1 for true and 0 for false.
func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
