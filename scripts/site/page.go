// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// page is a Markdown file.
type page struct {
	source string // its path in the repository
	text   []byte
	root   ast.Node

	File      string // its HTML file
	Title     string // its first heading
	NavTitle  string // its title in the navigation
	Headings  []heading
	Generated bool // by a program: there is nothing to edit

	anchors map[string]bool
}

// heading is a heading with the address of its place in the page.
type heading struct {
	Level int
	Text  string
	ID    string
}

// markdown parses and renders GitHub's Markdown.
var markdown = goldmark.New(
	goldmark.WithExtensions(
		extension.Linkify, extension.Strikethrough, extension.TaskList,
		// An attribute instead of a style, which a content security policy would forbid.
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
	),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(&nodeRenderer{}, 100))),
)

// parsePage parses a Markdown file.
func parsePage(source string, content []byte) (*page, error) {
	p := &page{source: source, text: content, File: fileOf(source), anchors: map[string]bool{}}
	p.root = markdown.Parser().Parse(text.NewReader(content))
	p.Generated = bytes.Contains(content[:min(len(content), 400)], []byte("<!-- Generated "))
	err := ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if found, ok := n.(*ast.Heading); ok && entering {
			p.addHeading(found)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	if p.Title == "" {
		return nil, fmt.Errorf("%s:1: the page has no heading of the first level", source)
	}
	return p, nil
}

// addHeading gives a heading the id that GitHub gives it.
func (p *page) addHeading(n *ast.Heading) {
	title := plain(n, p.text)
	base := slug(title)
	id := base
	for i := 1; p.anchors[id]; i++ {
		id = fmt.Sprintf("%s-%d", base, i)
	}
	p.anchors[id] = true
	n.SetAttributeString("id", []byte(id))
	if n.Level == 1 && p.Title == "" {
		p.Title = title
	}
	p.Headings = append(p.Headings, heading{n.Level, title, id})
}

// Contents returns the headings of the page's table of contents.
func (p *page) Contents() (shown []heading) {
	for i, h := range p.Headings {
		if h.Level <= 3 && i > 0 { // the first is the title
			shown = append(shown, h)
		}
	}
	if len(shown) > 40 { // a long page shows its parts only
		shown = slices.DeleteFunc(shown, func(h heading) bool { return h.Level == 3 })
	}
	return shown
}

// slug returns the id that GitHub makes of a heading's text.
func slug(title string) string {
	var id strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ' || r == '-':
			id.WriteByte('-')
		case r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
			id.WriteRune(r)
		}
	}
	return id.String()
}

// plain returns the text in a node. Blocks, cells and lines are separated by a blank.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock || n.Kind() == extensionast.KindTableCell {
				out.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			out.Write(unescaped(n.Segment.Value(source)))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.CodeSpan:
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					out.Write(bytes.ReplaceAll(t.Segment.Value(source), []byte("\n"), []byte(" ")))
				}
			}
			return ast.WalkSkipChildren, nil
		case *ast.AutoLink:
			out.Write(n.Label(source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			out.Write(n.Lines().Value(source))
		case *ast.HTMLBlock, *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(out.String()), " ")
}

// unescaped undoes backslashes and entities of Markdown.
func unescaped(segment []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(segment)))
}

// lineOf returns the line in which a node begins, from 1 on.
func (p *page) lineOf(n ast.Node) int {
	at := -1
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch found := n.(type) {
		case *ast.Text:
			at = found.Segment.Start
		case *ast.RawHTML:
			at = found.Segments.At(0).Start
		}
		if at >= 0 {
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	for n := n; at < 0 && n != nil; n = n.Parent() {
		if n.Type() == ast.TypeBlock && n.Lines() != nil && n.Lines().Len() > 0 {
			at = n.Lines().At(0).Start
		}
	}
	return 1 + bytes.Count(p.text[:max(at, 0)], []byte("\n"))
}
