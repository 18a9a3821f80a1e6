// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command clients checks the guard and the service with real programs. It starts the built server in front of a small
// app of its own. Curl, Node, an OpenAI client, a browser, slow clients and clients that disconnect talk to the app
// through the guard, and both ends are checked: what the client read, and which bytes the app received. Clients of
// the Perspective API and of OpenAI's moderation endpoint call the service itself, with only the address changed.
// What goes over the wire is compared with scripts/clients/testdata. Run it in the root of the repository:
//
//	go run ./scripts/clients                      all clients
//	go run ./scripts/clients curl browser         these only
//	go run ./scripts/clients -unguarded           the same against a plain reverse_proxy; checks of refusals fail
//	go run ./scripts/clients -update coral        write what goes over the wire to scripts/clients/testdata/coral.http
//
// It prints a line for each check and exits with status 1 if one failed. The server is built if ./caddy is missing.
// Clients that the machine lacks are skipped with a line that says so. The packages of Node's clients
// (scripts/clients/node/package-lock.json) are downloaded from the npm registry: about 150 MB, most of it the browser
// and googleapis. A Chromium named by CHROME_PATH replaces the downloaded one. The Go libraries are in a module of
// their own, scripts/clients/gocompat. Nothing listens outside 127.0.0.1.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// client is one program that talks to the app through the guard, or to the service. To add one, write its checks in a
// file of its own and add it to clients.
type client struct {
	name string
	// run makes the checks. It returns an error if they could not be made.
	run func(context.Context, *report, *site) error
}

func clients(o options) []client {
	return []client{
		{"curl", curl},
		{"raw", requestsByHand},
		{"slow", slow},
		{"websocket", webSocket},
		{"gone", func(ctx context.Context, r *report, s *site) error { return gone(ctx, r, s, o.aborts) }},
		{"fetch", script("fetch.mjs")},
		{"ws", script("ws.mjs")},
		{"openai", script("openai.mjs")},
		{"browser", script("browser.mjs")},
		forService("googleapis", o.update, use(nodeProgram("googleapis.mjs"))),
		forService("perspective-api-client", o.update, use(nodeProgram("perspective-api-client.mjs"))),
		forService("openai-npm", o.update, use(nodeProgram("moderations.mjs"))),
		forService("commentanalyzer-go", o.update, use(goProgram("commentanalyzer"))),
		forService("openai-go", o.update, use(goProgram("openai"))),
		forService("go-openai", o.update, use(goProgram("goopenai"))),
		forService("coral", o.update, coral),
		forService("discourse", o.update, discourse),
		{"fixed-hosts", fixedHosts},
		retries(o.update),
	}
}

type options struct {
	caddy     string
	unguarded bool
	strict    bool
	update    bool
	aborts    int
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == inNamespace { // started by fixedHosts
		if err := hostsInNamespace(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.caddy, "caddy", "./caddy", "the server to check; ./caddy is built when it is missing")
	flag.BoolVar(&o.unguarded, "unguarded", false,
		"leave the guard's directives out, to see what the clients do without it")
	flag.BoolVar(&o.strict, "strict", false, "count a skipped client as a failed one")
	flag.BoolVar(&o.update, "update", false,
		"write what goes over the wire between the service and its clients to "+goldenFolder)
	flag.IntVar(&o.aborts, "aborts", 400, "how many requests the client gone gives up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := check(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		stop()
		os.Exit(1)
	}
}

func check(ctx context.Context, o options, names []string) error {
	chosen, err := choose(clients(o), names)
	if err != nil {
		return err
	}
	if err := server.Build(ctx, o.caddy); err != nil {
		return err
	}
	s, err := newSite(ctx, o.caddy, o.unguarded)
	if err != nil {
		return err
	}
	defer s.close()
	r := &report{out: os.Stdout}
	begin := time.Now()
	for _, c := range chosen {
		r.client = c.name
		if err := c.run(ctx, r, s); err != nil {
			r.fail("could not be run", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	r.client = "server"
	r.check("the server wrote no panic and no race", s.sane)
	r.check("the server stops well", s.process.Stop)
	fmt.Printf("%d ok, %d failed, %d skipped in %d s\n", r.passed, r.failed, r.skipped,
		int(time.Since(begin).Seconds()))
	if r.failed > 0 {
		return fmt.Errorf("%d checks failed", r.failed)
	}
	if o.strict && r.skipped > 0 {
		return fmt.Errorf("%d checks were skipped", r.skipped)
	}
	return nil
}

// choose returns the clients with the names, or all of them when there are no names.
func choose(all []client, names []string) ([]client, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []client
	for _, name := range names {
		i := slices.IndexFunc(all, func(c client) bool { return c.name == name })
		if i < 0 {
			var known []string
			for _, c := range all {
				known = append(known, c.name)
			}
			return nil, fmt.Errorf("no client %q; there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
