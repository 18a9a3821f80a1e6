// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // with slashes
	path string // where its content is
	exec bool
}

// shipped are files and folders of the checkout that every archive holds. The pages name them by these paths.
var shipped = []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "SECURITY.md", "Caddyfile.example", "docs", "examples"}

// writeArchive packs a target's program with what belongs to it: as .zip for Windows, else as .tar.gz.
func (r *release) writeArchive(_ context.Context, t target) error {
	entries := []entry{
		{name: t.program(), path: r.binary(t), exec: true},
		{name: "THIRD_PARTY_LICENSES.txt", path: r.licenses()},
	}
	for _, name := range shipped {
		found, err := entriesBelow(name, filepath.Join(r.source.folder, name))
		if err != nil {
			return err
		}
		for _, e := range found {
			if !strings.HasSuffix(e.name, ".go") { // the tests of the pages
				entries = append(entries, e)
			}
		}
	}
	if t.os != "windows" {
		for _, kind := range []string{"man", "completion"} {
			found, err := entriesBelow(kind, filepath.Join(r.helpFolder("caddy"), kind))
			if err != nil {
				return err
			}
			entries = append(entries, found...)
		}
	}
	sort.Slice(entries, func(i, k int) bool { return entries[i].name < entries[k].name })

	var packed bytes.Buffer
	write, ending := writeTar, ".tar.gz"
	if t.os == "windows" {
		write, ending = writeZip, ".zip"
	}
	if err := write(&packed, r.base(t), entries, r.source.time); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.base(t)+ending), packed.Bytes(), 0o644)
}

// entriesBelow returns the file at the path, or all files of the folder there, under a name.
func entriesBelow(name, at string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(at, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rest, err := filepath.Rel(at, file)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: path.Join(name, filepath.ToSlash(rest)), path: file})
		return nil
	})
	return entries, err
}

// writeTar writes the files below a folder, all with one time, and owned by root.
func writeTar(w io.Writer, folder string, entries []entry, at time.Time) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zipped)
	made := map[string]bool{}
	for _, e := range entries {
		name := path.Join(folder, e.name)
		for _, parent := range parents(name) {
			if made[parent] {
				continue
			}
			made[parent] = true
			err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: parent + "/", Mode: 0o755, ModTime: at,
				Uname: "root", Gname: "root", Format: tar.FormatUSTAR})
			if err != nil {
				return err
			}
		}
		content, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if e.exec {
			mode = 0o755
		}
		err = archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)),
			ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatUSTAR})
		if err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

// parents are the folders that a file is in, the outermost first.
func parents(name string) []string {
	var found []string
	for i, c := range name {
		if c == '/' {
			found = append(found, name[:i])
		}
	}
	return found
}

// writeZip writes the files below a folder, all with one time.
func writeZip(w io.Writer, folder string, entries []entry, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, e := range entries {
		content, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: path.Join(folder, e.name), Method: zip.Deflate, Modified: at}
		header.SetMode(0o644)
		if e.exec {
			header.SetMode(0o755)
		}
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeSums writes SHA256SUMS, which "sha256sum --check" reads, over all files of a folder.
func writeSums(folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), f.Name())
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// list prints the files of a folder with their sizes.
func list(w io.Writer, folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, folder)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%12d  %s\n", info.Size(), f.Name())
	}
	return nil
}
