// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// repository is the address of the repository, where links to files that are no pages lead.
const repository = "https://github.com/caddy-moderation/caddy-moderation"

// site is all pages, and what else is in the repository.
type site struct {
	root  string
	pages map[string]*page // by source
	files map[string][]byte
}

// relink has the links of a page lead to pages of the site or to the repository. It returns those that lead nowhere.
func (s *site) relink(p *page) (problems []string) {
	var parts []ast.Node
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			parts = append(parts, n)
		}
		return ast.WalkContinue, nil
	})
	report := func(n ast.Node, err error) {
		problems = append(problems, fmt.Sprintf("%s:%d: %v", p.source, p.lineOf(n), err))
	}
	for _, n := range parts {
		switch n := n.(type) {
		case *ast.Link:
			to, err := s.resolve(p, string(n.Destination))
			if err != nil {
				report(n, err)
			}
			n.Destination = []byte(to)
		case *ast.Image:
			s.placeImage(p, n, report)
		case *ast.RawHTML:
			if err := checkHTML(string(n.Segments.Value(p.text))); err != nil {
				report(n, err)
			}
		case *ast.HTMLBlock:
			block := string(n.Lines().Value(p.text))
			if n.HasClosure() {
				block += string(n.ClosureLine.Value(p.text))
			}
			if err := checkHTML(block); err != nil {
				report(n, err)
			}
		}
	}
	return problems
}

// placeImage copies an image of the repository into the site. The text of an image from elsewhere takes its place,
// because pages load nothing from the network.
func (s *site) placeImage(p *page, n *ast.Image, report func(ast.Node, error)) {
	to, err := url.Parse(string(n.Destination))
	if err != nil {
		report(n, err)
		return
	}
	if to.IsAbs() || to.Host != "" {
		for child := n.FirstChild(); child != nil; child = n.FirstChild() {
			n.Parent().InsertBefore(n.Parent(), n, child)
		}
		n.Parent().RemoveChild(n.Parent(), n)
		return
	}
	source := path.Join(path.Dir(p.source), to.Path)
	content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
	if err != nil || strings.HasPrefix(source, "../") {
		report(n, fmt.Errorf("the image %s is not in the repository", n.Destination))
		return
	}
	s.files["files/"+source] = content
	n.Destination = []byte("files/" + source)
}

// resolve returns where a link of a page leads on the site.
func (s *site) resolve(p *page, destination string) (string, error) {
	to, err := url.Parse(destination)
	switch {
	case err != nil:
		return "", fmt.Errorf("the link %s cannot be parsed", destination)
	case to.Scheme == "http", to.Scheme == "https", to.Scheme == "mailto":
		return destination, nil
	case to.IsAbs() || to.Host != "":
		return "", fmt.Errorf("the link %s is neither relative nor http, https or mailto", destination)
	case to.Path == "":
		return destination, p.checkAnchor(destination, to.Fragment)
	}
	source := path.Join(path.Dir(p.source), to.Path)
	if strings.HasPrefix(to.Path, "/") || source == ".." || strings.HasPrefix(source, "../") {
		return "", fmt.Errorf("the link %s leaves the repository", destination)
	}
	if target := s.pages[source]; target != nil {
		file := target.File
		if to.Fragment != "" {
			file += "#" + to.EscapedFragment()
		}
		return file, target.checkAnchor(destination, to.Fragment)
	}
	info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(source)))
	if err != nil {
		return "", fmt.Errorf("the link %s leads to a file that does not exist: %s", destination, source)
	}
	if source == "." {
		return repository, nil
	}
	kind := "blob"
	if info.IsDir() {
		kind = "tree"
	}
	address := repository + "/" + kind + "/main/" + (&url.URL{Path: source}).EscapedPath()
	if to.Fragment != "" {
		address += "#" + to.EscapedFragment()
	}
	return address, nil
}

// checkAnchor returns an error unless a page has a heading with this id; the empty one is the page itself.
func (p *page) checkAnchor(destination, id string) error {
	if id == "" || p.anchors[id] {
		return nil
	}
	return fmt.Errorf("the link %s leads to a heading that %s does not have", destination, p.source)
}
