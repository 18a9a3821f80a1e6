// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// sharedVariable makes the test binary look at its mounts, which are shared with the processes that it starts.
const sharedVariable = "CADDY_MODERATION_RUNBOOK_SHARED"

// TestLackingMountsNothingOutside guards the machine: with systemd its mounts are shared, and what is mounted over
// /var/lib in a namespace to see whether that is possible would hide the machine's own.
func TestLackingMountsNothingOutside(t *testing.T) {
	t.Parallel()
	if os.Getenv(sharedVariable) != "" {
		before := mounts(t)
		if why := new(options).lacking(t.Context()); why != "" {
			t.Skip(why)
		}
		if after := mounts(t); after != before {
			t.Errorf("the mounts of the machine were\n%s\nand are\n%s", before, after)
		}
		return
	}
	// The first namespace keeps the machine safe from this test.
	const command = `mount --make-rshared / && exec "$0" -test.v -test.run "^$1\$"`
	again := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c", command,
		os.Args[0], t.Name())
	again.Env = append(os.Environ(), sharedVariable+"=1")
	out, err := again.CombinedOutput()
	switch {
	case strings.Contains(string(out), "--- FAIL"):
		t.Errorf("%s", out)
	case err != nil || !strings.Contains(string(out), "--- PASS"):
		t.Skipf("no namespaces can be made here: %v\n%s", err, out)
	}
}

// mounts returns the mounts that this process sees, without those of other tests, which come and go in the folder for
// temporary files.
func mounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var own strings.Builder
	for line := range strings.Lines(string(text)) {
		if at := strings.Fields(line); len(at) > 4 && !strings.HasPrefix(at[4], os.TempDir()) {
			own.WriteString(line)
		}
	}
	return own.String()
}
