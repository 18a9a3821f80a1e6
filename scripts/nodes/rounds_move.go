// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// command runs a command of the server's program against a node.
func (n *node) command(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.caddy, append([]string{"moderation"}, args...)...)
	cmd.Env = append(os.Environ(), "CADDY_ADMIN="+n.admin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("caddy moderation %s: %w: %s", args[0], err, out)
	}
	return nil
}

// backup takes a backup while all clients work, restores it under another prefix, and wants it to hold all that was
// acknowledged before it began, and nothing that was not sent when it was done.
func backup(topology string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := w.begin(ctx, setup{topology: topology, nodeTimeout: 10 * time.Second}); err != nil {
			return err
		}
		if err := w.work(ctx, everybody); err != nil {
			return err
		}
		pause(ctx, w.between(300*time.Millisecond, 900*time.Millisecond))
		file := filepath.Join(w.folder, "moderation.backup")
		before := w.ledger.clone()
		began := time.Now()
		if err := w.nodes[1].command(ctx, "backup", file); err != nil {
			return err
		}
		took := time.Since(began)
		after := w.ledger.clone()
		pause(ctx, 300*time.Millisecond)
		w.conclude(ctx)
		if err := w.nodes[0].restore(ctx, file, "restored"); err != nil {
			return err
		}
		for _, n := range w.nodes {
			n.prefix = "restored"
			if err := n.reload(); err != nil {
				return err
			}
		}
		w.note("taken in %s", took.Round(time.Millisecond))
		w.ledger = before.until(after)
		w.compare(ctx, tolerance{})
		return nil
	}
}

// restore restores a backup under a prefix that nothing has.
func (n *node) restore(ctx context.Context, file, prefix string) error {
	defer func(old string) { n.prefix = old }(n.prefix)
	n.prefix = prefix
	config := filepath.Join(n.folder, "restored.Caddyfile")
	if err := os.WriteFile(config, []byte(n.caddyfile()), 0o600); err != nil {
		return err
	}
	return n.command(ctx, "restore", file, "--config", config)
}

// migrate moves everything from one store to another while all clients work.
func migrate(ctx context.Context, w *world) error {
	if err := w.store(setup{nodes: 1}); err != nil {
		return err
	}
	n := w.nodes[0]
	n.badger = true
	if err := w.startNodes(ctx); err != nil {
		return err
	}
	if err := w.work(ctx, everybody); err != nil {
		return err
	}
	pause(ctx, w.between(300*time.Millisecond, 900*time.Millisecond))
	n.reloading.Store(true) // the command loads the configuration
	n.badger = false
	config := filepath.Join(n.folder, "redis.Caddyfile")
	if err := os.WriteFile(config, []byte(n.caddyfile()), 0o600); err != nil {
		return err
	}
	readOnly, stop := context.WithCancel(ctx)
	refusing := make(chan time.Duration)
	go func() { refusing <- w.refusing(readOnly, n) }()
	began := time.Now()
	err := n.command(ctx, "migrate", "badger", filepath.Join(n.folder, "data"), "redis", w.single.Addr(),
		"--config", config)
	took := time.Since(began)
	pause(ctx, 200*time.Millisecond)
	stop()
	w.note("moved in %s, read-only for about %s", took.Round(time.Millisecond), (<-refusing).Round(time.Millisecond))
	if err != nil {
		return err
	}
	// Others join.
	for i := 1; i < 3; i++ {
		if err := w.add(i); err != nil {
			return err
		}
		if err := w.nodes[i].start(ctx); err != nil {
			return err
		}
	}
	pause(ctx, 300*time.Millisecond)
	w.conclude(ctx)
	return nil
}

// refusing returns for how long a node answered 503.
func (w *world) refusing(ctx context.Context, n *node) time.Duration {
	c := w.newClient(n, "refusing")
	defer c.http.CloseIdleConnections()
	var first, last time.Time
	for ctx.Err() == nil {
		if status, _ := c.moderate(apiAccount, w.secretOf(apiAccount)); status == http.StatusServiceUnavailable {
			if last = time.Now(); first.IsZero() {
				first = last
			}
		}
		pause(ctx, 2*time.Millisecond)
	}
	return last.Sub(first)
}

// leases has nodes take blocks: no limit is exceeded, and at most a block for each node is refused below it.
func leases(ctx context.Context, w *world) error {
	const block = 20
	s := setup{lines: append([]string{fmt.Sprintf("lease %d", block)}, patientStore...)}
	if err := w.begin(ctx, s); err != nil {
		return err
	}
	admitted := 0
	for range 3 {
		for _, a := range w.ask(monthAccount) {
			switch a.status {
			case 200:
				admitted++
			case 402:
			default:
				w.violate("a crowd is answered %d, %v", a.status, a.err)
			}
		}
	}
	w.note("%d of %d admitted", admitted, perMonth)
	if admitted <= perMonth-len(w.nodes)*block || admitted > perMonth {
		w.violate("with a limit of %d and leases of %d on %d nodes, %d are admitted", perMonth, block, len(w.nodes),
			admitted)
	}
	// A node that dies takes at most its permits with it.
	if err := w.work(ctx, everybody); err != nil {
		return err
	}
	pause(ctx, w.long(500*time.Millisecond, 5*time.Second))
	w.rest()
	for _, n := range w.nodes {
		if err := n.stop(); err != nil {
			return errors.Join(errors.New("a node with leases does not end in order"), err)
		}
	}
	if err := w.startNodes(ctx); err != nil {
		return err
	}
	w.conclude(ctx)
	return nil
}
