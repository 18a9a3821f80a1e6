// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/coding/codingtest"
)

const sentence = "The train was late again, and nobody at the station could say why; 3 < 5 as they say. "

// post is an ordinary JSON post: several short members and one comment of 1.8 kB.
var post = []byte(`{"id":18231,"thread":"3f0e","author":{"name":"Ann Example","karma":12.5},"tags":["trains","late"],"draft":false,"comment":"` +
	strings.Repeat(sentence, 1800/len(sentence)) + `","client":"web"}`)

// page is an HTML page of about 200 kB.
var page = []byte("<!doctype html><html><head><title>News</title><style>" + strings.Repeat("p{margin:0}", 500) +
	"</style></head><body>" +
	strings.Repeat(`<div class="item"><h2><a href="/news/1" title="More">A title &amp; more</a></h2><p>`+sentence+`<em>`+sentence+"</em>\n"+sentence+`</p><img src="/x.png" alt="A picture"></div><script>var x = 1 < 2;</script>`, 430) + "</body></html>")

func BenchmarkRead(b *testing.B) {
	escaped := []byte(strings.ReplaceAll(string(post), "train", `\u0074rain`))
	for _, c := range []struct {
		name    string
		s       content.Selection
		kind    content.Kind
		charset string
		body    []byte
	}{
		{"json", content.Selection{}, content.JSON, "", post},
		{"json-narrowed", content.Selection{JSON: must("/comment")}, content.JSON, "", post},
		{"json-escapes", content.Selection{}, content.JSON, "", escaped},
		{"form", content.Selection{}, content.Form, "", []byte("id=1&author=Ann&comment=" + strings.ReplaceAll(strings.Repeat(sentence, 20), " ", "+"))},
		{"text", content.Selection{}, content.Text, "", []byte(strings.Repeat(sentence, 20))},
		{"latin1", content.Selection{}, content.Text, "iso-8859-1", []byte(strings.Repeat(sentence, 20))},
		{"html", content.Selection{Trusted: true}, content.Markup, "", page},
		{"image", content.Selection{}, content.JSON, "", []byte(`{"image":"` + strings.Repeat("iVBORw0KGgoAAAANSUhEUgAAA2", 4000) + `"}`)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			var pieces []content.Piece
			for b.Loop() {
				pieces = c.s.Extract(pieces[:0], content.Type{Kind: c.kind, Charset: c.charset}, c.body)
			}
		})
	}
}

func must(text string) []content.Pointer {
	p, err := content.ParsePointer(text)
	if err != nil {
		panic(err)
	}
	return []content.Pointer{p}
}

func BenchmarkVisible(b *testing.B) {
	for name, text := range map[string]string{"plain": strings.Repeat(sentence, 20),
		"markup": strings.Repeat("<p>"+sentence+"<b>x</b> &amp;</p>", 20)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = content.Visible(text)
			}
		})
	}
}

// BenchmarkDeobfuscate deobfuscates texts. The first two are ordinary texts, where there is nothing to do.
func BenchmarkDeobfuscate(b *testing.B) {
	const code = "func (s *Scratch) add(t Token) {\n\tif t.Flags&Emoji == 0 {\n\t\ts.words++ // a comment, which says \"more\"\n\t}\n\ts.tokens = append(s.tokens[:i], t)\n}\n"
	for _, c := range []struct{ name, text string }{
		{"plain", strings.Repeat(sentence, 20)},
		{"accents", strings.Repeat("Der Zug kam wieder zu spät, und niemand wußte weshalb – das ist “schön”. ", 24)},
		{"Cyrillic", strings.Repeat("Поезд снова опоздал, и никто на станции не знал почему. ", 17)},
		{"code", strings.Repeat(code, 12)},
		{"Markdown", strings.Repeat("**The train** was [late](https://a.example/b_c) again, and `nobody` could say why_not. ", 20)},
		{"marks in words", strings.Repeat("Th**e** tr(a)in w😀as [l](x)ate ag\\-ain, an|d no``body c_ou_ld s~~ay w.h.y. ", 24)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			visible, _ := content.Visible(c.text)
			for b.Loop() {
				_, _ = content.Deobfuscate(c.text, visible)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range codingtest.Formats {
		body := codingtest.Encode(b, name, post)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(post)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := content.Decode([]string{codingtest.Name(name)}, body, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHostile extracts from a megabyte of what is made to be slow. Each case must take about as long as any
// other text of its size.
func BenchmarkHostile(b *testing.B) {
	const size = 1 << 20
	fill := func(s string) []byte { return []byte(strings.Repeat(s, size/len(s))) }
	for i, c := range []struct {
		kind content.Kind
		body []byte
	}{
		{content.Markup, fill("<a ")}, {content.Markup, fill("<a x='")}, {content.Markup, append(fill(`<a ="x" `), `">`...)}, {content.Markup, fill("<!---->")},
		{content.Markup, fill("<!--")}, {content.Markup, fill("<script>")}, {content.Markup, fill("<x>")}, {content.Markup, fill("<![CDATA[")},
		{content.Text, fill("=?")}, {content.Text, fill("=?a?q?")}, {content.Text, fill("%4")}, {content.Text, fill("&#")}, {content.Text, fill("<x>a")},
		{content.JSON, fill("[")}, {content.JSON, fill(`{"a":`)}, {content.JSON, fill(`"a",`)}, {content.JSON, fill(`{"a b":"`)}, {content.JSON, fill(`"[`)},
		{content.JSON, fill(`/*`)}, {content.JSON, fill(`\"`)}, {content.JSON, fill(`a:`)}, {content.JSON, fill("{a b")}, {content.JSON, fill("{/**/")},
		{content.JSON, append([]byte(`["`), fill(`[\"`)...)}, {content.Form, fill("a&")}, {content.Form, fill("a=b;")}, {content.Form, fill("a.=b&")},
		{content.Form, fill("%00%ff=[&")},
		{content.Text, fill("](")}, {content.Text, fill("[[")}, {content.Text, fill("a[b")}, {content.Text, fill("k(i)")}, {content.Text, fill(`\\ab{`)}, {content.Text, fill("a:bc")},
		{content.Text, fill("[a][/a]")}, {content.Text, append(fill("[img]"), "[/img]"...)}, {content.Text, fill("<bdo dir=rtl>a")}, {content.Text, fill("<i hidden>")},
		{content.Text, append(append([]byte(`<i style="`), fill("/**/")...), `">`...)}, {content.Text, fill("a\u200b")}, {content.Text, fill("\U000e0061")}, {content.Text, fill("k-i l")},
		{content.Text, fill("ǝ")}, {content.Text, fill("⠅")}, {content.Text, fill("k😀")}, {content.Text, fill(`":http`)},
		{content.JSON, fill(`[{"text":"k"},`)}, {content.JSON, fill(`[{"text":"k","c":`)}, {content.JSON, append(append([]byte("["), fill(`{"c":[{"text":"k"},{"text":"k"}]},`)...), "0]"...)},
	} {
		name := fmt.Sprintf("%d-%.12q", i, c.body)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				for _, s := range []content.Selection{{}, {JSON: must("/a"), Form: []string{"comment", "text", "a_"}}} {
					for _, p := range s.Extract(nil, content.Type{Kind: c.kind}, c.body) {
						visible, _ := content.Visible(p.Text)
						_, _ = content.Deobfuscate(p.Text, visible)
					}
				}
			}
		})
	}
}

// BenchmarkDecodeHostile decodes a body full of text that no decoder shows, before a megabyte that it might be in.
func BenchmarkDecodeHostile(b *testing.B) {
	const size = 900_000
	skipped := strings.Repeat(strings.Repeat("a", 30)+"\x00", size/31)
	body := append([]byte("\x50\x2a\x4d\x18"), byte(len(skipped)), byte(len(skipped)>>8), byte(len(skipped)>>16), 0)
	body = append(append(body, skipped...), codingtest.Encode(b, "zstd", []byte(strings.Repeat(strings.Repeat("a", 20)+" ", size/21)))...)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := content.Decode([]string{"zstd"}, body, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
