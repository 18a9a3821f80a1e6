// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// nodeFolder holds the scripts and their package.json, from the root of the repository.
const nodeFolder = "scripts/clients/node"

// script is a client that is a Node program. It prints its checks as lines "ok: what", "FAIL: what: why" and "skip: what:
// why", see node/harness.mjs, and finds the site in its environment.
func script(name string) func(context.Context, *report, *site) error {
	return func(ctx context.Context, r *report, s *site) error {
		node, why, err := nodeReady(ctx)
		if err != nil {
			return err
		}
		p := &program{command: []string{node, name}, dir: nodeFolder, lacks: why}
		p.env = append(os.Environ(), "SITE="+s.URL, "SITE_TLS="+s.TLS, "SITE_PIN="+s.Pin, "APP="+s.app.URL, "FINE="+fine, "VILE="+vile,
			"FINE_STORY="+fineStory, "FOLDER="+s.folder)
		return p.report(ctx, r)
	}
}

// unreachable is what npm says when the machine has no way to the registry.
var unreachable = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED|E403|E502|E503|CERT`)

// nodeReady finds Node and installs the packages that package-lock.json names, unless they are there. Why is not empty when
// the machine lacks something.
func nodeReady(ctx context.Context) (node, why string, err error) {
	if node, err = exec.LookPath("node"); err != nil {
		return "", "node is not installed", nil
	}
	version, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return "", "", err
	}
	var major int
	if _, err := fmt.Sscanf(string(version), "v%d", &major); err != nil {
		return "", "", fmt.Errorf("node --version printed %q", version)
	}
	if major < 20 {
		return "", fmt.Sprintf("node is %s, 20 or newer is needed", strings.TrimSpace(string(version))), nil
	}
	lock, err := os.ReadFile(filepath.Join(nodeFolder, "package-lock.json"))
	if err != nil {
		return "", "", err
	}
	stamp := filepath.Join(nodeFolder, "node_modules", ".installed")
	if installed, err := os.ReadFile(stamp); err == nil && string(installed) == hashOf(lock) {
		return node, "", nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", "npm is not installed", nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	// No package gets to run anything at its installation.
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=60000")
	cmd.Dir = nodeFolder
	if out, err := cmd.CombinedOutput(); err != nil {
		if unreachable.Match(out) {
			return "", "the npm registry is out of reach", nil
		}
		return "", "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return node, "", os.WriteFile(stamp, []byte(hashOf(lock)), 0o600)
}
