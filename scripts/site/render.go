// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/ast"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// nodeRenderer renders what the site shows in its own way. Everything else is rendered as goldmark does, which escapes.
type nodeRenderer struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (r *nodeRenderer) RegisterFuncs(register renderer.NodeRendererFuncRegisterer) {
	register.Register(ast.KindHeading, renderHeading)
	register.Register(ast.KindFencedCodeBlock, renderFenced)
	register.Register(ast.KindCodeBlock, renderIndented)
	register.Register(ast.KindHTMLBlock, renderHTMLBlock)
	register.Register(ast.KindRawHTML, renderRawHTML)
	register.Register(extensionast.KindTable, renderTable)
}

func renderHeading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	found := n.(*ast.Heading)
	id, _ := found.AttributeString("id")
	escaped := html.EscapeString(string(id.([]byte)))
	if entering {
		fmt.Fprintf(w, `<h%d id="%s">`, found.Level, escaped)
		return ast.WalkContinue, nil
	}
	if found.Level > 1 {
		fmt.Fprintf(w, ` <a class="anchor" href="#%s" aria-label="Link to this section">#</a>`, escaped)
	}
	fmt.Fprintf(w, "</h%d>\n", found.Level)
	return ast.WalkContinue, nil
}

func renderFenced(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := n.(*ast.FencedCodeBlock)
	code := string(block.Lines().Value(source))
	language := string(block.Language(source))
	if language == "mermaid" {
		if described, err := describeDiagram(code); err == nil {
			_, _ = w.WriteString(described)
			return ast.WalkSkipChildren, nil
		}
	}
	writeCode(w, language, code)
	return ast.WalkSkipChildren, nil
}

func renderIndented(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		writeCode(w, "", string(n.Lines().Value(source)))
	}
	return ast.WalkSkipChildren, nil
}

// writeCode writes a block of code. It can be scrolled with the keyboard.
func writeCode(w util.BufWriter, language, code string) {
	label := "Code"
	if language != "" {
		label += ", " + language
	}
	fmt.Fprintf(w, `<pre tabindex="0" role="group" aria-label="%s"><code>`, html.EscapeString(label))
	if language == "console" {
		writeConsole(w, code)
	} else {
		writeTokens(w, language, code)
	}
	_, _ = w.WriteString("</code></pre>\n")
}

// prompt begins a command in a block of what a terminal shows.
var prompt = regexp.MustCompile(`^[$>#] `)

// writeConsole writes what a terminal shows: commands, which begin with a prompt, and their output.
func writeConsole(w util.BufWriter, code string) {
	continued := false
	for line := range strings.Lines(code) {
		at := prompt.FindString(line)
		if at == "" && !continued {
			_, _ = w.WriteString(html.EscapeString(line))
			continue
		}
		if at != "" {
			fmt.Fprintf(w, `<span class="tc">%s</span>`, html.EscapeString(at))
		}
		writeTokens(w, "sh", line[len(at):])
		continued = strings.HasSuffix(strings.TrimRight(line, "\n"), `\`)
	}
}

// writeTokens writes code with classes for what it is made of.
func writeTokens(w util.BufWriter, language, code string) {
	lexer := lexers.Get(language)
	if lexer == nil || language == "" || language == "text" {
		_, _ = w.WriteString(html.EscapeString(code))
		return
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	if err != nil {
		_, _ = w.WriteString(html.EscapeString(code))
		return
	}
	var all strings.Builder
	var out bytes.Buffer
	for token := range tokens.Stdlib() {
		all.WriteString(token.Value)
		class := classOf(token.Type)
		if language == "caddyfile" && (class == "tn" || class == "ts") && !strings.ContainsAny(token.Value, "\"`") {
			class = "" // an argument, of which the lexer takes parts for numbers
		}
		if class != "" && strings.TrimSpace(token.Value) != "" {
			fmt.Fprintf(&out, `<span class="%s">%s</span>`, class, html.EscapeString(token.Value))
		} else {
			out.WriteString(html.EscapeString(token.Value))
		}
	}
	// A lexer must not change the code. Some add a newline.
	if strings.TrimSuffix(all.String(), "\n") != strings.TrimSuffix(code, "\n") {
		_, _ = w.WriteString(html.EscapeString(code))
		return
	}
	colored := out.String()
	if !strings.HasSuffix(code, "\n") {
		colored = strings.TrimSuffix(colored, "\n")
	}
	_, _ = w.WriteString(colored)
}

// classOf returns the class of a token in the style sheet, "" for plain ones.
func classOf(of chroma.TokenType) string {
	switch {
	case of.InCategory(chroma.Comment):
		return "tc"
	case of.InSubCategory(chroma.LiteralString):
		return "ts"
	case of.InSubCategory(chroma.LiteralNumber):
		return "tn"
	case of.InCategory(chroma.Keyword):
		return "tk"
	case of == chroma.NameTag, of == chroma.NameAttribute, of == chroma.NameFunction, of == chroma.NameBuiltin,
		of == chroma.NameVariable:
		return "ta"
	}
	return ""
}

func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<div class="table" tabindex="0" role="group" aria-label="Table"><table>` + "\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// allowedHTML is what may stand in Markdown: tags without attributes.
var allowedHTML = regexp.MustCompile(`^</?(br|details|summary|kbd|sub|sup)\s*/?>$`)

// tag is a tag or a comment.
var tag = regexp.MustCompile(`(?s)<!--.*?-->|<[^>]*>`)

// errHTML is the error about HTML that is not allowed.
var errHTML = errors.New("HTML is not allowed here, except comments and br, details, summary, kbd, sub and sup " +
	"without attributes; write &lt; for <")

// checkHTML returns an error for HTML that the site does not take over.
func checkHTML(text string) error {
	for _, found := range tag.FindAllString(text, -1) {
		if !strings.HasPrefix(found, "<!--") && !allowedHTML.MatchString(found) {
			return fmt.Errorf("%s: %w", found, errHTML)
		}
	}
	return nil
}

// safeHTML returns HTML with the allowed tags, and everything else escaped. Comments are left out.
func safeHTML(text string) string {
	var out strings.Builder
	end := 0
	for _, at := range tag.FindAllStringIndex(text, -1) {
		out.WriteString(html.EscapeString(text[end:at[0]]))
		found := text[at[0]:at[1]]
		switch {
		case strings.HasPrefix(found, "<!--"):
		case allowedHTML.MatchString(found):
			out.WriteString(found)
		default:
			out.WriteString(html.EscapeString(found))
		}
		end = at[1]
	}
	out.WriteString(html.EscapeString(text[end:]))
	return out.String()
}

func renderHTMLBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		block := n.(*ast.HTMLBlock)
		content := string(block.Lines().Value(source))
		if block.HasClosure() {
			content += string(block.ClosureLine.Value(source))
		}
		if content = strings.TrimSpace(safeHTML(content)); content != "" {
			_, _ = w.WriteString(content + "\n")
		}
	}
	return ast.WalkContinue, nil
}

func renderRawHTML(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(safeHTML(string(n.(*ast.RawHTML).Segments.Value(source))))
	}
	return ast.WalkSkipChildren, nil
}
