// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package contents_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

var instant = time.Date(2026, 3, 15, 12, 0, 30, 123, time.UTC)

// everyKind has an item of each kind, with what is easily lost.
func everyKind() []contents.Item {
	share := 0.02
	return []contents.Item{
		{Seeded: true},
		{Owner: &contents.Owner{
			ID: "a",
			Account: &quota.Account{
				ID: "a", Name: "<\u2028\U0001F600>", Incarnation: "inc", Created: instant, Updated: instant,
				Overrides: quota.Overrides{Thresholds: map[string]float64{"hate": 1.0 / 3}, HarmShare: &share},
			},
			Keys: []quota.Key{{
				ID: "key_a", Account: "a", Hash: quota.HashKey("secret"), Created: instant, Expires: &instant,
				LastUsed: "2026-03-15",
			}},
			Minutes: []contents.Count{{At: -5, Requests: 1<<62 - 1}}, Days: []contents.Count{{At: 1, Requests: 0}},
			Periods: []contents.Period{
				{Start: -7, StartNS: 9, Requests: 5, Flagged: map[string]int64{"hate": 2}},
				{Start: -7, StartNS: 9, More: true, Keys: map[string]int64{"key_a": 5}},
			},
			Bounds: []contents.Bound{{Day: 3, Records: 1, Bytes: 2}},
		}},
		{Forget: &contents.Forget{Owner: "b"}},
		{Forget: &contents.Forget{Day: -3}},
		{Feedback: &feedback.Record{ID: "fb_1", Time: instant, Account: "a", Text: "<b>&", Context: []byte(`{"a":"<"}`)}},
	}
}

func written(t *testing.T, items []contents.Item) []byte {
	t.Helper()
	var file bytes.Buffer
	w := contents.NewWriter(&file)
	for _, item := range items {
		if err := w.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func read(r io.Reader) (items []contents.Item, err error) {
	for item, err := range contents.Read(r) {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}

func TestFileKeepsItems(t *testing.T) {
	t.Parallel()
	file := written(t, everyKind())
	got, err := read(iotest.OneByteReader(bytes.NewReader(file)))
	if want := everyKind(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	if strings.Contains(string(file), "secret") {
		t.Error("the file holds a key")
	}
}

// TestFileIsWholeOrRefused cuts and changes a file at each byte.
func TestFileIsWholeOrRefused(t *testing.T) {
	t.Parallel()
	file := written(t, everyKind())
	for i := range file {
		if _, err := read(bytes.NewReader(file[:i])); !errors.Is(err, contents.ErrNotWhole) {
			t.Errorf("a file of %d of %d bytes: got the error %v, want %v", i, len(file), err, contents.ErrNotWhole)
		}
		changed := bytes.Clone(file)
		changed[i] ^= 1
		if _, err := read(bytes.NewReader(changed)); !errors.Is(err, contents.ErrNotWhole) {
			t.Errorf("a file whose byte %d is changed: got the error %v, want %v", i, err, contents.ErrNotWhole)
		}
	}
	for name, text := range map[string]string{
		"something else":   "caddy-moderation backup\n\x01",
		"a newer format":   `{"caddy-moderation contents":2}` + "\n",
		"something behind": string(file) + "x",
		"a long line":      string(file[:40]) + strings.Repeat("x", 17<<20),
	} {
		if _, err := read(strings.NewReader(text)); !errors.Is(err, contents.ErrNotWhole) {
			t.Errorf("%s: got the error %v, want %v", name, err, contents.ErrNotWhole)
		}
	}
	broken := errors.New("the cable was pulled")
	if _, err := read(io.MultiReader(bytes.NewReader(file[:50]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("an error of the reader: got %v, want %v", err, broken)
	}
}
