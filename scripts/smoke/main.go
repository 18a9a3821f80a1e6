// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command smoke starts the built server as the README tells a newcomer to, runs the README's commands against it and
// compares what they print with what the README shows. Then it restarts the server, kills it and starts it again, and
// checks that nothing was lost. Run it in the root of the repository:
//
//	./xcaddy.sh build && go run ./scripts/smoke
//
// It needs bash, listens on free ports of 127.0.0.1 in place of those in the README, and keeps its data in a
// temporary folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

func main() {
	if filepath.Base(os.Args[0]) == "curl" { // started by place.ownCurl
		if err := curl(os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	caddy := flag.String("caddy", "./caddy", "the server to check")
	own := flag.Bool("own-curl", false,
		"run the README's commands with a curl of smoke's own, as on machines that have none")
	update := flag.Bool("update", false, "write what the commands print into the README, instead of comparing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := check(ctx, *caddy, *own, *update); err != nil {
		fmt.Fprintln(os.Stderr, "smoke:", err)
		os.Exit(1)
	}
}

func check(ctx context.Context, caddy string, own, update bool) error {
	place, err := newPlace(caddy)
	if err != nil {
		return err
	}
	defer place.close()
	if _, err := exec.LookPath("curl"); err != nil || own {
		if err := place.ownCurl(); err != nil {
			return err
		}
	}
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"Caddyfile.example is formatted and valid, its commented-out deployment is valid", place.validate},
		{"the first start shows a demo key, as the README says",
			func(ctx context.Context) error { return place.firstStart(ctx, update) }},
		{"the README's commands print what it shows",
			func(ctx context.Context) error { return place.runReadme(ctx, update) }},
		{"a restart shows no key and keeps the counts", place.restart},
		{"kill -9 loses nothing that was acknowledged", place.kill},
		{"the README's links lead somewhere", func(context.Context) error { return checkLinks() }},
	}
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Println("ok:", step.what)
	}
	return nil
}
