// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/review"
)

func span(category string, begin, end int) review.Passage {
	return review.Passage{Category: category, Begin: begin, End: end}
}

// TestSegments guards against passages that are marked in the wrong place or lose text: offsets count code points.
func TestSegments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text     string
		passages []review.Passage
		want     []segment
	}{
		"nothing":     {"", nil, nil},
		"no passages": {"a b", nil, []segment{{"a b", nil}}},
		"whole":       {"ab", []review.Passage{span("hate", 0, 2)}, []segment{{"ab", []string{"hate"}}}},
		"code points": {"é😀x", []review.Passage{span("hate", 1, 2)}, []segment{
			{"é", nil}, {"😀", []string{"hate"}}, {"x", nil},
		}},
		"overlapping": {"abcd", []review.Passage{span("violence", 1, 4), span("hate", 0, 2)}, []segment{
			{"a", []string{"hate"}}, {"b", []string{"hate", "violence"}}, {"cd", []string{"violence"}},
		}},
		"nested": {"abc", []review.Passage{span("hate", 0, 3), span("sexual", 1, 2)}, []segment{
			{"a", []string{"hate"}}, {"b", []string{"hate", "sexual"}}, {"c", []string{"hate"}},
		}},
		"the same twice": {"abc", []review.Passage{span("hate", 0, 2), span("hate", 1, 3)}, []segment{
			{"abc", []string{"hate"}},
		}},
		"beyond the text": {"ab", []review.Passage{span("hate", -3, 1), span("hate", 7, 9)}, []segment{
			{"a", []string{"hate"}}, {"b", nil},
		}},
		"reversed": {"ab", []review.Passage{span("hate", 2, 1), span("hate", 1, 1)}, []segment{{"ab", nil}}},
		"not UTF-8": {"a\xffb", []review.Passage{span("hate", 1, 2)}, []segment{
			{"a", nil}, {"\ufffd", []string{"hate"}}, {"b", nil},
		}},
	} {
		if got := segmentsOf(test.text, test.passages); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// FuzzSegments checks that segments together are the text, and that each code point has the categories of the passages
// that it is in.
func FuzzSegments(f *testing.F) {
	f.Add("héllo 😀 wörld", 1, 4, 3, 9)
	f.Add("a\xff\u202eb", -1, 99, 2, 1)
	f.Fuzz(func(t *testing.T, text string, b1, e1, b2, e2 int) {
		passages := []review.Passage{span("hate", b1, e1), span("violence", b2, e2)}
		points, at := []rune(text), 0
		for _, s := range segmentsOf(text, passages) {
			for _, r := range s.Text {
				if at >= len(points) || r != points[at] {
					t.Fatalf("the text is another one at %d", at)
				}
				for _, p := range passages {
					if in := p.Begin <= at && at < p.End; in != slices.Contains(s.Categories, p.Category) {
						t.Fatalf("%d of %q: got %v, but it is in %+v: %v", at, text, s.Categories, p, in)
					}
				}
				at++
			}
			if s.Text == "" {
				t.Fatal("an empty segment")
			}
		}
		if at != len(points) {
			t.Fatalf("got %d code points, want %d", at, len(points))
		}
	})
}

// TestFirstWords guards against rows of a list that are as long as what was written.
func TestFirstWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" a\n\tb ": "a b", "": "", strings.Repeat("é", 150): strings.Repeat("é", rowCharacters) + "…",
	} {
		if got := firstWords([]review.Text{{Text: text}}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
