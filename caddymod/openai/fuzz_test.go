// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// FuzzDecode holds the decoder against encoding/json, which is more lenient, and the encoder against what it reads
// back.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"input":"hello"}`, `{"input":["a","b"],"model":"m"}`, `{"input":[{"type":"text","text":"a"},{"text":"b","type":"text","x":[{}]}]}`,
		`{"input":[{"type":"image_url","image_url":{"url":"http://a"}}]}`, `{"input":[]}`, `{"input":""}`, `{"input":["",1,null]}`, `{"model":null,"input":"\ud83d\ude00 \ud83d"}`,
		`{"input":"a","input":"b"}`, `{"input":"a"} 1`, `[]`, `null`, ``, "{\"input\":\"\xff\"}", `{"input":[[1,2]]}`, `{"input":{"type":"text","text":"a"}}`, `{"input":["a"`,
		`{"input":["1","2","3","4","5"]}`, `{"input":"` + strings.Repeat("x", 21) + `"}`, `{"\u0069nput":"a","Input":"b"}`,
	} {
		f.Add([]byte(seed))
	}
	bounds := limits{inputs: 4, characters: 20}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, failed := decode(body, bounds)
		if failed != nil {
			if failed.status != http.StatusBadRequest || failed.message == "" || failed.errorType != invalidRequestError ||
				failed.code == "" || !utf8.ValidString(failed.message) {
				t.Fatalf("got failure %+v, want status 400 with message, type and code", failed)
			}
			return
		}
		var other map[string]json.RawMessage
		if err := json.Unmarshal(body, &other); err != nil {
			t.Fatalf("accepted what is malformed: %v", err)
		}
		if want := texts(t, other["input"]); !slices.Equal(got.texts, want) {
			t.Fatalf("read %q, want %q", got.texts, want)
		}
		for _, text := range got.texts {
			if n := utf8.RuneCountInString(text); n < 1 || n > int(bounds.characters) {
				t.Fatalf("an input has %d characters, want 1 to %d", n, bounds.characters)
			}
		}
		if len(got.texts) < 1 || len(got.texts) > int(bounds.inputs) || len(got.model) < 1 ||
			len(got.model) > maxModel*3 {
			t.Fatalf("got %d inputs and model %q, want 1 to %d and 1 to %d bytes", len(got.texts), got.model, bounds.inputs, maxModel*3)
		}
		var answer struct {
			Model   string
			Results []json.RawMessage
		}
		encoded := appendAnswer(nil, "mod_x", got.model, make([]engine.Result, len(got.texts)))
		if err := json.Unmarshal(encoded, &answer); err != nil || answer.Model != got.model ||
			len(answer.Results) != len(got.texts) {
			t.Fatalf("wrote %s (error %v), want JSON with model %q and %d results", encoded, err, got.model, len(got.texts))
		}
	})
}

// texts reads an input as the interface describes it.
func texts(t *testing.T, input json.RawMessage) []string {
	var one string
	if json.Unmarshal(input, &one) == nil {
		return []string{one}
	}
	var list []string
	if json.Unmarshal(input, &list) == nil {
		return list
	}
	var parts []map[string]json.RawMessage // names of members are case-sensitive, unlike those of fields
	if err := json.Unmarshal(input, &parts); err != nil {
		t.Fatalf("accepted what is no input: %v", err)
	}
	var lines []string
	for _, part := range parts {
		var text string
		if err := json.Unmarshal(part["text"], &text); err != nil || string(part["type"]) == `"image_url"` {
			t.Fatalf("accepted what is no part: %v", part)
		}
		if text != "" {
			lines = append(lines, text)
		}
	}
	return []string{strings.Join(lines, "\n")}
}
