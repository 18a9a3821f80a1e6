// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// TestUsageIsThatOfTheDisk guards against counting holes: the files of the database are sparse.
func TestUsageIsThatOfTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "written"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "sparse"), 1<<30); err != nil {
		t.Fatal(err)
	}
	u, err := disk.UsageOf(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil || u.Free == 0 {
		t.Errorf("usage: got %d bytes free, error %v", u.Free, err)
	}
	// Some file systems compress, or allocate late, or in large blocks.
	if u.Used > 100<<20 {
		t.Errorf("usage: got %d bytes of about 100,000 that are written", u.Used)
	}
	if _, err := disk.UsageOf(filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("usage of a missing directory: got error %v, want that it does not exist", err)
	}
}
