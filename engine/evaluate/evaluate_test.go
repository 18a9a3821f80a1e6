// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata, or writes it there with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("reading the golden file: %v", err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// fake is a classifier and a screener that finds its answers in the text: "hate=0.9 cats=0.4". What is not
// named has the probability 0.05. It fails on "broken".
type fake struct{}

func (fake) Version() string { return "fake-1" }

func (fake) Classify(_ context.Context, text string) (s engine.Scores, err error) {
	if text == "broken" {
		return s, errors.New("the classifier is down")
	}
	for i := range evaluate.NumLabels {
		p := said(text, evaluate.LabelName(i))
		if i < engine.NumCategories {
			s.Categories[i] = p
		} else {
			s.Attributes[i-engine.NumCategories] = p
		}
	}
	return s, nil
}

// ScreenThemes screens for each distinct theme and flags from 0.5 on.
func (fake) ScreenThemes(content string, wanted []string) (results []engine.ThemeResult, tokens int) {
	for i, theme := range wanted {
		if i == 0 || theme != wanted[0] {
			p := said(content, theme)
			results = append(results, engine.ThemeResult{Theme: theme, Probability: p, Flagged: p >= 0.5})
		}
	}
	return results, 0
}

// said returns the probability that a text states for a name.
func said(text, name string) float64 {
	for _, word := range strings.Fields(text) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			p, err := strconv.ParseFloat(value, 64)
			if err != nil {
				panic(err)
			}
			return p
		}
	}
	return 0.05
}

func newEngine(t *testing.T, policy engine.Policy) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{Classifier: fake{}, Themes: fake{}, Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// run evaluates data as the standard input.
func run(t *testing.T, data string, o evaluate.Options) (*evaluate.Report, error) {
	t.Helper()
	input, err := evaluate.Open([]string{"-"}, strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return evaluate.Run(t.Context(), newEngine(t, engine.Policy{}), input.Rows(t.Context()), o)
}

// must is run for data without mistakes.
func must(t *testing.T, data string, o evaluate.Options) *evaluate.Report {
	t.Helper()
	report, err := run(t, data, o)
	if err != nil {
		t.Fatalf("evaluating: %v", err)
	}
	return report
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// long is a row that is rejected.
var long = `{"text":"` + strings.Repeat("x", evaluate.MaxText+1) + `","labels":{"hate":1}}` + "\n"

// TestReport freezes the table and the JSON. The figures of mixed.jsonl by hand:
//
// hate: yes .9 .3 .7, no .2 .8 .1. Pairs won of 9: .9 beats 3, .3 beats .2 and .1, .7 beats .2 and .1: 7/9. AP: .9 at
// 1/1, .8, .7 at 2/3, .3 at 3/4: (1+2/3+3/4)/3 = .806. Above .7: .9 yes, .8 no (.7 is not above): precision 1/2,
// recall 1/3, F1 2/5, misses 3. ECE: all in bins of their own: (.1+.7+.3+.2+.8+.1)/6 = .367.
//
// harassment: yes .8, no .05 .75 .05: AUC 1, AP 1, precision 1/2, recall 1, F1 2/3. ECE: .8 and .75 lie in two bins:
// (.2+.75+.1)/4 = .2625.
//
// TOXICITY: labels 0 .5 .5 1 at .1 .2 .6 .7: ranks 1 2.5 2.5 4 and 1 2 3 4, Spearman sqrt(.9) = .949. Yes .2 .6 .7, no
// .1; recall 2/3 above .5.
//
// Any category: positive are rows 1 and 3 (both flagged) and row 7, which has one label, of yes (not flagged);
// negative are rows 2 and 4, the latter flagged; row 5 and those with attributes alone are neither. Recall 2/3,
// specificity 1/2, flagged 3 of 11.
//
// Themes: cats has hits at .9 and .4 and a miss at .6, AUC 1/2; dogs 1; birds has no hit: mean 3/4. The highest miss
// is .6: above it lie .9 and .7 of the hits .9 .4 .7: 2/3. Flagged: .9 .6 .7, two of them hits. Paraphrases: alike
// for rows 12 (line) and dogs, not for near miss: 2/3.
func TestReport(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, data string
		o          evaluate.Options
	}{
		{"mixed", read(t, "mixed.jsonl") + long, evaluate.Options{}},
		{"misses", read(t, "mixed.jsonl"), evaluate.Options{Misses: 2}},
		{"kind", read(t, "mixed.jsonl"), evaluate.Options{Kinds: []string{"forum", "literal"}}},
		{"oneclass", read(t, "oneclass.jsonl"), evaluate.Options{}},
		{"rejected", strings.Repeat(long, 12), evaluate.Options{}},
		{"language", read(t, "language.jsonl"), evaluate.Options{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			report := must(t, row.data, row.o)
			report.Files = []string{"stdin"}
			var table, document bytes.Buffer
			if err := report.WriteText(&table); err != nil {
				t.Fatal(err)
			}
			golden(t, row.name+".txt", table.String())
			encoder := json.NewEncoder(&document)
			encoder.SetIndent("", "  ")
			if err := encoder.Encode(report); err != nil {
				t.Fatal(err)
			}
			golden(t, row.name+".json", document.String())
			if strings.Contains(document.String(), "NaN") || strings.Contains(table.String(), "NaN") {
				t.Error("a figure that cannot be computed is shown as a number")
			}
		})
	}
}

// TestReportDocumented: docs/evaluate.md names every member of the report.
func TestReportDocumented(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/evaluate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{
		evaluate.Report{}, evaluate.Rejected{}, evaluate.Refusal{}, evaluate.Label{}, evaluate.Verdicts{},
		evaluate.Themes{}, evaluate.AtFalseHits{}, evaluate.Miss{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			text := string(document)
			documented := strings.Contains(text, `"`+name+`"`) || strings.Contains(text, "`"+name+"`")
			if !field.Anonymous && !documented {
				t.Errorf("%T: docs/evaluate.md does not name the member %s", of, name)
			}
		}
	}
}

// TestFlaggedTruth: when the labels say what flagged should have been.
func TestFlaggedTruth(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hazard, labels      string
		positives, negative int
	}{
		{"all five are no", `"hate":0,"harassment":0,"self-harm":0,"sexual":0,"violence":0`, 0, 1},
		{"one of five is yes", `"hate":0,"harassment":0,"self-harm":0,"sexual":0,"violence":1`, 1, 0},
		{"one is yes, the others are unknown", `"violence":1`, 1, 0},
		{"one is no, the others are unknown", `"violence":0`, 0, 0},
		{"four are no", `"hate":0,"harassment":0,"self-harm":0,"sexual":0`, 0, 0},
		{"half counts as yes", `"hate":0.5`, 1, 0},
		{"less than half counts as no",
			`"hate":0.49999999999,"harassment":0,"self-harm":0,"sexual":0,"violence":0`, 0, 1},
		{"attributes decide nothing", `"TOXICITY":1,"THREAT":1`, 0, 0},
	} {
		got := must(t, `{"text":"a","labels":{`+row.labels+`}}`, evaluate.Options{}).Flagged
		if got.Rows != 1 || got.Positives != row.positives || got.Negatives != row.negative {
			t.Errorf("%s: got %+v, want %d positives and %d negatives of 1 row",
				row.hazard, got, row.positives, row.negative)
		}
	}
}

// TestThresholds: those of the policy and of the options decide what is flagged, in every part of the report.
func TestThresholds(t *testing.T) {
	t.Parallel()
	data := `{"text":"hate=0.6 SPAM=0.6","labels":{"hate":1,"SPAM":1}}`
	input, err := evaluate.Open([]string{"-"}, strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	policy := engine.Policy{}
	policy.Thresholds[engine.Hate] = 0.5
	o := evaluate.Options{}
	o.AttributeThresholds[engine.Spam] = 0.6
	report, err := evaluate.Run(t.Context(), newEngine(t, policy), input.Rows(t.Context()), o)
	if err != nil {
		t.Fatal(err)
	}
	if hate := report.Categories["hate"]; hate.Recall != 1 || hate.Threshold != 0.5 || report.Flagged.Recall != 1 {
		t.Errorf("hate at threshold 0.5: got %+v and %+v, want a recall of 1 in both", hate, report.Flagged)
	}
	if spam := report.Attributes["SPAM"]; spam.Recall != 0 || spam.Threshold != 0.6 {
		t.Errorf("SPAM of 0.6 at threshold 0.6: got %+v, want a recall of 0", spam)
	}
	if threat := report.Attributes["THREAT"]; threat.Threshold != 0.5 {
		t.Errorf("default threshold of an attribute: got %v, want 0.5", threat.Threshold)
	}
}

// TestJobs: the report does not depend on who is done first. Several batches, of rows of all sorts.
func TestJobs(t *testing.T) {
	t.Parallel()
	var data strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&data, `{"text":"hate=0.%d cats=0.%d","kind":"k%d","labels":{"hate":%d,"TOXICITY":0.%d},`,
			i%97, i%89, i%7, i%2, i%10)
		fmt.Fprintf(&data, `"theme":"cats","theme_paraphrase":"felines","hit":%t}`+"\n", i%3 == 0)
	}
	seen := 0
	first := must(t, data.String(), evaluate.Options{Jobs: 1, Misses: 5, Progress: func(rows int) {
		if rows < seen {
			t.Errorf("progress fell from %d to %d rows, want it to rise", seen, rows)
		}
		seen = rows
	}})
	if seen != 1500 || first.Rows != 1500 {
		t.Errorf("progress ended at %d rows, the report has %d, want 1500 in both", seen, first.Rows)
	}
	second := must(t, data.String(), evaluate.Options{Jobs: 7, Misses: 5})
	one, _ := json.Marshal(first)
	other, _ := json.Marshal(second)
	if !bytes.Equal(one, other) {
		t.Errorf("with one job:\n%s\nwith seven:\n%s\nwant the same report", one, other)
	}
	if !reflect.DeepEqual(first.Misses, second.Misses) {
		t.Errorf("with one job the misses are %v, with seven %v, want the same", first.Misses, second.Misses)
	}
}

// TestMisses: the most confident ones, those first that come first, and nothing that a terminal obeys.
func TestMisses(t *testing.T) {
	t.Parallel()
	var data strings.Builder
	for i := range 50 {
		fmt.Fprintf(&data, `{"text":"hate=0.%d","labels":{"hate":0}}`+"\n", 71+i%4) // .71 to .74
	}
	fmt.Fprintf(&data, `{"text":"hate=0.1 \u001b[31m\nred\u202e  %s","labels":{"hate":1}}`+"\n",
		strings.Repeat("é", 200))
	misses := must(t, data.String(), evaluate.Options{Misses: 3}).Misses["hate"]
	var got []string
	for _, m := range misses {
		got = append(got, fmt.Sprintf("%d:%v:%v:%s", m.Line, m.Label, m.Probability, m.Text))
	}
	want := []string{
		"51:1.000:0.100:hate=0.1 [31m red " + strings.Repeat("é", 100-len("hate=0.1 [31m red ")-1) + "…",
		"4:0.000:0.740:hate=0.74",
		"8:0.000:0.740:hate=0.74",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// exampleRow is the row that the message for a line without a JSON object shows.
const exampleRow = `{"text": "...", "labels": {"hate": 0}}`

func TestRunErrors(t *testing.T) {
	t.Parallel()
	good := `{"text":"a","labels":{"hate":1},"kind":"forum"}` + "\n"
	var kinds strings.Builder
	for i := range 33 {
		fmt.Fprintf(&kinds, `{"text":"a","labels":{"hate":1},"kind":"k%02d"}`+"\n", i)
	}
	for _, row := range []struct {
		hazard, data string
		o            evaluate.Options
		want         string
	}{
		{"no data", "", evaluate.Options{}, "there are no rows"},
		{"a mistake behind good rows", good + "{\n" + good, evaluate.Options{},
			"stdin:2: malformed JSON: the line ends within the object; each line must hold a whole one"},
		{"many mistakes", good + strings.Repeat("[]\n", 12), evaluate.Options{Kinds: []string{"news"}}, func() string {
			var b strings.Builder
			for i := range 10 {
				fmt.Fprintf(&b, "stdin:%d: not a JSON object; each line must hold one, such as %s\n", i+2, exampleRow)
			}
			return b.String() + "and 2 more mistakes"
		}()},
		{"a kind that is not there", good, evaluate.Options{Kinds: []string{"news", "blog"}},
			"no row is of kind news, blog; there are forum"},
		{"no kinds at all", line("a"), evaluate.Options{Kinds: []string{"news"}},
			"no row is of kind news: no row has a \"kind\""},
		{"more kinds than anybody reads", kinds.String(), evaluate.Options{Kinds: []string{"x"}},
			"no row is of kind x; there are k00, k01, k02, k03, k04, k05, k06, k07, k08, k09, k10, k11, k12, k13, k14, " +
				"k15, k16, k17, k18, k19, k20, k21, k22, k23, k24, k25, k26, k27, k28, k29 and 3 more"},
		{"the classifier fails", good + line("broken"), evaluate.Options{},
			"stdin:2: classifying: the classifier is down"},
	} {
		report, err := run(t, row.data, row.o)
		if err == nil || err.Error() != row.want || report != nil {
			t.Errorf("%s: got %v, want %s", row.hazard, err, row.want)
		}
	}
	var mistakes *evaluate.Mistakes
	_, err := run(t, strings.Repeat("[]\n", 12), evaluate.Options{})
	if !errors.As(err, &mistakes) || len(mistakes.First) != 10 || mistakes.More != 2 {
		t.Errorf("12 mistakes: got %+v, want the first 10 and 2 more", err)
	}
}

// TestInterrupted: a report on some of the rows is not presented as one on all.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	rows := func(yield func(evaluate.Row, error) bool) {
		for i := 0; ; i++ {
			if i == 1000 {
				cancel()
			}
			row, err := evaluate.ParseRow([]byte(line("a")))
			if !yield(row, err) {
				return
			}
		}
	}
	report, err := evaluate.Run(ctx, newEngine(t, engine.Policy{}), rows, evaluate.Options{})
	if !errors.Is(err, context.Canceled) || report != nil {
		t.Errorf("got report %v, error %v, want no report and %v", report, err, context.Canceled)
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		figure     evaluate.Figure
		json, text string
	}{
		{evaluate.Figure(nan), "null", "n/a"},
		{0, "0", "0.000"},
		{1, "1", "1.000"},
		{2. / 3, "0.666667", "0.667"},
		{-1e-9, "0", "-0.000"},
		{1e-6, "0.000001", "0.000"},
	} {
		got, err := json.Marshal(row.figure)
		if err != nil || string(got) != row.json || row.figure.String() != row.text {
			t.Errorf("%v: got JSON %s, text %s, error %v, want %s and %s",
				float64(row.figure), got, row.figure, err, row.json, row.text)
		}
		var back evaluate.Figure
		if err := json.Unmarshal(got, &back); err != nil || back.String() != strings.TrimPrefix(row.text, "-") {
			t.Errorf("parsing %s: got %s, error %v, want %s", got, back, err, row.text)
		}
	}
}
