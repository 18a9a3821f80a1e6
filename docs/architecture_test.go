// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package docs has the tests of the pages in this folder.
package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages that name files and functions of this repository, relative to its root.
var pages = []string{"docs/architecture.md", "CONTRIBUTING.md", "SECURITY.md"}

const root = ".."

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	// filePath is a path such as engine/model or caddymod/api/text.go, or a file of the root such as go.mod.
	// Addresses of the API begin with a slash, and module paths with a domain.
	filePath = regexp.MustCompile(
		`^(\.ci|\.github|\.golangci\.yml|[a-z_]+/|[A-Za-z._-]+\.(go|md|mod|sum|sh|example)$)[\w./-]*$`)
	// function is a call without arguments: Func(), Type.Method() or package.Func().
	function = regexp.MustCompile(`^([A-Za-z_]\w*\.)?([A-Za-z_]\w*)\(\)$`)
	// newBlock begins a list item, a row of a table or a heading.
	newBlock = regexp.MustCompile(`^\s*([-*] |\d+\. |\||#)`)
)

// Newcomers follow these pages file by file and function by function. A function must be declared in a file that the
// same paragraph, list item or row of a table names.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	for _, page := range pages {
		data, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks(string(data)) {
			for _, err := range blockErrors(block.text) {
				t.Errorf("%s:%d: %v", page, block.line, err)
			}
		}
	}
}

// block is a paragraph, a list item or a row of a table.
type block struct {
	line int
	text string
}

// blocks splits Markdown into blocks. It leaves fenced code out.
func blocks(markdown string) (found []block) {
	fenced, begins := false, true
	for i, line := range strings.Split(markdown, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced, begins = !fenced, true
		case fenced:
		case strings.TrimSpace(line) == "":
			begins = true
		case begins || newBlock.MatchString(line):
			found, begins = append(found, block{i + 1, line}), false
		default:
			found[len(found)-1].text += "\n" + line
		}
	}
	return found
}

// blockErrors returns an error for each file and function in a block that does not exist.
func blockErrors(text string) (errs []error) {
	var files, functions []string
	for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
		switch name := span[1]; {
		case function.MatchString(name):
			functions = append(functions, name)
		case filePath.MatchString(name):
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				errs = append(errs, fmt.Errorf("%s: got no such file, want one of the repository", name))
				continue
			}
			if strings.HasSuffix(name, ".go") {
				files = append(files, name)
			}
		}
	}
	declared := map[string]bool{}
	for _, file := range files {
		if err := declare(declared, file); err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range functions {
		if !declared[strings.TrimSuffix(name, "()")] {
			errs = append(errs, fmt.Errorf("%s: got no such function in %q, want one in a file of this block", name, files))
		}
	}
	return errs
}

// declare adds the functions of a file as Func and package.Func, and its methods as Method and Type.Method.
func declare(to map[string]bool, file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", file, err)
	}
	for _, declaration := range parsed.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		to[f.Name.Name] = true
		owner := parsed.Name.Name
		if f.Recv != nil {
			owner = receiver(f.Recv.List[0].Type)
		}
		to[owner+"."+f.Name.Name] = true
	}
	return nil
}

// receiver returns the name of a receiver's type.
func receiver(kind ast.Expr) string {
	switch kind := kind.(type) {
	case *ast.StarExpr:
		return receiver(kind.X)
	case *ast.IndexExpr:
		return receiver(kind.X)
	case *ast.Ident:
		return kind.Name
	}
	return ""
}

// A file that one item names must not count for the next.
func TestBlocksEndWhereItemsDo(t *testing.T) {
	t.Parallel()
	got := blocks("# A\none\ntwo\n\n1. three\n   four\n   - five\n| six |\n```\nseven\n```\neight")
	want := []block{{1, "# A\none\ntwo"}, {5, "1. three\n   four"}, {7, "   - five"}, {8, "| six |"}, {12, "eight"}}
	if !slices.Equal(got, want) {
		t.Errorf("got the blocks %+v, want %+v", got, want)
	}
}

// A check that finds nothing would let the pages rot.
func TestWhatDoesNotExistIsFound(t *testing.T) {
	t.Parallel()
	const file = "`docs/architecture_test.go`"
	for _, test := range []struct {
		line string
		want int
	}{
		{file + " has `declare()` and `docs.receiver()`", 0},
		{"`GET /v1/usage`, `engine.Engine` and `github.com/a/b` are no files", 0},
		{"`docs`, `docs/` and `go.mod` exist", 0},
		{"`docs/nothing.md`", 1},
		{"`nothing.go`", 1},
		{file + " has no `Nothing()`", 1},
		{file + " has no `other.declare()`", 1},
		{"`declare()` needs the name of its file", 1},
	} {
		if errs := blockErrors(test.line); len(errs) != test.want {
			t.Errorf("%s: got %d errors (%v), want %d", test.line, len(errs), errs, test.want)
		}
	}
}
