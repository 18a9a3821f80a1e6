// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command parsers asks real parsers what they understand of a body, and the guard what it makes of it. What an app
// would get as text must be moderated or refused. A body that a parser understands and the guard lets through fails
// the run. Run it in the root of the repository:
//
//	go run ./scripts/parsers                                  20,000 mutations or three minutes, whichever is first
//	go run ./scripts/parsers -mutations 2000000 -for 8h       the long run, with another -seed each time
//	go run ./scripts/parsers -parsers php,go,express -v       these parsers only; all findings are printed
//	go run ./scripts/parsers -unguarded                       without the guard: everything is found
//
// It tries, in this order, the fixtures (scripts/parsers/testdata/fixtures: what got through once), the rows of
// caddymod/bypass_test.go (testdata/rows.jsonl), ordinary requests with each variant of each mutation, and random
// mutations of all of them, which depend on the seed alone. Findings are reduced and written to a folder (-save). A
// finding that is committed to the fixtures is tried in every later run.
//
// Each request goes to three guards: one with the defaults, one with on_error reject, and one for which forms of a
// few kilobytes are large uploads. What gets through goes to the parsers, which are small apps in their own languages
// (node, python, php, ruby and goparsers.go). What these understand goes through the guard once more, to the parser:
// only what arrives there counts. The parsers are also asked about a share of what is refused, or about all of it
// with -all, to see that the mutations are worth the trouble. A failure that the default guard reports in
// X-Moderation-Status is no finding, nor is a body whose type is plainly that of a file.
//
// Node's packages are those of node/package-lock.json. Python's, PHP and Ruby come from Debian's packages, which are
// installed if this runs as root and -install is not false. What a machine lacks is skipped with a line. Nothing
// listens outside 127.0.0.1.
//
// main.go runs it; recipe.go makes requests, in the steps of mutations.go; guards.go, install.go and goparsers.go
// start the server and the parsers, client.go talks to them; outcome.go compares what they say; report.go and
// shrink.go report it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

type options struct {
	caddy     string
	seed      uint64
	mutations uint64
	limit     time.Duration
	parsers   string
	save      string
	workers   int
	unguarded bool
	install   bool
	strict    bool
	all       bool
	verbose   bool
}

// refusedShare is n if the parsers are asked about every nth body that is refused.
const refusedShare = 8

func main() {
	var o options
	flag.StringVar(&o.caddy, "caddy", "./caddy", "the server to check; ./caddy is built when it is missing")
	flag.Uint64Var(&o.seed, "seed", 1, "of the mutations")
	flag.Uint64Var(&o.mutations, "mutations", 20_000, "how many to try at most")
	flag.DurationVar(&o.limit, "for", 3*time.Minute, "how long to try mutations at most")
	flag.StringVar(&o.parsers, "parsers", "", "the parsers to ask, separated by commas; all when empty")
	flag.StringVar(&o.save, "save", "", "the folder to which what is found is written; a new one when empty")
	flag.IntVar(&o.workers, "workers", 8, "how many requests are tried at once")
	flag.BoolVar(&o.unguarded, "unguarded", false, "leave the guards out, to see that everything is found")
	flag.BoolVar(&o.install, "install", true, "install Debian packages that are missing, when this is root")
	flag.BoolVar(&o.strict, "strict", false, "fail when a parser is skipped")
	flag.BoolVar(&o.all, "all", false,
		"ask the parsers about all bodies, not only about those that are not refused and a share of the others")
	flag.BoolVar(&o.verbose, "v", false, "print all that is found")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "parsers:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	wanted, err := choose(o.parsers)
	if err != nil {
		return err
	}
	fixtures, err := readFixtures(filepath.Join(folder, "testdata", "fixtures"))
	if err != nil {
		return err
	}
	rows, err := readRows(filepath.Join(folder, "testdata", "rows.jsonl"))
	if err != nil {
		return err
	}
	if err := server.Build(ctx, o.caddy); err != nil {
		return err
	}
	t, err := install(ctx, wanted, o.install)
	if err != nil {
		return err
	}
	r := &rig{guarded: !o.unguarded}
	defer r.close()
	if err := r.start(ctx, o, wanted, t); err != nil {
		return err
	}
	if o.strict && len(r.parsers) < len(wanted) {
		return fmt.Errorf("%d parsers were skipped", len(wanted)-len(r.parsers))
	}
	bases, err := r.selfCheck()
	if err != nil {
		return err
	}

	rep := &report{out: os.Stdout, verbose: o.verbose, begin: time.Now()}
	have := slices.Concat(fixtures, rows)
	r.all(ctx, o, rep, func(i uint64) (*sample, int) {
		if i >= uint64(len(have)) {
			return nil, 0
		}
		return have[i], 0
	})
	rep.say("%d fixtures and %d rows of the table tried", len(fixtures), len(rows))
	end, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	tried := rep.tried
	ones := singleMutations(o.seed)
	r.all(end, o, rep, func(i uint64) (*sample, int) {
		if i >= o.mutations {
			return nil, 0
		}
		var s *sample
		if i < uint64(len(ones)) {
			s = ones[i]
		} else {
			s = generate(o.seed, i, have)
		}
		return s, bases[s.generated.base.kind]
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	rep.say("%d of %d mutations of seed %d tried", rep.tried-tried, o.mutations, o.seed)
	return r.conclude(ctx, o, rep)
}

// choose returns the parsers with these names, or all of them if there are no names.
func choose(names string) ([]parser, error) {
	if names == "" {
		return parsers, nil
	}
	var chosen []parser
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(parsers, func(p parser) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no parser %q", name)
		}
		chosen = append(chosen, parsers[i])
	}
	return chosen, nil
}

// selfCheck checks that every parser understands an ordinary request, and that the guards refuse the vile ones and
// let the harmless ones through as judged. It returns how many parsers understand each kind.
func (r *rig) selfCheck() (map[string]int, error) {
	bases := map[string]int{}
	any := map[*runningParser]bool{}
	for _, kind := range kinds {
		s := (&recipe{base: base{kind: kind}, seed: 1}).sample("ordinary " + kind)
		by, _ := r.ask(s.vile)
		bases[kind] = len(by)
		for _, p := range by {
			any[p] = true
		}
		if !r.guarded {
			continue
		}
		for _, g := range r.guards {
			if len(s.vile.body) <= g.minBody {
				continue
			}
			if v := g.check(s.vile); v.code != 422 {
				return nil, fmt.Errorf("an ordinary request with the vile sentence (%s): the guard %s answered %+v",
					kind, g.name, v)
			}
			if v := g.check(s.fine); v.code != 200 {
				return nil, fmt.Errorf("an ordinary request with the harmless sentence (%s): the guard %s answered %+v", kind, g.name, v)
			}
		}
	}
	for _, p := range r.parsers {
		if !any[p] {
			return nil, fmt.Errorf("%s understands no ordinary request", p.name)
		}
	}
	return bases, nil
}

// all tries the samples that next returns, several at once, until there are no more or the time is up.
func (r *rig) all(ctx context.Context, o options, rep *report, next func(uint64) (*sample, int)) {
	var mu sync.Mutex
	var i uint64
	var wait sync.WaitGroup
	for range o.workers {
		wait.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				n := i
				i++
				mu.Unlock()
				s, base := next(n)
				if s == nil {
					return
				}
				rep.add(s, r.try(s, base, o.all || s.generated == nil || n%refusedShare == 0))
			}
		})
	}
	wait.Wait()
}
