// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
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

// everything are copies of the whole corpus.
var everything = train.Copies{Disguise: 1, Surround: 1, Swap: 1}

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
	s, err := train.Survey(corpus, data, train.Preparation{PlainEvery: 1, Copies: everything, Seed: 1})
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
		if source.Family == "other sources" {
			t.Errorf("source %s is in no family, want one", source.Name)
		}
		want := train.SourceRows{Name: source.Name, Family: source.Family}
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

// Hazard: the card tells of other texts than those that were trained on, or calls text that may only be measured
// training text.
func TestTheSurveyCountsOrdinaryText(t *testing.T) {
	t.Parallel()
	file := func(kind string, texts ...string) *fstest.MapFile {
		var lines strings.Builder
		for _, text := range texts {
			fmt.Fprintf(&lines, `{"text":%q,"kind":%q}`+"\n", text, kind)
		}
		return packed(t, lines.String())
	}
	var bread, foreign []string
	for i := range 300 {
		bread = append(bread, fmt.Sprintf("bread %d was baked", i))
	}
	for i := range 40 {
		foreign = append(foreign, fmt.Sprintf("das Brot %d ist fertig", i))
	}
	data := fstest.MapFS{
		"moderation/stormfront.jsonl.gz":       packed(t, `{"text":"cruel talk","labels":{"hate":1}}`+"\n"),
		"plain/game_dialogue_fiction.jsonl.gz": file("game_dialogue", "a duel at dawn", "a sword", "a shield"),
		"plain/long_fiction.jsonl.gz":          file("fiction", strings.Repeat("It rained all day in the old town. ", 100)),
		"plain/mixed.jsonl.gz":                 file("learner_essay", "my holiday", "my school"),
		"plain/recipes.jsonl.gz":               file("recipe", append(bread, "Cruel talk!")...),
		"plain/religion.jsonl.gz":              file("scripture_islam", "in the beginning"),
		"languages/benign_tatoeba.jsonl.gz":    file("", foreign...),
	}
	corpus := fstest.MapFS{
		"own.jsonl": {Data: []byte(own("bread 7 was baked", 0, 0, ""))},
		"annotations.tsv": {Data: []byte(train.Key("cruel talk") + "\thr?\n" + train.Key("a duel at dawn") + "\t-\n" +
			train.Key("bread 5 was baked") + "\tx\n" + train.Key("my school") + "\t-\n" +
			train.Key("lost since") + "\tv\n")},
		"second_readings.tsv": {Data: []byte(train.Key("cruel talk") + "\th\n")},
	}
	p := train.Preparation{PublicWeight: 1, PlainEvery: 4, Copies: everything, Seed: 1}
	s, err := train.Survey(corpus, data, p)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []train.PlainFile{
		{Name: "game_dialogue_fiction", Rows: 3, Annotated: 1, Trained: 1, Unvetted: true},
		{Name: "long_fiction", Rows: 1, Trained: 1},
		{Name: "mixed", Rows: 2, Annotated: 1, Measured: 2, MeasuredKinds: []string{"learner_essay"}},
		{Name: "recipes", Rows: 301, Annotated: 1, Trained: 299}, // one is a text of the corpus, one of a source
		{Name: "religion", Rows: 1, Trained: 1, HeldOut: true},
		{Name: "benign_tatoeba", Rows: 40, Trained: 2},
	} {
		if i >= len(s.Plain) || !reflect.DeepEqual(s.Plain[i], want) {
			t.Errorf("file %d of ordinary text: got %+v, want %+v", i, s.Plain, want)
		}
	}
	if s.Annotated != 5 {
		t.Errorf("got %d annotations, want 5", s.Annotated)
	}
	wantFamilies := []train.AnnotatedFamily{
		{Name: "posts chosen for hate", Rows: 1, Unsure: 1, Positives: [5]int{1, 1, 0, 0, 0}},
		{Name: "ordinary text", Rows: 3, Harmless: 2, Positives: [5]int{3: 1}},
	}
	if !slices.Equal(s.Annotations, wantFamilies) {
		t.Errorf("families of annotations: got %+v, want %+v", s.Annotations, wantFamilies)
	}
	if got, want := s.Readings.Any, (train.Pairs{Both: 1}); got != want || s.Readings.Unsure != 1 {
		t.Errorf("readings: got %+v with %d unsure, want %+v with 1", got, s.Readings.Unsure, want)
	}

	// What the trainer does with the same data.
	all, err := train.Read(corpus, data)
	if err != nil {
		t.Fatal(err)
	}
	texts, plain := train.Prepare(train.NewDataset(all, true).Splits[train.Training], p)
	if n := s.Base + s.Disguised + s.Surrounded + s.Swapped + s.Patterns; n != len(texts) || s.Mineable != len(plain) {
		t.Errorf("the sheet counts %d texts and %d to mine, want %d and %d as the trainer", n, s.Mineable,
			len(texts), len(plain))
	}
	if s.Base+s.Mineable <= s.Training {
		t.Errorf("%d texts and %d to mine of %d texts for training, want more: documents are cut into pieces",
			s.Base, s.Mineable, s.Training)
	}
}

// Hazard: figures of agreement that say more or less than the readers do.
func TestReadersAreCompared(t *testing.T) {
	t.Parallel()
	letters := func(labels string) *fstest.MapFile {
		var lines strings.Builder
		for i, l := range strings.Fields(labels) {
			fmt.Fprintf(&lines, "%016x\t%s\n", i, l)
		}
		return &fstest.MapFile{Data: []byte(lines.String())}
	}
	for _, c := range []struct {
		name, first, second string
		harassment, any     train.Pairs
		kappa               float64 // of harassment
		known               bool
		unsure              int
	}{
		{"always", "r - r -", "r - r -", train.Pairs{Both: 2, Neither: 2}, train.Pairs{Both: 2, Neither: 2}, 1, true, 0},
		{"by chance", "r r - -", "r - r -", train.Pairs{Both: 1, First: 1, Second: 1, Neither: 1},
			train.Pairs{Both: 1, First: 1, Second: 1, Neither: 1}, 0, true, 0},
		{"never", "r -", "- r", train.Pairs{First: 1, Second: 1}, train.Pairs{First: 1, Second: 1}, -1, true, 0},
		// 7 of 10 agree, 5 by chance.
		{"somewhat", "r r r r r - - - - -", "r r r - - - - - - r", train.Pairs{Both: 3, First: 2, Second: 1, Neither: 4},
			train.Pairs{Both: 3, First: 2, Second: 1, Neither: 4}, 0.4, true, 0},
		{"with doubt, in other categories", "r? h - -?", "h hr -? -", train.Pairs{First: 1, Second: 1, Neither: 2},
			train.Pairs{Both: 2, Neither: 2}, -1.0 / 3, true, 3},
		{"nothing to agree on", "- -", "- -", train.Pairs{Neither: 2}, train.Pairs{Neither: 2}, 0, false, 0},
		{"nothing read twice", "r -", "", train.Pairs{}, train.Pairs{}, 0, false, 0},
	} {
		s, err := train.Survey(fstest.MapFS{
			"annotations.tsv": letters(c.first), "second_readings.tsv": letters(c.second),
		}, nil, train.DefaultPreparation())
		if err != nil {
			t.Fatal(err)
		}
		r := s.Readings
		if r.Categories[1] != c.harassment || r.Any != c.any || r.Unsure != c.unsure {
			t.Errorf("%s: got %+v, any category %+v, %d unsure, want %+v, %+v, %d",
				c.name, r.Categories[1], r.Any, r.Unsure, c.harassment, c.any, c.unsure)
		}
		if kappa, ok := r.Categories[1].Kappa(); ok != c.known || math.Abs(kappa-c.kappa) > 1e-9 {
			t.Errorf("%s: got kappa %v, known %v, want %v, %v", c.name, kappa, ok, c.kappa, c.known)
		}
	}
}

// A second reading that is compared with nothing would be left out of the figures without a word.
func TestBrokenReadingsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, first, second, want string }{
		{"no first reading", "0001\th\n", "0001\th\n0002\t-\n",
			"second_readings.tsv: annotations.tsv lacks the text 0002"},
		{"a misspelt letter", "0001\th\n", "0001\tq\n", "second_readings.tsv, line 1: want a key"},
		{"a misspelt letter of the first", "0001\th\n0002\tha\n", "", "annotations.tsv, line 2: want a key"},
		{"no tab", "0001 h\n", "", "annotations.tsv, line 1: want a key"},
	} {
		_, err := train.Survey(fstest.MapFS{
			"annotations.tsv": {Data: []byte(c.first)}, "second_readings.tsv": {Data: []byte(c.second)},
		}, nil, train.DefaultPreparation())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
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
