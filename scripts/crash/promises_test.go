// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"testing"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/promises"
)

// promising are the sections that promise what is kept.
var promising = []promises.Section{
	{File: "README.md", Title: "What survives"},
	{File: "docs/operations.md", Title: "Backup and restore"},
	{File: "docs/operations.md", Title: "Upgrade"},
	{File: "docs/operations.md", Title: "Reload"},
	{File: "docs/operations.md", Title: "What survives"},
	{File: "docs/operations.md", Title: "Disk"},
	{File: "docs/operations.md", Title: "Health"},
}

// TestEverySentenceIsTried guards against promises that nothing tries to break, and against promises that were
// changed after something tried to break them.
func TestEverySentenceIsTried(t *testing.T) {
	t.Parallel()
	names := make([]string, 0, len(rounds))
	for _, r := range rounds {
		names = append(names, r.name)
	}
	promises.Check(t, "promises.txt", promising, names)
}
