// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest_test

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

func openMemory(*testing.T) (storage.Store, func() storage.Store) {
	return storagetest.NewMemory(), nil
}

func TestMemoryHasTheProperties(t *testing.T) {
	t.Parallel()
	storagetest.RunProperties(t, openMemory)
}

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, openMemory)
}
