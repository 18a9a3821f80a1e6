// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command load measures the service and checks its promises under load. All traffic stays on 127.0.0.1, and every run
// ends by itself.
//
//	go run ./scripts/load analyze [-rounds 5] [-time 2s] [-clients 50] [-characters 500] [-pause 10ms] [-profile DIR]
//	go run ./scripts/load compare [-rounds 5] [-time 2s] [-connections 32] [-profile DIR]
//	go run ./scripts/load guard   [-only proxy,upload,...] [-rounds 9] [-time 1s] [-json FILE] [-profile DIR]
//	go run ./scripts/load kill    [-rounds 10] [-connections 32] [-caddy ./caddy]
//	go run ./scripts/load reload  [-rounds 20] [-connections 8] [-caddy ./caddy]
//	go run ./scripts/load start   [-rounds 10] [-caddy ./caddy]
//	go run ./scripts/load stores  [-rounds 7] [-time 2s] [-connections 64] [-lease 50] [-address HOST:PORT]
//
// analyze measures the latency of comments:analyze, with clients that send without pauses and with clients that pause.
// On a busy machine the best round says more than the median.
//
// compare runs one Caddy process that serves two handlers: moderation_text with everything on (key, limits, durable
// counts, classifier), and a baseline that only decodes and encodes the same JSON with encoding/json. Rounds alternate
// between the two, at 200, 2,000 and 10,000 characters of the texts in engine/train/corpus. The server has one core
// (GOMAXPROCS=1), the client is another process with one more.
//
// guard measures what moderate and moderate_response cost in front of reverse_proxy: requests per second with JSON
// posts of 200 and 2,000 bytes, a multipart upload of 100 MB, the memory of idle connections, the delay of streamed
// answers, and what 10,000 aborted requests leave behind. Rounds with and without the guard alternate.
//
// kill loads a server, kills it (SIGKILL) at a random moment, starts it again on the same data and compares what was
// acknowledged with what is stored, for counted requests and for feedback.
//
// reload reloads the configuration of a loaded server again and again, and in turn that of a plain Caddy without the
// service. Every answer must be 200, exactly the answered requests must be counted, not significantly more requests may
// break than with plain Caddy, and no goroutine may leak.
//
// start measures the time from the start of the process to the first accepted connection, and the memory when idle.
//
// stores compares a server with the embedded database, one with Redis or Valkey, and one with Redis and leases:
// requests per second under load, and the latency of one request at a time beside the round trip of the store's own
// PING. It starts redis-server or valkey-server itself (REDISTEST_SERVER names the program), unless -address names a
// server.
//
// The server is the binary that -caddy names, or this program itself: Caddy, the moderation modules and the baseline
// handler are compiled in.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-moderation/caddy-moderation/caddymod"
)

func main() {
	modes := map[string]func(context.Context, []string) error{"analyze": analyze, "compare": compare, "guard": guard,
		"kill": kill, "reload": reload, "start": start, "stores": stores}
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if name == "caddy" { // the server of the other modes
		os.Args = slices.Concat(os.Args[:1], os.Args[2:])
		caddycmd.Main()
		return
	}
	mode, ok := modes[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "use: load analyze|compare|guard|kill|reload|start|stores [flags]; "+
			"-h after the mode lists its flags")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := mode(ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// flags parses the flags of a mode, which takes no other arguments.
func flags(mode string, args []string, define func(*flag.FlagSet)) error {
	set := flag.NewFlagSet("load "+mode, flag.ExitOnError)
	define(set)
	_ = set.Parse(args) // exits on an error
	if set.NArg() > 0 {
		return fmt.Errorf("%s takes no argument %q", mode, set.Arg(0))
	}
	return nil
}
