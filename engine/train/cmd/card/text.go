// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// weights are a weights file with what the card says of it.
type weights struct {
	model        *model.Model
	hash, golden string
	size         int
	heap         uint64
}

// readWeights reads a weights file and measures by how much decoding it grows the heap, in bytes.
func readWeights(name, golden string) (*weights, error) {
	file, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	scores, err := os.ReadFile(golden)
	if err != nil {
		return nil, err
	}
	before := heap()
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	after := heap()
	w := &weights{model: m, hash: hashOf(file), golden: hashOf(scores), size: len(file)}
	w.heap = after - min(before, after)
	runtime.KeepAlive(file)
	return w, nil
}

func hashOf(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// heap returns the bytes in use after garbage collection. It collects twice, because pools are emptied in two steps.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// differs says how the data of the weights differ from those of the sheet, or returns nothing.
func (w *weights) differs(s *train.Sheet) string {
	h := w.model.Header()
	if h.TrainingDigest != s.Digest {
		return "the data are not those that the weights were learned from (their SHA-256 differ): " +
			"the tables tell of the data as they are now"
	}
	if n := w.mined(s); n < 0 || n > s.Mineable {
		const note = "the weights were learned from %d texts with copies, and with these shares there are %d, " +
			"and %d more from which hard negatives are taken"
		return fmt.Sprintf(note, h.Examples, h.Examples-n, s.Mineable)
	}
	return ""
}

// mined returns how many hard negatives the weights were learned from: the texts that the sheet does not count.
func (w *weights) mined(s *train.Sheet) int {
	return w.model.Header().Examples - s.Base - s.Disguised - s.Surrounded - s.Swapped - s.Patterns
}

func (w *weights) section(s *train.Sheet) string {
	h := w.model.Header()
	var b strings.Builder
	fmt.Fprintf(&b, "| what | value |\n|---|---|\n")
	fmt.Fprintf(&b, "| version | `%s` |\n", w.model.Version())
	fmt.Fprintf(&b, "| SHA-256 of the file | `%s` |\n", w.hash)
	fmt.Fprintf(&b, "| SHA-256 of the training examples | `%s` |\n", h.TrainingDigest)
	fmt.Fprintf(&b, "| SHA-256 of the golden scores (`engine/model/testdata/golden.json`) | `%s` |\n", w.golden)
	fmt.Fprintf(&b, "| file | %d bytes (%.1f MB) |\n", w.size, float64(w.size)/1e6)
	fmt.Fprintf(&b, "| heap after decoding | %.1f MiB |\n", float64(w.heap)/(1<<20))
	fmt.Fprintf(&b, "| training texts, copies included | %d |\n", h.Examples)
	fmt.Fprintf(&b, "| share of harm that the probabilities are for | %.3g %% |\n", 100*w.model.HarmShare())
	if why := w.differs(s); why != "" {
		fmt.Fprintf(&b, "\nNote: %s.\n", why)
	}
	return b.String()
}

func (w *weights) priors() string {
	priors := train.Priors()
	var b strings.Builder
	fmt.Fprintf(&b, "| category | assumed share of traffic | threshold |\n|---|---|---|\n")
	for h, p := range priors {
		fmt.Fprintf(&b, "| %s | %.1f %% | %.1f |\n", model.HeadNames[h], 100*p, train.Thresholds[h])
	}
	fmt.Fprintf(&b, "| each attribute | %.1f %% | %.1f in the figures below |\n\n",
		100*train.AttributePrior(), train.Thresholds[model.NumCategories])
	fmt.Fprintf(&b, "Of the harmless texts %.0f %% are assumed to be ordinary and %.0f %% to look like harm. "+
		"The network classifies a text, too, if the linear model gives a category more than %.3f.\n",
		100*train.OrdinaryShare, 100*(1-train.OrdinaryShare), 1/(1+math.Exp(-w.model.Header().CNNThreshold)))
	return b.String()
}

// categoryColumns are the headings of columns, one for each category.
func categoryColumns() string { return strings.Join(model.HeadNames[:model.NumCategories], " | ") }

func rule(columns int) string { return "\n|" + strings.Repeat("---|", columns) + "\n" }

func (w *weights) texts(s *train.Sheet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| file | texts | harmless | %s | kinds | voices | in contrasts | by pattern |%s",
		categoryColumns(), rule(8+model.NumCategories-1))
	total := train.CorpusFile{Name: "all"}
	for _, f := range s.Files {
		corpusLine(&b, f)
		total.Rows += f.Rows
		total.Harmless += f.Harmless
		total.Grouped += f.Grouped
		total.Patterned += f.Patterned
		for h, n := range f.Positives {
			total.Positives[h] += n
		}
	}
	corpusLine(&b, total)
	fmt.Fprintf(&b, "\nA text may have several categories. Contrasts are groups of texts whose small differences change "+
		"the label. By pattern are texts that differ from another one only in words for groups of people. "+
		"%d more rows pair a text with a theme; they are for screening themes.\n\n", s.Themes)
	fmt.Fprintf(&b, "With the public sources and the ordinary texts, without duplicates: "+
		"%d texts for training, %d for calibration, %d for test. ", s.Training, s.Calibration, s.Test)
	fmt.Fprintf(&b, "Whole documents among those for training are cut into pieces. %d texts and pieces are trained on "+
		"as they are, and %d ordinary ones are searched for hard negatives", s.Base, s.Mineable)
	if w.differs(s) == "" {
		fmt.Fprintf(&b, ", of which %d were learned from", w.mined(s))
	}
	fmt.Fprintf(&b, ". Copies are counted apart: %d disguised, %d surrounded by ordinary text, "+
		"%d with another group of people. %d sentences are made from patterns: on groups, on what is said of them and refused, and captions of pictures.\n\n",
		s.Disguised, s.Surrounded, s.Swapped, s.Patterns)
	b.WriteString(annotations(s))
	return b.String()
}

// annotations tells of the annotated texts.
func annotations(s *train.Sheet) string {
	var b strings.Builder
	total := train.AnnotatedFamily{Name: "all"}
	for _, f := range s.Annotations {
		total.Rows += f.Rows
		total.Unsure += f.Unsure
		total.Harmless += f.Harmless
		for h, n := range f.Positives {
			total.Positives[h] += n
		}
	}
	fmt.Fprintf(&b, "%d texts of the public sources and of ordinary text were annotated for this project", s.Annotated)
	if n := s.Annotated - total.Rows; n > 0 {
		fmt.Fprintf(&b, "; %d of them are not in the data any more or are texts of the corpus, too", n)
	}
	fmt.Fprintf(&b, ":\n\n| texts | annotated | with a question mark | harmless | %s |%s",
		categoryColumns(), rule(4+model.NumCategories))
	for _, f := range append(slices.Clone(s.Annotations), total) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d |", f.Name, f.Rows, f.Unsure, f.Harmless)
		for _, n := range f.Positives {
			fmt.Fprintf(&b, " %d |", n)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "\nA question mark says that two careful readers might differ; such labels weigh a third.\n")
	return b.String()
}

// readers tells how far two readers agree.
func readers(r *train.Readings) string {
	if r.Any.Texts() == 0 {
		return "No text was read twice."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "A second reader labelled %d of the annotated texts by the same definitions without seeing the first "+
		"reader's labels. At least one of the two gave %d of them a question mark.\n\n", r.Any.Texts(), r.Unsure)
	fmt.Fprintf(&b, "| category | yes by both | only the first | only the second | by neither | Cohen's kappa |%s", rule(6))
	line := func(name string, p train.Pairs) {
		kappa := "-"
		if k, ok := p.Kappa(); ok {
			kappa = fmt.Sprintf("%.2f", k)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %s |\n", name, p.Both, p.First, p.Second, p.Neither, kappa)
	}
	for h, p := range r.Categories {
		line(model.HeadNames[h], p)
	}
	line("any category", r.Any)
	fmt.Fprintf(&b, "\nKappa is 1 where the readers always agree and 0 where they agree as often as by chance. This is the "+
		"ceiling: no classifier can be expected to agree with one reader's labels more than a second reader does.\n")
	return b.String()
}

func corpusLine(w io.Writer, f train.CorpusFile) {
	fmt.Fprintf(w, "| %s | %d | %d |", f.Name, f.Rows, f.Harmless)
	for _, n := range f.Positives {
		fmt.Fprintf(w, " %d |", n)
	}
	if f.Name == "all" {
		fmt.Fprintf(w, " | | %d | %d |\n", f.Grouped, f.Patterned)
		return
	}
	fmt.Fprintf(w, " %s | %s | %s | %s |\n", some(f.Kinds), some(f.Voices), some(f.Grouped), some(f.Patterned))
}

// some formats a number, and 0 as nothing.
func some(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// thin is the number of texts below which a cell is marked.
const thin = 30

func coverage(s *train.Sheet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Texts of the corpus to which a category applies / harmless ones that are near to it. "+
		"Numbers under %d are bold: figures there rest on little.\n", thin)
	var gaps []string
	for _, t := range []struct {
		title string
		rows  []train.Coverage
	}{{"voices", s.Families}, {"characters", s.Bands}} {
		fmt.Fprintf(&b, "\n| %s | texts | %s |%s", t.title, categoryColumns(), rule(2+model.NumCategories))
		for _, c := range t.rows {
			fmt.Fprintf(&b, "| %s | %d |", c.Name, c.Rows)
			for h := range c.Positives {
				fmt.Fprintf(&b, " %s / %s |", cell(c.Positives[h]), cell(c.Hard[h]))
				if n := c.Positives[h]; n < thin {
					gaps = append(gaps, fmt.Sprintf("%s of %s: %s (%d)", model.HeadNames[h], t.title, c.Name, n))
				}
			}
			fmt.Fprintln(&b)
		}
	}
	if len(gaps) > 0 {
		fmt.Fprintf(&b, "\nThinnest: %s.\n", strings.Join(gaps, "; "))
	}
	fmt.Fprintf(&b, "\nFamilies of voices follow the names of voices in the corpus and are rough. Near to a category "+
		"are harmless texts of a contrast group with a text of it, and those of files that are mainly about it.\n")
	return b.String()
}

func cell(n int) string {
	if n < thin {
		return fmt.Sprintf("**%d**", n)
	}
	return fmt.Sprint(n)
}
