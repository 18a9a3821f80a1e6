// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// target is a system that a release is built for.
type target struct {
	name     string // such as linux/armv7
	os, arch string // GOOS and GOARCH
	arm      string // GOARM
	deb, rpm string // the names of the machine in packages; empty without them
}

var targets = []target{
	{name: "linux/amd64", os: "linux", arch: "amd64", deb: "amd64", rpm: "x86_64"},
	{name: "linux/arm64", os: "linux", arch: "arm64", deb: "arm64", rpm: "aarch64"},
	{name: "linux/armv7", os: "linux", arch: "arm", arm: "7", deb: "armhf", rpm: "armv7hl"},
	{name: "darwin/amd64", os: "darwin", arch: "amd64"},
	{name: "darwin/arm64", os: "darwin", arch: "arm64"},
	{name: "windows/amd64", os: "windows", arch: "amd64"},
	{name: "windows/arm64", os: "windows", arch: "arm64"},
}

// program is the name of the target's program.
func (t target) program() string {
	if t.os == "windows" {
		return "caddy.exe"
	}
	return "caddy"
}

func targetNames(of []target) []string {
	var names []string
	for _, t := range of {
		names = append(names, t.name)
	}
	return names
}

// chooseTargets returns the targets with the names that are given, separated by commas; all of them for "".
func chooseTargets(only string) ([]target, error) {
	if only == "" {
		return targets, nil
	}
	var chosen []target
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(targets, func(t target) bool { return t.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: no system %q; there are %s", name, strings.Join(targetNames(targets), ", "))
		}
		if !slices.Contains(targetNames(chosen), name) {
			chosen = append(chosen, targets[i])
		}
	}
	return chosen, nil
}

// versionPattern is that of semver.org, without what Go does not allow in the version of a module: build metadata.
var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?$`)

// checkVersion reports what keeps a version from being that of a release.
func checkVersion(version string) error {
	found := versionPattern.FindStringSubmatch(version)
	switch {
	case found == nil:
		return fmt.Errorf("%q is no version such as v0.1.0 or v0.1.0-rc.1 (semver.org, without build metadata)", version)
	case found[1] != "0" && found[1] != "1":
		return fmt.Errorf("%s: Go wants /v%s at the end of the module's path first", version, found[1])
	}
	return nil
}
