// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// repositoryCorpus returns the folder of the corpus, and skips the test without one. The corpus is a Go module of its
// own, so the module cache has this package without it.
func repositoryCorpus(t *testing.T) fs.FS {
	t.Helper()
	if _, err := os.Stat("corpus/go.mod"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs engine/train/corpus, which is in a checkout of the repository but not in the module cache")
	}
	return os.DirFS("corpus")
}

// smallCorpus makes short sentences whose significant words recur, so that a small model can learn them.
func smallCorpus(t *testing.T) fs.FS {
	t.Helper()
	who := []string{
		"neighbour", "teacher", "driver", "cousin", "baker", "doctor", "painter", "singer", "farmer", "clerk",
	}
	where := []string{
		"at the market", "near the river", "on the bus", "in the garden", "by the station", "at work", "over lunch",
		"after school",
	}
	var lines strings.Builder
	n := 0
	add := func(text string, hate, harassment int) {
		n++
		const labels = `{"hate":%d,"harassment":%d,"self-harm":0,"sexual":0,"violence":0}`
		fmt.Fprintf(&lines, `{"text":%q,"labels":`+labels+`,"kind":"k%d"}`+"\n", text, hate, harassment, n%5)
	}
	for _, w := range who {
		for _, p := range where {
			add(fmt.Sprintf("I met the %s %s and we talked about bread.", w, p), 0, 0)
			add(fmt.Sprintf("The %s %s was kind to everybody.", w, p), 0, 0)
			add(fmt.Sprintf("You stupid %s, everyone %s laughs at you, you idiot.", w, p), 0, 1)
			add(fmt.Sprintf("Those foreigners %s are vermin, said no %s ever, but I do.", p, w), 1, 0)
		}
	}
	return fstest.MapFS{"everyday.jsonl": {Data: []byte(lines.String())}}
}

// makeModel trains a small linear model, and returns its weights file.
func makeModel(t *testing.T, all []train.Example) []byte {
	t.Helper()
	dataset := train.NewDataset(all, true)
	training := dataset.Splits[train.Training]
	training = slices.Concat(training, train.Augment(training, 0.2, 1), train.Surround(training, 0.2, 1))
	fitted := train.Fit(training, train.Options{Buckets: 1 << 12, Rows: 10_000, Seed: 1})
	fitted.Header.TrainingDigest = dataset.Digest
	raw, err := fitted.File()
	if err != nil {
		t.Fatalf("writing the weights: %v", err)
	}
	file, err := train.Calibrate(raw, dataset.Splits[train.Calibration], 0.02, 1)
	if err != nil {
		t.Fatalf("calibrating: %v", err)
	}
	return file
}

func TestTheSameDataGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	read := func() []train.Example {
		all, err := train.Read(smallCorpus(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	a, b := makeModel(t, read()), makeModel(t, read())
	if !bytes.Equal(a, b) {
		t.Fatal("two trainings on the same data gave different bytes, want the same")
	}
	m, err := model.Load(bytes.NewReader(a))
	if err != nil {
		t.Fatal(err)
	}
	bad, good := m.Probabilities("You stupid plumber, you idiot."), m.Probabilities("The plumber talked about bread.")
	if bad[1] <= good[1] || bad[1] < 0.3 || good[1] > 0.1 {
		t.Errorf("harassment is %v in a harmful text and %v in a harmless one, want at least 0.3 and at most 0.1",
			bad[1], good[1])
	}
	var report bytes.Buffer
	all := read()
	train.Evaluate(&report, m, all)
	for _, want := range []string{"| hate | 320 | 80 |", "| harassment | 320 | 80 |", "| everyday | 320 | 160 |"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, report.String())
		}
	}
}

func TestDuplicatesMergeAndSplitsHold(t *testing.T) {
	t.Parallel()
	all, err := train.Read(smallCorpus(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	copied := append([]train.Example{}, all...)
	for _, e := range all {
		// The same text in capitals and with other punctuation is the same text, and says nothing new here.
		e.Text, e.Source, e.InCorpus = strings.ToUpper(e.Text)+"!!", "other", false
		copied = append(copied, e)
	}
	once, twice := train.NewDataset(all, false), train.NewDataset(copied, false)
	for s := range once.Splits {
		if len(once.Splits[s]) != len(twice.Splits[s]) {
			t.Errorf("split %d: %d texts, and %d with duplicates, want the same",
				s, len(once.Splits[s]), len(twice.Splits[s]))
		}
		if len(once.Splits[s]) == 0 {
			t.Errorf("split %d is empty, want texts", s)
		}
	}
	if once.Digest != twice.Digest {
		t.Errorf("digest %s, and %s with duplicates, want the same", once.Digest, twice.Digest)
	}
}

func TestWholeFilesAndGroupsAreHeldBack(t *testing.T) {
	t.Parallel()
	var all []train.Example
	for i := range 400 {
		post, contrast := fmt.Sprint("post ", i), fmt.Sprint("contrast ", i)
		all = append(all,
			train.Example{Text: post, Source: "posts", InCorpus: true},
			train.Example{Text: contrast, Source: "contrast", Group: 1 + i/4, InCorpus: true})
	}
	dataset := train.NewDataset(all, false)
	groups := map[int]train.Split{}
	for s, examples := range dataset.Splits {
		for _, e := range examples {
			if e.Source == "posts" && train.Split(s) != train.Test {
				t.Fatalf("a row of posts is in split %d, want %d", s, train.Test)
			}
			if e.Group == 0 {
				continue
			}
			if in, ok := groups[e.Group]; ok && in != train.Split(s) {
				t.Fatalf("group %d is in splits %d and %d, want one", e.Group, in, s)
			}
			groups[e.Group] = train.Split(s)
		}
	}
}

func TestLabelsAreMaskedWhereASourceIsSilent(t *testing.T) {
	t.Parallel()
	data := fstest.MapFS{
		"moderation/sms_spam.jsonl.gz": packed(t, `{"text":"win a prize","labels":{"spam":1}}`+"\n"+
			`{"text":"home at six","labels":{"spam":0}}`+"\n"),
		"moderation/stormfront.jsonl.gz": packed(t, `{"text":"something","labels":{"hate":1}}`+"\n"),
	}
	annotations := fstest.MapFS{"annotations.tsv": {Data: []byte(train.Key("something") + "\t-\n")}}
	all, err := train.Read(annotations, data)
	if err != nil {
		t.Fatal(err)
	}
	dataset := train.NewDataset(all, true)
	found := map[string]train.Example{}
	for _, s := range dataset.Splits {
		for _, e := range s {
			found[e.Text] = e
		}
	}
	const hate, toxicity, spam = 0, 5, 12
	if e := found["win a prize"]; !e.Positive(spam) || e.Labelled(toxicity) {
		t.Errorf("spam: got labels %v, want SPAM as yes and none of TOXICITY", e.Labels)
	}
	if e := found["home at six"]; e.Positive(spam) || !e.Labelled(spam) || !e.Harmless() {
		t.Errorf("no spam: got labels %v, want SPAM as no and no category", e.Labels)
	}
	if e := found["something"]; !e.InCorpus || e.Positive(hate) {
		t.Errorf("an annotated text: got labels %v, want those of the annotation, not of the source", e.Labels)
	}
}

// Hazard: a category that is misspelt or missing is taken for a no, and the classifier learns that harm is harmless.
func TestABrokenLineIsNamed(t *testing.T) {
	t.Parallel()
	const labels = `"hate": 0, "harassment": 0, "self-harm": 0, "sexual": 0`
	good := `{"text": "a", "labels": {` + labels + `, "violence": 1}}` + "\n"
	for _, c := range []struct{ name, line, want string }{
		{"no JSON", `{broken`, "own.jsonl, line 3: invalid"},
		{"a misspelt category", `{"text": "b", "labels": {` + labels + `, "violense": 1}}`,
			`own.jsonl, line 3: the labels have "violense", want hate, harassment, self-harm, sexual, violence`},
		{"another case", `{"text": "b", "labels": {` + labels + `, "Violence": 1}}`,
			`own.jsonl, line 3: the labels have "Violence"`},
		{"one too many", `{"text": "b", "labels": {` + labels + `, "violence": 1, "spam": 0}}`,
			`own.jsonl, line 3: the labels have "spam"`},
		{"a missing category", `{"text": "b", "labels": {` + labels + `}}`, "own.jsonl, line 3: the labels lack violence"},
		{"no labels", `{"text": "b"}`, "own.jsonl, line 3: the labels lack hate"},
		{"a misspelt member", `{"text": "b", "label": {` + labels + `, "violence": 1}}`,
			"own.jsonl, line 3: the labels lack hate"},
		{"a percentage", `{"text": "b", "labels": {` + labels + `, "violence": 70}}`,
			"own.jsonl, line 3: the label of violence is 70, want 0 or 1"},
		{"a row with a theme", `{"text": "b", "theme": "c", "hit": false}`, ""},
		{"an empty line", "", ""},
	} {
		file := fstest.MapFS{"own.jsonl": {Data: []byte(good + "\n" + c.line + "\n" + good)}}
		rows, err := train.Read(file, nil)
		_, examined := train.ReadTexts(file, "own.jsonl")
		_, surveyed := train.Survey(file, nil, train.DefaultPreparation())
		for i, err := range []error{err, examined, surveyed} {
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, way %d of reading: got error %v, want %q", c.name, i, err, c.want)
			}
		}
		if c.want == "" && len(rows) != 2 {
			t.Errorf("%s: got %d rows, want 2", c.name, len(rows))
		}
	}
}

func TestDisguisesKeepTheirLetters(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	const content = "Nobody should believe everything that people write on walls"
	changed := 0
	for range 200 {
		got := train.Disguise(content, r)
		if got != content {
			changed++
		}
		letters := 0
		for _, c := range got {
			if unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("@!$*", c) {
				letters++
			}
		}
		if letters < 35 {
			t.Errorf("got %q, want at least 35 letters", got)
		}
	}
	if changed < 150 {
		t.Errorf("%d of 200 copies are disguised, want at least 150", changed)
	}
}

// corpusRow has the members that a row of the corpus may have. Those from Theme on are of rows that pair a text with a
// theme.
type corpusRow struct {
	Text   string             `json:"text"`
	Labels map[string]float64 `json:"labels"`
	Kind   string             `json:"kind"`
	Voice  string             `json:"voice"`
	Group  int                `json:"group"`

	Theme      string `json:"theme"`
	Paraphrase string `json:"theme_paraphrase"`
	Hit        *bool  `json:"hit"`
	Term       string `json:"term"`
}

// malformed says what is wrong with a row of the corpus, or returns an empty string.
func malformed(line string) string {
	var row corpusRow
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&row); err != nil {
		return err.Error()
	}
	switch {
	case strings.TrimSpace(row.Text) == "":
		return "its text is empty"
	case row.Group < 0:
		return "its group is negative"
	case row.Hit != nil:
		return ""
	case len(row.Labels) != model.NumCategories:
		return fmt.Sprintf("it has %d labels", len(row.Labels))
	}
	for _, category := range model.HeadNames[:model.NumCategories] {
		if label, ok := row.Labels[category]; !ok || label != 0 && label != 1 {
			return fmt.Sprintf("its label of %s is missing or neither 0 nor 1", category)
		}
	}
	return ""
}

// Hazard: a label that is missing or misspelt, or a member that nobody reads.
func TestTheCorpusIsWellFormed(t *testing.T) {
	t.Parallel()
	corpus := repositoryCorpus(t)
	names, err := fs.Glob(corpus, "*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, name := range names {
		file, err := fs.ReadFile(corpus, name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(file)) {
			n++
			if strings.TrimSpace(line) == "" {
				continue
			}
			rows++
			if what := malformed(line); what != "" {
				t.Errorf("%s, line %d: %s; want a row as docs/training.md describes it", name, n, what)
			}
		}
	}
	if rows < 10_000 {
		t.Errorf("the corpus has %d rows, want at least 10,000", rows)
	}
}

func TestMalformedRowsAreFound(t *testing.T) {
	t.Parallel()
	const labels = `"hate": 0, "harassment": 0, "self-harm": 0, "sexual": 0, `
	for _, c := range []struct {
		name, line string
		malformed  bool
	}{
		{"a row", `{"text": "Hello.", "labels": {` + labels + `"violence": 1}, "kind": "greeting", "group": 1}`, false},
		{"a row with a theme", `{"text": "Hello.", "theme": "greetings", "hit": true}`, false},
		{"a missing label", `{"text": "Hello.", "labels": {` + labels + `"kind": 1}}`, true},
		{"a misspelt label", `{"text": "Hello.", "labels": {` + labels + `"violense": 1}}`, true},
		{"a fraction", `{"text": "Hello.", "labels": {` + labels + `"violence": 0.5}}`, true},
		{"no labels", `{"text": "Hello."}`, true},
		{"an unknown member", `{"text": "Hello.", "label": {` + labels + `"violence": 1}}`, true},
		{"an empty text", `{"text": " ", "labels": {` + labels + `"violence": 1}}`, true},
		{"no JSON", `{"text": "Hello."`, true},
	} {
		if what := malformed(c.line); (what != "") != c.malformed {
			t.Errorf("%s: got %q, want it to be found malformed: %v", c.name, what, c.malformed)
		}
	}
}
