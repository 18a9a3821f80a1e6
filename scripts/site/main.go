// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command site makes a website of the documentation: of README.md, CHANGELOG.md, CONTRIBUTING.md, SECURITY.md and
// everything in docs.
//
//	go run ./scripts/site -out DIR
//
// The pages need no server and no network: they can be read from the disk, search included. A link to a page, to a
// heading or to a file that does not exist ends the program with status 1 and a line for each, with file and line. The
// same sources always give the same bytes.
//
// A page that sections in nav.go does not list stands under "More".
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// marker is a file in a folder that this program has written: it may be written anew.
const marker = ".caddy-moderation-site"

func main() {
	out := flag.String("out", "", "the `folder` to write; what an earlier run wrote there is replaced")
	root := flag.String("root", ".", "the root of the repository")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/site -out DIR [-root DIR]")
		os.Exit(2)
	}
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root, out string) error {
	files, err := build(root)
	if err != nil {
		return err
	}
	if err := empty(out); err != nil {
		return err
	}
	files[marker] = []byte("Written by go run ./scripts/site, which replaces this folder.\n")
	for name, content := range files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d files in %s; open %s\n", len(files), out, filepath.Join(out, "index.html"))
	return nil
}

// empty removes what an earlier run wrote, and refuses a folder with anything else.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, marker)); err != nil {
		return fmt.Errorf("%s holds files that this program did not write; name an empty folder", dir)
	}
	return os.RemoveAll(dir)
}
