// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// unaudited are the POST routes that leave no entry in the audit log, with the reason.
var unaudited = map[string]string{
	"/accounts/{account}/playground": "it changes nothing",
	"/review/{item}/decision":        "the item has its decisions",
	"/review/{item}/alike":           "the items have their decisions",
}

// TestEveryChangeIsAudited goes through all routes that change something: the code of each reaches the method that adds
// an entry to the audit log. It guards against a new form that nobody can be asked about later.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	calls := callsOf(t)
	reaches := func(from string) bool {
		seen := map[string]bool{}
		var visit func(string) bool
		visit = func(name string) bool {
			if name == "record" {
				return true
			}
			if seen[name] {
				return false
			}
			seen[name] = true
			for called := range calls[name] {
				if visit(called) {
					return true
				}
			}
			return false
		}
		return visit(from)
	}
	audited := 0
	for _, r := range routes() {
		if r.method != http.MethodPost {
			continue
		}
		name := runtime.FuncForPC(reflect.ValueOf(r.serve).Pointer()).Name()
		name = name[strings.LastIndex(name, ".")+1:]
		_, excepted := unaudited[r.pattern]
		if !excepted && !reaches(name) {
			t.Errorf("POST %s: %s leaves no entry in the audit log", r.pattern, name)
		}
		if !excepted {
			audited++
		}
	}
	if audited < 9 || reaches("showSettings") {
		t.Errorf("%d routes are audited, and showing the settings is: %v", audited, reaches("showSettings"))
	}
}

// callsOf returns what the functions and methods of the package call, by their names.
func callsOf(t *testing.T) map[string]map[string]bool {
	t.Helper()
	noTests := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }
	packages, err := parser.ParseDir(token.NewFileSet(), ".", noTests, 0) //nolint:staticcheck // one package, no build tags
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]map[string]bool{}
	for _, file := range packages["desk"].Files {
		for _, declared := range file.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			called := map[string]bool{}
			ast.Inspect(function.Body, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch f := call.Fun.(type) {
				case *ast.Ident:
					called[f.Name] = true
				case *ast.SelectorExpr:
					on, ok := f.X.(*ast.Ident)
					switch {
					case f.Sel.Name == "Record": // of the audit log, by whom the desk does not know yet
						called["record"] = true
					case ok && on.Name == "c":
						called[f.Sel.Name] = true
					}
				}
				return true
			})
			calls[function.Name.Name] = called
		}
	}
	return calls
}
