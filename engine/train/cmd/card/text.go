// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
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
	if n := s.Training + s.Disguised + s.Surrounded + s.Swapped + s.Patterns; n != h.Examples {
		const note = "the weights were learned from %d texts with copies, and with these shares of copies there are %d"
		return fmt.Sprintf(note, h.Examples, n)
	}
	return ""
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

func texts(s *train.Sheet) string {
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
	annotated := 0
	for _, source := range s.Sources {
		annotated += source.Annotated
	}
	fmt.Fprintf(&b, "\nA text may have several categories. Contrasts are groups of texts whose small differences change "+
		"the label. By pattern are texts that differ from another one only in words for groups of people. "+
		"%d more rows pair a text with a theme; they are for screening themes.\n\n", s.Themes)
	fmt.Fprintf(&b, "With %d annotated rows of the public sources and their own labels, without duplicates: "+
		"%d texts for training, %d for calibration, %d for test. ", annotated, s.Training, s.Calibration, s.Test)
	fmt.Fprintf(&b, "Copies of those for training are counted apart: "+
		"%d disguised, %d surrounded by ordinary text, %d with another group of people. "+
		"%d harmless sentences on groups are made from patterns.\n", s.Disguised, s.Surrounded, s.Swapped, s.Patterns)
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

// origin says where a source comes from.
type origin struct {
	name, repository, authors, licence string
}

//go:embed sources.tsv
var originTable string

// readOrigins reads the table of sources: name, repository and commit, authors, licence.
func readOrigins() (out []origin, err error) {
	n := 0
	for line := range strings.Lines(originTable) {
		n++
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 || slices.Contains(f, "") {
			return nil, fmt.Errorf("sources.tsv, line %d: want four fields between tabs", n)
		}
		out = append(out, origin{f[0], f[1], f[2], f[3]})
	}
	return out, nil
}

// writeSources writes the table of sources. A source whose origin is not known is an error: its licence would go
// untold.
func writeSources(w io.Writer, s *train.Sheet, origins []origin) error {
	rows := map[string]train.SourceRows{}
	known := map[string]bool{}
	for _, o := range origins {
		known[o.name] = true
	}
	for _, r := range s.Sources {
		rows[r.Name] = r
		if r.Name != "lexicon" && r.Labelled+r.Annotated > 0 && !known[r.Name] {
			return fmt.Errorf("sources.tsv lacks the source %q", r.Name)
		}
	}
	fmt.Fprintf(w, "| source | texts by its own labels | annotated for this project | repository @ commit | authors | "+
		"licence as stated |%s", rule(6))
	var total train.SourceRows
	for _, o := range origins {
		r := rows[o.name]
		used := fmt.Sprint(r.Labelled)
		if strings.HasPrefix(o.name, "lexicon_") {
			used = "words"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s | %s |\n",
			o.name, used, some(r.Annotated), o.repository, o.authors, o.licence)
		total.Labelled += r.Labelled
		total.Annotated += r.Annotated
	}
	fmt.Fprintf(w, "| all | %d | %d | | | |\n", total.Labelled, total.Annotated)
	fmt.Fprintf(w, "\nTexts without duplicates, in all splits. "+
		"Of the two lists of words %d words were learned from as short texts.\n", rows["lexicon"].Labelled)
	return nil
}
