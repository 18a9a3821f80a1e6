// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/review"
)

// FuzzDecode compares the decoder with another one: it must accept nothing that the other refuses as malformed, read
// the same, and never repeat a content in an error.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"content":"text"}`, `{"content":"\ud83d\ude00","themes":["war","\u0077ar"]}`, `{"themes":[1,null,"",{}],"content":5}`,
		`{"content":"a","content":"b"}`, `{"a":{"b":[1,2,{"c":null}]},"content":" "}`, `[]`, `null`, ``, `{"content":"a"} x`,
		"{\"content\":\"a\xff\"}", `{"content":"\ud83d"}`, `{"content":"a","themes":["1","2","3","4","5","6","7","8","9","10","11"]}`,
		`{"content":"` + strings.Repeat("x", 10_001) + `"}`, `{"content":"a","explain":true}`, `{"content":"a","explain":null}`,
		`{"content":"a","review":{"author":"ann","context":["b","\\u0063",""]}}`, `{"content":"a","review":{"author":1,"context":[{}],"x":[]}}`,
		`{"content":"a","review":{"context":"b"}}`, `{"content":"a","review":[]}`, `{"content":"a","review":{"author":"a","author":"b"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request, invalid := decode(body, true)
		var other struct {
			Content any `json:"content"`
			Themes  any `json:"themes"`
			Explain any `json:"explain"`
			Review  any `json:"review"`
		}
		err := jsonv2.Unmarshal(body, &other)
		if invalid != nil {
			if invalid.Code == problem.MalformedJSON && err == nil {
				t.Fatalf("refused what is well-formed: %s", invalid.Detail)
			}
			if invalid.Detail == "" {
				t.Fatal("an error without a detail")
			}
			for _, e := range invalid.Errors {
				if len(e.Pointer) > maxPointer {
					t.Fatalf("a pointer has %d bytes, want at most %d", len(e.Pointer), maxPointer)
				}
			}
			return
		}
		if err != nil {
			t.Fatalf("accepted what is malformed: %v", err)
		}
		if other.Content != request.content || request.characters != utf8.RuneCountInString(request.content) ||
			request.characters < 1 || request.characters > maxContent || len(request.themes) > maxThemes {
			t.Fatalf("read %q %d, want %q", request.content, request.characters, other.Content)
		}
		if asked, ok := other.Explain.(bool); asked != request.explain || !ok && other.Explain != nil {
			t.Fatalf("read explain as %v, want %v", request.explain, other.Explain)
		}
		given, _ := other.Review.(map[string]any)
		author, _ := given["author"].(string)
		var texts []string
		before, _ := given["context"].([]any)
		for _, text := range before {
			if text, ok := text.(string); ok && !blank(text) {
				texts = append(texts, text)
			}
		}
		if author != request.author || !slices.Equal(texts, request.context) || len(texts) > review.MaxContext {
			t.Fatalf("read the author %q and the context %q, want %q and %q", request.author, request.context, author, texts)
		}
		encoded := appendResult(nil, "mod_x", &request, &engine.Result{Recommendation: engine.Approve, Themes: themeResults(request.themes)}, nil, time.Unix(0, 0))
		var result struct{ Content string }
		if err := json.Unmarshal(encoded, &result); err != nil || result.Content != request.content {
			t.Fatalf("wrote %s (error %v), want JSON with the content %q", encoded, err, request.content)
		}
	})
}

// themeResults are results for distinct themes.
func themeResults(themes []string) (results []engine.ThemeResult) {
	seen := map[string]bool{}
	for _, theme := range themes {
		if !seen[theme] {
			seen[theme] = true
			results = append(results, engine.ThemeResult{Theme: theme, Flagged: true, Probability: 0.5,
				Matches: []engine.Span{{Begin: 0, End: 1}}})
		}
	}
	return results
}

// TestProbabilities are written so that what is written is above a threshold exactly when it is flagged.
func TestProbabilities(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		p       float64
		flagged bool
		want    string
	}{
		{0, false, "0"}, {1, true, "1"}, {1, false, "1"}, {0.5, true, "0.5"}, {0.7, false, "0.7"}, {0.70000001, true, "0.700001"},
		{0.123456789, false, "0.123456"}, {0.123456789, true, "0.123457"}, {0.0000001, false, "0"}, {0.0000001, true, "0.000001"},
		{0.9999999, true, "1"}, {0.9999999, false, "0.999999"}, {0.1, false, "0.1"}, {0.000001, true, "0.000001"}, {0.25, false, "0.25"},
	} {
		if got := string(appendProbability(nil, test.p, test.flagged)); got != test.want {
			t.Errorf("%v, flagged %v: got %s, want %s", test.p, test.flagged, got, test.want)
		}
	}
}
