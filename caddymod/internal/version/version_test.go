// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

// TestVersion guards against a program that names a version which it does not contain.
func TestVersion(t *testing.T) {
	t.Parallel()
	caddy := &debug.Module{Path: "github.com/caddyserver/caddy/v2", Version: "v2.11.9"}
	ours := func(version string, replace *debug.Module) *debug.Module {
		return &debug.Module{Path: Module, Version: version, Replace: replace}
	}
	build := func(main *debug.Module, deps ...*debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{Main: *main, Deps: deps}
	}
	server := &debug.Module{Path: "caddy", Version: "(devel)"}
	for _, test := range []struct {
		name   string
		info   *debug.BuildInfo
		linked string
		want   string
	}{
		{"no build information", nil, "", "devel"},
		{"no build information, linked", nil, "4f6ea2b", "4f6ea2b"},
		{"not in it", build(server, caddy), "", "devel"},
		{"release", build(server, caddy, ours("v0.1.0", nil)), "", "v0.1.0"},
		{"release, and something linked", build(server, caddy, ours("v0.1.0", nil)), "v9.9.9", "v0.1.0"},
		{"commit", build(server, ours("v0.0.0-20261122205200-4f6ea2b00000", nil)), "", "v0.0.0-20261122205200-4f6ea2b00000"},
		{"replaced by a checkout", build(server, caddy, ours("v0.1.0", &debug.Module{Path: "/src"})), "", "devel"},
		{"replaced by a checkout, linked", build(server, ours("v0.1.0", &debug.Module{Path: "/src"})), "v0.2.0-dirty", "v0.2.0-dirty"},
		{"replaced by a fork", build(server, ours("v0.1.0", &debug.Module{Path: "example.com/fork", Version: "v7.0.0"})), "", "devel"},
		{"a program of the checkout", build(ours("(devel)", nil), caddy), "", "devel"},
		{"a program of the checkout without a version", build(ours("", nil), caddy), "", "devel"},
		{"a program of a tagged commit", build(ours("v0.1.0+dirty", nil), caddy), "", "v0.1.0+dirty"},
		{"another module below the same path", build(server, &debug.Module{Path: Module + "/tools", Version: "v3.0.0"}), "", "devel"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := of(test.info, test.linked); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if Version() == "" {
		t.Error("the version of this program is empty")
	}
}

// TestModule guards against a module path that is not that of go.mod: no version would ever be found.
func TestModule(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^module (\S+)$`).FindSubmatch(data)
	if found == nil || string(found[1]) != Module {
		t.Errorf("go.mod names %q, this package %q", found, Module)
	}
}
