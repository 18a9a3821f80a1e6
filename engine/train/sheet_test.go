// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// own is a line of the corpus; more are members that follow the labels.
func own(text string, hate, sexual int, more string) string {
	const labels = `{"hate":%d,"harassment":0,"self-harm":0,"sexual":%d,"violence":0}`
	return fmt.Sprintf(`{"text":%q,"labels":`+labels+`%s}`+"\n", text, hate, sexual, more)
}

// packed returns a file compressed with gzip.
func packed(t *testing.T, lines string) *fstest.MapFile {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	if _, err := zw.Write([]byte(lines)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: b.Bytes()}
}

// named returns the coverage of a name.
func named(t *testing.T, all []train.Coverage, name string) train.Coverage {
	t.Helper()
	for _, c := range all {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no coverage of %q, want one", name)
	return train.Coverage{}
}

func TestTheSurveyCountsWhatTrainingReads(t *testing.T) {
	t.Parallel()
	corpus := fstest.MapFS{
		"mixed.jsonl": {Data: []byte(own("Turks are vermin", 1, 0, `,"voice":"us_teen","kind":"a","group":1`) +
			own("Greeks are vermin", 1, 0, `,"voice":"indian_english","kind":"b"`) +
			own("rats are vermin", 0, 0, `,"voice":"us_teen","kind":"b","group":1`) +
			own(strings.Repeat("a long night ", 10), 0, 1, "") +
			own("nothing at all", 0, 0, `,"group":2`) +
			own("one more", 0, 1, "") + own("and another", 0, 1, "") + own("and the last", 0, 1, ""))},
		"pairs.jsonl":     {Data: []byte(`{"text":"a","theme":"b","hit":true}` + "\n")},
		"annotations.tsv": {Data: []byte(train.Key("read before") + "\th\n" + train.Key("Turks are vermin") + "\t-\n")},
	}
	data := fstest.MapFS{
		"moderation/stormfront.jsonl.gz": packed(t, `{"text":"read before","labels":{"hate":1}}`+"\n"+
			`{"text":"not read","labels":{"hate":1}}`+"\n"+
			`{"text":"not read!","labels":{"hate":1}}`+"\n"+
			`{"text":"TURKS are vermin","labels":{"hate":1}}`+"\n"),
	}
	s, err := train.Survey(corpus, data, train.Copies{Disguise: 1, Surround: 1, Swap: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Files) != 1 || s.Themes != 1 {
		t.Fatalf("%d files with labels and %d rows for themes, want 1 and 1", len(s.Files), s.Themes)
	}
	want := train.CorpusFile{
		Name: "mixed", Rows: 8, Harmless: 2, Grouped: 3, Patterned: 2, Kinds: 2, Voices: 2,
		Positives: [5]int{0: 2, 3: 4},
	}
	if got := s.Files[0]; got != want {
		t.Errorf("the file mixed: got %+v, want %+v", got, want)
	}
	// Two thirds of the harmful rows are sexual, so both harmless ones are near to that; one is in a group with hate.
	c := named(t, s.Families, "United States and Canada")
	if c.Rows != 2 || c.Positives[0] != 1 || c.Hard != [5]int{0: 1, 3: 1} {
		t.Errorf("American voices: got %+v, want 2 rows, 1 of hate, and 1 near to hate and to sexual", c)
	}
	if c := named(t, s.Families, "South Asian"); c.Rows != 1 || c.Positives[0] != 1 {
		t.Errorf("South Asian voices: got %+v, want 1 row of hate", c)
	}
	if c := named(t, s.Families, "not named"); c.Rows != 5 || c.Hard[0] != 1 {
		t.Errorf("voices without a name: got %+v, want 5 rows, 1 near to hate", c)
	}
	if c := named(t, s.Bands, "100 to 199"); c.Rows != 1 || c.Positives[3] != 1 {
		t.Errorf("a text of 130 characters: got %+v, want 1 row of sexual", c)
	}
	for _, source := range s.Sources {
		want := train.SourceRows{Name: source.Name}
		if source.Name == "stormfront" {
			want.Labelled, want.Annotated = 1, 1 // the others are there already
		}
		if source != want {
			t.Errorf("source %s: got %+v, want %+v", source.Name, source, want)
		}
	}
	if n := s.Training + s.Calibration + s.Test; n != 10 {
		t.Errorf("%d texts in all splits, want 10", n)
	}
}

// The prose of the card relies on it that an examination tells figures, never texts.
func TestAnExaminationTellsNoText(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"exam.jsonl": {Data: []byte(own("they are all vermin", 1, 0, `,"group":1`) +
		own("moles are good diggers", 0, 0, `,"group":1`) + own("good morning", 0, 0, ""))}}
	rows, err := train.ReadTexts(files, "exam.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	train.Examine(&b, m, rows)
	for _, want := range []string{
		"| hate | 3 | 1 |", "| all | 3 | 1 |", "| in groups of contrasts | 2 | 1 |", "Of 1 contrasts",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the section lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "vermin") || strings.Contains(b.String(), "morning") {
		t.Errorf("the section shows texts, want none:\n%s", b.String())
	}
}

func TestAgreementLeavesOutWhatWasLearned(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	data := fstest.MapFS{
		"moderation/convabuse.jsonl.gz": packed(t, `{"text":"learned","labels":{"abuse":0.5}}`+"\n"+
			`{"text":"you filthy idiot","labels":{"abuse":1}}`+"\n"+
			`{"text":"good morning","labels":{"abuse":0}}`+"\n"),
		"moderation/davidson2017.jsonl.gz": packed(t, `{"text":"good morning","labels":{"neither":1}}`+"\n"+
			`{"text":"you filthy idiot","labels":{"neither":0}}`+"\n"),
		"moderation/ruddit.jsonl.gz": packed(t, `{"text":"good morning","labels":{"offensiveness_score":0.6}}`+"\n"+
			`{"text":"you filthy idiot","labels":{"offensiveness_score":-0.4}}`+"\n"),
	}
	dataset := &train.Dataset{}
	dataset.Splits[train.Training] = []train.Example{{Text: "Learned!"}}
	var b strings.Builder
	if err := train.Agreement(&b, m, data, dataset); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| convabuse | share of the readers who saw abuse | 2 | 1.000 |",
		"| davidson2017 | share of the readers who saw offence or hate | 2 | 1.000 |",
		"| ruddit | offensiveness by best-worst scaling | 2 | -1.000 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the section lacks %q:\n%s", want, b.String())
		}
	}
	if err := train.Agreement(&b, m, fstest.MapFS{}, dataset); err == nil {
		t.Error("missing sources: got no error, want one")
	}
}

func TestTheReportTellsOfSourceCode(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	corpus := fstest.MapFS{
		"code.jsonl": {Data: []byte(own("for i in rows: print(i)", 0, 0, "") +
			own("# they are all vermin and should be gassed", 1, 0, ""))},
		"code_dev.jsonl": {Data: []byte(own("SELECT bread FROM shelves", 0, 0, ""))},
		"posts.jsonl":    {Data: []byte(own("good morning", 0, 0, ""))},
	}
	all, err := train.Read(corpus, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	train.Evaluate(&b, m, all)
	for _, want := range []string{
		"## Source code and talk about it", "| code | 1 | 0 | 1 | 1 |", "| code_dev | 1 | 0 | 0 | 0 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	train.Evaluate(&b, m, all[len(all)-1:])
	if strings.Contains(b.String(), "Source code") {
		t.Error("a report without source code has the section on it, want none")
	}
}
