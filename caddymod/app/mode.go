// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import "github.com/caddy-moderation/caddy-moderation/storage"

// Mode says how a store that several nodes share works now. A store of one node has none.
type Mode string

// The modes.
const (
	// Normal means that the store's server answers.
	Normal Mode = "normal"
	// Local means that it cannot be reached, and that this node admits requests by the counts that it knows.
	Local Mode = "local"
	// Deny means that it cannot be reached, and that requests are refused.
	Deny Mode = "deny"
	// Allow means that it cannot be reached, and that all requests are admitted.
	Allow Mode = "allow"
)

// GoesOn reports whether requests are admitted although the store's server cannot be reached.
func (m Mode) GoesOn() bool { return m == Local || m == Allow }

// modeTeller is a store with modes. Package storage/redis has one.
type modeTeller interface{ Mode() string }

// modeOf returns the mode of a store, empty if it has none.
func modeOf(store storage.Store) Mode {
	if teller, ok := store.(modeTeller); ok {
		return Mode(teller.Mode())
	}
	return ""
}

// severity orders modes, the worst last.
func (m Mode) severity() int {
	switch m {
	case "":
		return 0
	case Normal:
		return 1
	case Local:
		return 2
	case Allow:
		return 3
	}
	return 4
}
