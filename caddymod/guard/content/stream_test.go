// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// needle must be found in one piece, wherever it stands in a streamed body.
const needle = "a needle, \"quoted\" & as long as some sentences are"

// filler returns ordinary text of about n bytes, another one for each seed.
func filler(r *rand.Rand, n int) string {
	words := []string{"bread", "corner", "early", "the", "of", "rye", "neighbour's", "Über", "loaf", "and", "42",
		"oven"}
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		if r.IntN(12) == 0 {
			b.WriteString(".\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// streamed are ways to put a text behind this many bytes of other text.
var streamed = []struct {
	name, contentType string
	body              func(r *rand.Rand, before int) string
	place             string // of the needle, where it has one
}{
	{"text", "text/plain", func(r *rand.Rand, n int) string { return filler(r, n) + needle + filler(r, 90_000) }, ""},
	{"text without spaces", "text/plain", func(r *rand.Rand, n int) string {
		return strings.Repeat("x", n) + needle + strings.Repeat("y", 90_000)
	}, ""},
	{"form", "application/x-www-form-urlencoded", func(r *rand.Rand, n int) string {
		return "a=" + url.QueryEscape(filler(r, n)) +
			"&comment=" + url.QueryEscape(needle) + "&b=" + url.QueryEscape(filler(r, 90_000))
	}, "comment"},
	{"the value of a form", "application/x-www-form-urlencoded", func(r *rand.Rand, n int) string {
		return "x=1&comment=" + url.QueryEscape(filler(r, n)+needle+filler(r, 90_000))
	}, "comment"},
	{"form of many fields", "application/x-www-form-urlencoded", func(r *rand.Rand, n int) string {
		return strings.Repeat("a=some+bread&", n/13) +
			"comment=" + url.QueryEscape(needle) + strings.Repeat("&b=some+bread", 7000)
	}, ""},
	{"JSON", "application/json", func(r *rand.Rand, n int) string {
		return fmt.Sprintf(`{"a":%q,"b":[1,true,{"comment":%q}],"c":%q}`, filler(r, n), needle, filler(r, 90_000))
	}, "/b/2/comment"},
	{"a string of JSON", "application/json", func(r *rand.Rand, n int) string {
		return fmt.Sprintf(`{"a":"x","comment":%q}`, filler(r, n)+needle+filler(r, 90_000))
	}, "/comment"},
	{"rows of JSON", "application/json", func(r *rand.Rand, n int) string {
		row := `{"name":"rye bread","price":4.2,"tags":["fresh","dark"]},` + "\n"
		return "[" + strings.Repeat(row, n/len(row)) + fmt.Sprintf(`{"comment":%q},`, needle) +
			strings.Repeat(row, 2000) + "null]"
	}, ""},
	{"numbers of JSON", "application/json", func(r *rand.Rand, n int) string {
		return "[" + strings.Repeat("12.5,", n/5) + fmt.Sprintf("%q", needle) + strings.Repeat(",12.5", 20_000) + "]"
	}, ""},
	{"an encoded picture in JSON", "application/json", func(r *rand.Rand, n int) string {
		picture := make([]byte, n*3/4)
		for i := range picture {
			picture[i] = byte(r.Uint32())
		}
		return fmt.Sprintf(`{"avatar":"data:image/png;base64,%s","comment":%q}`,
			base64.StdEncoding.EncodeToString(picture), needle)
	}, "/comment"},
	{"escapes of JSON", "application/json", func(r *rand.Rand, n int) string {
		return `{"a":"` + strings.Repeat(`\u0062\\`, n/8) +
			`","comment":"` + escapes(needle) + `","b":"` + strings.Repeat(`\\`, 50_000) + `"}`
	}, "/comment"},
	{"JSON in UTF-16", "application/json", func(r *rand.Rand, n int) string {
		return wide(fmt.Sprintf(`{"a":%q,"comment":%q,"c":%q}`, filler(r, n/2), needle, filler(r, 50_000)),
			false, false)
	}, "/comment"},
	{"text in UTF-16, the other way round", "text/plain", func(r *rand.Rand, n int) string {
		return wide(filler(r, n/2)+needle+filler(r, 50_000), true, false)
	}, ""},
	{"JSON as text", "text/plain", func(r *rand.Rand, n int) string {
		return fmt.Sprintf(`{"a":%q,"comment":"%s","c":%q}`, filler(r, n), escapes(needle), filler(r, 90_000))
	}, "/comment"},
	{"JSON as a form", "application/x-www-form-urlencoded", func(r *rand.Rand, n int) string {
		return fmt.Sprintf(`{"a":%q,"comment":"%s","c":%q}`, filler(r, n), escapes(needle), filler(r, 90_000))
	}, "/comment"},
	{"text as JSON", "application/json", func(r *rand.Rand, n int) string { return filler(r, n) + needle + filler(r, 90_000) }, ""},
	{"markup", "text/html", func(r *rand.Rand, n int) string {
		return "<p>" + filler(r, n) + "</p><p>" + strings.ReplaceAll(needle, "&", "&amp;") + "</p><p>" +
			filler(r, 90_000)
	}, ""},
	{"a broken token of JSON", "application/json", func(r *rand.Rand, n int) string {
		return `{"a":` + strings.Repeat("b", n+70_000) + fmt.Sprintf(`,"comment":%q}`, needle)
	}, ""},
}

// escapes writes all of a text in escapes.
func escapes(text string) string {
	var b strings.Builder
	for _, r := range text {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// TestStreamFinds puts a text at many places of large bodies that come in chunks of any size. It must be found whole,
// before the app may have the end of it.
func TestStreamFinds(t *testing.T) {
	t.Parallel()
	for _, test := range streamed {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(12) {
				r := rand.New(rand.NewPCG(seed, 1))
				before := r.IntN(150_000)
				body := test.body(r, before)
				flow := new(content.Selection).Stream(content.TypeOf([]string{test.contentType}))
				found, allowed := int64(-1), int64(0)
				look := func(pieces []content.Piece) {
					for _, p := range pieces {
						text, _ := content.Visible(p.Text)
						if (strings.Contains(p.Text, needle) || strings.Contains(text, needle)) && found < 0 &&
							(test.place == "" || p.Name == test.place) {
							found = allowed
						}
					}
				}
				most := []int{1, 100, 5000, 40_000, 1 << 20}[r.IntN(5)]
				for rest := body; rest != ""; {
					n := min(len(rest), 1+r.IntN(most))
					look(flow.Push([]byte(rest[:n])))
					rest = rest[n:]
					safe := flow.Safe()
					if safe < allowed || safe > int64(len(body)-len(rest)) {
						t.Fatalf("seed %d: got Safe %d after %d, want it between that and %d", seed, safe, allowed,
							len(body)-len(rest))
					}
					allowed = safe
				}
				look(flow.Finish())
				if found < 0 {
					t.Fatalf("seed %d: the text behind %d bytes was not found", seed, before)
				}
				// Its last bytes are behind what the app had when it was found.
				if end := int64(len(body)); found > end-20 {
					t.Errorf("seed %d: the app had %d of %d bytes before the text was found, want fewer than %d",
						seed, found, end, end-20)
				}
				if flow.Safe() != int64(len(body)) {
					t.Errorf("seed %d: got Safe %d at the end, want %d", seed, flow.Safe(), len(body))
				}
			}
		})
	}
}

// TestStreamLags checks that a stream does not hold back more than it must.
func TestStreamLags(t *testing.T) {
	t.Parallel()
	for _, test := range streamed {
		body := test.body(rand.New(rand.NewPCG(7, 7)), 400_000)
		flow := new(content.Selection).Stream(content.TypeOf([]string{test.contentType}))
		most := int64(0)
		for at := 0; at < len(body); at += 1000 {
			end := min(at+1000, len(body))
			flow.Push([]byte(body[at:end]))
			most = max(most, int64(end)-flow.Safe())
		}
		if most > 200_000 {
			t.Errorf("%s: got %d bytes held, want 200000 at most", test.name, most)
		}
	}
}

// TestStreamKeepsPlaces checks that pointers and fields select in a stream as they do elsewhere.
func TestStreamKeepsPlaces(t *testing.T) {
	t.Parallel()
	pointer, err := content.ParsePointer("/b/*/comment")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 3))
	for _, test := range []struct {
		name, contentType, body string
		sel                     content.Selection
	}{
		{"JSON", "application/json", fmt.Sprintf(`{"a":%q,"b":[{"c":"other","comment":%q}],"comment":"other"}`,
			filler(r, 200_000), needle), content.Selection{JSON: []content.Pointer{pointer}}},
		{"form", "application/x-www-form-urlencoded", "a=" + url.QueryEscape(filler(r, 200_000)) + "&comment=" + url.QueryEscape(needle) + "&b=other",
			content.Selection{Form: []string{"comment"}}},
	} {
		flow := test.sel.Stream(content.TypeOf([]string{test.contentType}))
		pieces := append(flow.Push([]byte(test.body)), flow.Finish()...)
		if len(pieces) != 1 || pieces[0].Text != needle {
			t.Errorf("%s: got %s, want only the needle", test.name, showAll(pieces))
		}
	}
}

// BenchmarkStream extracts from large bodies.
func BenchmarkStream(b *testing.B) {
	for _, test := range streamed {
		body := []byte(test.body(rand.New(rand.NewPCG(7, 7)), 400_000))
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				flow := new(content.Selection).Stream(content.TypeOf([]string{test.contentType}))
				flow.Push(body)
				flow.Finish()
			}
		})
	}
}
