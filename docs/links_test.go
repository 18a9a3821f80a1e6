// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Hazard: a link in a page leads nowhere, or to a heading that has another name now.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := markdown(t)
	checked := 0
	for name, document := range all {
		for _, l := range document.links {
			checked++
			if err := follow(all, name, l.target); err != nil {
				t.Errorf("%s:%d: %v", name, l.line, err)
			}
		}
	}
	if checked < 100 {
		t.Errorf("got %d links in %d pages, want hundreds: the check finds nothing", checked, len(all))
	}
}

// Hazard: a page is written that nobody finds.
func TestEveryPageIsTwoClicksFromTheReadme(t *testing.T) {
	t.Parallel()
	all := markdown(t)
	clicks := map[string]int{"README.md": 0}
	for _, name := range [][]string{{"README.md"}, nil} {
		if name == nil {
			for page, distance := range clicks {
				if distance == 1 {
					name = append(name, page)
				}
			}
		}
		for _, from := range name {
			for _, l := range all[from].links {
				to := destination(from, l.target)
				if _, known := clicks[to]; !known && all[to] != nil {
					clicks[to] = clicks[from] + 1
				}
			}
		}
	}
	for name := range all {
		if _, found := clicks[name]; strings.HasPrefix(name, "docs/") && !found {
			t.Errorf("%s is not linked from README.md, nor from a page that is", name)
		}
	}
}

// page is a Markdown file.
type page struct {
	links   []link
	anchors map[string]bool
}

type link struct {
	line   int
	target string
}

// markdown returns the Markdown files of the repository, by their paths.
func markdown(t *testing.T) map[string]*page {
	t.Helper()
	all := map[string]*page{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			// Folders of tools, and of what they download, are not of the repository.
			if name != root && (strings.HasPrefix(base, ".") && base != ".github" || base == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".md") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		all[filepath.ToSlash(relative)] = parsePage(string(text))
		return err
	})
	if err != nil || all["README.md"] == nil {
		t.Fatalf("finding the pages: got %d of them and the error %v", len(all), err)
	}
	return all
}

var (
	// codeOrComment is what holds no links: code in a line or over two, and comments.
	codeOrComment = regexp.MustCompile("(?s)``.+?``|`[^`]+`|<!--.*?-->")
	linkTarget    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	reference     = regexp.MustCompile(`(?m)^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)`)
	heading       = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$`)
	linkText      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	htmlAnchor    = regexp.MustCompile(`<[a-z]+[^>]*\s(?:id|name)="([^"]+)"`)
	fence         = regexp.MustCompile("^\\s*(```+|~~~+)")
)

// parsePage finds the links of a page, and the anchors that others may link to.
func parsePage(text string) *page {
	p := &page{anchors: map[string]bool{}}
	lines := strings.Split(text, "\n")
	fenced := ""
	for i, line := range lines {
		switch mark := fence.FindStringSubmatch(line); {
		case fenced != "":
			if mark != nil && strings.HasPrefix(mark[1], fenced) {
				fenced = ""
			}
			lines[i] = ""
			continue
		case mark != nil:
			fenced = mark[1]
			lines[i] = ""
			continue
		}
		if h := heading.FindStringSubmatch(line); h != nil {
			p.addAnchor(anchor(h[1]))
		}
		for _, a := range htmlAnchor.FindAllStringSubmatch(line, -1) {
			p.anchors[a[1]] = true
		}
	}
	// Line breaks stay, so that lines can be counted.
	prose := codeOrComment.ReplaceAllStringFunc(strings.Join(lines, "\n"), func(found string) string {
		return strings.Repeat("\n", strings.Count(found, "\n"))
	})
	for _, kind := range []*regexp.Regexp{linkTarget, reference} {
		for _, at := range kind.FindAllStringSubmatchIndex(prose, -1) {
			p.links = append(p.links, link{1 + strings.Count(prose[:at[0]], "\n"), prose[at[2]:at[3]]})
		}
	}
	return p
}

// anchor returns the anchor that GitHub gives a heading: its text in lower case, with hyphens for spaces, and without
// anything else that is not a letter, a digit, a hyphen or an underscore.
func anchor(heading string) string {
	text := linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// addAnchor adds the anchor of a heading; those of further headings of the same name end in a number.
func (p *page) addAnchor(name string) {
	unique := name
	for n := 1; p.anchors[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	p.anchors[unique] = true
}

// destination returns the path of the file that a link of a page leads to, or "" for one on another site.
func destination(from, target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return ""
	}
	if u.Path == "" {
		return from
	}
	return path.Join(path.Dir(from), u.Path)
}

// follow returns an error if a link of a page leads nowhere. Links to other sites are not followed.
func follow(all map[string]*page, from, target string) error {
	to := destination(from, target)
	if to == "" {
		if _, err := url.Parse(target); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		return nil
	}
	if strings.HasPrefix(to, "../") || strings.HasPrefix(target, "/") {
		return fmt.Errorf("%s: got a link that leaves the repository", target)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
		return fmt.Errorf("%s: got no such file, want one of the repository", target)
	}
	_, fragment, found := strings.Cut(target, "#")
	if !found {
		return nil
	}
	document := all[to]
	if document == nil {
		return nil // such as #L12 of a source file
	}
	if fragment, err := url.PathUnescape(fragment); err != nil || !document.anchors[fragment] {
		return fmt.Errorf("%s: got no such heading in %s", target, to)
	}
	return nil
}

// A check that follows nothing, or knows no anchors, would let links rot.
func TestBrokenLinksAreFound(t *testing.T) {
	t.Parallel()
	all := map[string]*page{
		"docs/themes.md": parsePage("# What it `does_not` do: \"x\"\n## Same\n## Same\n# [Linked](b.md) & Größe\n<a id=\"own\"></a>\n" +
			"```\n# no heading\n```\n"),
		"docs/architecture_test.go": nil,
		"README.md":                 parsePage("# R\n"),
	}
	for target, want := range map[string]bool{
		"#what-it-does_not-do-x":              true,
		"#same-1":                             true,
		"#same-2":                             false,
		"#linked--größe":                      true,
		"#own":                                true,
		"#no-heading":                         false,
		"#What-it-does_not-do-x":              false,
		"../README.md":                        true,
		"../README.md#r":                      true,
		"../README.md#s":                      false,
		"../../README.md":                     false,
		"/README.md":                          false,
		"nothing.md":                          false,
		"architecture_test.go":                true,
		"https://example.com/nothing#nothing": true,
	} {
		if err := follow(all, "docs/themes.md", target); (err == nil) != want {
			t.Errorf("%s: got the error %v, want one: %v", target, err, !want)
		}
	}
	found := parsePage("[a](b.md) and [c\nd](e.md#f \"title\") ![g](h.png)\n\n`[i](j)` <!-- [k](l) -->\n```\n[m](n)\n```\n[o]: p.md\n")
	want := []link{{1, "b.md"}, {2, "e.md#f"}, {2, "h.png"}, {8, "p.md"}}
	if !slices.Equal(found.links, want) {
		t.Errorf("got the links %v, want %v", found.links, want)
	}
}
