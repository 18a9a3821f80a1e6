// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command nodes runs three servers on one store, does harm to the store, to the nodes and to the network between them
// while clients use all of them, and compares what was acknowledged with what the nodes tell afterwards. Run it in the
// root of the repository:
//
//	go run ./scripts/nodes -list                 the rounds, and the promise that each one tries to break
//	go run ./scripts/nodes                       each quick round once, as CI does; it takes about a minute
//	go run ./scripts/nodes -long                 all rounds, also on a cluster, with sentinels and with more load
//	go run ./scripts/nodes -round kill,failover  these rounds only; a name stands for all that begin with it
//	go run ./scripts/nodes -for 1h -seed 7       random rounds
//
// A round starts a store of its own (real servers of Redis or Valkey on loopback addresses, see
// storage/redis/redistest), three Caddy servers, and clients at each: clients of the API, of a guard with an account,
// senders of corrections, and operators who create and revoke keys. The clients write into a ledger what was
// acknowledged and what was only sent. Then something bad happens. Afterwards every node must tell the same, and what
// it tells is compared with the ledger:
//
//   - What was acknowledged is there, what was never sent is not, and nothing is there twice.
//   - No node ends by itself, and what needs no store (a plain page, a guard that names no account) always answers 200.
//   - The answers are 200, 429 or 503, never 500 or 401 for a key that is valid, and none hangs.
//   - While the store does not answer, nodes do what their policy for outages says, and say so.
//
// It needs redis-server or valkey-server; scripts/nodes/install.sh installs one. REDISTEST_SERVER names the program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// rig is what all rounds share.
type rig struct {
	caddy  string
	skewed string // a server whose clock can be wrong; built when a round needs it
	seed   uint64
	long   bool
	random bool
	keep   bool
}

// errSkip says why a round is skipped.
type errSkip string

func (e errSkip) Error() string { return string(e) }

func main() {
	r := &rig{}
	only := flag.String("round", "", "the rounds to run, or the beginnings of their names, separated by commas")
	list := flag.Bool("list", false, "list the rounds and the promises that they try to break")
	parallel := flag.Int("parallel", 2, "rounds at a time")
	limit := flag.Duration("for", 0, "run random rounds for so long")
	flag.StringVar(&r.caddy, "caddy", "./caddy", "the server to check; ./caddy is built when it is missing")
	flag.StringVar(&r.skewed, "skewed", "", "a server whose clock can be wrong; built when it is needed")
	flag.Uint64Var(&r.seed, "seed", 1, "of all that is left to chance; 0 takes one by chance")
	flag.BoolVar(&r.long, "long", false, "all rounds, with more load")
	flag.BoolVar(&r.keep, "keep", false, "keep the folders of all rounds")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "nodes: no argument %q is taken\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	wanted, err := choose(*only, r.long || *limit > 0)
	if err == nil && !*list {
		err = r.run(ctx, wanted, *parallel, *limit)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		stop()
		os.Exit(1)
	}
	if *list {
		for _, round := range wanted {
			fmt.Printf("%-24s %s\n", round.name, round.promise)
		}
	}
}

// choose returns the rounds with these names, or those whose names begin with them; without names all, or the quick
// ones.
func choose(only string, all bool) (wanted []*round, err error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(rounds), func(r *round) bool { return !all && !r.quick }), nil
	}
	for name := range strings.SplitSeq(only, ",") {
		exact := slices.ContainsFunc(rounds, func(r *round) bool { return r.name == name })
		before := len(wanted)
		for _, r := range rounds {
			if r.name == name || !exact && strings.HasPrefix(r.name, name) {
				wanted = append(wanted, r)
			}
		}
		if len(wanted) == before {
			return nil, fmt.Errorf("there is no round %q; -list names them", name)
		}
	}
	return wanted, nil
}

func (r *rig) run(ctx context.Context, wanted []*round, parallel int, limit time.Duration) error {
	program, err := redistest.Program()
	if errors.Is(err, redistest.ErrNoProgram) {
		fmt.Println("skipped:", err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := server.Build(ctx, r.caddy); err != nil {
		return err
	}
	if r.caddy, err = filepath.Abs(r.caddy); err != nil {
		return err
	}
	if r.seed == 0 {
		r.seed = rand.Uint64()
	}
	fmt.Printf("seed %d, %s\n", r.seed, program)
	if r.skewed == "" && slices.ContainsFunc(wanted, func(r *round) bool { return r.skewed }) {
		// A folder that stays lets the go command build nothing the second time.
		folder, err := filepath.Abs(".cache/nodes")
		if err == nil {
			err = os.MkdirAll(folder, 0o700)
		}
		if err != nil {
			return err
		}
		if r.skewed, err = buildSkewed(ctx, folder); err != nil {
			return fmt.Errorf("the server with a wrong clock cannot be built: %w", err)
		}
	}
	if limit > 0 {
		r.random = true
		random := rand.New(rand.NewPCG(r.seed, 2))
		deadline := time.Now().Add(limit)
		return r.play(ctx, parallel, func() *round {
			if time.Now().After(deadline) {
				return nil
			}
			return wanted[random.IntN(len(wanted))]
		})
	}
	// Rounds that measure have the machine for themselves.
	apart, together := []*round{}, []*round{}
	for _, round := range wanted {
		if round.alone {
			apart = append(apart, round)
		} else {
			together = append(together, round)
		}
	}
	return errors.Join(r.play(ctx, parallel, inTurn(together)), r.play(ctx, 1, inTurn(apart)))
}

// inTurn yields each round once.
func inTurn(wanted []*round) func() *round {
	return func() *round {
		if len(wanted) == 0 {
			return nil
		}
		next := wanted[0]
		wanted = wanted[1:]
		return next
	}
}

// play runs rounds, several at a time, until next returns none.
func (r *rig) play(ctx context.Context, parallel int, next func() *round) error {
	var mu sync.Mutex
	var begun, failed, skipped int
	started := time.Now()
	var running sync.WaitGroup
	for range parallel {
		running.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				round, n := next(), begun
				if round != nil {
					begun++
				}
				mu.Unlock()
				if round == nil {
					return
				}
				err := r.one(ctx, round, n)
				mu.Lock()
				switch {
				case errors.As(err, new(errSkip)):
					skipped++
				case err != nil:
					failed++
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if begun > 0 {
		fmt.Printf("%d rounds in %s, %d skipped, %d broke a promise\n", begun, time.Since(started).Round(time.Second),
			skipped, failed)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d rounds broke a promise", failed, begun)
	}
	return ctx.Err()
}

// one runs one round and prints a line about it.
func (r *rig) one(ctx context.Context, round *round, n int) error {
	name := fnv.New64()
	_, _ = name.Write([]byte(round.name))
	seed := r.seed ^ name.Sum64()
	if r.random {
		seed += uint64(n) << 32
	}
	w, err := newWorld(r, round.name, seed)
	if err != nil {
		return err
	}
	began := time.Now()
	err = round.run(ctx, w)
	w.close()
	if ctx.Err() != nil {
		_ = os.RemoveAll(w.folder)
		return nil
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	if skip := errSkip(""); errors.As(err, &skip) && len(w.broken()) == 0 {
		_ = os.RemoveAll(w.folder)
		fmt.Printf("%-24s skipped: %v\n", round.name, skip)
		return err
	}
	if err != nil {
		w.violate("%v", err)
	}
	broken := w.broken()
	if r.keep || len(broken) > 0 {
		for _, n := range w.nodes {
			_ = os.WriteFile(filepath.Join(n.folder, "server.log"), []byte(n.log.String()), 0o600)
		}
	}
	if len(broken) == 0 {
		if !r.keep {
			_ = os.RemoveAll(w.folder)
		}
		fmt.Printf("%-24s held (%s; %s)\n", round.name, took, w.summary())
		return nil
	}
	fmt.Printf("%-24s BROKEN (%s; %s): %s\n      %s\n      kept: %s\n", round.name, took, w.summary(), round.promise,
		strings.Join(broken, "\n      "), w.folder)
	return errors.New("a promise was broken")
}

// round is one way to do harm.
type round struct {
	name string
	// promise is the sentence that the round tries to break.
	promise string
	// quick rounds run in CI.
	quick bool
	// alone says that the round measures times and runs alone.
	alone bool
	// skewed says that the round needs a server whose clock can be wrong.
	skewed bool
	run    func(context.Context, *world) error
}
