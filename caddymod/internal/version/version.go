// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package version tells which version of this project is in the program.
package version

import "runtime/debug"

// Module is the path of this project's Go module.
const Module = "github.com/caddy-moderation/caddy-moderation"

// Unknown is the version of a program that was built from a checkout without anything that names its version.
const Unknown = "devel"

// linked is what "xcaddy.sh build" has the linker put here: what "git describe" says of the checkout. It is used only
// where the go command does not know the version, because the checkout takes the place of the module.
var linked string

// Version returns the version of this project that the program contains:
//
//   - of a release, and of a build with "xcaddy build --with ...", the version of the Go module, such as "v0.1.0" or
//     "v0.0.0-20261122205200-4f6ea2b00000";
//   - of "./xcaddy.sh build", what "git describe" says of the checkout, such as "v0.1.0-3-g4f6ea2b-dirty" or "4f6ea2b";
//   - else [Unknown].
//
// It is never empty and the same for as long as the program runs.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return of(info, linked)
}

// of returns the version that the build information names, else the one that was linked in. info may be nil.
func of(info *debug.BuildInfo, linked string) string {
	if info != nil {
		for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
			// What replaces a module has the version that was asked for, not the one that was built.
			if m.Path == Module && m.Replace == nil && m.Version != "" && m.Version != "(devel)" {
				return m.Version
			}
		}
	}
	if linked != "" {
		return linked
	}
	return Unknown
}
