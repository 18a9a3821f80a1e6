// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

// TestRowErrors compares the errors of lines with those written down.
func TestRowErrors(t *testing.T) {
	t.Parallel()
	var shown strings.Builder
	for _, line := range []string{
		`text,label`,
		`[{"text": "what somebody wrote", "labels": {"hate": 1}}]`,
		`"what somebody wrote"`,
		`{"text": "what somebody wrote", "labels": {"hate": 1}`,
		`{"text": "what somebody wrote", "labels": {"hate": 1}} {}`,
		`{"text": "what somebody wrote, "labels": {"hate": 1}}`,
		`{'text': 'what somebody wrote'}`,
		`{"text": "what somebody wrote", "text": "", "labels": {"hate": 1}}`,
		`{"text": "what somebody wrote", "labels": {"hate": 1, "hate": 0}}`,
		"{\"text\": \"what somebody wrote \xff\", \"labels\": {\"hate\": 1}}",
		`{"text": "what somebody wrote \ud800", "labels": {"hate": 1}}`,
		`{"text": 1, "labels": {"hate": 1}}`,
		`{"text": ["what somebody wrote"], "labels": {"hate": 1}}`,
		`{"content": "what somebody wrote", "labels": {"hate": 1}}`,
		`{"text": null, "labels": {"hate": 1}}`,
		`{"text": "", "labels": {"hate": 1}}`,
		`{"text": " \u3000\n", "labels": {"hate": 1}}`,
		`{"text": "what somebody wrote", "kind": 7, "labels": {"hate": 1}}`,
		`{"text": "what somebody wrote"}`,
		`{"text": "what somebody wrote", "labels": null}`,
		`{"text": "what somebody wrote", "labels": {}}`,
		`{"text": "what somebody wrote", "labels": {"hate": null}}`,
		`{"text": "what somebody wrote", "labels": ["hate"]}`,
		`{"text": "what somebody wrote", "labels": {"self_harm": 1}}`,
		`{"text": "what somebody wrote", "labels": {"toxicity": 1}}`,
		`{"text": "what somebody wrote", "labels": {"a name that is far longer than all names of labels are\u0007": 1}}`,
		`{"text": "what somebody wrote", "labels": {"hate": 1.01}}`,
		`{"text": "what somebody wrote", "labels": {"hate": -0.01}}`,
		`{"text": "what somebody wrote", "labels": {"hate": 1e999}}`,
		`{"text": "what somebody wrote", "labels": {"hate": "1"}}`,
		`{"text": "what somebody wrote", "labels": {"hate": {"value": 1}}}`,
		`{"text": "what somebody wrote", "hit": true}`,
		`{"text": "what somebody wrote", "theme": "cats"}`,
		`{"text": "what somebody wrote", "theme": " ", "hit": true}`,
		`{"text": "what somebody wrote", "theme": "cats", "hit": 0.5}`,
		`{"text": "what somebody wrote", "theme": "cats", "hit": "yes"}`,
		`{"text": "what somebody wrote", "theme": ["cats"], "hit": true}`,
		`{"text": "what somebody wrote", "theme": "cats", "theme_paraphrase": 1, "hit": true}`,
	} {
		_, err := evaluate.ParseRow([]byte(line))
		if err == nil {
			t.Errorf("%s: got no error, want one", line)
			continue
		}
		if strings.Contains(err.Error(), "somebody") {
			t.Errorf("got error %q, want one without the text", err)
		}
		fmt.Fprintf(&shown, "%s\n! %v\n", strings.ToValidUTF8(line, "<FF>"), err)
	}
	golden(t, "errors.txt", shown.String())
}

func TestParseRow(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hazard, line, want string
	}{
		{"labels", `{"text":"a","labels":{"hate":1,"self-harm":0,"SPAM":0.25}}`, `a hate=1 self-harm=0 SPAM=0.25`},
		{"true and false are labels", `{"text":"a","labels":{"hate":true,"violence":false}}`, `a hate=1 violence=0`},
		{"null is unknown", `{"text":"a","labels":{"hate":null,"violence":0}}`, `a violence=0`},
		{"a kind", `{"text":"a","kind":"forum","labels":{"hate":1}}`, `a kind=forum hate=1`},
		{"null is no kind", `{"text":"a","kind":null,"labels":{"hate":1}}`, `a hate=1`},
		{"unknown members are ignored", `{"id":7,"text":"a","labels":{"hate":1},"labels2":{"x":9}}`, `a hate=1`},
		{"a theme", `{"text":"a","theme":"cats","theme_paraphrase":"felines","hit":true}`, `a theme=cats/felines/true`},
		{"1 is a hit", `{"text":"a","theme":"cats","hit":1}`, `a theme=cats//true`},
		{"0 is none, a blank paraphrase none either", `{"text":"a","theme":"cats","theme_paraphrase":" ","hit":0}`,
			`a theme=cats//false`},
		{"a theme and a label", `{"text":"a","theme":"cats","hit":false,"labels":{"hate":0}}`,
			`a hate=0 theme=cats//false`},
		{"escapes", `{"te\u0078t":"\ud83d\ude00\u0000","labels":{"h\u0061te":0}}`, "\U0001f600\x00 hate=0"},
		{"white space around", "\t {\"text\":\" a \",\"labels\":{\"hate\":0}} \r\n", ` a  hate=0`},
	} {
		got, err := evaluate.ParseRow([]byte(row.line))
		if err != nil {
			t.Errorf("%s: parsing the row: %v", row.hazard, err)
			continue
		}
		var shown strings.Builder
		shown.WriteString(got.Text)
		if got.Kind != "" {
			shown.WriteString(" kind=" + got.Kind)
		}
		for i, v := range got.Labels {
			if !math.IsNaN(v) {
				fmt.Fprintf(&shown, " %s=%v", evaluate.LabelName(i), v)
			}
		}
		if got.Theme != "" {
			fmt.Fprintf(&shown, " theme=%s/%s/%v", got.Theme, got.Paraphrase, got.Hit)
		}
		if shown.String() != row.want {
			t.Errorf("%s: got %q, want %q", row.hazard, shown.String(), row.want)
		}
	}
}

// TestLimits: characters are counted, not bytes and not escapes, and what is too long is refused whole.
func TestLimits(t *testing.T) {
	t.Parallel()
	label := func(text string) string { return `{"text":"` + text + `","labels":{"hate":1}}` }
	theme := func(theme, paraphrase string) string {
		return `{"text":"a","theme":"` + theme + `","theme_paraphrase":"` + paraphrase + `","hit":true}`
	}
	for _, row := range []struct{ hazard, line, rejected string }{
		{"10,000 characters of four bytes", label(strings.Repeat("\U0001f600", 10000)), ""},
		{"10,000 escaped characters", label(strings.Repeat(`\ud83d\ude00`, 10000)), ""},
		{"10,001 characters", label(strings.Repeat("a", 10001)),
			"text has 10001 characters; at most 10000 are allowed"},
		{"a theme of 100 characters", theme(strings.Repeat("ä", 100), "a"), ""},
		{"a theme of 101 characters", theme(strings.Repeat("ä", 101), "a"),
			"theme has 101 characters; at most 100 are allowed"},
		{"a paraphrase of 101 characters", theme("a", strings.Repeat("ä", 101)),
			"theme_paraphrase has 101 characters; at most 100 are allowed"},
	} {
		got, err := evaluate.ParseRow([]byte(row.line))
		if err != nil || got.Rejected != row.rejected {
			t.Errorf("%s: rejected %q, error %v, want %q", row.hazard, got.Rejected, err, row.rejected)
		}
		if (got.Text == "") != (row.rejected != "") {
			t.Errorf("%s: got a text of %d bytes, want none if and only if the row is rejected",
				row.hazard, len(got.Text))
		}
	}
}

// TestLabelNames: the names are those of the engine, in its order.
func TestLabelNames(t *testing.T) {
	t.Parallel()
	if got := evaluate.LabelName(int(engine.SelfHarm)); got != "self-harm" {
		t.Errorf("name of the label engine.SelfHarm: got %q, want \"self-harm\"", got)
	}
	if got := evaluate.LabelName(engine.NumCategories + int(engine.Spam)); got != "SPAM" || evaluate.NumLabels != 13 {
		t.Errorf("got the name %q and %d labels, want \"SPAM\" and 13", got, evaluate.NumLabels)
	}
}

func FuzzParseRow(f *testing.F) {
	f.Add([]byte(`{"text":"a","labels":{"hate":1,"TOXICITY":0.5,"self-harm":null},"kind":"k"}`))
	f.Add([]byte(`{"text":"a","theme":"cats","theme_paraphrase":"felines","hit":true}`))
	f.Add([]byte(`{"text":"\ud83d\ude00","labels":{"hate":1e-400}}`))
	f.Add([]byte(`{"text":"a","labels":{"\u0000":1}}`))
	f.Add([]byte(`[1]`))
	f.Add([]byte("{\"text\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		row, err := evaluate.ParseRow(line)
		if !bytes.Equal(before, line) {
			t.Fatal("ParseRow changed the line")
		}
		if err != nil {
			unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
			if strings.IndexFunc(err.Error(), unprintable) >= 0 || len(err.Error()) > 500 {
				t.Errorf("got error %q, want a short and printable one", err)
			}
			return
		}
		if (row.Text == "") != (row.Rejected != "") || strings.TrimSpace(row.Text) != "" != (row.Rejected == "") {
			t.Errorf("got text %q and rejected %q, want one of them", row.Text, row.Rejected)
		}
		for i, v := range row.Labels {
			if !math.IsNaN(v) && !(v >= 0 && v <= 1) {
				t.Errorf("label %s is %v, want NaN or a number from 0 to 1", evaluate.LabelName(i), v)
			}
		}
		if !row.Labelled() && row.Theme == "" {
			t.Error("got a row with neither a label nor a theme, want an error")
		}
	})
}
