// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command smoke starts the built server as the README tells a newcomer to, runs the commands of the README and of some
// pages of docs against it, and compares what they print with what the pages show. It restarts the server, kills it and
// starts it again, and checks that nothing was lost. Then it runs the example clients in examples/clients, against the
// server and against one that fails in every way for which they are written. Run it in the root of the repository:
//
//	./xcaddy.sh build && go run ./scripts/smoke
//
// It needs bash, listens on free ports of 127.0.0.1 in place of those in the pages, and keeps its data in temporary
// folders. Clients whose language the machine lacks are skipped with a line.
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
	if filepath.Base(os.Args[0]) == "curl" { // started by newPlace
		if err := curl(os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	caddy := flag.String("caddy", "./caddy", "the server to check")
	own := flag.Bool("own-curl", false,
		"run the pages' commands with a curl of smoke's own, as on machines that have none")
	update := flag.Bool("update", false, "write what the commands print into the pages, instead of comparing")
	clients := flag.Bool("clients", false, "run only the client examples")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := error(nil)
	if !*clients {
		err = checkPages(ctx, *caddy, *own, *update)
	}
	if err == nil && !*update {
		err = checkClients(ctx, *caddy)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "smoke:", err)
		os.Exit(1)
	}
}

// step is one thing that is checked.
type step struct {
	what string
	do   func(context.Context) error
}

func checkPages(ctx context.Context, caddy string, own, update bool) error {
	if _, err := exec.LookPath("curl"); err != nil {
		own = true
	}
	for i, name := range pages {
		if err := checkPage(ctx, caddy, name, i == 0, own, update); err != nil {
			return err
		}
	}
	return nil
}

// checkPage runs a page against a server of its own. With the first page, it also checks what an operator does to a
// server.
func checkPage(ctx context.Context, caddy, name string, first, own, update bool) error {
	place, err := newPlace(caddy, own)
	if err != nil {
		return err
	}
	defer place.close()
	run := step{"the commands of " + name + " print what it shows",
		func(ctx context.Context) error { return place.runPage(ctx, name, update) }}
	steps := []step{{"a server for " + name + " starts", place.firstStart}, run}
	if first {
		steps = []step{
			{"Caddyfile.example is formatted and valid, its commented-out deployment is valid", place.validate},
			{"the first start shows a demo key, and a command that works, as documented", func(ctx context.Context) error {
				if err := place.firstStart(ctx); err != nil {
					return err
				}
				return place.tryNotice(ctx, update)
			}},
			run,
			{"a restart shows no key and keeps the counts", place.restart},
			{"the commands that the first start names replace its key and lift the limits", place.runNextCommands},
			{"kill -9 loses nothing that was acknowledged", place.kill},
		}
	}
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Println("ok:", step.what)
	}
	return nil
}
