// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

// WriteText writes the report as tables for people. It leaves out labels without a row, and writes "n/a" for a figure
// that cannot be computed.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Model %s judged %s", r.Model, plural(r.Rows, "row"))
	if len(r.Files) > 0 {
		fmt.Fprintf(&b, " of %s", plural(len(r.Files), "file"))
	}
	b.WriteString(".\n")
	if r.HarmShare != 0 {
		fmt.Fprintf(&b, "The probabilities are for traffic of which %s is harmful.\n", engine.FormatHarmShare(r.HarmShare))
	}
	r.writeRejected(&b)
	writeLabels(&b, "CATEGORY", r.Categories, 0, engine.NumCategories)
	writeLabels(&b, "ATTRIBUTE", r.Attributes, engine.NumCategories, NumLabels)
	writeVerdicts(&b, "ANY CATEGORY", r.Flagged, r.Kinds, "kind")
	if r.languageCount() > 1 {
		writeVerdicts(&b, "LANGUAGE", Verdicts{}, r.Languages, "language")
	}
	r.Themes.write(&b)
	r.writeMisses(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// languageCount returns the number of languages that texts are known to be in.
func (r *Report) languageCount() int {
	n := len(r.Languages)
	if _, ok := r.Languages[language.Undetermined]; ok {
		n--
	}
	return n
}

func (r *Report) writeRejected(b *strings.Builder) {
	if r.Rejected.Rows == 0 {
		return
	}
	fmt.Fprintf(b, "Rejected, as the service would, and counted nowhere below: %s.\n", plural(r.Rejected.Rows, "row"))
	for _, refusal := range r.Rejected.First {
		fmt.Fprintf(b, "  %s:%d: %s\n", refusal.File, refusal.Line, refusal.Reason)
	}
	if more := r.Rejected.Rows - len(r.Rejected.First); more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

// writeLabels writes a table of the labels in the range [from, to).
func writeLabels(b *strings.Builder, title string, labels map[string]Label, from, to int) {
	fractions := false
	for _, l := range labels {
		fractions = fractions || !math.IsNaN(float64(l.Spearman))
	}
	header := []string{
		title, "ROWS", "POSITIVE", "AUC", "AP", "THRESHOLD", "PRECISION", "RECALL", "F1", "MISSES", "ECE",
	}
	if fractions {
		header = append(header, "SPEARMAN")
	}
	lines := [][]string{header}
	for i := from; i < to; i++ {
		l := labels[LabelName(i)]
		if l.Rows == 0 {
			continue
		}
		line := []string{
			LabelName(i), strconv.Itoa(l.Rows), strconv.Itoa(l.Positives),
			l.AUC.String(), l.AveragePrecision.String(), strconv.FormatFloat(l.Threshold, 'f', -1, 64),
			l.Precision.String(), l.Recall.String(), l.F1.String(), strconv.Itoa(l.Misses), l.ECE.String(),
		}
		if fractions {
			line = append(line, l.Spearman.String())
		}
		lines = append(lines, line)
	}
	writeTable(b, lines)
}

// writeVerdicts writes a table of the verdicts on all rows and on those of each kind, or of whatever what names.
func writeVerdicts(b *strings.Builder, title string, all Verdicts, kinds map[string]Verdicts, what string) {
	lines := [][]string{{
		title, "ROWS", "FLAGGED", "SHARE", "POSITIVE", "NEGATIVE", "RECALL", "SPECIFICITY", "BALANCED",
	}}
	add := func(name string, v Verdicts) {
		lines = append(lines, []string{
			name, strconv.Itoa(v.Rows), strconv.Itoa(v.Flagged), v.FlaggedShare.String(),
			strconv.Itoa(v.Positives), strconv.Itoa(v.Negatives),
			v.Recall.String(), v.Specificity.String(), v.BalancedAccuracy.String(),
		})
	}
	if all.Rows > 0 {
		add("all rows", all)
	}
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(kinds[b].Rows, kinds[a].Rows), cmp.Compare(a, b))
	})
	for _, kind := range names[:min(shownKinds, len(names))] {
		add("  "+oneLine(kind), kinds[kind])
	}
	writeTable(b, lines)
	if more := len(names) - shownKinds; more > 0 {
		fmt.Fprintf(b, "  and %s with fewer rows, which are in the JSON\n", plural(more, what))
	}
}

// shownKinds is the maximum number of kinds that are shown, those with the most rows. Some data sets have thousands.
const shownKinds = 30

func (t *Themes) write(b *strings.Builder) {
	if t.Rows == 0 {
		return
	}
	lines := [][]string{
		{"THEMES", "", ""},
		{
			"pairs of theme and text", strconv.Itoa(t.Rows),
			plural(t.Themes, "theme") + ", " + plural(t.Positives, "hit"),
		},
		{"AUC, mean over themes", t.MacroAUC.String(), plural(t.BothClasses, "theme") + " with hits and misses"},
	}
	for _, at := range t.AtFalseHits {
		where := "above " + at.Threshold.String()
		if math.IsNaN(float64(at.Threshold)) {
			where = "needs pairs with and without a hit"
		}
		name := fmt.Sprintf("recall at %g %% false hits", 100*at.Share)
		lines = append(lines, []string{name, at.Recall.String(), where})
	}
	lines = append(lines,
		[]string{"precision", t.Precision.String(), "as flagged"},
		[]string{"recall", t.Recall.String(), "as flagged"},
		[]string{"F1", t.F1.String(), plural(t.Misses, "wrong verdict")},
	)
	if t.Paraphrases > 0 {
		lines = append(lines, []string{"paraphrases judged alike", t.Agreement.String(), plural(t.Paraphrases, "pair")})
	}
	b.WriteByte('\n')
	for _, line := range lines {
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("%-26s  %7s  %s", line[0], line[1], line[2]), " "))
	}
	writeVerdicts(b, "THEME HITS", t.Verdicts, t.Kinds, "kind")
}

func (r *Report) writeMisses(b *strings.Builder) {
	for i := range NumLabels + 1 {
		name := missesOf(i)
		total := r.Themes.Misses
		switch {
		case i < engine.NumCategories:
			total = r.Categories[name].Misses
		case i < NumLabels:
			total = r.Attributes[name].Misses
		}
		misses := r.Misses[name]
		if len(misses) == 0 {
			continue
		}
		lines := [][]string{{"LABEL", "PROBABILITY", "PLACE AND TEXT"}}
		for _, m := range misses {
			text := fmt.Sprintf("%s:%d: ", m.File, m.Line)
			if m.Theme != "" {
				text += "[" + oneLine(m.Theme) + "] "
			}
			label := strconv.FormatFloat(float64(m.Label), 'g', 3, 64)
			lines = append(lines, []string{label, m.Probability.String(), text + m.Text})
		}
		fmt.Fprintf(b, "\nMISSES OF %s, %d OF %d\n", name, len(misses), total)
		for _, line := range lines {
			fmt.Fprintf(b, "%5s  %11s  %s\n", line[0], line[1], line[2])
		}
	}
}

// writeTable writes an empty line and a table whose first column is aligned left and the others right. It writes
// nothing for a table without rows.
func writeTable(b *strings.Builder, lines [][]string) {
	if len(lines) < 2 {
		return
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	b.WriteByte('\n')
	for _, line := range lines {
		for i, cell := range line {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(cell + gap)
			} else {
				b.WriteString("  " + gap + cell)
			}
		}
		b.WriteByte('\n')
	}
}

// plural returns a number with its noun, in the plural unless the number is 1.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
