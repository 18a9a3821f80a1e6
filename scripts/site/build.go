// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// topLevel are the pages outside docs.
var topLevel = []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}

// build returns the files of the site by name. An error has a line for each problem.
func build(root string) (map[string][]byte, error) {
	sources, err := findSources(root)
	if err != nil {
		return nil, err
	}
	s := &site{root: root, pages: map[string]*page{}, files: map[string][]byte{}}
	var pages []*page
	owners := map[string]string{} // sources, by file
	for _, source := range sources {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(source)))
		if err != nil {
			return nil, err
		}
		p, err := parsePage(source, content)
		if err != nil {
			return nil, err
		}
		if other := owners[p.File]; other != "" {
			return nil, fmt.Errorf("%s and %s would both be %s", other, source, p.File)
		}
		owners[p.File] = source
		s.pages[source] = p
		pages = append(pages, p)
	}
	var problems []string
	for _, p := range pages {
		problems = append(problems, s.relink(p)...)
	}
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "\n"))
	}
	if err := s.write(pages); err != nil {
		return nil, err
	}
	return s.files, nil
}

// findSources returns the paths of the Markdown files, in alphabetical order.
func findSources(root string) (sources []string, err error) {
	for _, name := range topLevel {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			sources = append(sources, name)
		}
	}
	docs := filepath.Join(root, "docs")
	err = filepath.WalkDir(docs, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		relative, err := filepath.Rel(root, file)
		sources = append(sources, filepath.ToSlash(relative))
		return err
	})
	slices.Sort(sources)
	return sources, err
}

// view is what the template of a page sees.
type view struct {
	*page
	Site           []navSection
	Section        string // that the page stands in
	Previous, Next *page
	Source         string // where the page can be edited, or seen if it is generated
	Body           template.HTML
}

// write renders all pages and what they share.
func (s *site) write(pages []*page) error {
	nav := navigation(pages)
	var order []*page
	sectionOf := map[*page]string{}
	for _, part := range nav {
		order = append(order, part.Pages...)
		for _, p := range part.Pages {
			sectionOf[p] = part.Title
		}
	}
	var index []searchEntry
	for i, p := range order {
		var body bytes.Buffer
		if err := markdown.Renderer().Render(&body, p.text, p.root); err != nil {
			return fmt.Errorf("%s: %w", p.source, err)
		}
		v := view{
			page: p, Site: nav, Section: sectionOf[p], Source: repository + "/edit/main/" + p.source,
			Body: template.HTML(body.String()), //nolint:gosec // goldmark and nodeRenderer escape what is in Markdown
		}
		if p.Generated {
			v.Source = repository + "/blob/main/" + p.source
		}
		if i > 0 {
			v.Previous = order[i-1]
		}
		if i+1 < len(order) {
			v.Next = order[i+1]
		}
		var out bytes.Buffer
		if err := layout.Execute(&out, v); err != nil {
			return fmt.Errorf("%s: %w", p.source, err)
		}
		s.files[p.File] = out.Bytes()
		index = append(index, p.searchEntries()...)
	}
	encoded, err := json.Marshal(index)
	if err != nil {
		return err
	}
	// A script, because a page from the disk may not fetch.
	s.files["search-index.js"] = []byte("var searchIndex = " + string(encoded) + ";\n")
	for _, name := range []string{"site.css", "site.js", "search.js", "favicon.svg"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		s.files[name] = content
	}
	return nil
}

// searchEntry is a part of a page that can be found: a heading and what stands below it, up to the next heading.
type searchEntry struct {
	URL     string `json:"u"`
	Page    string `json:"p"` // its title, and that of the part, if the heading is in one
	Heading string `json:"h"`
	Text    string `json:"t"`
}

// searchEntries returns the parts of a page.
func (p *page) searchEntries() (entries []searchEntry) {
	var text []string
	part := ""
	flush := func() {
		if len(entries) > 0 {
			entries[len(entries)-1].Text = strings.Join(text, " ")
		}
		text = nil
	}
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		found, ok := n.(*ast.Heading)
		if !ok {
			if content := plain(n, p.text); content != "" {
				text = append(text, content)
			}
			continue
		}
		flush()
		id, _ := found.AttributeString("id")
		address := p.File
		if found.Level > 1 {
			address += "#" + string(id.([]byte))
		}
		entry := searchEntry{URL: address, Page: p.Title, Heading: plain(found, p.text)}
		switch {
		case found.Level == 2:
			part = entry.Heading
		case found.Level > 2 && part != "":
			entry.Page += " › " + part
		}
		entries = append(entries, entry)
	}
	flush()
	return entries
}
