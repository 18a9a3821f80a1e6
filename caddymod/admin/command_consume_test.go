// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// textsIn returns the texts of JSON Lines, joined.
func textsIn(t *testing.T, lines string) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(lines) {
		var record feedback.Record
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("decoding the line %q: %v", line, err)
		}
		all = append(all, record.Text)
	}
	return strings.Join(all, " ")
}

// TestFeedbackConsumer guards against a training that misses corrections, or reads them again every night.
func TestFeedbackConsumer(t *testing.T) {
	server := redistest.Run(t, redistest.Options{})
	load(t, "storage redis "+server.Addr())
	keep(t, "fixed", "one", "two")
	export := func(args ...string) string {
		t.Helper()
		return must(t, append([]string{"feedback", "export"}, args...)...)
	}
	file := filepath.Join(t.TempDir(), "night.jsonl")
	for i, step := range []struct {
		keep string
		args string
		want string
	}{
		{"", "--consumer nightly", "one two"},
		{"", "--consumer nightly", ""},
		{"late", "--consumer nightly", "late"},
		{"", "--consumer other --out " + file, "one two late"},
		{"more", "--consumer other --out " + file, "one two late more"},
		{"", "--consumer nightly --from-start", "one two late more"},
		{"", "", "late more one two"}, // by their times, then their ids
	} {
		if step.keep != "" {
			keep(t, "fixed", step.keep)
		}
		got := export(strings.Fields(step.args)...)
		if strings.Contains(step.args, "--out") {
			written, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got = string(written)
		}
		if texts := textsIn(t, got); texts != step.want {
			t.Errorf("step %d, %q: got the texts %q, want %q", i, step.args, texts, step.want)
		}
	}

	// What is kept after a batch was given, and before it is acknowledged, must neither be lost nor be in the way.
	client, path := newClient(address), "/moderation/feedback/consumers/slow"
	taken, err := takeBatch(t.Context(), client, path, func(lines []byte) error {
		if got := textsIn(t, string(lines)); got != "one two late more" {
			t.Errorf("the first batch: got the texts %q", got)
		}
		keep(t, "fixed", "meanwhile")
		return nil
	})
	if err != nil || taken == nil || taken.Taken != 4 {
		t.Fatalf("taking a batch: got %+v and the error %v, want 4 records", taken, err)
	}
	if got := textsIn(t, export("--consumer", "slow")); got != "meanwhile" {
		t.Errorf("after the batch: got the texts %q, want what was kept meanwhile", got)
	}
	err = client.call(t.Context(), http.MethodPost, path, batchTaken{Batch: "other"}, nil)
	if err == nil || !strings.Contains(err.Error(), "not the batch") {
		t.Errorf("acknowledging another batch: got the error %v, want one that says so", err)
	}
}

// TestFeedbackConsumerRefusals guards against a command that silently does something else.
func TestFeedbackConsumerRefusals(t *testing.T) {
	load(t, "storage badger DIR")
	for args, want := range map[string]string{
		"--consumer nightly":                 "this storage knows no consumers",
		"--consumer a/b":                     "--consumer: 1 to 64 letters",
		"--consumer nightly --account fixed": "leave --account out",
		"--from-start":                       "--from-start is for --consumer",
	} {
		_, _, err := run(t, append([]string{"feedback", "export"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want one with %q", args, err, want)
		}
	}
}
