// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/node"
)

const folder = "scripts/parsers"

// parser is a real parser, set up as an app uses it.
type parser struct {
	name string
	// kind is its language.
	kind string
	// debian is its Debian package, if it is installed from there.
	debian string
}

var parsers = []parser{
	{name: "go", kind: "go"},
	{name: "express", kind: "node"},
	{name: "multer", kind: "node"},
	{name: "busboy", kind: "node"},
	{name: "formidable", kind: "node"},
	{name: "multiparty", kind: "node"},
	{name: "fetch", kind: "node"},
	{name: "fastify", kind: "node"},
	{name: "koa", kind: "node"},
	{name: "hapi", kind: "node"},
	{name: "flask", kind: "python", debian: "python3-flask"},
	{name: "django", kind: "python", debian: "python3-django"},
	{name: "bottle", kind: "python", debian: "python3-bottle"},
	{name: "aiohttp", kind: "python", debian: "python3-aiohttp"},
	{name: "starlette", kind: "python", debian: "python3-starlette"},
	{name: "tornado", kind: "python", debian: "python3-tornado"},
	{name: "php", kind: "php", debian: "php-cli"},
	{name: "sinatra", kind: "ruby", debian: "ruby-sinatra"},
}

// servers are the Debian packages that serve Python's and Ruby's apps.
var servers = map[string][]string{
	"python": {"python3-gunicorn", "python3-uvicorn", "python3-multipart"},
	"ruby":   {"puma"},
}

// modules are the Python modules that a parser needs.
var modules = map[string]string{
	"flask":     "flask, gunicorn",
	"django":    "django, gunicorn",
	"bottle":    "bottle, gunicorn",
	"aiohttp":   "aiohttp",
	"starlette": "starlette, multipart, uvicorn",
	"tornado":   "tornado",
}

// tools finds what the parsers need, and installs it where it may.
type tools struct {
	node, nodeLacks string
	python          map[string]string // the interpreter that has a parser's modules
}

// install finds what the parsers need. Debian's packages are installed if that is possible and wanted. npm's are
// those of node/package-lock.json.
func install(ctx context.Context, wanted []parser, packages bool) (*tools, error) {
	t := &tools{}
	uses := func(kind string) bool {
		return slices.ContainsFunc(wanted, func(p parser) bool { return p.kind == kind })
	}
	if uses("node") {
		var err error
		if t.node, t.nodeLacks, err = node.Ready(ctx, filepath.Join(folder, "node")); err != nil {
			return nil, err
		}
	}
	t.findPython(ctx, wanted)
	var missing []string
	for _, p := range wanted {
		if t.missing(p) != "" && p.debian != "" {
			missing = append(append(missing, p.debian), servers[p.kind]...)
		}
	}
	if len(missing) > 0 && packages {
		slices.Sort(missing)
		aptInstall(ctx, slices.Compact(missing))
		t.findPython(ctx, wanted)
	}
	return t, nil
}

// findPython asks the interpreters of the machine which of the modules they have. Debian's comes first.
func (t *tools) findPython(ctx context.Context, wanted []parser) {
	t.python = map[string]string{}
	for _, p := range wanted {
		if p.kind != "python" {
			continue
		}
		for _, python := range []string{"/usr/bin/python3", "python3"} {
			if exec.CommandContext(ctx, python, "-c", "import "+modules[p.name]).Run() == nil {
				t.python[p.name] = python
				break
			}
		}
	}
}

// missing returns what the machine lacks for a parser, "" if nothing.
func (t *tools) missing(p parser) string {
	switch p.kind {
	case "node":
		return t.nodeLacks
	case "python":
		if t.python[p.name] == "" {
			return "no python3 has the modules " + modules[p.name]
		}
	case "php":
		if _, err := exec.LookPath("php"); err != nil {
			return "php is not installed"
		}
	case "ruby":
		if _, err := exec.LookPath("puma"); err != nil {
			return "puma is not installed"
		}
		if err := exec.Command("ruby", "-rsinatra/base", "-e", "").Run(); err != nil {
			return "Ruby has no sinatra"
		}
	}
	return ""
}

// command returns the command that serves a parser on an address.
func (t *tools) command(p parser, address string) []string {
	port := address[strings.LastIndexByte(address, ':')+1:]
	switch p.kind {
	case "node":
		return []string{t.node, "parsers.mjs", p.name, port}
	case "python":
		return []string{t.python[p.name], "-B", "parsers.py", p.name, port}
	case "php":
		return []string{"php", "-S", address, "parsers.php"}
	case "ruby":
		return []string{"puma", "-q", "-e", "production", "-t", "8:8", "-b", "tcp://" + address, "parsers.ru"}
	}
	return nil
}

// aptInstall installs Debian packages if there is apt-get and this runs as root. What it cannot install is found
// missing afterwards.
func aptInstall(ctx context.Context, packages []string) {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	get := func(args ...string) error {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	fmt.Printf("installing %s\n", strings.Join(packages, " "))
	begin := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if get(begin...) == nil {
		return
	}
	// The lists of packages may be old, or may never have been fetched.
	if err := get("update"); err != nil {
		fmt.Println(err)
		return
	}
	if err := get(begin...); err != nil {
		fmt.Println(err)
	}
}
