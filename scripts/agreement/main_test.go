// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rows without a text and columns without scores must not change a figure.
func TestRun(t *testing.T) {
	t.Parallel()
	const insult, polite = "Shut up, you pathetic idiot.", "What a lovely garden you have!"
	rows := []struct {
		name, file, content string
		args                []string
		want                []string
	}{
		{
			"CSV", "scores.csv",
			"id,comment,api\n1," + `"` + insult + `"` + ",0.9\n2," + `"` + insult + `"` + ",0.1\n3," + polite + ",0.03\n4, ,0.9\n5,No score,nan\n",
			[]string{"--text", "comment", "--as", "api=TOXICITY"},
			[]string{"TOXICITY  texts 2  Spearman 1.000", "0.8   50.0%  50.0%  100.0%  100.0%  100.0%   1.00  1.000"},
		},
		{
			"JSON Lines", "scores.jsonl",
			`{"text":"` + insult + `","toxicity":0.9,"flirtation":0.4,"threat":null}` + "\n" + `{"text":"` + polite + `","toxicity":0.03}` + "\n",
			nil,
			[]string{"TOXICITY  texts 2  Spearman 1.000"},
		},
		{
			"the log of moderation_compare", "caddy.log",
			`{"msg":"server running"}` + "\n" + `{"msg":"compared","theirs":{"TOXICITY":0.9},"ours":{"TOXICITY":0.6}}` + "\n" + `{"msg":"compared","theirs":{"TOXICITY":0.2},"ours":{"TOXICITY":0.1}}` + "\n",
			[]string{"--at", "0.5,0.7"},
			[]string{"TOXICITY  texts 2  Spearman 1.000", "0.5   50.0%  50.0%  100.0%  100.0%  100.0%   1.00  1.000",
				"0.7   50.0%   0.0%   50.0%    0.0%     n/a   0.00  1.000"},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), row.file)
			if err := os.WriteFile(name, []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := run(t.Context(), append(row.args, name), &out); err != nil {
				t.Fatal(err)
			}
			for _, want := range row.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got\n%s\nwant %q in it", &out, want)
				}
			}
			if strings.Contains(out.String(), "FLIRTATION") || strings.Contains(out.String(), "THREAT") {
				t.Errorf("an attribute without a score is reported:\n%s", &out)
			}
		})
	}
}

// Errors say what is wrong and repeat nothing of a text.
func TestRunErrors(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	if err := os.WriteFile(broken, []byte("{\"text\":\"a\"}\nsecret words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{nil, "give a file"},
		{[]string{"--at", "half", broken}, `"half" is no threshold`},
		{[]string{broken}, "line 2 is no JSON object"},
		{[]string{filepath.Join(t.TempDir(), "none.csv")}, "no such file"},
		{[]string{os.DevNull}, "no text with a score"},
	} {
		err := run(t.Context(), row.args, new(strings.Builder))
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("run %q: got error %v, want one with %q", row.args, err, row.want)
		}
	}
}
