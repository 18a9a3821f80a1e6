// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const repositoryRoot = "../.."

func built(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := build(repositoryRoot)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// write puts files into a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryPageIsListed finds pages that readers would have to look for under "More".
func TestEveryPageIsListed(t *testing.T) {
	t.Parallel()
	sources, err := findSources(repositoryRoot)
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 15 {
		t.Fatalf("got %d pages, want all of the documentation", len(sources))
	}
	listed := map[string]int{}
	for _, s := range sections {
		for _, e := range s.pages {
			listed[e.source]++
		}
	}
	for _, source := range sources {
		if listed[source] == 0 {
			t.Errorf("%s is in no section of the navigation; list it in scripts/site/nav.go", source)
		}
	}
	for source, times := range listed {
		if times > 1 {
			t.Errorf("%s stands %d times in the navigation, want once", source, times)
		}
	}
}

// TestUnlistedPageIsShown says that a new page breaks no build before somebody has found a place for it.
func TestUnlistedPageIsShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"README.md": "# Start\n", "docs/brand-new.md": "# Brand new\n", "docs/sub/x.md": "# X\n"})
	files, err := build(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h2>More</h2>", `<a href="brand-new.html">Brand new</a>`, `<a href="sub-x.html">X</a>`} {
		if !strings.Contains(string(files["index.html"]), want) {
			t.Errorf("the start page: got no %s in it:\n%s", want, files["index.html"])
		}
	}
}

// TestGolden renders Markdown that is easily rendered wrong.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := build("testdata/tricky")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(string(files["tricky.html"]), "<article>\n")
	got, _, _ = strings.Cut(got, "</article>")
	const golden = "testdata/tricky.html"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestSameBytes builds twice.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	if first, second := built(t), built(t); !maps.EqualFunc(first, second, bytes.Equal) {
		t.Error("two builds of the same sources differ")
	}
}

// TestBrokenLinks says that what leads nowhere ends the build, with file and line.
func TestBrokenLinks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, line, want string }{
		{"file", "See [it](missing.md).", "docs/a.md:5: the link missing.md leads to a file that does not exist: docs/missing.md"},
		{"source", "See [it](../main.go).", "docs/a.md:5: the link ../main.go leads to a file that does not exist: main.go"},
		{"anchor here", "See [it](#nothing).", "docs/a.md:5: the link #nothing leads to a heading that docs/a.md does not have"},
		{"anchor there", "See [it](../README.md#nothing).", "docs/a.md:5: the link ../README.md#nothing leads to a heading that README.md does not have"},
		{"in a table", "| a |\n| --- |\n| [it](#x) |", "docs/a.md:7: the link #x leads"},
		{"by reference", "See [it][there].\n\n[there]: gone.md", "docs/a.md:5: the link gone.md leads"},
		{"second line", "One line,\nanother [with `code`](gone.md).", "docs/a.md:6: the link gone.md leads"},
		{"outside", "See [it](../../etc/passwd).", "docs/a.md:5: the link ../../etc/passwd leaves the repository"},
		{"absolute", "See [it](/etc/passwd).", "docs/a.md:5: the link /etc/passwd leaves the repository"},
		{"script", "See [it](javascript:alert).", "docs/a.md:5: the link javascript:alert is neither relative nor"},
		{"image", "![it](gone.png)", "docs/a.md:5: the image gone.png is not in the repository"},
		{"HTML", "Some <script>alert(1)</script>.", "docs/a.md:5: <script>: HTML is not allowed here"},
		{"HTML block", "<div onclick=\"x\">\n\ntext\n</div>", "docs/a.md:5: <div onclick=\"x\">: HTML is not allowed here"},
		{"HTML with attributes", "a<br onclick=x>b", "docs/a.md:5: <br onclick=x>: HTML is not allowed here"},
		{"two", "See [it](gone.md) and [it](#gone).", "docs/a.md:5: the link #gone leads"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, map[string]string{"README.md": "# Start\n", "docs/a.md": "# A\n\nText.\n\n" + test.line + "\n"})
			_, err := build(dir)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestBadPages says that a page without a title, and two pages that would share a file, end the build.
func TestBadPages(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]map[string]string{
		"docs/a.md:1: the page has no heading": {"docs/a.md": "Text.\n"},
		"would both be a-b.html":               {"docs/a-b.md": "# A\n", "docs/a/b.md": "# B\n"},
	} {
		dir := t.TempDir()
		write(t, dir, files)
		if _, err := build(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want one with %q", err, want)
		}
	}
}

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	idOf      = regexp.MustCompile(` id="([^"]*)"`)
)

// TestLinksResolve follows each link of each page to the file and the place that it names.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	files := built(t)
	followed := 0
	for name, content := range files {
		if filepath.Ext(name) != ".html" {
			continue
		}
		for _, found := range reference.FindAllSubmatch(content, -1) {
			to, err := url.Parse(strings.ReplaceAll(string(found[1]), "&amp;", "&"))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if to.IsAbs() {
				continue
			}
			target := files[to.Path]
			if to.Path == "" {
				target = content
			}
			if target == nil {
				t.Errorf("%s: the link %s leads to no file", name, to)
			} else if to.Fragment != "" && !strings.Contains(string(target), ` id="`+to.Fragment+`"`) {
				t.Errorf("%s: the link %s leads to no place", name, to)
			}
			followed++
		}
		ids := map[string]bool{}
		for _, found := range idOf.FindAllSubmatch(content, -1) {
			if ids[string(found[1])] {
				t.Errorf("%s: the id %s is there twice", name, found[1])
			}
			ids[string(found[1])] = true
		}
	}
	if followed < 500 {
		t.Errorf("got %d links, want all of them", followed)
	}
}

// TestNothingIsLoaded says that pages load nothing from the network, and that a content security policy which allows
// nothing but the site's own files does not break them.
func TestNothingIsLoaded(t *testing.T) {
	t.Parallel()
	loaded := regexp.MustCompile(`(?:src|srcset|action|data)="[^"]*//|<(?:iframe|object|embed|base|meta http-equiv)`)
	inline := regexp.MustCompile(`<[^>]* (?:style|on[a-z]+)="|<style|<script[^>]*>[^<]`)
	for name, content := range built(t) {
		text := string(content)
		switch filepath.Ext(name) {
		case ".html":
			for _, link := range regexp.MustCompile(`<(?:link|script|img)[^>]*>`).FindAllString(text, -1) {
				if strings.Contains(link, "//") {
					t.Errorf("%s loads from elsewhere: %s", name, link)
				}
			}
			for _, bad := range []*regexp.Regexp{loaded, inline} {
				if found := bad.FindString(text); found != "" {
					t.Errorf("%s: got %q in it", name, found)
				}
			}
		case ".css":
			if strings.Contains(text, "url(") || strings.Contains(text, "@import") {
				t.Errorf("%s loads something", name)
			}
		case ".js":
			if name != "search-index.js" && regexp.MustCompile(`fetch\(|XMLHttpRequest|innerHTML|eval\(`).MatchString(text) {
				t.Errorf("%s does what pages from the disk may not, or what may run text", name)
			}
		}
	}
}

// TestEveryPageHas checks what keyboards and screen readers need.
func TestEveryPageHas(t *testing.T) {
	t.Parallel()
	for name, content := range built(t) {
		if filepath.Ext(name) != ".html" {
			continue
		}
		for _, want := range []string{
			`<html lang="en">`, `<a class="skip" href="#main">`, `<main id="main"`, `<nav class="wide" aria-label="Pages">`,
			`role="search"`, `<label for="query">`, `aria-current="page"`, `name="viewport"`,
		} {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s: got no %s in it", name, want)
			}
		}
		if !strings.Contains(string(content), "<h1 ") {
			t.Errorf("%s: got no heading of the first level", name)
		}
	}
}

// TestContrast computes the contrast between the colors of texts and what is behind them (WCAG 2, level AA).
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := assets.ReadFile("assets/site.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, ok := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("the style sheet has no dark colors")
	}
	variable := regexp.MustCompile(`--([a-z]+): #([0-9a-f]{6});`)
	for mode, part := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]float64{}
		for _, found := range variable.FindAllStringSubmatch(part, -1) {
			colors[found[1]] = luminance(t, found[2])
		}
		for _, pair := range [][2]string{
			{"text", "back"}, {"quiet", "back"}, {"link", "back"}, {"text", "code"}, {"quiet", "code"}, {"link", "code"},
			{"text", "current"}, {"quiet", "current"}, {"link", "current"}, {"text", "mark"},
			{"comment", "code"}, {"string", "code"}, {"number", "code"}, {"keyword", "code"}, {"name", "code"},
		} {
			front, ok := colors[pair[0]]
			behind, ok2 := colors[pair[1]]
			if !ok || !ok2 {
				t.Fatalf("%s: there is no color %v", mode, pair)
			}
			if got := (max(front, behind) + 0.05) / (min(front, behind) + 0.05); got < 4.5 {
				t.Errorf("%s, %s on %s: got a contrast of %.2f, want 4.5 or more", mode, pair[0], pair[1], got)
			}
		}
	}
}

// luminance returns the relative luminance of a color.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		value, err := strconv.ParseUint(color[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		part := float64(value) / 255
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}

// searchScript searches, and prints the addresses and the excerpts that are found for each query as JSON.
const searchScript = `
const search = require(process.argv[1]), index = require(process.argv[2]);
console.log(JSON.stringify(JSON.parse(process.argv[3]).map(query => search(index, query, 20).map(
	found => ({url: found.entry.u, pieces: found.pieces})))));
`

// searchResult is what the search finds.
type searchResult struct {
	URL    string   `json:"url"`
	Pieces []string `json:"pieces"`
}

// searched runs queries in Node, and returns what is found for each.
func searched(t *testing.T, index []byte, queries []string) [][]searchResult {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("the search is not run: %v", err)
	}
	dir := t.TempDir()
	script, err := assets.ReadFile("assets/search.js")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"search.js": string(script), "index.json": string(index)})
	encoded, err := json.Marshal(queries)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), node, "-e", searchScript,
		filepath.Join(dir, "search.js"), filepath.Join(dir, "index.json"), string(encoded)).Output()
	if err != nil {
		t.Fatalf("node: %v: %s", err, out)
	}
	var found [][]searchResult
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return found
}

// TestSearchRanks searches in an index that was made for it.
func TestSearchRanks(t *testing.T) {
	t.Parallel()
	index, err := json.Marshal([]searchEntry{
		{"body.html", "Other", "Other", "Here a threshold is mentioned, and a second threshold, and max_body, in a long text."},
		{"heading.html", "Policy", "Threshold", "How it is set."},
		{"heading2.html", "Policy", "Thresholds of categories", "How they are set."},
		{"page.html", "Threshold pages", "Threshold pages", "Nothing else."},
		{"page.html#part", "Threshold pages", "Details", "Nothing of it."},
		{"harm.html", "Harm", "Harm", "The option harm_share <b>moves</b> it. A share."},
		{"self.html", "Self", "Self-harm", "A share of people."},
		{"accent.html", "Words", "Ünïcödé", "Größe und Maß"},
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		query string
		want  []string
	}{
		{"threshold", []string{"heading.html", "page.html", "heading2.html", "body.html"}},
		{"THRESH", []string{"page.html", "heading.html", "heading2.html", "body.html"}},
		{"max_body", []string{"body.html"}},
		{"body", []string{"body.html"}},
		{"`max_body`,", []string{"body.html"}},
		{"eshold", []string{"page.html", "heading.html", "heading2.html", "body.html"}}, // no word begins so
		{"harm share", []string{"harm.html", "self.html"}},
		{"threshold nosuchword", nil},
		{"größe", []string{"accent.html"}},
		{"  ", nil},
		{"<b>moves", []string{"harm.html"}},
		{"(.*", nil},
	}
	var queries []string
	for _, test := range tests {
		queries = append(queries, test.query)
	}
	found := searched(t, index, queries)
	for i, test := range tests {
		var got []string
		for _, one := range found[i] {
			got = append(got, one.URL)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.query, got, test.want)
		}
	}
	if got, want := found[2][0].Pieces, "max_body"; len(got) != 3 || got[1] != want {
		t.Errorf("the excerpt: got %q, want %q marked in it", got, want)
	}
}

// TestSearchFinds searches in the documentation.
func TestSearchFinds(t *testing.T) {
	t.Parallel()
	text, ok := strings.CutPrefix(string(built(t)["search-index.js"]), "var searchIndex = ")
	if !ok {
		t.Fatal("the index does not begin as the pages expect")
	}
	tests := []struct{ query, want string }{
		{"harm_share", "modules.html"},
		{"shadow mode", "guard.html#shadow-mode"},
		{"http.handlers.moderate", "modules.html#httphandlersmoderate"},
		{"backup", "operations.html"},
		{"rate limit header", "html"},
		{"glossary", "glossary.html"},
		{"perspective", "perspective.html"},
		{"caddy_moderation_guard_errors_total", "html"},
	}
	var queries []string
	for _, test := range tests {
		queries = append(queries, test.query)
	}
	for i, found := range searched(t, []byte(strings.TrimSuffix(text, ";\n")), queries) {
		best := fmt.Sprint(found[:min(len(found), 5)])
		if !strings.Contains(best, tests[i].want) {
			t.Errorf("%q: got %s, want %s among the first five", tests[i].query, best, tests[i].want)
		}
	}
}

// TestRunReplacesOnlyItsOwn says that no folder with other files is emptied, and that stale pages go.
func TestRunReplacesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	root, out := t.TempDir(), t.TempDir()
	write(t, root, map[string]string{"README.md": "# Start\n", "docs/a.md": "# A\n"})
	write(t, out, map[string]string{"precious.txt": "mine"})
	if err := run(root, out); err == nil || !strings.Contains(err.Error(), "holds files that this program did not write") {
		t.Errorf("a folder with other files: got the error %v, want a refusal", err)
	}
	if _, err := os.Stat(filepath.Join(out, "precious.txt")); err != nil {
		t.Error(err)
	}
	out = filepath.Join(t.TempDir(), "new", "site")
	if err := run(root, out); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "docs", "a.md")); err != nil {
		t.Fatal(err)
	}
	if err := run(root, out); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "a.html")); err == nil {
		t.Error("a page that is gone: it is still there, want it removed")
	}
}

// TestSlug compares ids with those that GitHub gives.
func TestSlug(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"http.handlers.moderate_response": "httphandlersmoderate_response",
		"What's new?":                     "whats-new",
		"A - B":                           "a---b",
		"[Unreleased] - 2026":             "unreleased---2026",
		"Größe & Maß":                     "größe--maß",
		"C++ / Go 1.26":                   "c--go-126",
	} {
		if got := slug(title); got != want {
			t.Errorf("%q: got %q, want %q", title, got, want)
		}
	}
}

// TestDiagrams says what becomes of diagrams, and that none of the documentation is shown as its source.
func TestDiagrams(t *testing.T) {
	t.Parallel()
	for name, content := range built(t) {
		if bytes.Contains(content, []byte("Code, mermaid")) {
			t.Errorf("%s shows the source of a diagram, want a list of its arrows", name)
		}
	}
	for code, want := range map[string]string{
		"flowchart LR\n  a[\"One<br>two\"] -->|yes| b\n  b -- \"no & no\" --> c": "One two→b: yes;b→c: no & no;",
		"flowchart TD\n  subgraph s[\"Box\"]\n    a --> b\n  end\n  b --> c":     "a (in Box)→b (in Box);b (in Box)→c;",
		"sequenceDiagram\n participant A as Client\n A->>B: call\n B-->>A: <ok>": "Client→B: call;B→Client: <ok>;",
	} {
		got, err := describeDiagram(code)
		if err != nil {
			t.Errorf("%s: %v", code, err)
		}
		plain := regexp.MustCompile(`<[^>]*>|\n| `).ReplaceAllString(strings.ReplaceAll(got, "</li>", ";"), "")
		plain = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(plain)
		if plain != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: got %s, want %s", code, plain, want)
		}
	}
	for _, code := range []string{"pie\n a: 1", "flowchart LR\n a ==> b", "sequenceDiagram\n loop x"} {
		if got, err := describeDiagram(code); err == nil {
			t.Errorf("%s: got %s, want an error", code, got)
		}
	}
}
