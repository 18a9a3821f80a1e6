// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard"
)

// moderating returns a guard with its defaults, and what tells whether a JSON body reaches the app behind it.
func moderating(tb testing.TB) func(body string) bool {
	tb.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	handler := new(guard.Moderate)
	if err := handler.Provision(ctx); err != nil {
		tb.Fatal(err)
	}
	return func(body string) (arrived bool) {
		next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			arrived = true
			_, err := io.Copy(io.Discard, r.Body)
			return err
		})
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		ctx := context.WithValue(context.Background(), caddyhttp.VarsCtxKey, map[string]any{})
		_ = handler.ServeHTTP(httptest.NewRecorder(), request.WithContext(ctx), next)
		return arrived
	}
}

// inJSON is a body with one text.
func inJSON(text string) string {
	encoded, _ := json.Marshal(map[string]string{"comment": text})
	return string(encoded)
}

// Hazard: an honest text is refused for what it is written with.
func TestHarmlessFormsPass(t *testing.T) {
	t.Parallel()
	passes := moderating(t)
	for name, text := range map[string]string{
		"Go":              "func kill(p *os.Process) error {\n\tif p == nil || p.Pid <= 0 {\n\t\treturn nil\n\t}\n\treturn p.Signal(syscall.SIGTERM) // p[i][j](x) and a**b\n}",
		"Python":          "def __init__(self, x_max: int, *args, **kwargs) -> None:\n    super().__init__(*args, **kwargs)\n    self.n = len(s)\n    return [f(x) for x in self.__dict__]",
		"shell":           "for f in *.txt; do grep -n 'a\\|b' \"$f\" | sort -u > /tmp/out.${f%.txt}; done && ls -la",
		"a regexp":        `^\[?(\d{1,3})\]?\s*\((\w+)\)\.(\w+)$ matches k\.b\-c\_d`,
		"a C program":     "char *s = buf[i](x); if (!s || *s == '\\0') { a->b.c[d] |= 1 << e; }",
		"LaTeX":           `The mean is \textbf{large}, with $\frac{a_{i}}{b^{2}}$, see \ref{fig:one} and \emph{passim}.`,
		"Markdown":        "# Release notes\n\n**Bread** is _better_ now: see [the recipe](https://a.example/b_c 'rye') and ![a loaf](x.png).\n\n- [x] bake `rye(bread)`\n- [ ] sell~~er~~\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[1]: https://a.example",
		"BBCode":          "[quote=\"Ann\"]The [b]rye[/b] bread is [url=https://a.example]here[/url][/quote] [color=green]Thanks![/color] [img]https://a.example/a.png[/img]",
		"HTML":            `<p>The <b>rye</b> bread <span style="display:none">x</span> is <a href="https://a.example" title="a bakery">here</a>.</p><ul><li hidden>one</li><li>two</li></ul>`,
		"chat":            "lol 😂😂 no way!!! 👍🏽 brb :heart: gtg... see u @ 10:30 ;) <3 ^_^ ¯\\_(ツ)_/¯ ಠ_ಠ (╯°□°)╯︵ ┻━┻",
		"emoji in a word": "Good 🌅 morn😀ing! L❤️ve this caf(é) so m*u*ch",
		"flags":           "We went to 🇩🇪, 🇺🇸🇬🇧 and 🇳🇮🇬🇷🇪🇸 and 🏴󠁧󠁢󠁥󠁮󠁧󠁿 won; 🇮🇹🇲🇽🇧🇷 next",
		"families":        "👩‍👩‍👧‍👦 👨🏿‍🦱 ❤️‍🔥 1️⃣2️⃣3️⃣ 🅰️ 🆗 ℹ️",
		"phonetics":       "The word “kitchen” is /ˈkɪtʃən/, “rather” is /ˈɹɑːðə/ and “world” [wɜːld]; ɐ is near-open central, ʌ back, ɯ unrounded, ʎ palatal.",
		"the alphabet":    "Alfa Bravo Charlie; A-l-f-a, B-r-a-v-o. Sign: I-C-E, E.T.A. 10 p.m., R.S.V.P., T-shirt, x-ray, A/B, I/O, s/he, and/or, (s)he, colo(u)r, book(s)",
		"Arabic":          "مرحـــبا يا صديقي، الخبـز في المخبز طـازج اليـوم.",
		"Braille":         "⠞⠓⠑ ⠗⠽⠑ ⠃⠗⠑⠁⠙ ⠊⠎ ⠛⠕⠕⠙",
		"a picture":       "⠀⠀⢀⣀⣀⡀⠀⠀\n⠀⣴⣿⣿⣿⣿⣦⠀\n⢸⣿⠟⠛⠻⣿⣿⡇\n⠀⠻⣿⣿⣿⣿⠟⠀",
		"upside down":     "˙ʎɐpoʇ ʇsol ǝɥʇ uo pɐǝɹq ǝʎɹ ɹno ʎɹʇ ǝsɐǝld",
		"mathematics":     "Let f(x) = a·x² + b·x + c, |x| ≤ 1, x ∈ ℝ, ∀ε > 0 ∃δ: ‖x−y‖ < δ ⇒ |f(x)−f(y)| < ε; (a)(b) = ab",
		"a table":         "id|name|city\n1|Ann|Rome\n2|Bob|Oslo\n3|Cem|Bonn\na|b|c",
		"an address":      "mail ann.b@a.example or see https://www.a.example/path_to/x-y(z).html?a=b&c=d#e:f:g",
		"Chinese":         "今天😀天气很好，我们去公园(gōng yuán)吧！",
		"Hindi":           "नमस्ते दुनिया, आज मौसम बहुत अच्छा है।",
		"a poem":          "The fog--it comes\n  on l\n   it\n    tle c(at) f.e.e.t,\n  it sits (look)ing over har/bor & ci-ty",
		"hyphenated":      "The co-\nopera-\ntive re-used its well-known, state-of-the-art e-mail sys\u00adtem.",
	} {
		if !passes(inJSON(text)) {
			t.Errorf("%s: %q is refused", name, text)
		}
	}
	for name, doc := range map[string]string{
		"Tiptap":         `{"type":"doc","content":[{"type":"heading","attrs":{"level":1},"content":[{"type":"text","text":"Rye"}]},{"type":"bulletList","content":[{"type":"listItem","content":[{"type":"paragraph","content":[{"type":"text","text":"as"},{"type":"text","marks":[{"type":"bold"}],"text":"sorted"},{"type":"text","text":" breads"}]}]}]}]}`,
		"Quill":          `{"ops":[{"insert":"The rye bread of "},{"attributes":{"bold":true},"insert":"the corner"},{"insert":"\nwith "},{"insert":{"image":"https://a.example/a.png"}},{"insert":" jam\n"}]}`,
		"Quill, a list":  `{"ops":[{"insert":"Rye"},{"attributes":{"list":"bullet"},"insert":"\n"}]}`,
		"Notion, a list": `{"children":[{"object":"block","type":"bulleted_list_item","bulleted_list_item":{"rich_text":[{"type":"text","text":{"content":"Rye "}},{"type":"text","text":{"content":"bread"}}]}}]}`,
		"a list":         `[{"id":1,"text":"Essex"},{"id":2,"text":"Scunthorpe"},{"id":3,"text":"Penistone"},{"id":4,"text":"Clitheroe"}]`,
	} {
		if !passes(doc) {
			t.Errorf("%s: %s is refused", name, doc)
		}
	}
}

// BenchmarkDisguised is the whole cost of a text of 2,000 bytes, in each of the forms that are read in several ways.
// The first is an ordinary one.
func BenchmarkDisguised(b *testing.B) {
	const sentence = "The committee met on Tuesday to talk about the new playground, and nobody could agree on the colour. "
	marked := strings.ReplaceAll(sentence, " ", " **_") // and never ended
	var ops []string
	for _, word := range strings.Fields(strings.Repeat(sentence, 8)) {
		ops = append(ops, `{"insert":"`+word[:1]+`"},{"insert":"`+word[1:]+` "}`)
	}
	passes := moderating(b)
	for _, c := range []struct{ name, body string }{
		{"ordinary", inJSON(strings.Repeat(sentence, 20)[:2000])},
		{"markup in words", inJSON(strings.Repeat(strings.ReplaceAll(marked, "e", "**e**"), 20)[:2000])},
		{"links", inJSON(strings.Repeat("["+strings.ReplaceAll(sentence, " ", "](x) ["), 20)[:2000])},
		{"tags", inJSON(strings.Repeat(strings.ReplaceAll(sentence, "o", "<i hidden>x</i>o"), 20)[:2000])},
		{"emoji", inJSON(strings.Repeat(strings.ReplaceAll(sentence, "o", "😀o"), 40)[:2000])},
		{"rich text", `{"ops":[` + strings.Join(ops, ",") + `]}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			body := []byte(c.body)
			at := strings.Index(c.body, "sday")
			for i := 0; b.Loop(); i++ { // what it has seen the guard remembers
				copy(body[at:], fmt.Sprintf("%04d", i%10_000))
				if !passes(string(body)) {
					b.Fatal("refused")
				}
			}
		})
	}
}
