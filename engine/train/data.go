// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Weights of labels of the corpus. Those of public sources are at most 1.
const (
	weightCorpus    = 4
	weightAnnotated = 3
	weightUnsure    = 1 // annotations with a question mark
)

// row is a line of a file of the corpus or of a public source.
type row struct {
	Text   string       `json:"text"`
	Lang   string       `json:"lang"`
	Labels sourceLabels `json:"labels"`
	Kind   string       `json:"kind"`
	Voice  string       `json:"voice"`
	Group  int          `json:"group"`
	Hit    *bool        `json:"hit"`
}

// Read reads all files that training uses. corpus holds JSON Lines and annotations.tsv. data, which may be nil, holds
// the folder moderation with the public sources, the folder plain with ordinary text and the folder languages with
// sentences in other languages. Missing files are left out. An error names the file and line. A category that is
// misspelt or missing in the labels of the corpus is an error.
func Read(corpus, data fs.FS) ([]Example, error) {
	var all, public []Example
	names, err := fs.Glob(corpus, "*.jsonl")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		rows, err := ReadTexts(corpus, name)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	if data == nil {
		return all, nil
	}
	annotations, err := readAnnotations(corpus)
	if err != nil {
		return nil, err
	}
	words, err := readLexicons(data)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		rows, err := s.read(data, annotations)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			words.weaklyLabel(&rows[i])
		}
		public = append(public, rows...)
	}
	plain, err := readPlain(data, annotations)
	if err != nil {
		return nil, err
	}
	public = append(public, plain...)
	// Annotated rows come first, because the first label of a text is not overruled.
	for _, e := range public {
		if e.InCorpus {
			all = append(all, e)
		}
	}
	for _, e := range public {
		if !e.InCorpus {
			all = append(all, e)
		}
	}
	return append(all, words.examples()...), nil
}

// ReadTexts reads the texts of a file of the corpus or of an examination. Rows that pair a text with a theme are left
// out. An error names the file and line.
func ReadTexts(files fs.FS, name string) ([]Example, error) {
	var all []Example
	err := checkedLines(files, name, func(r row) error {
		if r.isTheme() {
			return nil
		}
		if err := r.Labels.checkCategories(); err != nil {
			return err
		}
		e := Example{Text: r.Text, Source: base(name), Kind: r.Kind, Group: r.Group, InCorpus: true}
		setCorpusLabels(r.Labels, weightCorpus, &e)
		all = append(all, e)
		return nil
	})
	return all, err
}

// isTheme reports whether a row of the corpus pairs a text with a theme. The classifier does not learn from it.
func (r *row) isTheme() bool { return r.Hit != nil }

// checkCategories says what is wrong with the labels of a row of the corpus: they must be the five categories, each
// from 0 to 1. A category that is misspelt or missing would otherwise count as no.
func (n sourceLabels) checkCategories() error {
	for _, name := range slices.Sorted(maps.Keys(n)) {
		switch v := n[name]; {
		case !slices.Contains(categoryNames[:], name):
			return fmt.Errorf("the labels have %q, want %s", name, strings.Join(categoryNames[:], ", "))
		case v < 0 || v > 1:
			return fmt.Errorf("the label of %s is %v, want 0 or 1", name, v)
		}
	}
	for _, name := range categoryNames {
		if !n.has(name) {
			return fmt.Errorf("the labels lack %s", name)
		}
	}
	return nil
}

// annotation holds this project's labels of a text from a public source.
type annotation struct {
	labels sourceLabels
	sure   bool
}

// annotationLetters are the letters of the categories in annotations.tsv.
var annotationLetters = map[rune]string{
	'h': "hate", 'r': "harassment", 's': "self-harm", 'x': "sexual", 'v': "violence",
}

// readAnnotations parses annotations.tsv: lines of a text's [Key], a tab and the letters of the categories that
// apply, or - for none. A question mark at the end says that two careful annotators might differ.
func readAnnotations(corpus fs.FS) (map[string]annotation, error) {
	return readLetters(corpus, "annotations.tsv")
}

// readLetters parses a file in the format of [readAnnotations]. A missing file is an empty one.
func readLetters(corpus fs.FS, name string) (map[string]annotation, error) {
	file, err := fs.ReadFile(corpus, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]annotation{}
	n := 0
	for line := range strings.Lines(string(file)) {
		n++
		key, letters, ok := strings.Cut(strings.TrimSpace(line), "\t")
		a := annotation{labels: sourceLabels{}}
		letters, unsure := strings.CutSuffix(letters, "?")
		a.sure = !unsure
		for _, c := range letters {
			category, known := annotationLetters[c]
			if !known && letters != "-" {
				ok = false
			}
			if known {
				a.labels[category] = 1
			}
		}
		if !ok || letters == "" {
			return nil, fmt.Errorf("%s, line %d: want a key, a tab and letters of hrsxv or -", name, n)
		}
		out[key] = a
	}
	return out, nil
}

// annotate replaces an example's labels of the categories. The source's labels of the attributes stay.
func (a annotation) annotate(e *Example) {
	weight := float32(weightAnnotated)
	if !a.sure {
		weight = weightUnsure
	}
	bySource := e.Labels
	setCorpusLabels(a.labels, weight, e)
	harmless := e.Harmless()
	for h := categories; h < model.Heads; h++ {
		// A text to which no category applies may still be toxic to a crowd, so that says nothing about attributes.
		if bySource[h].Weight > 0 || harmless {
			e.Labels[h] = bySource[h]
		}
	}
	e.Source, e.InCorpus = "annotated", true
}

// read reads the rows of a source, spread evenly over its file if there is a limit, and all rows that are annotated.
func (s source) read(data fs.FS, annotations map[string]annotation) ([]Example, error) {
	var rows []row
	err := lines(data, "moderation/"+s.name+".jsonl.gz", func(r row) { rows = append(rows, r) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	step := 1.0
	if s.limit > 0 && len(rows) > s.limit {
		step = float64(len(rows)) / float64(s.limit)
	}
	var out []Example
	at := 0.0
	for i, r := range rows {
		a, annotated := annotations[Key(r.Text)]
		chosen := i == int(math.Floor(at))
		if chosen {
			at += step
		}
		if !chosen && !annotated {
			continue
		}
		e := Example{Text: r.Text, Source: s.name}
		s.label(r.Labels, &e)
		if annotated {
			a.annotate(&e)
		}
		if e.Labels != (Example{}).Labels {
			out = append(out, e)
		}
	}
	return out, nil
}

// lines calls yield for every line of a JSON Lines file, which is compressed if its name ends in .gz.
func lines(files fs.FS, name string, yield func(row)) error {
	return checkedLines(files, name, func(r row) error {
		yield(r)
		return nil
	})
}

// checkedLines is [lines] with a yield that may refuse a row. The error names the file and line then.
func checkedLines(files fs.FS, name string, yield func(row) error) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		zr, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer zr.Close()
		in = zr
	}
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		if len(scan.Bytes()) == 0 {
			continue
		}
		var r row
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		if err := yield(r); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, n, err)
		}
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// base returns the name of a file without folder and extension.
func base(name string) string {
	name = path.Base(name)
	return strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".jsonl")
}
