// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestMatchesSeesOnlyWhatMayDiffer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, shown, printed string
		want                 bool
	}{
		{"the same", "a\nb", "a\nb", true},
		{"another word", "a\nb", "a\nc", false},
		{"a line missing", "a\nb", "a", false},
		{"a line more", "a", "a\nb", false},
		{"nothing where something is shown", "a", "", false},
		{"ids, keys, instants and decimals", `{"id": "mod_AAAAAAAAAAAAAAAAAAAAAAAA", "at": "2026-01-02T03:04:05.678Z", "p": 0.123}`, `{"id":"mod_bbbbbbbbbbbbbbbbbbbbbbbb","at":"2027-11-12T13:14:15.999Z","p":0.9}`, true},
		{"another order of members", `{"a": 1, "b": 2}`, `{"b": 2, "a": 1}`, false},
		{"another truth", `{"flagged": true}`, `{"flagged": false}`, false},
		{"another count", `{"requests_made": 3}`, `{"requests_made": 4}`, false},
		{"JSON in one line or several", "{\n  \"a\": [\n    1\n  ]\n}", `{"a":[1]}`, true},
		{"lines left out at the end", "a\n...", "a\nb\nc", true},
		{"lines left out between", "a\n...\nd", "a\nb\nc\nd", true},
		{"no line left out", "a\n...\nb", "a\nb", true},
		{"the end missing after left-out lines", "a\n...\nd", "a\nb\nc", false},
		{"a head before JSON", "HTTP/1.1 200 OK\nDate: Mon, 01 Jan 2026 00:00:00 GMT\n\n{\"a\": 1}", "HTTP/1.1 200 OK\r\nDate: Tue, 02 Jan 2026 00:00:00 GMT\r\n\r\n{\"a\":1}", true},
		{"another status", "HTTP/1.1 200 OK\n\n{}", "HTTP/1.1 201 Created\r\n\r\n{}", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := matches(strings.Split(test.shown, "\n"), test.printed); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestExamplesAreTheConsoleBlocksAlone(t *testing.T) {
	t.Parallel()
	document := readme(strings.Split("text\n```sh\n$ not run\n```\n```console\n$ one \\\n  two\nout 1\nout 2\n$ three\n```\nafter", "\n"))
	found, err := document.examples()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 {
		t.Fatalf("got %d commands, want 2: %+v", len(found), found)
	}
	if found[0].Command != "one \\\n  two" || strings.Join(found[0].Output, ",") != "out 1,out 2" || found[0].Line != 6 {
		t.Errorf("first: %+v", found[0])
	}
	if found[1].Command != "three" || len(found[1].Output) != 0 {
		t.Errorf("second: %+v", found[1])
	}
	for name, text := range map[string]string{
		"no commands":         "text",
		"no end":              "```console\n$ one",
		"output before":       "```console\nout\n$ one\n```",
		"nothing in a block":  "```console\n```",
		"commands elsewhere ": "```sh\n$ one\n```",
	} {
		if found, err := readme(strings.Split(text, "\n")).examples(); err == nil {
			t.Errorf("%s: got %+v, want an error", name, found)
		}
	}
}

func TestRealDeploymentIsTheSwitchedOffLines(t *testing.T) {
	t.Parallel()
	got := realDeployment("live {\n}\n\n# A real deployment\n#\n# Words.\n\n#site {\n#\t# more words\n#\tdirective\n#}\n")
	if want := "site {\n\t# more words\n\tdirective\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
