// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

// evaluated runs "evaluate" as a terminal would, with data on the standard input.
func evaluated(t *testing.T, stdin string, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "moderation", SilenceUsage: true}
	newCLI().addTo(root)
	var out, notes bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&notes)
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(append([]string{"evaluate"}, arguments...))
	err = root.ExecuteContext(t.Context())
	return out.String(), notes.String(), err
}

// TestEvaluateErrors compares what the terminal shows for mistakes.
func TestEvaluateErrors(t *testing.T) {
	t.Parallel()
	const row = `{"text":"a","labels":{"hate":0}}` + "\n"
	var shown strings.Builder
	for _, r := range []struct{ flags, stdin string }{
		{"", ""},
		{"--data missing.jsonl", ""},
		{"--data - missing.jsonl", row},
		{"--data -", ""},
		{"--data -", row + `{"text":"a","labels":{"self_harm":1}}` + "\n[]"},
		{"--data - --kind forum", row},
		{"--data - --threshold hate", row},
		{"--data - --threshold hate=1", row},
		{"--data - --threshold hate=0", row},
		{"--data - --threshold hate=NaN", row},
		{"--data - --threshold hatred=0.5", row},
		{"--data - --harm-share 2", row},
		{"--data - --harm-share 0%", row},
		{"--data - --errors -1", row},
		{"--data - --jobs -1", row},
	} {
		stdout, stderr, err := evaluated(t, r.stdin, strings.Fields(r.flags)...)
		if err == nil || stdout != "" {
			t.Errorf("%s: got the error %v and the output %q, want an error and no output", r.flags, err, stdout)
		}
		shown.WriteString("$ caddy moderation evaluate " + r.flags + "\n")
		for line := range strings.Lines(stderr) {
			shown.WriteString("! " + line)
		}
	}
	golden(t, "evaluate.txt", shown.String())
}

// TestEvaluate evaluates the engine of the service. Its verdicts change with the model and are not compared here.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := `{"text":"See you on Saturday.","labels":{"hate":0,"harassment":0,"self-harm":0,"sexual":0,"violence":0,"SPAM":0},"kind":"plain"}
{"text":"Shut up, you pathetic idiot.","labels":{"harassment":1},"kind":"insult"}
{"text":"They stole my bike.","theme":"bicycle theft","hit":true}
`
	if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	table, stderr, err := evaluated(t, "", "--data", dir, "--threshold", "harassment=0.001", "--threshold", "SPAM=0.999")
	if err != nil || stderr != "" {
		t.Fatalf("evaluating: got the error %v and %q, want none", err, stderr)
	}
	for _, part := range []string{" judged 3 rows of 1 file.", "harassment ", "SPAM ", "  insult ", "bicycle"} {
		if strings.Contains(table, part) == (part == "bicycle") {
			t.Errorf("%q in the table: got %v, want %v:\n%s", part, part == "bicycle", part != "bicycle", table)
		}
	}
	document, _, err := evaluated(t, "", "--data", dir, "--json", "--threshold", "harassment=0.001", "--threshold", "SPAM=0.999")
	if err != nil {
		t.Fatal(err)
	}
	var report evaluate.Report
	if err := json.Unmarshal([]byte(document), &report); err != nil {
		t.Fatal(err)
	}
	if got := report.Categories["harassment"]; got.Threshold != 0.001 || got.Recall != 1 ||
		report.Attributes["SPAM"].Threshold != 0.999 {
		t.Errorf("the thresholds are not used: %s", document)
	}
	if report.Rows != 3 || len(report.Files) != 1 || report.Kinds["insult"].Flagged != 1 || report.Model == "" ||
		report.Themes.Rows != 1 {
		t.Errorf("got %s, want 3 rows of one file, one flagged insult, a model and one theme", document)
	}
}

// TestEvaluateMovesProbabilities flags at a share of harm what it does not flag at another.
func TestEvaluateMovesProbabilities(t *testing.T) {
	t.Parallel()
	const row = `{"text":"Your jokes are stupid and so are you.","labels":{"harassment":1}}` + "\n"
	for _, test := range []struct {
		flags, says string
		share, want float64
	}{
		{"", "", 0, 1},
		{"--harm-share 0.5%", "of which 0.5% is harmful", 0.005, 0},
		{"--harm-share 0.9", "of which 90% is harmful", 0.9, 1},
	} {
		arguments := append(strings.Fields(test.flags), "--data", "-")
		table, _, err := evaluated(t, row, arguments...)
		if err != nil || !strings.Contains(table, "The probabilities are for traffic "+test.says) {
			t.Errorf("%q: got the error %v and the table\n%s\nwant it to say %q", test.flags, err, table, test.says)
		}
		document, _, err := evaluated(t, row, append(arguments, "--json")...)
		if err != nil {
			t.Fatal(err)
		}
		var report evaluate.Report
		if err := json.Unmarshal([]byte(document), &report); err != nil {
			t.Fatal(err)
		}
		if test.share != 0 && report.HarmShare != test.share || report.HarmShare == 0 {
			t.Errorf("%q: got the share %v, want %v", test.flags, report.HarmShare, test.share)
		}
		if got := float64(report.Categories["harassment"].Recall); got != test.want {
			t.Errorf("%q: got the recall %v, want %v", test.flags, got, test.want)
		}
	}
}

// TestEvaluateLimits: the limits are those that the service documents.
func TestEvaluateLimits(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../caddymod/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	type text struct {
		MaxLength int `json:"maxLength"`
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties struct {
					Content text `json:"content"`
					Themes  struct {
						Items text `json:"items"`
					} `json:"themes"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	found := false
	for name, schema := range document.Components.Schemas {
		if schema.Properties.Themes.Items.MaxLength == 0 {
			continue
		}
		found = true
		if schema.Properties.Content.MaxLength != evaluate.MaxText ||
			schema.Properties.Themes.Items.MaxLength != evaluate.MaxTheme {
			t.Errorf("the schema %s: got %+v, want the limits %d and %d",
				name, schema.Properties, evaluate.MaxText, evaluate.MaxTheme)
		}
	}
	if !found {
		t.Error("the OpenAPI document has no schema of a request")
	}
}

// TestEvaluateDocumented: docs/evaluate.md names every flag and every label.
func TestEvaluateDocumented(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/evaluate.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`--[a-z-]+ `).FindAllString(newCLI().evaluate().LocalFlags().FlagUsages(), -1)
	if len(flags) < 5 {
		t.Errorf("only the flags %q", flags)
	}
	for _, flag := range flags {
		if !strings.Contains(string(document), "| `"+flag) {
			t.Errorf("the flag %sis not documented", flag)
		}
	}
	for label := range evaluate.NumLabels {
		if name := evaluate.LabelName(label); !strings.Contains(string(document), "`"+name+"`") {
			t.Errorf("the label %s is not documented", name)
		}
	}
}

// TestProgress compares what a terminal is told, with a clock that is moved on.
func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	bytesRead, size := int64(50), int64(200)
	bar := progress{out: &out, now: func() time.Time { return now },
		done: func() (int64, int64) { return bytesRead, size }}
	bar.show(10)
	bar.show(20) // too soon
	now = now.Add(time.Second)
	bytesRead = 300 // the file grew
	bar.show(30)
	now, size = now.Add(time.Second), 0
	bar.show(40)
	bar.clear()
	want := "\r\x1b[K[=======                       ]  25 %  10 rows" +
		"\r\x1b[K[==============================] 100 %  30 rows" +
		"\r\x1b[K40 rows" + "\r\x1b[K"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	new(progress).clear() // shows nothing where nothing was shown: its writer is nil
	if isTerminal(&out) {
		t.Error("a buffer is a terminal")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(file) {
		t.Error("a file is a terminal")
	}
}
