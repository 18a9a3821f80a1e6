// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package node installs the npm packages that programs of this repository need, as their lock files pin them.
package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// unreachable matches what npm prints when the registry is out of reach.
var unreachable = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED|E403|E502|E503|CERT`)

// Ready finds Node and installs the packages of the package-lock.json in a folder unless they are installed. It returns
// the path of node. If the machine lacks something, why says what.
func Ready(ctx context.Context, folder string) (node, why string, err error) {
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
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return "", "", err
	}
	stamp := filepath.Join(folder, "node_modules", ".installed")
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	if installed, err := os.ReadFile(stamp); err == nil && string(installed) == want {
		return node, "", nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", "npm is not installed", nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	// No package may run anything when it is installed.
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1",
		"--fetch-timeout=60000")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		if unreachable.Match(out) {
			return "", "the npm registry is out of reach", nil
		}
		return "", "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return node, "", os.WriteFile(stamp, []byte(want), 0o600)
}
