// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package schema1 holds, for tests, what the last version with schema 1 wrote. Its README says how it was made.
package schema1

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed databases.tar.gz backup.gz golden.json.gz
var files embed.FS

// Read returns one of the files, unzipped: "backup", "golden.json" or "databases.tar".
func Read(t testing.TB, name string) []byte {
	t.Helper()
	f, err := files.Open(name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Database returns a directory with a copy of one of the databases, "closed" or "killed".
func Database(t testing.TB, which string) string {
	t.Helper()
	dir := t.TempDir()
	archive := tar.NewReader(bytes.NewReader(Read(t, "databases.tar")))
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return filepath.Join(dir, which)
		}
		if err == nil && strings.HasPrefix(h.Name, which) {
			path := filepath.Join(dir, filepath.FromSlash(h.Name))
			if h.Typeflag == tar.TypeDir {
				err = os.MkdirAll(path, 0o700)
			} else {
				err = writeSparse(path, archive, h.Size)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// writeSparse leaves out blocks of zeros: the logs of a database that was killed are 48 MiB of them.
func writeSparse(path string, from io.Reader, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var block, zeros [4096]byte
	for at := int64(0); at < size; at += int64(len(block)) {
		n, err := io.ReadFull(from, block[:min(size-at, int64(len(block)))])
		if err != nil {
			return err
		}
		if bytes.Equal(block[:n], zeros[:n]) {
			continue
		}
		if _, err := f.WriteAt(block[:n], at); err != nil {
			return err
		}
	}
	return f.Truncate(size)
}
