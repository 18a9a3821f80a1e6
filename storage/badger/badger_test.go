// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// openDir opens a store that is closed when the test ends.
func openDir(t testing.TB, dir string) *badger.Store {
	t.Helper()
	s, err := badger.Open(badger.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestBadgerConforms(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) (storage.Store, func() storage.Store) {
		dir := t.TempDir()
		s := openDir(t, dir)
		return s, func() storage.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openDir(t, dir)
			return s
		}
	})
}
