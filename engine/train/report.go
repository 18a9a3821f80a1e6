// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Thresholds are the thresholds of the report: those of the interface for the categories, 0.5 for the attributes.
var Thresholds = [model.Heads]float64{0.7, 0.7, 0.5, 0.8, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}

// judged is an example with its probabilities.
type judged struct {
	*Example
	p model.Probabilities
}

func (j *judged) flagged() bool {
	for h := range categories {
		if j.p[h] > Thresholds[h] {
			return true
		}
	}
	return false
}

// margin is the largest logit distance from a threshold: it ranks texts by "any".
func (j *judged) margin() float64 {
	best := 0.0
	for h := range categories {
		odds := j.p[h] / (1 - j.p[h] + 1e-12) / (Thresholds[h] / (1 - Thresholds[h]))
		best = max(best, odds)
	}
	return best
}

func judgeAll(m *model.Model, examples []Example) []judged {
	all := make([]judged, len(examples))
	for i := range examples {
		all[i] = judged{Example: &examples[i], p: m.Probabilities(examples[i].Text)}
	}
	return all
}

// Evaluate writes a report in Markdown of what the model does on examples that nothing was fitted on.
func Evaluate(w io.Writer, m *model.Model, examples []Example) {
	all := judgeAll(m, examples)
	fmt.Fprintf(w, "Model %s, %d training texts, %d held-back texts.\n\n", m.Version(), m.Header().Examples, len(all))
	heads(w, "Categories, on texts written or labelled for this project", all, func(j *judged) bool { return j.InCorpus }, 0, categories)
	heads(w, "Attributes, on the crowd labels of their sources", all, func(j *judged) bool { return !j.InCorpus && j.Source != "lexicon" }, categories, model.Heads)
	sources := map[string]bool{}
	for i := range all {
		if all[i].InCorpus {
			sources[all[i].Source] = true
		}
	}
	fmt.Fprintf(w, "## Any category, by file\n\n| file | texts | harmful | AUC | recall | specificity |\n|---|---|---|---|---|---|\n")
	anyRow(w, "all", all, func(j *judged) bool { return j.InCorpus })
	anyRow(w, "own texts (all but annotated)", all, func(j *judged) bool { return j.InCorpus && j.Source != "annotated" })
	for _, s := range sorted(sources) {
		anyRow(w, s, all, func(j *judged) bool { return j.InCorpus && j.Source == s })
	}
	harmless(w, all)
	sourceCode(w, all)
	identities(w, m)
	disguisedReport(w, m, all)
	lengths(w, m, all)
}

func sorted(set map[string]bool) []string {
	var names []string
	for s := range set {
		names = append(names, s)
	}
	slices.Sort(names)
	return names
}

func heads(w io.Writer, title string, all []judged, use func(*judged) bool, from, to int) {
	fmt.Fprintf(w, "## %s\n\n| head | texts | yes | AUC | AP | ECE | threshold | precision | recall | F1 | balanced accuracy |\n|---|---|---|---|---|---|---|---|---|---|---|\n", title)
	for h := from; h < to; h++ {
		var s []evaluate.Scored
		yes := 0
		for i := range all {
			if j := &all[i]; use(j) && j.Labelled(h) {
				s = append(s, evaluate.Scored{Score: j.p[h], Positive: j.Positive(h)})
				if j.Positive(h) {
					yes++
				}
			}
		}
		if yes == 0 || yes == len(s) {
			continue
		}
		at := evaluate.AtThreshold(s, Thresholds[h])
		fmt.Fprintf(w, "| %s | %d | %d | %.3f | %.3f | %.3f | %.1f | %.2f | %.2f | %.2f | %.3f |\n", model.HeadNames[h], len(s), yes, evaluate.AUC(s),
			evaluate.AveragePrecision(s), evaluate.ECE(s), Thresholds[h], at.Precision(), at.Recall(), at.F1(), at.BalancedAccuracy())
	}
	fmt.Fprintln(w)
}

func anyRow(w io.Writer, name string, all []judged, use func(*judged) bool) {
	var rank, flag []evaluate.Scored
	yes := 0
	for i := range all {
		j := &all[i]
		if !use(j) {
			continue
		}
		harmful := !j.Harmless()
		if harmful {
			yes++
		}
		rank = append(rank, evaluate.Scored{Score: j.margin(), Positive: harmful})
		p := 0.0
		if j.flagged() {
			p = 1
		}
		flag = append(flag, evaluate.Scored{Score: p, Positive: harmful})
	}
	if len(rank) == 0 {
		return
	}
	at := evaluate.AtThreshold(flag, 0.5)
	fmt.Fprintf(w, "| %s | %d | %d | %.3f | %.3f | %.3f |\n", name, len(rank), yes, evaluate.AUC(rank), at.Recall(), at.Specificity())
}

// Examine writes a section on an examination: texts that nothing is trained or tuned on, ever, with the labels of all five
// categories (see [ReadTexts]). It tells figures of the whole only, so that nobody is led to mend single answers. Contrasts
// are all pairs of a harmful and a harmless text of the same group: of texts that differ by little, the harmful one should
// come nearer to a threshold.
func Examine(w io.Writer, m *model.Model, rows []Example) {
	all := judgeAll(m, rows)
	everything := func(*judged) bool { return true }
	heads(w, "Examination, texts that nothing was trained or tuned on", all, everything, 0, categories)
	fmt.Fprintf(w, "| any category | texts | harmful | AUC | recall | specificity |\n|---|---|---|---|---|---|\n")
	anyRow(w, "all", all, everything)
	anyRow(w, "in groups of contrasts", all, func(j *judged) bool { return j.Group > 0 })
	anyRow(w, "alone", all, func(j *judged) bool { return j.Group == 0 })
	groups := map[int][]*judged{}
	for i := range all {
		if j := &all[i]; j.Group > 0 {
			groups[j.Group] = append(groups[j.Group], j)
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

// ReadTexts reads one JSON Lines file of texts with all five categories, in the format of the corpus.
func ReadTexts(files fs.FS, name string) ([]Example, error) {
	var all []Example
	err := lines(files, name, func(r row) {
		e := Example{Text: r.Text, Source: base(name), Kind: r.Kind, Group: r.Group, InCorpus: true}
		written(r.Labels, weightWritten, &e)
		all = append(all, e)
	})
	return all, err
}

// crowds are the sources that tell how many of several readers called a text toxic, or where it stands between harmless and
// offensive. [Read] makes yes and no of it, and leaves out what is between.
var crowds = []struct {
	name, meaning string
	share         func(native) float64
}{
	{"convabuse", "share of the readers who saw abuse", func(n native) float64 { return n["abuse"] }},
	{"davidson2017", "share of the readers who saw offence or hate", func(n native) float64 { return 1 - n["neither"] }},
	{"ruddit", "offensiveness by best-worst scaling", func(n native) float64 { return n["offensiveness_score"] }},
}

// Agreement writes the rank correlation (Spearman) of TOXICITY with what crowds say in fractions, on texts of those sources
// that are in none of the splits that weights or calibration were fitted on.
func Agreement(w io.Writer, m *model.Model, data fs.FS, pool *Pool) error {
	seen := map[uint64]bool{}
	for _, s := range []Split{Training, Calibration} {
		for i := range pool.Splits[s] {
			seen[key(pool.Splits[s][i].Text)] = true
		}
	}
	fmt.Fprintf(w, "## TOXICITY and the fractions of crowds\n\n| source | what it says | texts | Spearman |\n|---|---|---|---|\n")
	for _, c := range crowds {
		var said, judged []float64
		err := lines(data, "moderation/"+c.name+".jsonl.gz", func(r row) {
			if k := key(r.Text); !seen[k] {
				said, judged = append(said, c.share(r.Labels)), append(judged, m.Probabilities(r.Text)[toxicity])
			}
		})
		if err != nil {
			return fmt.Errorf("reading the fractions of crowds: %w", err)
		}
		fmt.Fprintf(w, "| %s | %s | %d | %.3f |\n", c.name, c.meaning, len(said), evaluate.Spearman(said, judged))
	}
	fmt.Fprintln(w)
	return nil
}

// harmless reports how much ordinary text is flagged.
func harmless(w io.Writer, all []judged) {
	fmt.Fprintf(w, "\n## Ordinary harmless text that is flagged\n\n| source | texts | any category | hate | harassment | self-harm | sexual | violence |\n|---|---|---|---|---|---|---|---|\n")
	names := map[string]bool{}
	for i := range all {
		if isOrdinary(all[i].Example) {
			names[all[i].Source] = true
		}
	}
	for _, name := range sorted(names) {
		var texts, flagged float64
		var by [categories]float64
		for i := range all {
			j := &all[i]
			if j.Source != name || !isOrdinary(j.Example) {
				continue
			}
			texts++
			if j.flagged() {
				flagged++
			}
			for h := range by {
				if j.p[h] > Thresholds[h] {
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

// sourceCode reports how much harmless code and talk about code is flagged, and how much harm is found that is written
// into code. The files whose names begin with "code" are about that.
func sourceCode(w io.Writer, all []judged) {
	names := map[string]bool{}
	for i := range all {
		if strings.HasPrefix(all[i].Source, "code") {
			names[all[i].Source] = true
		}
	}
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "## Source code and talk about it\n\n| file | harmless texts | flagged | harmful texts | found |\n|---|---|---|---|---|\n")
	for _, name := range sorted(names) {
		var texts, flagged [2]int // of harmless and of harmful ones
		for i := range all {
			j := &all[i]
			if j.Source != name {
				continue
			}
			kind := 0
			if !j.Harmless() {
				kind = 1
			}
			texts[kind]++
			if j.flagged() {
				flagged[kind]++
			}
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d |\n", name, texts[0], flagged[0], texts[1], flagged[1])
	}
	fmt.Fprintln(w)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// lengths reports what length does: long harmless texts, and one flagged text inside them.
func lengths(w io.Writer, m *model.Model, all []judged) {
	var plain []string
	var bad []*judged
	for i := range all {
		j := &all[i]
		switch {
		case isOrdinary(j.Example) && j.Source != "clean_tweets" && j.Source != "goemotions_reddit":
			plain = append(plain, j.Text)
		case j.InCorpus && !j.Harmless() && j.flagged() && len(j.Text) < 200:
			bad = append(bad, j)
		}
	}
	if len(plain) < 100 || len(bad) < 20 {
		return
	}
	fmt.Fprintf(w, "## Length\n\nHarmless documents are joined from ordinary texts; in the others one flagged text of at most 200 bytes stands in the middle.\n\n| characters | harmless flagged | flagged text found |\n|---|---|---|\n")
	r := rand.New(rand.NewPCG(9, 9))
	const documents = 200
	for _, size := range []int{500, 2000, 10000} {
		var flagged, found float64
		for range documents {
			var before, after strings.Builder
			for before.Len() < size/2 {
				before.WriteString(plain[r.IntN(len(plain))] + " ")
			}
			for after.Len() < size/2 {
				after.WriteString(" " + plain[r.IntN(len(plain))])
			}
			p := judged{p: m.Probabilities(before.String() + after.String())}
			flagged += one(p.flagged())
			p = judged{p: m.Probabilities(before.String() + bad[r.IntN(len(bad))].Text + after.String())}
			found += one(p.flagged())
		}
		fmt.Fprintf(w, "| %d | %.1f %% | %.1f %% |\n", size, 100*flagged/documents, 100*found/documents)
	}
	fmt.Fprintln(w)
}
