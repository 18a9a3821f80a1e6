// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

const root = "../../../../"

// A card on other weights than those that ship would mislead its readers.
func TestTheCardIsThatOfTheShippedWeights(t *testing.T) {
	t.Parallel()
	w, err := readWeights(root+"engine/model/default.model", root+"engine/model/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	card, err := os.ReadFile(root + "docs/model-card.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := check(card); err != nil {
		t.Errorf("docs/model-card.md: %v", err)
	}
	for _, c := range []struct{ what, want string }{
		{"version", w.model.Version()},
		{"SHA-256 of the file", w.hash},
		{"SHA-256 of the golden scores (`engine/model/testdata/golden.json`)", w.golden},
		{"SHA-256 of the training examples", w.model.Header().TrainingDigest},
	} {
		if !strings.Contains(string(card), "| "+c.what+" | `"+c.want+"` |") {
			t.Errorf("docs/model-card.md lacks %s as the %s: run engine/train/cmd/card after each training",
				c.want, c.what)
		}
	}
}

// document makes a document with all sections, each with old text, and text between them.
func document() string {
	var b strings.Builder
	for _, name := range sectionNames {
		b.WriteString("By hand, before " + name + ".\n" +
			beginMark + name + closeMark + "\nold text\n" + endMark + name + closeMark + "\n")
	}
	return b.String() + "By hand, at the end.\n"
}

func TestWhatIsWrittenByHandStays(t *testing.T) {
	t.Parallel()
	sections := map[string]string{}
	for _, name := range sectionNames {
		sections[name] = "new text of " + name + "\n"
	}
	out, err := rewrite([]byte(document()), sections)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sectionNames {
		want := "By hand, before " + name + ".\n" + beginMark + name + closeMark + "\n\n" +
			"new text of " + name + "\n\n" + endMark + name + closeMark + "\n"
		if !strings.Contains(string(out), want) {
			t.Errorf("the document lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "old text") || !strings.HasSuffix(string(out), "By hand, at the end.\n") {
		t.Errorf("got a document with old text or without its end, want neither:\n%s", out)
	}
	again, err := rewrite(out, sections)
	if err != nil || string(again) != string(out) {
		t.Errorf("a second run changed the document, error %v, want it as it was", err)
	}
}

func TestProseOfSectionsIsWrapped(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 40) + "end"
	table := "| " + strings.Repeat("cell ", 40) + "|"
	got := wrap(long + "\n\n" + table + "\nshort")
	want := strings.TrimSpace(strings.Repeat("word ", 24)) + "\n" +
		strings.Repeat("word ", 16) + "end\n\n" + table + "\nshort"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	card, err := os.ReadFile(root + "docs/model-card.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, name := range sectionNames {
		_, rest, _ := strings.Cut(string(card), beginMark+name+closeMark)
		sections[name], _, _ = strings.Cut(rest, endMark+name+closeMark)
	}
	if again, err := rewrite(card, sections); err != nil || string(again) != string(card) {
		t.Errorf("docs/model-card.md has prose that cmd/card would wrap (error %v), want it wrapped", err)
	}
}

func TestBrokenMarkersAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, old, new, want string
	}{
		{"no section", beginMark + "texts" + closeMark + "\nold text\n" + endMark + "texts" + closeMark + "\n", "", `there is no line "<!-- begin generated: texts -->"`},
		{"no end", endMark + "figures" + closeMark + "\n", "", `section "figures" does not end`},
		{"no beginning", beginMark + "figures" + closeMark + "\n", "", `section "figures" ends where it did not begin`},
		{"one inside another", endMark + "texts" + closeMark + "\n", "", `section "sources" begins before "texts" ends`},
		{"no recall", endMark + "recall" + closeMark + "\n", "", `section "priors" begins before "recall" ends`},
		{"an unknown name", beginMark + "texts" + closeMark, beginMark + "texxts" + closeMark, `nothing generates a section "texxts"`},
		{"twice", "By hand, at the end.", beginMark + "texts" + closeMark + "\n" + endMark + "texts" + closeMark, `section "texts" begins again`},
	} {
		broken := strings.Replace(document(), c.old, c.new, 1)
		if err := check([]byte(broken)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestALicenceIsNeverMissing(t *testing.T) {
	t.Parallel()
	origins, err := readOrigins()
	if err != nil {
		t.Fatal(err)
	}
	sheet := &train.Sheet{Sources: []train.SourceRows{
		{Name: origins[0].name, Labelled: 3, Annotated: 1},
		{Name: "elsewhere"},
	}}
	var b strings.Builder
	err = writeSources(&b, sheet, origins)
	if err != nil || !strings.Contains(b.String(), "| 3 | 1 | "+origins[0].repository) {
		t.Errorf("a known source: got error %v, want none and a row of the counts 3 and 1:\n%s", err, b.String())
	}
	sheet.Sources[1].Labelled = 1
	err = writeSources(io.Discard, sheet, origins)
	if err == nil || !strings.Contains(err.Error(), `sources.tsv lacks the source "elsewhere"`) {
		t.Errorf("a source of unknown licence: got error %v, want one that names it", err)
	}
}

// Hazard: text that may only be measured is called training text, or its licence goes untold.
func TestOrdinaryTextIsListedWithItsUse(t *testing.T) {
	t.Parallel()
	origins, err := readPlainOrigins()
	if err != nil {
		t.Fatal(err)
	}
	sheet := &train.Sheet{Plain: []train.PlainFile{
		{Name: "reddit_titles_2013", Rows: 9, Annotated: 2, Trained: 2, Unvetted: true},
		{Name: "religion", Rows: 8, Trained: 8, HeldOut: true},
		{Name: "textbooks_more", Rows: 7, Annotated: 1, Measured: 6, MeasuredKinds: []string{"technical_book", "textbook"}},
	}}
	var b strings.Builder
	if err := writePlain(&b, sheet, origins); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `reddit_titles_2013` | titles of posts | 9 | 2 | 2 |  | umbrae/",
		"| `religion` | scriptures | 8 |  | 8 |  | aruljohn/",
		"| `textbooks_more` | textbooks | 7 | 1 |  | 6 (technical_book, textbook) | openstax/",
		"| all | | 24 | 3 | 10 | 6 |",
		"A development run holds out `religion` as a whole.",
		"Several rows in a hundred may be harmful in `reddit_titles_2013`.",
		"whole documents that may be harmful and that nobody has read",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the section lacks %q:\n%s", want, b.String())
		}
	}
	sheet.Plain[1].Name = "elsewhere"
	err = writePlain(io.Discard, sheet, origins)
	if err == nil || !strings.Contains(err.Error(), `plain.tsv lacks the file "elsewhere"`) {
		t.Errorf("a file of unknown licence: got error %v, want one that names it", err)
	}
}

func TestBrokenTablesAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, table, want string }{
		{"right", "a\tb\nc\td\n", ""},
		{"a field too few", "a\tb\nc\n", "t.tsv, line 2: want 2 fields between tabs"},
		{"a field too many", "a\tb\tc\n", "t.tsv, line 1: want 2 fields between tabs"},
		{"an empty field", "a\t\n", "t.tsv, line 1: want 2 fields between tabs"},
	} {
		err := readTable("t.tsv", c.table, 2, func([]string) {})
		if (err != nil) != (c.want != "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
}

// Hazard: the card begins with other figures than the recall on text that was held back, or has them twice or not at
// all.
func TestTheRecallIsTakenOutOfTheReport(t *testing.T) {
	t.Parallel()
	const table = "\n| false alarms | strangers' texts |\n|---|---|\n| 0.2 % | 0.600 |\n"
	for _, c := range []struct{ name, report, recall, rest, err string }{
		{"at the beginning", "Model x.\n\n" + recallHeading + table + "\n## Categories\n\n| hate |\n", table,
			"Model x.\n\n## Categories\n\n| hate |\n", ""},
		{"alone", recallHeading + table, table, "", ""},
		{"missing", "Model x.\n\n## Categories\n", "", "", "there is no section"},
		{"empty", "", "", "", "there is no section"},
	} {
		recall, rest, err := cutRecall(c.report)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
		}
		if strings.TrimSpace(recall) != strings.TrimSpace(c.recall) || rest != c.rest {
			t.Errorf("%s: got %q and the rest %q, want %q and %q", c.name, recall, rest, c.recall, c.rest)
		}
	}
}

// Hazard: the card tells of other data than the weights were learned from, without saying so.
func TestOtherDataAreNoted(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	w, h := &weights{model: m}, m.Header()
	const copies = 5
	for _, c := range []struct {
		name       string
		digest     string
		base, mine int
		want, text string
	}{
		{"the same without mining", h.TrainingDigest, h.Examples - copies, 0, "", "of which 0 were learned from"},
		{"the same with mining", h.TrainingDigest, h.Examples - copies - 40, 1000, "", "of which 40 were learned from"},
		{"more mined than there are", h.TrainingDigest, h.Examples - copies - 40, 39, "and 39 more from which", "hard negatives. Copies"},
		{"too many texts", h.TrainingDigest, h.Examples, 1000, "with these shares there are", "hard negatives. Copies"},
		{"other texts", "x", h.Examples - copies, 0, "SHA-256 differ", "hard negatives. Copies"},
	} {
		s := &train.Sheet{
			Digest: c.digest, Base: c.base, Mineable: c.mine,
			Disguised: 1, Surrounded: 1, Swapped: 1, Patterns: 2, Readings: new(train.Readings),
		}
		got := w.differs(s)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got the note %q, want %q", c.name, got, c.want)
		}
		if text := w.texts(s); !strings.Contains(text, c.text) {
			t.Errorf("%s: the section lacks %q:\n%s", c.name, c.text, text)
		}
	}
}

// The table of readers must not turn a kappa that does not exist into a number.
func TestReadersWithoutAKappaHaveNone(t *testing.T) {
	t.Parallel()
	r := &train.Readings{Unsure: 2, Any: train.Pairs{Both: 3, First: 2, Second: 1, Neither: 4}}
	for h := range r.Categories {
		r.Categories[h] = train.Pairs{Neither: 10}
	}
	got := readers(r)
	for _, want := range []string{
		"labelled 10 of the annotated texts", "gave 2 of them", "| hate | 0 | 0 | 0 | 10 | - |",
		"| any category | 3 | 2 | 1 | 4 | 0.40 |", "This is the ceiling",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the section lacks %q:\n%s", want, got)
		}
	}
	if got := readers(new(train.Readings)); strings.Contains(got, "|") {
		t.Errorf("without second readings: got\n%s\nwant no table", got)
	}
}

func TestACardIsWrittenOrLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, content string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const labels = `{"hate":0,"harassment":1,"self-harm":0,"sexual":0,"violence":0}`
	put("corpus/own.jsonl", `{"text":"you fool","labels":`+labels+`,"voice":"us_teen"}`+"\n")
	put("corpus/annotations.tsv", "0001\tr\n0002\t-\n")
	put("corpus/second_readings.tsv", "0001\tr\n")
	report := recallHeading + "\nThe rates are these.\n\n## Figures of it\n"
	args := func(card string) []string {
		return []string{
			"--data", dir, "--corpus", filepath.Join(dir, "corpus"), "--card", card,
			"--model", root + "engine/model/default.model", "--golden", root + "engine/model/testdata/golden.json",
			"--development", put("report.md", "Model x.\n\n"+report),
		}
	}
	good, bad := put("good.md", document()), put("bad.md", "no sections\n")
	var log strings.Builder
	if err := run(args(good), &log); err != nil {
		t.Fatalf("writing the card: %v", err)
	}
	card, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| own | 1 | 0 | 0 | 1 | 0 | 0 | 0 |", "## Figures of it", "| United States and Canada | 1 | ", "| to 49 | 1 | ",
		"| harassment | 1 | 0 | 0 | 0 | - |", "2 texts of the public sources and of ordinary text were annotated",
		"| share of harm that the probabilities are for | 12 % |", recallSection + closeMark + "\n\nThe rates are these.\n",
	} {
		if !strings.Contains(string(card), want) {
			t.Errorf("the card lacks %q:\n%s", want, card)
		}
	}
	if !strings.Contains(log.String(), "not those that the weights were learned from") {
		t.Errorf("other data than those of the weights: got the log %q, want a note", log.String())
	}
	if err := run(args(bad), &log); err == nil || !strings.Contains(err.Error(), "bad.md: there is no line") {
		t.Errorf("a document without markers: got error %v, want one that names the line", err)
	}
	if left, err := os.ReadFile(bad); err != nil || string(left) != "no sections\n" {
		t.Errorf("a document without markers: got %q, error %v, want it as it was", left, err)
	}
	if err := run(append(args(good), "--plain-one-of", "0"), &log); err == nil ||
		!strings.Contains(err.Error(), "--plain-one-of wants") {
		t.Errorf("one in no text at all: got error %v, want one that asks for a number from 1", err)
	}
	report = "## Figures of it\n"
	if err := run(args(good), &log); err == nil || !strings.Contains(err.Error(), "report.md: there is no section") {
		t.Errorf("a report without the first figures: got error %v, want one that names the report", err)
	}
	if err := run(nil, &log); err == nil || !strings.Contains(err.Error(), "--data and --development are needed") {
		t.Errorf("without arguments: got error %v, want one that names the flags", err)
	}
}
