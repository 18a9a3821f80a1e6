// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path"
	"slices"
	"strings"
)

// section is a part of the navigation: pages for one kind of reader.
type section struct {
	title string
	pages []entry
}

// entry is a page in the navigation.
type entry struct {
	source string // its path in the repository
	title  string // its name in the navigation; the page's own heading may be longer
}

// sections is the navigation. A page that is not in the repository is left out; one that is not here is under "More".
var sections = []section{
	{"Start", []entry{
		{"README.md", "Overview"},
		{"docs/install.md", "Installing"},
		{"docs/containers.md", "Containers"},
	}},
	{"You have a site", []entry{
		{"docs/guard.md", "The guard"},
		{"docs/recipes.md", "Recipes"},
		{"docs/themes.md", "Themes"},
		{"docs/languages.md", "Languages"},
		{"docs/guard-bypass.md", "Ways around the guard"},
		{"docs/fixed-hosts.md", "Programs with fixed hosts"},
	}},
	{"You call the API", []entry{
		{"docs/api.md", "The API"},
		{"docs/clients.md", "Clients"},
		{"docs/openai.md", "As OpenAI's endpoint"},
		{"docs/migrate-openai.md", "Moving from OpenAI"},
		{"docs/perspective.md", "As the Perspective API"},
		{"docs/migrate-perspective.md", "Moving from the Perspective API"},
	}},
	{"You operate the server", []entry{
		{"docs/operations.md", "Operations"},
		{"docs/reviews.md", "The review queue"},
		{"docs/configuration.md", "Configuration"},
		{"docs/desk.md", "The desk"},
		{"docs/scaling.md", "Many nodes"},
		{"docs/modules.md", "Caddy modules"},
		{"docs/editors.md", "Editors"},
		{"docs/monitoring.md", "Monitoring"},
		{"docs/runbook.md", "Runbook"},
		{"SECURITY.md", "Security"},
		{"CHANGELOG.md", "Changelog"},
	}},
	{"How good it is", []entry{
		{"docs/evaluate.md", "Evaluating it"},
		{"docs/model-card.md", "Model card"},
	}},
	{"You contribute", []entry{
		{"CONTRIBUTING.md", "Contributing"},
		{"docs/architecture.md", "Architecture"},
		{"docs/glossary.md", "Glossary"},
		{"docs/training.md", "Training"},
	}},
}

// navigation returns the sections with those of their pages that there are, and "More" with the other pages. Pages get
// their titles in the navigation.
func navigation(pages []*page) (nav []navSection) {
	left := map[string]*page{}
	for _, p := range pages {
		left[p.source] = p
	}
	for _, s := range sections {
		listed := navSection{Title: s.title}
		for _, e := range s.pages {
			if p := left[e.source]; p != nil {
				p.NavTitle = e.title
				listed.Pages = append(listed.Pages, p)
				delete(left, e.source)
			}
		}
		if len(listed.Pages) > 0 {
			nav = append(nav, listed)
		}
	}
	more := navSection{Title: "More"}
	for _, p := range pages {
		if left[p.source] != nil {
			p.NavTitle = p.Title
			more.Pages = append(more.Pages, p)
		}
	}
	if len(more.Pages) > 0 {
		slices.SortFunc(more.Pages, func(a, b *page) int { return strings.Compare(a.source, b.source) })
		nav = append(nav, more)
	}
	return nav
}

// navSection is a section with its pages.
type navSection struct {
	Title string
	Pages []*page
}

// fileOf returns the name of the HTML file of a page. All are in one folder.
func fileOf(source string) string {
	if source == "README.md" {
		return "index.html"
	}
	name := strings.TrimSuffix(strings.TrimPrefix(source, "docs/"), path.Ext(source))
	return strings.ToLower(strings.ReplaceAll(name, "/", "-")) + ".html"
}
