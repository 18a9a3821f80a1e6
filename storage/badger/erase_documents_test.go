// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
)

// holders returns the files of a directory that hold a text.
func holders(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && entry.IsDir() {
			return nil // a file may go while its directory is read
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			names = append(names, entry.Name())
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestErasedDocumentsLeaveTheFiles guards against what people wrote that stays in files after its erasure, in a value
// that was replaced before, too.
func TestErasedDocumentsLeaveTheFiles(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	s := openDir(t, dir)
	const first, second = "the first secret of a person", "the second secret of a person"
	change := func(c documents.Change) {
		t.Helper()
		if err := s.ChangeDocuments(ctx, "review", c); err != nil {
			t.Fatal(err)
		}
	}
	change(documents.Change{Key: "item", Value: []byte(first)})
	change(documents.Change{Key: "item", Value: []byte(second)})
	change(documents.Change{Key: "other", Value: []byte("what stays")})
	if len(holders(t, dir, first)) == 0 || len(holders(t, dir, second)) == 0 {
		t.Fatal("no file holds the texts before they are erased: the test sees nothing")
	}
	change(documents.Change{Key: "item", Delete: true, Erase: true})
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left := append(holders(t, dir, first), holders(t, dir, second)...)
		if len(left) == 0 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("a minute after the erasure %s still hold the text", strings.Join(left, ", "))
		}
	}
	found, err := s.Documents(ctx, "review", "item", "other")
	if err != nil || found[0].Revision != 0 || string(found[1].Value) != "what stays" {
		t.Errorf("after the erasure: got %+v, %v; want only the other document", found, err)
	}
}
