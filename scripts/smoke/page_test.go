// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
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
		{"ids, keys, instants and decimals",
			`{"id": "mod_AAAAAAAAAAAAAAAAAAAAAAAA", "at": "2026-01-02T03:04:05.678Z", "p": 0.123}`,
			`{"id":"mod_bbbbbbbbbbbbbbbbbbbbbbbb","at":"2027-11-12T13:14:15.999Z","p":0.9}`, true},
		{"another order of members", `{"a": 1, "b": 2}`, `{"b": 2, "a": 1}`, false},
		{"another truth", `{"flagged": true}`, `{"flagged": false}`, false},
		{"another count", `{"requests_made": 3}`, `{"requests_made": 4}`, false},
		{"JSON in one line or several", "{\n  \"a\": [\n    1\n  ]\n}", `{"a":[1]}`, true},
		{"lines left out at the end", "a\n...", "a\nb\nc", true},
		{"lines left out between", "a\n...\nd", "a\nb\nc\nd", true},
		{"no line left out", "a\n...\nb", "a\nb", true},
		{"the end missing after left-out lines", "a\n...\nd", "a\nb\nc", false},
		{"a head before JSON", "HTTP/1.1 200 OK\nDate: Mon, 01 Jan 2026 00:00:00 GMT\n\n{\"a\": 1}",
			"HTTP/1.1 200 OK\r\nDate: Tue, 02 Jan 2026 00:00:00 GMT\r\n\r\n{\"a\":1}", true},
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
	document := page{"a.md", strings.Split("text\n```sh\n$ not run\n```\n```console\n$ one \\\n  two\nout 1\nout 2\n$ three\n```\nafter", "\n")}
	found, err := document.examples()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 {
		t.Fatalf("got %d commands, want 2: %+v", len(found), found)
	}
	if found[0].Command != "one \\\n  two" || strings.Join(found[0].Output, ",") != "out 1,out 2" ||
		found[0].Line != 6 {
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
		document := page{"a.md", strings.Split(text, "\n")}
		if found, err := document.examples(); err == nil {
			t.Errorf("%s: got %+v, want an error", name, found)
		}
	}
}

// Hazard: a command that goes on after a pipe is run without its end, or a file of a page is not the one that it shows.
func TestPagesHaveFilesAndLongCommands(t *testing.T) {
	t.Parallel()
	document := page{"a.md", strings.Split("<!-- smoke: file a.jsonl -->\n```json\n{}\n[]\n```\n```console\n$ one |\n  jq . \\\n  b\nout\n```", "\n")}
	files, err := document.files()
	if err != nil || len(files) != 1 || files["a.jsonl"] != "{}\n[]\n" {
		t.Errorf("got the files %q (%v), want a.jsonl with two lines", files, err)
	}
	found, err := document.examples()
	if err != nil || len(found) != 1 || found[0].Command != "one |\n  jq . \\\n  b" {
		t.Fatalf("got the commands %+v (%v), want one of three lines", found, err)
	}
	if !callsJQ.MatchString(found[0].Command) || callsJQ.MatchString("caddy moderation evaluate --data jq") {
		t.Error("calls of jq are not told from other words")
	}
	for name, text := range map[string]string{
		"a mark without a block": "<!-- smoke: file a.jsonl -->\n\ntext",
		"a mark at the end":      "<!-- smoke: file a.jsonl -->",
		"a block without an end": "<!-- smoke: file a.jsonl -->\n```json\n{}",
	} {
		document := page{"a.md", strings.Split(text, "\n")}
		if files, err := document.files(); err == nil {
			t.Errorf("%s: got %q, want an error", name, files)
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

func TestOwnCurlSendsWhatItIsAsked(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Name"))
		w.Header().Set("X-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"-s", "URL/a?b=c"}, nil},
		{[]string{"-sS", "URL/", "-d", "text"}, []string{"text"}},
		{[]string{"-s", "URL/", "-d", "a=b", "-d", "c=d"}, []string{"a=b&c=d"}},
		{[]string{"-si", "URL/", "-d", "a=b"}, []string{"X-Type: application/x-www-form-urlencoded\r\n"}},
		{[]string{"-si", "URL/", "-d", "{}", "-H", "Content-Type: application/json"},
			[]string{"X-Type: application/json\r\n"}},
		{[]string{"-si", "URL/p", "-H", "X-Name: v"},
			[]string{"HTTP/1.1 418 I'm a teapot\r\n", "X-Seen: GET /p v\r\n"}},
		{[]string{"-s", "-D", "-", "-o", "/dev/null", "URL/", "-X", "PUT", "-d", "gone"},
			[]string{"X-Seen: PUT /\r\n"}},
	} {
		for i := range test.args {
			test.args[i] = strings.Replace(test.args[i], "URL", server.URL, 1)
		}
		var out strings.Builder
		if err := curl(test.args, &out); err != nil {
			t.Fatalf("%q: %v", test.args, err)
		}
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: got %q, want %q in it", test.args, out.String(), want)
			}
		}
		if strings.Contains(out.String(), "gone") || test.want == nil && out.Len() > 0 {
			t.Errorf("%q: got %q", test.args, out.String())
		}
	}
	for _, args := range [][]string{{"--fail", "x"}, {"-H"}, {"-H", "nothing", server.URL}, {"-k", server.URL}} {
		if err := curl(args, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestFoldChangesNoJSON(t *testing.T) {
	t.Parallel()
	text := `{"id":"x","result":{"flagged":true,"categories":{"hate":{"flagged":false,"probability":0.1},"sexual":{"flagged":false,"probability":0.1}},"themes":{"a { b":{"flagged":true,"matches":[{"begin":1,"end":2}]},"c":{"matches":[]}}},"days":[1,2],"usage":{"c":1}}`
	got := fold(pretty(text))
	if !matches(got, text) {
		t.Errorf("got other JSON: %s", strings.Join(got, "\n"))
	}
	want := `{
  "id": "x",
  "result": {
    "flagged": true,
    "categories": {
      "hate": {"flagged": false, "probability": 0.1},
      "sexual": {"flagged": false, "probability": 0.1}
    },
    "themes": {"a { b": {"flagged": true, "matches": [{"begin": 1, "end": 2}]}, "c": {"matches": []}}
  },
  "days": [1, 2],
  "usage": {"c": 1}
}`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if got := fold("HTTP/1.1 200 OK\n  A: b {\n\nwords"); strings.Join(got,
		"\n") != "HTTP/1.1 200 OK\n  A: b {\n\nwords" {
		t.Errorf("got %q", got)
	}
}
