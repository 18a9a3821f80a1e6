// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/node"
)

// The programs of docs/fixed-hosts.md have the host of Google or of OpenAI in their code. Nothing of them is changed: a
// server of their own gets these names, by the commands and the configuration of that page. This needs port 443, a file
// /etc/hosts and a network of its own, which a namespace has.

// inNamespace is the first argument of this program where it runs in the namespace. The others are the server, a folder
// for its files, and node, which is empty if there is none.
const inNamespace = "fixed-hosts-in-namespace"

// fixedHosts runs the programs in a namespace.
func fixedHosts(ctx context.Context, r *report, s *site) error {
	if runtime.GOOS != "linux" {
		r.skip("all", "namespaces are a part of Linux")
		return nil
	}
	for _, needed := range []string{"unshare", "mount", "openssl", "bash"} {
		if _, err := exec.LookPath(needed); err != nil {
			r.skip("all", needed+" is not installed")
			return nil
		}
	}
	enter := []string{"unshare", "--mount", "--net"}
	if os.Geteuid() != 0 {
		enter = append(enter, "--map-root-user")
	}
	if out, err := exec.CommandContext(ctx, enter[0], append(enter[1:], "true")...).CombinedOutput(); err != nil {
		r.skip("all", fmt.Sprintf("the machine permits no namespaces: %s", out))
		return nil
	}
	// Packages are downloaded now: in the namespace there is no network.
	nodeBinary, why, err := node.Ready(ctx, nodeFolder)
	if err != nil {
		return err
	}
	if why != "" {
		r.skip("Node", why)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(s.folder, "fixed-hosts-")
	if err != nil {
		return err
	}
	p := &program{command: append(enter, self, inNamespace, s.binary, folder, nodeBinary), env: os.Environ()}
	return p.report(ctx, r)
}

// fence is the text of the first block of code of a language on a page.
func fence(page, language string) (string, error) {
	_, after, ok := strings.Cut(page, "\n```"+language+"\n")
	block, _, closed := strings.Cut(after, "\n```\n")
	if !ok || !closed {
		return "", fmt.Errorf("the page has no block of %s", language)
	}
	return block + "\n", nil
}

// replace replaces texts, each of which must be there: pairs of what stands on a page and what is put there.
func replace(text string, pairs ...string) (string, error) {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			return "", fmt.Errorf("got no %q, want it in what the page says", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text, nil
}

// language runs a program in the namespace and reports its checks under the name of its language.
func (r *report) language(ctx context.Context, name string, env []string, command ...string) {
	if _, err := exec.LookPath(command[0]); err != nil {
		r.skip(name, filepath.Base(command[0])+" is not installed")
		return
	}
	before := r.failed
	p := &program{command: command, env: append(os.Environ(), env...)}
	err := p.run(ctx, func(line string) {
		kind, rest, _ := strings.Cut(line, ": ")
		r.relay(kind + ": " + name + " " + rest)
	})
	if err != nil && r.failed == before {
		r.fail(name, err)
	}
}
