// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// Hazard: the words of a text are hidden by what stands in and around them.
func TestDeobfuscate(t *testing.T) {
	t.Parallel()
	for hazard, c := range map[string]struct{ text, want string }{
		"links":                    {"I [will](http://a.example/b_(c) \"a title\") [k](x)ill [you](<y z>)", `I [will "a title") [kill [you`},
		"reference links":          {"[kill][1] k[i][one]ll", "[kill kill"},
		"an image":                 {"![kill](x.png)", "[kill"},
		"addresses":                {"<http://will> <https://a.example|kill> <mailto:you@a.example>", "will kill you@a.example"},
		"emphasis in words":        {"*k*ill **k**ill k__i__ll k~~i~~ll k``ill", "*kill **kill kill kill kill"},
		"spoilers":                 {"||kill|| a || b", "kill a || b"},
		"escapes":                  {`k\*i\*ll C:\path\*`, `kill C:\path\*`},
		"wiki and Textile":         {`[[Page|kill]] "you":http://a.example now`, `kill]] "you now`},
		"LaTeX":                    {`\textbf{k}\text{i}ll you}`, "kill you}"},
		"BBCode":                   {"[b]k[/b]ill [url=x]you[/url] [color=red]a[/color] [img]x.png[/img]b [c]", "kill you a b [c]"},
		"an array":                 {"a[i] = b[j]", ""},
		"hidden":                   {"k<b hidden>x<b>y</b>z</b>ill", "kill"},
		"display":                  {"k<i style='color:red; Display:/**/ NONE !important'>x</i>ill", "kill"},
		"a class":                  {"k<i class='a sr-only'>x</i>ill", "kill"},
		"of no size":               {"k<i style=font-size:0.0em>x</i>ill <i style=font-size:10px>a</i>", "kill a"},
		"a comment":                {"k<!-- x -->ill", "kill"},
		"an element without end":   {"kill <b hidden>x", "kill "},
		"right to left":            {"<bdo dir=rtl>llik é</bdo> <bdo dir='RTL'>uoy", "é kill you"},
		"ruby":                     {"<ruby>kill<rp>(<rt>love</rt></ruby>", "kill"},
		"emoji in words":           {"k😀ill k❤️i👩‍👩‍👧l🇩🇪", "kill kil🇩🇪"},
		"emoji that look so":       {"p⭕rn", "porn"},
		"names of emoji":           {"k:heart:ill k<:smile:12>ill :heart: 10:30:20", "kill kill :heart: 10:30:20"},
		"letters in brackets":      {"k(i)ll (k)ill kil(l)! [k][i]{l}", "kill (kill kill)! [k{l}"},
		"brackets for each letter": {"(k)(i)(l)(l)", "(kill)"},
		"hyphens in many words":    {"k-ill y-ou f-or th-e", "kill you for the"},
		"hyphens in some":          {"an x-ray and a T-shirt, e.g. for re-use", ""},
		"dots":                     {"k..i..l..l", "kill"},
		"tag characters":           {"hi" + tags("kill you") + "!", "hi!\nkill you"},
		"a flag of tag characters": {"🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f England", "\x00"},
		"Braille":                  {"⠅⠊⠇⠇⠀⠽⠕⠥", "kill you"},
		"a picture in Braille":     {"⣿⣿⠿⠛⠉⠁⣀⣤⣶⣿ ⢸⡇", ""},
		"upside down":              {"ʞᴉll ʎon", "kill you\nuoy llik"},
		"phonetics":                {"kitchen is /ˈkɪtʃən/ and rather /ˈɹɑːðə/", ""},
		"mirrored":                 {"ɘm ʇo ƨʞoɒɟ", "\x00"},
		"plain text":               {"It's 5 < 6; (see above) and x = y, \"so\" - right? a_b 3*4 [1]", ""},
		"chat":                     {"lol 😂😂 so good!!! 👍🏽 see u @ 10:30 :) <3", ""},
		"Arabic with a tatweel":    {"الســـلام عليكم", ""},
		"Chinese with emoji":       {"我😀爱你", ""},
	} {
		t.Run(hazard, func(t *testing.T) {
			t.Parallel()
			visible, _ := content.Visible(c.text)
			got, dressed := content.Deobfuscate(c.text, visible)
			if c.want == "\x00" { // any text will do
				return
			}
			want := c.want
			if want == "" {
				want = c.text
			}
			if got != want || dressed != (want != c.text && want != visible) {
				t.Errorf("got  %q, %v\nwant %q (visible %q)", got, dressed, want, visible)
			}
		})
	}
}

// tags writes a text in tag characters.
func tags(text string) string {
	return strings.Map(func(r rune) rune { return 0xe0000 + r }, text)
}

func TestDeobfuscateDoesNotAllocate(t *testing.T) {
	text := strings.Repeat("An ordinary text (so it is), with 5 < 6 and x=1, e.g. “this” – and Поезд, Züge, co-ops 😀. ", 50)
	if n := testing.AllocsPerRun(100, func() { _, _ = content.Deobfuscate(text, text) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func FuzzDeobfuscate(f *testing.F) {
	for _, seed := range []string{"[k](x)ill", "[b]k[/b]", "k(i)ll", `\text{k}`, "<bdo dir=rtl>é<i hidden>",
		"ʞᴉll ʎon", "⠅⠊⠇⠇", "hi" + tags("abc"), "k\ufe0fill", "k😀ill", "]][[|", `":http`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\ufffd")
		visible, _ := content.Visible(text)
		bare, dressed := content.Deobfuscate(text, visible)
		if !utf8.ValidString(bare) || dressed && (bare == text || bare == visible) || len(bare) > 4*len(text)+8 {
			t.Errorf("%q: got %q and %v, want another short text in valid UTF-8, or false", text, bare, dressed)
		}
	})
}
