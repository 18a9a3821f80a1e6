// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// licenses is where the licences of others are collected.
func (r *release) licenses() string { return filepath.Join(r.work, "THIRD_PARTY_LICENSES.txt") }

// licenseFile matches the names of files that have to be passed on with a program.
var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([-._].*)?$`)

// writeLicenses collects the licences of everything that the programs contain: of Go itself and of every module. Equal
// texts stand there once. A module without one keeps the release from being made.
func (r *release) writeLicenses(ctx context.Context, of []target) error {
	contained := map[string]bool{}
	for _, t := range of {
		info, err := buildinfo.ReadFile(r.binary(t))
		if err != nil {
			return err
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				return fmt.Errorf("%s: the module %s is replaced; a release contains modules as they were published", t.name, m.Path)
			}
			if m.Path != module {
				contained[m.Path] = true
			}
		}
	}
	answer, err := r.output(ctx, r.main(), r.moduleEnv(), "go", "list", "-m", "-json=Path,Version,Dir", "all")
	if err != nil {
		return err
	}
	root, err := r.output(ctx, r.main(), nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	type text struct {
		of      []string
		content string
	}
	texts := map[string]*text{}
	collect := func(name, folder string) error {
		files, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		found := false
		for _, f := range files {
			if !f.Type().IsRegular() || !licenseFile.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
				continue
			}
			content, err := os.ReadFile(filepath.Join(folder, f.Name()))
			if err != nil {
				return err
			}
			found = true
			// Texts that differ only in white space are one.
			key := strings.Join(strings.Fields(string(content)), " ")
			if texts[key] == nil {
				texts[key] = &text{content: strings.ReplaceAll(strings.Trim(string(content), "\r\n"), "\r\n", "\n")}
			}
			texts[key].of = append(texts[key].of, name+": "+f.Name())
		}
		if !found {
			return fmt.Errorf("%s has no file with its licence in %s", name, folder)
		}
		return nil
	}
	if err := collect("Go's standard library, "+r.source.goVersion, root); err != nil {
		return err
	}
	for decoder := json.NewDecoder(strings.NewReader(answer)); ; {
		var m struct{ Path, Version, Dir string }
		if err := decoder.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if !contained[m.Path] {
			continue
		}
		delete(contained, m.Path)
		if err := collect(m.Path+" "+m.Version, m.Dir); err != nil {
			return err
		}
	}
	for name := range contained {
		return fmt.Errorf("the module %s is in a program, and the go command does not know it", name)
	}
	sorted := make([]*text, 0, len(texts))
	for _, t := range texts {
		sort.Strings(t.of)
		sorted = append(sorted, t)
	}
	sort.Slice(sorted, func(i, k int) bool { return sorted[i].of[0] < sorted[k].of[0] })

	var out strings.Builder
	out.WriteString("Licences and notices of the modules that the program contains, and of Go's standard library.\n" +
		"LICENSE and NOTICE are those of caddy-moderation itself.\n")
	for _, t := range sorted {
		fmt.Fprintf(&out, "\n%s\n\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(t.of, "\n"), t.content)
	}
	return os.WriteFile(r.licenses(), []byte(out.String()), 0o644)
}

// writeSBOM writes what the target's program contains, in the CycloneDX format.
func (r *release) writeSBOM(ctx context.Context, t target) error {
	return r.runTool(ctx, "sbom.mod", "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod",
		"bin", "-json", "-std", "-licenses", "-noserial", "-notimestamp",
		"-version", r.version, "-output", filepath.Join(r.out, r.base(t)+".cdx.json"), r.binary(t))
}
