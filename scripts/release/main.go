// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command release builds the files of a release from the commit that is checked out: for each system an archive, for
// Linux a Debian and an RPM package, for each program a list of what is in it (SBOM), and the checksums of them all.
//
//	packaging/release.sh v0.1.0                             writes dist/v0.1.0
//	packaging/release.sh -only linux/amd64 v0.1.0 /tmp/out  writes the files of one system to /tmp/out
//
// The same commit, version and Go give the same bytes, on any machine and in any folder: times are those of the commit,
// and paths are left out. The program is built from the module at its version, as "xcaddy build --with" does once the
// version is published, and with exactly the versions that go.mod names.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	only := flag.String("only", "", "build only these `systems`, separated by commas, such as linux/amd64,linux/armv7")
	callers := flag.String("relative-to", ".", "the `folder` that relative names stand in; release.sh gives its caller's")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: packaging/release.sh [-only <systems>] <version> [<folder>]")
		flag.PrintDefaults()
		fmt.Fprintln(os.Stderr, "systems:", strings.Join(targetNames(targets), ", "))
	}
	flag.Parse()
	if flag.NArg() < 1 || flag.NArg() > 2 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, ".", *only, flag.Arg(0), inFolder(*callers, flag.Arg(1))); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// inFolder returns the path as it is seen from a folder; "" stays what it is.
func inFolder(folder, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// run builds the release version of the checkout root into the folder out.
func run(ctx context.Context, root, only, version, out string) error {
	if err := checkVersion(version); err != nil {
		return err
	}
	chosen, err := chooseTargets(only)
	if err != nil {
		return err
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(root, "dist", version)
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("%s exists; a release is never written over another: remove it or name another folder", out)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	// The folder gets its name when it is complete.
	unfinished, err := os.MkdirTemp(filepath.Dir(out), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished)
	work, err := os.MkdirTemp("", "caddy-moderation-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	r := &release{version: version, root: root, work: work, out: unfinished}
	if err := r.build(ctx, chosen); err != nil {
		return err
	}
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return err
	}
	if err := os.Rename(unfinished, out); err != nil {
		return err
	}
	fmt.Printf("\n%s of commit %s, built by %s, module %s:\n", version, r.source.commit, r.source.goVersion, r.source.sum)
	return list(os.Stdout, out)
}

// release is one run.
type release struct {
	version string // such as v0.1.0
	root    string // the checkout
	work    string // a folder for what is not shipped
	out     string // the folder of the files
	source  source
}

// build makes every file.
func (r *release) build(ctx context.Context, chosen []target) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.writeHelp(ctx); err != nil {
		return err
	}
	for _, t := range chosen {
		say("building %s", t.name)
		if err := r.compile(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if err := r.writeLicenses(ctx, chosen); err != nil {
		return err
	}
	for _, t := range chosen {
		say("packing %s", t.name)
		for _, step := range []func(context.Context, target) error{r.writeArchive, r.writeSBOM, r.writePackages} {
			if err := step(ctx, t); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	return writeSums(r.out)
}

// number is the version without the "v", as it stands in the names of files.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// base is the start of the names of the target's files.
func (r *release) base(t target) string {
	return fmt.Sprintf("caddy-moderation_%s_%s", r.number(), strings.ReplaceAll(t.name, "/", "_"))
}

// binary is where the target's program is built.
func (r *release) binary(t target) string {
	return filepath.Join(r.work, "bin", strings.ReplaceAll(t.name, "/", "_"), t.program())
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...) }
