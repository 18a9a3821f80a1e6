// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
)

// texts returns the texts that a server keeps, joined.
func texts(t *testing.T) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(must(t, "feedback", "export")) {
		var record feedback.Record
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("decoding the line %q: %v", line, err)
		}
		all = append(all, record.Account+":"+record.Text)
	}
	return strings.Join(all, " ")
}

// TestFeedbackDelete guards against a deletion that nobody confirmed, that takes more than was asked for, or that says
// another number than it has deleted.
func TestFeedbackDelete(t *testing.T) {
	load(t, "storage badger DIR")
	keep(t, "fixed", "one", "two", "line\n") // a second apart, from 9:00 on
	keep(t, "gone", "two", "four")
	const all = "fixed:one gone:two fixed:two gone:four fixed:line\n"
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := texts(t); got != all {
		t.Fatalf("before: got %q, want %q", got, all)
	}
	two := feedback.HashText("two").String()
	for _, step := range []struct {
		line   string
		output string // of both outputs
		fails  bool
		left   string
	}{
		{"--account gone", "2 records of feedback would be deleted, which cannot be undone; add --yes", true, all},
		{"--account gone --dry-run", "2 records of feedback would be deleted.", false, all},
		{"--account gone --dry-run --json", `"selected": 2`, false, all},
		{"--account nobody --yes", "0 records of feedback deleted.", false, all},
		{"--account nobody", "0 records of feedback would be deleted.", false, all},
		{"--account gone --text-hash " + strings.ToUpper(two) + " --yes", "1 record of feedback deleted.", false,
			"fixed:one fixed:two gone:four fixed:line\n"},
		{"--account gone --text-hash " + two + " --yes", "0 records of feedback deleted.", false,
			"fixed:one fixed:two gone:four fixed:line\n"},
		{"--before 2026-11-21 --yes", "0 records of feedback deleted.", false, "fixed:one fixed:two gone:four fixed:line\n"},
		{"--before 2026-11-21T09:00:01Z --yes --json", `"deleted": 1`, false, "fixed:two gone:four fixed:line\n"},
		{"--text-file " + file + " --yes", "1 record of feedback deleted.", false, "fixed:two gone:four"},
		{"--text-file " + file + " --yes", "The text ends with a line feed, which counts.", false, "fixed:two gone:four"},
		{"--account gone --before 2000-01-01 --yes", "0 records", false, "fixed:two gone:four"},
		{"--account gone --yes", "1 record of feedback deleted.", false, "fixed:two"},
		{"--text-hash " + two + " --yes", "1 record of feedback deleted.", false, ""},
	} {
		stdout, stderr, err := run(t, append([]string{"feedback", "delete"}, strings.Fields(step.line)...)...)
		if (err != nil) != step.fails || !strings.Contains(stdout+stderr, step.output) {
			t.Errorf("feedback delete %s: got %q, %q, %v; want %q, an error: %t", step.line, stdout, stderr, err,
				step.output, step.fails)
		}
		if got := texts(t); got != step.left {
			t.Fatalf("after feedback delete %s: %q is left, want %q", step.line, got, step.left)
		}
	}
}

func TestFeedbackDeleteRefuses(t *testing.T) {
	load(t, "storage badger DIR")
	keep(t, "fixed", "one")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"--yes":                           "--account, --before, --text-hash or --text-file is required",
		"--before soon --yes":             "--before soon must be a date",
		"--before -1d --yes":              "must be a date",
		"--before 0s --yes":               "must be a date",
		"--text-hash abc --yes":           "--text-hash: the SHA-256 of a text has 64 hexadecimal digits",
		"--text-file /nowhere --yes":      "/nowhere",
		"--text-file " + empty:            "is empty",
		"--text-file - --yes":             "is empty",
		"--account fixed --yes --dry-run": "[dry-run yes]",
		"--text-hash x --text-file y":     "[text-file text-hash]",
		"--account a,b --yes":             "id may contain",
		"fixed":                           "takes no argument, but has 1",
	} {
		_, stderr, err := run(t, append([]string{"feedback", "delete"}, strings.Fields(line)...)...)
		if err == nil || !strings.Contains(stderr, want) {
			t.Errorf("feedback delete %s: got %q, %v; want an error with %q", line, stderr, err, want)
		}
	}
	for body, want := range map[string]string{
		`{}`:                     `{"error":"at least one condition is required: an account, a time or the hash of a text"}`,
		`{"dry_run":true}`:       `{"error":"at least one condition is required: an account, a time or the hash of a text"}`,
		`{"acount":"fixed"}`:     `{"error":"the body has an unknown member: /acount"}`,
		`{"before":"yesterday"}`: `{"error":"the body has a member of the wrong type: /before"}`,
		`{"text_sha256":"00"}`:   `{"error":"text_sha256: the SHA-256 of a text has 64 hexadecimal digits"}`,
	} {
		send(t, http.MethodPost, "/moderation/feedback/delete", body).want(t, http.StatusBadRequest, want)
	}
	if got := texts(t); got != "fixed:one" {
		t.Errorf("after requests that were refused: %q is left, want all", got)
	}
	send(t, http.MethodPost, "/moderation/feedback/delete", `{"account":"fixed","before":"2999-01-01T00:00:00Z"}`).
		want(t, http.StatusOK, `{"deleted":1}`)
	send(t, http.MethodPost, "/moderation/feedback/delete", `{"account":"fixed"}`).want(t, http.StatusOK, `{"deleted":0}`)
}

func TestBefore(t *testing.T) {
	t.Parallel()
	line := &cli{now: func() time.Time { return time.Date(2026, 11, 21, 9, 0, 0, 500, time.UTC) }}
	for text, want := range map[string]string{
		"2026-01-31":                "2026-01-31T00:00:00Z",
		"2026-01-31T12:00:00+02:00": "2026-01-31T10:00:00Z",
		"90d":                       "2026-08-23T09:00:00.0000005Z",
		"36h":                       "2026-11-19T21:00:00.0000005Z",
	} {
		if got, err := line.before(text); err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("--before %s: got %s, %v; want %s", text, got, err, want)
		}
	}
}

// TestExportOfNobody guards against a mistyped account that looks like one without feedback.
func TestExportOfNobody(t *testing.T) {
	load(t, "storage badger DIR")
	keep(t, "gone", "one")
	stdout, stderr, err := run(t, "feedback", "export", "--account", "nosuch")
	if err == nil || stdout != "" || !strings.Contains(stderr, "account nosuch: not found") {
		t.Errorf("the feedback of nobody: got %q, %q, %v; want an error that names the account", stdout, stderr, err)
	}
	for account, want := range map[string]int{"fixed": 0, "gone": 1} {
		if got := strings.Count(must(t, "feedback", "export", "--account", account), `"id"`); got != want {
			t.Errorf("the feedback of %s: got %d records, want %d", account, got, want)
		}
	}
}

// TestFeedbackDeleteTakesLong: a server answers when everything is deleted, and stops deleting when the command leaves.
// A limit on the time to the answer, which all other commands have, would leave the rest.
func TestFeedbackDeleteTakesLong(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done() // the command has left
			return
		}
		// The server notices only then that the command leaves.
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-time.After(200 * time.Millisecond):
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = io.WriteString(w, `{"deleted": 7}`)
		}
	}))
	defer server.Close()
	line := newCLI()
	line.timeout = time.Millisecond
	_, stderr, err := runAt(t, server.URL, line, "account", "list")
	if want := "does not answer within 1ms"; err == nil || !strings.Contains(stderr, want) {
		t.Errorf("account list: got %q (%v), want %q", stderr, err, want)
	}
	stdout, stderr, err := runAt(t, server.URL, line, "feedback", "delete", "--account", "acme", "--yes")
	if want := "7 records of feedback deleted.\n"; err != nil || stdout != want {
		t.Errorf("feedback delete: got %q and %q (%v), want %q", stdout, stderr, err, want)
	}
}
