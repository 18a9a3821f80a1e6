// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// origin says where a source comes from. Of ordinary text it says what it is, too.
type origin struct {
	name, what, repository, authors, licence string
}

//go:embed sources.tsv
var originTable string

//go:embed plain.tsv
var plainTable string

// readOrigins reads the table of sources: name, repository and commit, authors, licence.
func readOrigins() (out []origin, err error) {
	err = readTable("sources.tsv", originTable, 4, func(f []string) {
		out = append(out, origin{name: f[0], repository: f[1], authors: f[2], licence: f[3]})
	})
	return out, err
}

// readPlainOrigins reads the table of the files of ordinary text: name, what it is, repository and commit, authors,
// licence.
func readPlainOrigins() (out []origin, err error) {
	err = readTable("plain.tsv", plainTable, 5, func(f []string) {
		out = append(out, origin{name: f[0], what: f[1], repository: f[2], authors: f[3], licence: f[4]})
	})
	return out, err
}

// readTable calls yield for each line of a table. No field may be empty.
func readTable(name, table string, fields int, yield func([]string)) error {
	n := 0
	for line := range strings.Lines(table) {
		n++
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != fields || slices.Contains(f, "") {
			return fmt.Errorf("%s, line %d: want %d fields between tabs", name, n, fields)
		}
		yield(f)
	}
	return nil
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

// writePlain writes the table of ordinary text. A file whose origin is not known is an error: its licence would go
// untold.
func writePlain(w io.Writer, s *train.Sheet, origins []origin) error {
	known := map[string]origin{}
	for _, o := range origins {
		known[o.name] = o
	}
	total := train.PlainFile{Name: "all"}
	fmt.Fprintf(w, "| file | what it is | rows | annotated | trained on | measured only | repository @ commit | authors | "+
		"licence as stated |%s", rule(9))
	var heldOut, unvetted []string
	for _, f := range s.Plain {
		o, ok := known[f.Name]
		if !ok {
			return fmt.Errorf("plain.tsv lacks the file %q", f.Name)
		}
		measured := some(f.Measured)
		if f.Measured > 0 {
			measured += " (" + strings.Join(f.MeasuredKinds, ", ") + ")"
		}
		fmt.Fprintf(w, "| `%s` | %s | %d | %s | %s | %s | %s | %s | %s |\n", f.Name, o.what, f.Rows, some(f.Annotated),
			some(f.Trained), measured, o.repository, o.authors, o.licence)
		if f.HeldOut {
			heldOut = append(heldOut, "`"+f.Name+"`")
		}
		if f.Unvetted {
			unvetted = append(unvetted, "`"+f.Name+"`")
		}
		total.Rows += f.Rows
		total.Annotated += f.Annotated
		total.Trained += f.Trained
		total.Measured += f.Measured
	}
	fmt.Fprintf(w, "| all | | %d | %d | %d | %d | | | |\n\n", total.Rows, total.Annotated, total.Trained, total.Measured)
	fmt.Fprintf(w, "Trained on are the texts in the splits of a training for shipping, without duplicates: the classifier "+
		"learns from part of them as they are, and from hard negatives among the rest, and the network is pretrained on "+
		"part of the rest without labels. What is measured only is in the test split and nowhere else: kinds of which a "+
		"part is under terms that rule out commercial use, and whole documents that may be harmful and that nobody has "+
		"read.")
	if len(heldOut) > 0 {
		fmt.Fprintf(w, " A development run holds out %s as a whole.", strings.Join(heldOut, ", "))
	}
	if len(unvetted) > 0 {
		fmt.Fprintf(w, " Several rows in a hundred may be harmful in %s.", strings.Join(unvetted, ", "))
	}
	fmt.Fprintln(w)
	return nil
}
