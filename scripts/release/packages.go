// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// writePackages packs a target of Linux as a Debian and an RPM package, as packaging/nfpm.yaml says.
func (r *release) writePackages(ctx context.Context, t target) error {
	if t.deb == "" {
		return nil
	}
	staged, err := r.stage(t)
	if err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(r.source.folder, "packaging", "nfpm.yaml"))
	if err != nil {
		return err
	}
	values := map[string]string{
		"VERSION": r.version,
		"TIME":    r.source.time.Format(time.RFC3339),
		"SOURCE":  filepath.ToSlash(filepath.Join(r.source.folder, "packaging")),
		"STAGED":  filepath.ToSlash(staged),
	}
	number := packageVersion(r.version)
	packages := []struct{ kind, arch, name, license string }{
		// Debian has the licence in a file, and no field for it.
		{"deb", t.deb, fmt.Sprintf("caddy-moderation_%s_%s.deb", number, t.deb), ""},
		{"rpm", t.rpm, fmt.Sprintf("caddy-moderation-%s.%s.rpm", number, t.rpm), "Apache-2.0"},
	}
	for _, p := range packages {
		values["ARCH"], values["LICENSE"] = p.arch, p.license
		unknown := ""
		expanded := os.Expand(string(config), func(name string) string {
			value, ok := values[name]
			if !ok {
				unknown = name
			}
			return value
		})
		if unknown != "" {
			return fmt.Errorf("packaging/nfpm.yaml: there is no ${%s}", unknown)
		}
		file := filepath.Join(r.work, "nfpm-"+p.kind+".yaml")
		if err := os.WriteFile(file, []byte(expanded), 0o644); err != nil {
			return err
		}
		err := r.runTool(ctx, "nfpm.mod", "github.com/goreleaser/nfpm/v2/cmd/nfpm", "package", "--packager", p.kind, "--config", file,
			"--target", filepath.Join(r.out, p.name))
		if err != nil {
			return err
		}
	}
	return nil
}

// packageVersion is how a version is written in packages: v0.1.0-rc.1 is 0.1.0~rc.1-1, which is older than 0.1.0-1. The
// last number is that of the packaging.
func packageVersion(version string) string {
	return strings.Replace(strings.TrimPrefix(version, "v"), "-", "~", 1) + "-1"
}

// stage puts the files of a package that are not in the checkout into a folder, under the names that nfpm.yaml gives
// them: the program, its manual pages, compressed as Debian wants them, its completions, and the changelog.
func (r *release) stage(t target) (string, error) {
	staged := filepath.Join(r.work, "staged", filepath.Base(filepath.Dir(r.binary(t))))
	if err := os.MkdirAll(filepath.Join(staged, "man"), 0o755); err != nil {
		return "", err
	}
	help := r.helpFolder("caddy-moderation")
	copies := map[string]string{
		"caddy":                   r.binary(t),
		"completion.bash":         filepath.Join(help, "completion", "caddy-moderation.bash"),
		"completion.zsh":          filepath.Join(help, "completion", "_caddy-moderation"),
		"completion.fish":         filepath.Join(help, "completion", "caddy-moderation.fish"),
		"NOTICE":                  filepath.Join(r.source.folder, "NOTICE"),
		"Caddyfile.example":       filepath.Join(r.source.folder, "Caddyfile.example"),
		"changelog.gz":            filepath.Join(r.source.folder, "CHANGELOG.md"),
		"third-party-licenses.gz": r.licenses(),
	}
	pages, err := os.ReadDir(filepath.Join(help, "man"))
	if err != nil {
		return "", err
	}
	for _, page := range pages {
		copies[filepath.Join("man", page.Name()+".gz")] = filepath.Join(help, "man", page.Name())
	}
	changes := filepath.Join(r.work, "changelog.Debian")
	entry := fmt.Sprintf("caddy-moderation (%s) unstable; urgency=medium\n\n  * Version %s. changelog.gz has its changes.\n\n"+
		" -- The caddy-moderation authors <caddy-moderation@users.noreply.github.com>  %s\n",
		packageVersion(r.version), r.number(), r.source.time.Format(time.RFC1123Z))
	if err := os.WriteFile(changes, []byte(entry), 0o644); err != nil {
		return "", err
	}
	copies["changelog.Debian.gz"] = changes
	for name, from := range copies {
		content, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if filepath.Dir(name) == "man" {
			content = renameExamples(content)
		}
		if strings.HasSuffix(name, ".gz") {
			if content, err = compress(content); err != nil {
				return "", err
			}
		}
		if err := os.WriteFile(filepath.Join(staged, name), content, 0o755); err != nil {
			return "", err
		}
	}
	return staged, nil
}

// renameExamples has the examples of a manual page call the program as the packages do: the program's texts call it
// caddy. The page of the whole program gets the line by which "man -k" finds it.
func renameExamples(page []byte) []byte {
	page = bytes.Replace(page, []byte("\ncaddy-moderation -\n"),
		[]byte("\ncaddy-moderation - the Caddy web server with content moderation\n"), 1)
	return bytes.ReplaceAll(page, []byte("caddy moderation "), []byte("caddy-moderation moderation "))
}

// compress returns the content compressed by gzip, without a name and a time.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
