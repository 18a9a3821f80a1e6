// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package feedback_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
)

func TestIDsSortByTime(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^fb_[0-9a-v]{26}$`)
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	last := ""
	for i, step := range []time.Duration{0, time.Millisecond, time.Second, time.Hour, 24 * time.Hour,
		400 * 24 * time.Hour} {
		at = at.Add(step)
		// Falling random bits: they must not decide.
		random := bytes.NewReader(bytes.Repeat([]byte{byte(255 - i)}, 10))
		id, err := feedback.NewID(at, random)
		if err != nil {
			t.Fatal(err)
		}
		if !form.MatchString(id) {
			t.Errorf("id %q has another form than documented", id)
		}
		if id <= last {
			t.Errorf("%q does not sort behind %q", id, last)
		}
		last = id
	}
}

func TestIDsAreUnique(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	one, err := feedback.NewID(now, strings.NewReader("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := feedback.NewID(now, strings.NewReader("0123456780"))
	if err != nil {
		t.Fatal(err)
	}
	if one == other {
		t.Errorf("two records of one millisecond share the id %q", one)
	}
}

func TestIDNeedsRandomness(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	if id, err := feedback.NewID(time.Now(), iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("id %q and error %v without randomness", id, err)
	}
	if id, err := feedback.NewID(time.Now(), strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("id %q and error %v with too little randomness", id, err)
	}
}

// TestExportFormat keeps the line of an export as programs have learnt to read it.
func TestExportFormat(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 0, 0, 1_000_000, time.UTC)
	rows := []struct {
		file   string
		record feedback.Record
	}{
		{"least.json", feedback.Record{
			ID: "fb_1", Time: at, Account: "acme", Key: "key_1", Text: "hello",
			Scores: map[string]feedback.AttributeScore{
				"TOXICITY": {Summary: &feedback.Score{Type: "PROBABILITY"}},
			},
			ModelVersion: "linear-1-00000000", ModelScores: map[string]float64{"TOXICITY": 0.25},
		}},
		{"full.json", feedback.Record{
			ID: "fb_2", Time: at, Account: "acme", Key: "key_1", Text: "<b>hello</b> 🙂",
			Scores: map[string]feedback.AttributeScore{
				"SPAM": {Spans: []feedback.SpanScore{
					{Begin: 0, End: 5, Score: feedback.Score{Value: 1, Type: "PROBABILITY"}},
				}},
			},
			ModelVersion: "linear-1-00000000", ModelScores: map[string]float64{"SPAM": 0.5, "hate": 0.125},
			Community: "Coral:https://example.com", Session: "s", Languages: []string{"en"}, ClientToken: "comment:1",
			Context: feedback.RawJSON(`{"entries":[{"text":"before"}]}`),
		}},
	}
	for _, row := range rows {
		t.Run(row.file, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(filepath.Join("testdata", row.file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(row.record)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != strings.TrimSpace(string(want)) {
				t.Errorf("encoded\n%s\nwant\n%s", got, want)
			}
			var back feedback.Record
			if err := json.Unmarshal(want, &back); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, row.record) {
				t.Errorf("decoded %+v, want %+v", back, row.record)
			}
		})
	}
}

func TestRawJSON(t *testing.T) {
	t.Parallel()
	if got, err := feedback.RawJSON(nil).MarshalJSON(); err != nil || string(got) != "null" {
		t.Errorf("nothing is encoded as %q, %v", got, err)
	}
	source := []byte(`{"a":1}`)
	var kept feedback.RawJSON
	if err := kept.UnmarshalJSON(source); err != nil {
		t.Fatal(err)
	}
	source[0] = 'x'
	if string(kept) != `{"a":1}` {
		t.Errorf("kept %q: it changes with the buffer that it came from", kept)
	}
}
