// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guard_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard"
)

// costs makes bodies and measures what they cost. No two bodies have the same texts, because the guard remembers texts.
type costs struct {
	handler *guard.Moderate
	random  *rand.Rand
	rest    []string // of the sentence
}

func newCosts(tb testing.TB) *costs {
	tb.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	handler := &guard.Moderate{Shadow: true} // so that none ends early
	if err := handler.Provision(ctx); err != nil {
		tb.Fatal(err)
	}
	return &costs{handler: handler, random: rand.New(rand.NewPCG(10, 1))} //nolint:gosec // the same bodies in every run
}

// cpu is the time of processors that this process has had: other processes do not count, as they do by the clock.
func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// cost is the time that a guard takes for a body.
func (c *costs) cost(contentType string, body []byte) time.Duration {
	request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	if contentType == "" {
		delete(request.Header, "Content-Type")
	} else {
		request.Header.Set("Content-Type", contentType)
	}
	ctx := context.WithValue(context.Background(), caddyhttp.VarsCtxKey, map[string]any{})
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		return err
	})
	runtime.GC()
	began := cpu()
	_ = c.handler.ServeHTTP(httptest.NewRecorder(), request.WithContext(ctx), next)
	return cpu() - began
}

// sentences are what ordinary texts are made of, with a noun in the place of each N.
var sentences = strings.Split(`the N was late again and nobody at the N could say why
we went to see the new N on the other side of the river and stayed until the evening
i think that the N needs a new battery because the old one lasts only for an hour
could you please send me the letter about the N before the meeting on friday
the committee met to talk about the N and nobody could agree on the colour
my sister bought a N last week and she has been very happy with it so far
it rained for most of the holiday but we saw the old N and the museum
the teacher asked the children to draw a N and to write two lines about it
thank you for the quick answer about the N which was exactly what we needed
there is a small N behind the station where they sell fresh bread in the morning
the keyboard of my computer stopped working after somebody had put a cup of tea on the N
in the second half the team played much better and the N was full of people
does anybody know whether the N is open on sunday or only during the week
the recipe says that the N should rest for twenty minutes before it goes into the oven
he wrote a long report about the N and it will be read by the council in march
please move the N to the left so that the picture can be seen from the door`, "\n")

var nouns = strings.Fields(`train bread garden playground window morning letter market football weather music kitchen battery delivery
	mountain question village language picture bicycle table harbour library bridge office lamp ticket engine carpet festival`)

// words are those of one sentence.
func (c *costs) words() []string {
	words := strings.Fields(sentences[c.random.IntN(len(sentences))])
	for i := range words {
		if words[i] == "N" {
			words[i] = nouns[c.random.IntN(len(nouns))]
		}
	}
	return words
}

// word is one of a text that goes on.
func (c *costs) word() string {
	if len(c.rest) == 0 {
		c.rest = c.words()
	}
	word := c.rest[0]
	c.rest = c.rest[1:]
	return word
}

// text is ordinary language of about so many bytes, each word of which goes through a function.
func (c *costs) text(size int, each func(string) string) string {
	var b strings.Builder
	for n := 1; b.Len() < size; n++ {
		b.WriteString(each(c.word()))
		switch {
		case n%60 == 0:
			b.WriteString(".\n")
		case len(c.rest) == 0:
			b.WriteString(". ")
		default:
			b.WriteString(" ")
		}
	}
	return b.String()
}

func plain(s string) string { return s }

// lettered gives each letter of a word to a function.
func lettered(each func(r rune) string) func(string) string {
	return func(word string) string {
		var b strings.Builder
		for _, r := range word {
			b.WriteString(each(r))
		}
		return b.String()
	}
}

// between puts something between the letters of words.
func between(s string) func(string) string {
	return func(word string) string { return strings.Join(strings.Split(word, ""), s) }
}

func jsonOf(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return b.Bytes()
}

// costly is a way to make bodies.
type costly struct {
	name, contentType string
	make              func(c *costs, size int) []byte
}

const (
	jsonType  = "application/json"
	formType  = "application/x-www-form-urlencoded"
	plainType = "text/plain"
	htmlType  = "text/html"
	partsType = "multipart/form-data; boundary=b"
)

var ordinary = costly{"ordinary", jsonType, func(c *costs, size int) []byte {
	return jsonOf(map[string]string{"comment": c.text(size, plain)})
}}

// inField has a disguised text in a field of JSON.
func inField(name string, each func(string) string) costly {
	return costly{"JSON: " + name, jsonType, func(c *costs, size int) []byte {
		return jsonOf(map[string]string{"comment": c.text(size, each)})
	}}
}

// units repeats something that is made anew each time.
func units(name, contentType, before string, unit func(c *costs) string, behind string) costly {
	return costly{name, contentType, func(c *costs, size int) []byte {
		var b bytes.Buffer
		b.WriteString(before)
		for b.Len() < size {
			b.WriteString(unit(c))
		}
		b.WriteString(behind)
		return b.Bytes()
	}}
}

func wide(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

func (c *costs) base64(size int) string {
	b := make([]byte, size*3/4)
	for i := range b {
		b[i] = byte(c.random.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}

func costlies() []costly {
	list := []costly{ordinary}
	for name, each := range map[string]func(string) string{
		"bold words":          func(w string) string { return "**" + w + "**" },
		"bold in words":       func(w string) string { return w[:1] + "**" + w[1:] + "**" },
		"links":               func(w string) string { return "[" + w + "](x)" },
		"BBCode":              func(w string) string { return w[:1] + "[b]" + w[1:] + "[/b]" },
		"brackets":            func(w string) string { return "(" + w[:1] + ")" + w[1:] },
		"dots in words":       between("."),
		"spaces in words":     between(" "),
		"hyphens in words":    between("-"),
		"emoji in words":      between("😀"),
		"soft hyphens":        between("\u00ad"),
		"zero width":          between("\u200b"),
		"combining":           between("\u0301"),
		"tatweel":             between("\u0640"),
		"variation selectors": between("\ufe0f"),
		"LaTeX":               func(w string) string { return `\textbf{` + w + `}` },
		"<b>":                 func(w string) string { return "<b>" + w + "</b>" },
		"<b> in words":        between("<b>"),
		"<x> in words":        between("<x>"),
		"<x y> per word":      func(w string) string { return "<x " + w + ">" },
		"<p>":                 func(w string) string { return "<p>" + w + "</p>" },
		"hidden":              func(w string) string { return "<i hidden>" + w + "</i>" },
		"styles":              func(w string) string { return `<i style="display:none">` + w + `</i>` },
		"script":              func(w string) string { return "<script>" + w + "</script>" },
		"template":            func(w string) string { return "<template>" + w + "</template>" },
		"comments":            func(w string) string { return "<!--" + w + "-->" },
		"comments and words":  func(w string) string { return w + "<!--" + w + "-->" },
		"titles":              func(w string) string { return "<i title='" + w + "'>" },
		"attributes":          func(w string) string { return "<i x='" + w + " " + w + " " + w + "'>" },
		"bdo":                 func(w string) string { return "<bdo dir=rtl>" + w + "</bdo>" },
		"open bdo":            func(w string) string { return "<bdo dir=rtl>" + w },
		"unclosed tags":       func(w string) string { return "<a " + w + "='" },
		"CDATA":               func(w string) string { return "<![CDATA[" + w + "]]>" },
		"entities":            lettered(func(r rune) string { return "&#" + strconv.Itoa(int(r)) + ";" }),
		"nested entities":     lettered(func(r rune) string { return "&amp;#" + strconv.Itoa(int(r)) + ";" }),
		"percent":             lettered(func(r rune) string { return fmt.Sprintf("%%%02x", r) }),
		"source escapes":      lettered(func(r rune) string { return fmt.Sprintf(`\u%04x`, r) }),
		"capitals":            strings.ToUpper,
		"full width":          lettered(func(r rune) string { return string(r - '!' + '！') }),
		"mathematical":        lettered(func(r rune) string { return string(r - 'a' + '𝐚') }),
		"circled":             lettered(func(r rune) string { return string(r - 'a' + 'ⓐ') }),
		"regional":            lettered(func(r rune) string { return string(r - 'a' + '🇦') }),
		"tags of Unicode":     lettered(func(r rune) string { return string(r + 0xe0000) }),
		"upside down":         strings.NewReplacer("e", "ǝ", "a", "ɐ", "n", "u", "t", "ʇ", "r", "ɹ", "h", "ɥ").Replace,
		"Braille": lettered(func(r rune) string {
			return string([]rune("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵")[r-'a'])
		}),
		"override":         func(w string) string { return "\u202e" + w + "\u202c" },
		"encoded words":    func(w string) string { return "=?utf-8?q?" + w + "?=" },
		"leet":             strings.NewReplacer("e", "3", "a", "4", "o", "0", "i", "1").Replace,
		"Cyrillic":         strings.NewReplacer("e", "е", "a", "а", "o", "о", "c", "с", "p", "р").Replace,
		"one letter":       func(w string) string { return w[:1] },
		"repeated letters": lettered(func(r rune) string { return strings.Repeat(string(r), 5) }),
		"lines":            func(w string) string { return w + "\n" },
		"form twice":       func(w string) string { return w + "+" + w + "%20" },
		"emoji":            func(string) string { return "😀" },
		"Chinese":          func(w string) string { return "委员会" + w[:1] },
		"stars":            func(w string) string { return w[:1] + "***" },
	} {
		list = append(list, inField(name, each))
	}
	slices.SortFunc(list[1:], func(a, b costly) int { return strings.Compare(a.name, b.name) })
	texts := func(size int) func(c *costs) string {
		return func(c *costs) string {
			return `"` + strings.TrimSpace(strings.ReplaceAll(c.text(size, plain), "\n", " ")) + `",`
		}
	}
	pair := func(size int) func(c *costs) string {
		return func(c *costs) string {
			return c.word() + "=" + strings.ReplaceAll(strings.ReplaceAll(c.text(size, plain), "\n", "+"), " ", "+") + "&"
		}
	}
	part := func(head string, size int) func(c *costs) string {
		return func(c *costs) string {
			return "--b\r\nContent-Disposition: form-data; name=" + c.word() + head + "\r\n\r\n" + c.text(size, plain) + "\r\n"
		}
	}
	word := func(format string) func(c *costs) string {
		return func(c *costs) string { return strings.ReplaceAll(format, "W", c.word()) }
	}
	list = append(list,
		units("JSON: words", jsonType, "[", texts(1), `""]`),
		units("JSON: texts of 30", jsonType, "[", texts(30), `""]`),
		units("JSON: texts of 190", jsonType, "[", texts(180), `""]`),
		units("JSON: texts of 205", jsonType, "[", texts(205), `""]`),
		units("JSON: texts of 300", jsonType, "[", texts(300), `""]`),
		units("JSON: texts of 2100", jsonType, "[", texts(2100), `""]`),
		units("JSON: letters", jsonType, "[", word(`"k",`), `""]`),
		units("JSON: members", jsonType, "{", word(`"W":"W",`), `"":""}`),
		units("JSON: names", jsonType, "{", word(`"W W W":1,`), `"":""}`),
		units("JSON: {a b", jsonType, "", word(`{W W`), ``),
		units("JSON: open names", jsonType, "", word(`{"W W":"`), ``),
		units("JSON: deep names", jsonType, "", word(`{"W W":`), ``),
		units("JSON: deep texts", jsonType, "", word(`{"x":"W","W":`), ``),
		units("JSON: deep arrays", jsonType, "", word(`["W",`), ``),
		units("JSON: bare words", jsonType, "", word(`W:W,`), ``),
		units("JSON: comments", jsonType, "", word("//W\n"), ``),
		units("JSON: inner comments", jsonType, "{", word("/*W*/"), ``),
		units("JSON: braces", jsonType, "", word("}W"), ``),
		units("JSON: in strings", jsonType, "[", word(`"{\"W\":\"W W\"}",`), `""]`),
		units("JSON: in strings in strings", jsonType, "[", word(`"{\"W\":\"[\\\"W W\\\",\\\"W\\\"]\"}",`), `""]`),
		units("JSON: rich text by word", jsonType, `{"c":[`, word(`{"text":"W "},`), `{}]}`),
		units("JSON: rich text by letter", jsonType, `{"c":[`, word(`{"t":"k"},{"t":"e"},`), `{}]}`),
		units("JSON: rich text in blocks", jsonType, `{"c":[`, word(`{"c":[{"text":"W "},{"text":"W"}]},`), `{}]}`),
		units("JSON: rich text in deep blocks", jsonType, `[`, word(`{"c":[{"text":"W"},{"c":[{"text":"W"}]}]},`), `{}]`),
		units("JSON: ever deeper rich text", jsonType, "", word(`[{"text":"W","c":`), ``),
		units("JSON: as a form", jsonType, "[", word(`"W=W+%41&W",`), `""`),
		units("JSON: single quotes", jsonType, "[", word(`'W W',`), `'']`),
		units("JSON: odd bytes", jsonType, "[", word("\"W \xff\x00W\","), `""]`),
		units("form: words", formType, "", pair(1), ""),
		units("form: texts of 190", formType, "", pair(180), ""),
		units("form: texts of 205", formType, "", pair(205), ""),
		units("form: texts of 2100", formType, "", pair(2100), ""),
		units("form: names", formType, "", word("W+W+W&"), ""),
		units("form: names in UTF-16", formType, "_charset_=utf-16&", word("W+W+W=W&"), ""),
		units("form: two charsets", formType+"; charset=utf-7", "_charset_=utf-16&_charset_=koi8-r&", word("W=%ff%feW+W+W&"), ""),
		units("form: odd bytes", formType, "", word("W=W+%ff%00+W&"), ""),
		units("form: escapes", formType, "", func(c *costs) string { return "x=%" + fmt.Sprintf("%x", c.word()[0]) + "%61%62%20%63&" }, ""),
		units("form: like JSON", formType, "{", word(`"W":"W=W&W+%41",`), "}"),
		units("form: JSON in fields", formType, "", word(`W={"W":"W W"}&`), ""),
		units("form: semicolons", formType, "a=", word(`W=W;`), ""),
		units("parts: words", partsType, "", part("", 1), "--b--"),
		units("parts: texts of 190", partsType, "", part("", 180), "--b--"),
		units("parts: texts of 2100", partsType, "", part("", 2100), "--b--"),
		units("parts: files", partsType, "", part("; filename=x", 180), "--b--"),
		units("parts: ambiguous names", partsType, "", part("; filename*=x", 180), "--b--"),
		units("parts: charsets", partsType, "--b\r\nContent-Disposition: form-data; name=_charset_\r\n\r\nutf-16\r\n",
			part("\r\nContent-Type: text/plain; charset=utf-7", 180), "--b--"),
		units("parts: JSON", partsType, "", word("--b\r\nContent-Disposition: form-data; name=a\r\nContent-Type: application/json\r\n\r\n{\"W\":\"W W\"}\r\n"), "--b--"),
		units("parts: base64", partsType, "", part("\r\nContent-Transfer-Encoding: base64", 180), "--b--"),
		units("parts: quoted-printable", partsType, "", part("\r\nContent-Transfer-Encoding: quoted-printable", 180), "--b--"),
		units("parts: noise", partsType, "--b\r\nContent-Disposition: form-data; name=a; filename=x\r\n\r\n", word("W\x00\x01\xff"), "\r\n--b--"),
		costly{"text: UTF-16", plainType + "; charset=utf-16", func(c *costs, size int) []byte { return append([]byte("\xff\xfe"), wide(c.text(size/2, plain))...) }},
		costly{"text: UTF-16 guessed", plainType, func(c *costs, size int) []byte { return append([]byte("\xff\xfe"), c.text(size, plain)...) }},
		costly{"text: NULs guessed", plainType, func(c *costs, size int) []byte { return append([]byte("\x00\x00\x00a"), c.text(size, plain)...) }},
		costly{"text: EBCDIC", plainType + "; charset=cp037", func(c *costs, size int) []byte { return []byte(c.text(size, plain)) }},
		costly{"text: odd bytes", plainType, func(c *costs, size int) []byte { return []byte(c.text(size, between("\xff"))) }},
		costly{"text: as a form", plainType, func(c *costs, size int) []byte {
			return []byte(c.text(size, func(w string) string { return w + "=%41&" }))
		}},
		costly{"text: brackets", plainType, func(c *costs, size int) []byte {
			return []byte("[" + c.text(size, func(w string) string { return w + `"` }))
		}},
		costly{"text: UTF-7", plainType + "; charset=utf-7", func(c *costs, size int) []byte {
			return []byte(c.text(size, func(w string) string { return w + "+AGE-" }))
		}},
		costly{"text: all at once", plainType + "; charset=utf-16", func(c *costs, size int) []byte {
			return []byte("\xff\xfe{\"a\":\"" + c.text(size, func(w string) string { return "<b hidden>" + w + "</b>%41&_charset_=utf-7&**" + w + "**\xff" }))
		}},
		units("HTML: paragraphs", htmlType, "", word("<p>W W W W</p>"), ""),
		units("HTML: <x>W", htmlType, "", word("<x>W"), ""),
		units("HTML: bold", htmlType, "", word("<b>W</b>"), ""),
		units("HTML: comments", htmlType, "", word("W<!--W-->"), ""),
		units("HTML: attributes", htmlType, "", word("<i title=W alt=W x='W W W'>"), ""),
		units("HTML: escaped", htmlType, "", word("&lt;b&gt;W&lt;/b&gt;"), ""),
		units("HTML: escaped twice", htmlType, "", word("&amp;#65;&amp;lt;W "), ""),
		units("XML: elements", "text/xml", "<?xml version='1.0'?>", word("<W>W</W>"), ""),
		units("XML: entities", "text/xml", "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY e 'the morning at the river'><!ENTITY f '&e;&e;&e;&e;'><!ENTITY e 'an other'>]><a>", word("&f; W "), "</a>"),
		units("XML: small entities", "text/xml", "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY e 'ev'><!ENTITY e 'en'>]><a>", word("W&e; "), "</a>"),
		units("XML: CDATA", "text/xml", "<?xml version='1.0'?><a>", word("<![CDATA[W <b>W</b>]]>"), "</a>"),
		units("base64: with words", plainType, "", func(c *costs) string { return c.base64(400) + " " + c.word() + " " }, ""),
		units("base64: of words", plainType, "", func(c *costs) string { return c.base64(40) + c.word() + c.word() }, ""),
		costly{"base64: one", jsonType, func(c *costs, size int) []byte {
			return jsonOf(map[string]string{"image": "data:image/png;base64," + c.base64(size)})
		}},
		costly{"noise: random", "", func(c *costs, size int) []byte {
			b := make([]byte, size)
			for i := range b {
				b[i] = byte(c.random.Uint32())
			}
			return b
		}},
		units("noise: words", "", "\x00\x01\x02\xff\x89\x03\x04", word("W\x00\x01\xff"), ""),
		units("noise: strings", "", "\x00\x01\x02\xff\x89\x03\x04", word("\"W W\"\x00\x01=W&\xff"), ""),
		units("noise: many strings", "", "\x00\x01\x02\xff\x89\x03\x04\xfe", word("\"W\"\x00"), ""),
	)
	return list
}

// BenchmarkCosts has what reading and judging hostile bodies costs, as a multiple of what ordinary text of the same
// length does.
func BenchmarkCosts(b *testing.B) {
	c := newCosts(b)
	best := func(kind costly, size, times int) time.Duration {
		best := time.Hour
		for range times {
			best = min(best, c.cost(kind.contentType, kind.make(c, size)))
		}
		return best
	}
	for _, size := range []int{2 << 10, 20 << 10, 200 << 10, 1_000_000} {
		times := map[bool]int{true: 4, false: 1}[size < 100<<10]
		usual := best(ordinary, size, 4)
		for _, kind := range costlies() {
			b.Run(fmt.Sprintf("%d/%s", size>>10, kind.name), func(b *testing.B) {
				var took time.Duration
				for b.Loop() {
					took = best(kind, size, times)
				}
				b.ReportMetric(float64(took)/float64(usual), "x-ordinary")
				b.ReportMetric(float64(took.Microseconds())/1000, "ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
