// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"encoding/json"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding/codingtest"
)

// stringsOf appends the string values of a decoded JSON value that have letters.
func stringsOf(found []string, value any) []string {
	switch v := value.(type) {
	case string:
		if content.HasLetters(v) {
			found = append(found, v)
		}
	case []any:
		for _, e := range v {
			found = stringsOf(found, e)
		}
	case map[string]any:
		for _, e := range v {
			found = stringsOf(found, e)
		}
	}
	return found
}

// FuzzExtractJSON checks that every string that a parser finds is extracted, whatever the JSON is.
func FuzzExtractJSON(f *testing.F) {
	for _, seed := range []string{`{"a":"b c","d":["e",{"f":"\u0067"}]}`, `{"a":"x" "b"}`, `{a:'x',}`, `["[\"x\"]"]`,
		`"\ud800"`, "\x1e{}", "\xff\xfe{", `{"a":/*"*/"b"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var s content.Selection
		pieces := s.Extract(nil, content.Type{Kind: content.JSON}, body)
		check(t, pieces)
		var value any
		if json.Unmarshal(body, &value) != nil || !utf8.Valid(body) {
			return
		}
		for _, text := range stringsOf(nil, value) {
			if len(text) <= 36 || strings.HasPrefix(strings.TrimSpace(text), "{") ||
				strings.HasPrefix(strings.TrimSpace(text), "[") {
				continue // may be a time or JSON itself
			}
			if !slices.ContainsFunc(pieces, func(p content.Piece) bool { return strings.Contains(p.Text, text) }) {
				t.Fatalf("from %q: got %s, want %q among them", body, show(pieces), text)
			}
		}
	})
}

// check checks what holds for all pieces.
func check(t *testing.T, pieces []content.Piece) {
	t.Helper()
	for _, p := range pieces {
		if seen, _ := content.Visible(p.Text); p.Text == "" && !p.UnknownCharset || !utf8.ValidString(seen) ||
			!utf8.ValidString(p.Text) || !utf8.ValidString(p.Name) {
			t.Fatalf("got the piece %+v, want text in valid UTF-8", p)
		}
		if len(p.Name) > 600 || strings.ContainsAny(p.Name, "\x00\r\n") {
			t.Fatalf("got the name %q, want a short one without control characters", p.Name)
		}
	}
}

// FuzzExtract extracts from anything as anything.
func FuzzExtract(f *testing.F) {
	f.Add("text/html; charset=utf-7", []byte("<p title=x>k+AGk-ll<script>"))
	f.Add("application/x-www-form-urlencoded", []byte("_charset_=gbk&a=%81%30&b;c=d"))
	f.Add("text/xml", []byte("<?xml?><a b='c'><![CDATA[<p>x]]></a>"))
	f.Add("application/json; charset=utf-16", []byte("\x00{\x00}"))
	f.Fuzz(func(t *testing.T, media string, body []byte) {
		typ := content.TypeOf([]string{media})
		pointer, err := content.ParsePointer("/a/*/b")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []content.Selection{{}, {Trusted: true}, {Text: true},
			{JSON: []content.Pointer{pointer}, Form: []string{"a", "b[c]"}}} {
			pieces := s.Extract(nil, typ, body)
			check(t, pieces)
			check(t, s.ExtractPart(nil, media, media, textproto.MIMEHeader{"Content-Type": {media},
				"Content-Transfer-Encoding": {"base64"}}, body))
			for _, p := range pieces {
				if seen, changed := content.Visible(p.Text); changed != (seen != p.Text) || !utf8.ValidString(seen) {
					t.Fatalf("%q: got %q and %v from Visible, want valid UTF-8, and true only for another text",
						p.Text, seen, changed)
				}
			}
		}
	})
}

// FuzzForm checks that every field that a parser finds is extracted.
func FuzzForm(f *testing.F) {
	f.Add("a=b+c&d=%41%zz&e[]=x;y=z")
	f.Add(`{"a":"b"}`)
	f.Fuzz(func(t *testing.T, body string) {
		var s content.Selection
		pieces := s.Extract(nil, content.Type{Kind: content.Form}, []byte(body))
		check(t, pieces)
		values, err := url.ParseQuery(body)
		if err != nil || !utf8.ValidString(body) || strings.ContainsAny(body, "\x00") || values.Has("_charset_") {
			return
		}
		for name, texts := range values {
			for _, text := range texts {
				if len(text) <= 36 || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\\") ||
					!content.HasLetters(text) ||
					strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(strings.TrimSpace(text), "[") {
					continue
				}
				if !slices.ContainsFunc(pieces, func(p content.Piece) bool { return strings.Contains(p.Text, text) }) {
					t.Fatalf("from %q: got %s, want %q of the field %q among them", body, show(pieces), text, name)
				}
			}
		}
	})
}

// FuzzDecode decodes anything.
func FuzzDecode(f *testing.F) {
	for _, name := range codingtest.Formats {
		f.Add(codingtest.Name(name), codingtest.Encode(f, name, []byte("one two three")))
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		const limit = 1 << 16
		if decoded, _ := content.Decode([]string{name}, body, limit); len(decoded) > limit+2*len(body) {
			t.Fatalf("got %d bytes from %d, want %d and twice the body at most", len(decoded), len(body), limit)
		}
	})
}
