// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Command crash breaks the server and its disk in every way that it knows, while clients of all kinds use it, and
// compares what was acknowledged with what the server says afterwards. Run it in the root of the repository:
//
//	go run ./scripts/crash -list               the rounds, and the promise that each one tries to break
//	go run ./scripts/crash -for 2m             each quick round, always in the same order, as CI does
//	go run ./scripts/crash -for 1h -seed 7     random rounds
//	go run ./scripts/crash -round kill,power   these rounds only; a name stands for all that begin with it
//
// A round starts a server with a store, a configuration and clients of its own: clients of the API, of a guard with
// an account, of one with enforce_quota, senders of feedback, and operators who create, revoke and rotate keys and
// create, change and delete accounts. The clients write into a ledger what was acknowledged and what was only sent.
// Then something bad happens. The server recovers or is started again, and its usage, keys, accounts, feedback export
// and restored backups are compared with the ledger:
//
//   - What was acknowledged is there, what was never sent is not, and nothing is there twice.
//   - The server never ends by itself: a site of the same configuration that needs no store always answers 200.
//   - While the store cannot keep things, requests that need it are answered 503, never 500, and never hang;
//     health/ready is 503 and store_up is 0. When the cause is gone, the server recovers by itself.
//   - The log stays short.
//
// Timeouts are long, because they are only for what would never happen. Rounds that mount file systems run in a mount
// namespace of their own, so that nothing is left behind. What a machine does not permit is skipped with a line that
// says why. Nothing listens outside the loopback network. After a violation the folder of the round is kept.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// rig is what all rounds share.
type rig struct {
	caddy, old string
	seed       uint64
	verbose    bool
	long       bool // rounds are taken at random
	base       base

	mu      sync.Mutex
	lacking map[string]string
}

// insideVariable is an environment variable that says that this process has its own mount namespace.
const insideVariable = "CADDY_MODERATION_CRASH_INSIDE"

func main() {
	faults.Main()
	r := &rig{lacking: map[string]string{}}
	limit := flag.Duration("for", 2*time.Minute, "how long rounds are begun")
	only := flag.String("round", "",
		"the rounds to run, or the beginnings of their names, separated by commas; each once, unless -for is given")
	list := flag.Bool("list", false, "list the rounds and the promises that they try to break")
	parallel := flag.Int("parallel", 3, "rounds at a time")
	flag.StringVar(&r.caddy, "caddy", "./caddy", "the server to check; ./caddy is built when it is missing")
	flag.StringVar(&r.old, "old", "", "a server of an older version, for rounds that upgrade its data")
	flag.Uint64Var(&r.seed, "seed", 1, "of all that is left to chance; 0 takes one by chance")
	flag.BoolVar(&r.verbose, "v", false, "say more about each round")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "crash: no argument %q is taken\n", flag.Arg(0))
		os.Exit(2)
	}
	if os.Getenv(insideVariable) == "" {
		if status, ok := runInNamespace(); ok {
			os.Exit(status)
		}
	} else {
		_ = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") // fails where nothing can be mounted
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flag.Visit(func(f *flag.Flag) { r.long = r.long || f.Name == "for" && (*limit > 2*time.Minute || *only != "") })
	if err := r.run(ctx, *only, *limit, *list, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		stop()
		os.Exit(1)
	}
}

// runInNamespace runs this program again in a mount namespace of its own, with a user namespace where that is needed.
func runInNamespace() (status int, ok bool) {
	self, err := os.Executable()
	if err != nil {
		return 0, false
	}
	for _, attributes := range []*syscall.SysProcAttr{
		{Unshareflags: syscall.CLONE_NEWNS},
		{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	} {
		attributes.Pdeathsig = syscall.SIGKILL
		cmd := exec.Command(self, os.Args[1:]...)
		cmd.Env = append(os.Environ(), insideVariable+"=1")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = attributes
		if err := cmd.Start(); err != nil {
			continue
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		go func() {
			for s := range signals {
				_ = cmd.Process.Signal(s)
			}
		}()
		if err := cmd.Wait(); err != nil {
			return max(1, cmd.ProcessState.ExitCode()), true
		}
		return 0, true
	}
	return 0, false
}

// errSkip says why a round is skipped.
type errSkip string

func (e errSkip) Error() string { return string(e) }

func (r *rig) run(ctx context.Context, only string, limit time.Duration, list bool, parallel int) error {
	wanted, err := choose(only)
	if err != nil {
		return err
	}
	if list {
		if only == "" {
			wanted = rounds
		}
		r.list(wanted)
		return nil
	}
	if err := server.Build(ctx, r.caddy); err != nil {
		return err
	}
	for _, path := range []*string{&r.caddy, &r.old} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	// Processes that a killed server leaves behind become children of this one, and end with it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	if r.seed == 0 {
		r.seed = rand.Uint64()
	}
	fmt.Printf("seed %d\n", r.seed)
	next := r.inTurn(wanted, only == "")
	if r.long {
		next = r.atRandom(wanted)
	}
	if only != "" && !r.long {
		limit = time.Hour
	}
	defer func() {
		if r.base.world != nil {
			_ = os.RemoveAll(r.base.world.folder)
		}
	}()
	return r.play(ctx, next, limit, parallel)
}

// list prints rounds with their promises.
func (r *rig) list(wanted []*round) {
	for _, round := range wanted {
		fmt.Printf("%-22s %s\n", round.name, round.promise)
		if why := r.lacks(round); why != "" {
			fmt.Printf("%-22s   skipped here: %s\n", "", why)
		}
	}
}

// play runs rounds, several at a time, until next returns none or the time is over.
func (r *rig) play(ctx context.Context, next func() *round, limit time.Duration, parallel int) error {
	var mu sync.Mutex
	var begun, failed, skipped int
	started := time.Now()
	deadline := started.Add(limit)
	var running sync.WaitGroup
	for range parallel {
		running.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				round, n := next(), begun
				if round == nil || time.Now().After(deadline) {
					mu.Unlock()
					return
				}
				begun++
				mu.Unlock()
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
	fmt.Printf("%d rounds in %s, %d skipped, %d broke a promise\n", begun, time.Since(started).Round(time.Second),
		skipped, failed)
	if failed > 0 {
		return fmt.Errorf("%d of %d rounds broke a promise", failed, begun)
	}
	return ctx.Err()
}

// choose returns the rounds with these names, or those whose names begin with them.
func choose(only string) (wanted []*round, err error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(rounds), func(round *round) bool { return round.special }), nil
	}
	for name := range strings.SplitSeq(only, ",") {
		found := slices.Collect(func(yield func(*round) bool) {
			for _, round := range rounds {
				if (round.name == name || strings.HasPrefix(round.name, name) && !exact(name)) && !yield(round) {
					return
				}
			}
		})
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no round %q; -list names them", name)
		}
		wanted = append(wanted, found...)
	}
	return wanted, nil
}

func exact(name string) bool {
	return slices.ContainsFunc(rounds, func(r *round) bool { return r.name == name })
}

// inTurn yields each round once, if quick only the quick ones.
func (r *rig) inTurn(wanted []*round, quick bool) func() *round {
	if quick {
		wanted = slices.DeleteFunc(slices.Clone(wanted), func(round *round) bool { return !round.quick })
	}
	i := 0
	return func() *round {
		if i == len(wanted) {
			return nil
		}
		i++
		return wanted[i-1]
	}
}

// atRandom yields random rounds, forever.
func (r *rig) atRandom(wanted []*round) func() *round {
	random := rand.New(rand.NewPCG(r.seed, 2))
	return func() *round { return wanted[random.IntN(len(wanted))] }
}

// one runs one round and prints a line about it.
func (r *rig) one(ctx context.Context, round *round, n int) error {
	if why := r.lacks(round); why != "" {
		fmt.Printf("%3d %-18s skipped: %s\n", n, round.name, why)
		return errSkip(why)
	}
	name := fnv.New64()
	_, _ = name.Write([]byte(round.name))
	seed := r.seed ^ name.Sum64()
	if r.long {
		seed += uint64(n) << 32
	}
	w, err := newWorld(round.name, r.caddy, seed)
	if err != nil {
		return err
	}
	began := time.Now()
	err = round.run(ctx, w, r)
	w.close()
	if ctx.Err() != nil {
		_ = os.RemoveAll(w.folder)
		return nil
	}
	if err != nil && !errors.As(err, new(errSkip)) {
		w.violate("%v", err)
		err = nil
	}
	broken := w.broken()
	took := time.Since(began).Round(100 * time.Millisecond)
	switch {
	case err != nil && len(broken) == 0:
		_ = os.RemoveAll(w.folder)
		fmt.Printf("%3d %-18s skipped: %v\n", n, round.name, err)
		return err
	case len(broken) == 0:
		_ = os.RemoveAll(w.folder)
		fmt.Printf("%3d %-18s held (%s%s)\n", n, round.name, took, w.summary(r.verbose))
		return nil
	}
	_ = os.WriteFile(filepath.Join(w.folder, "server.log"), []byte(w.log.String()), 0o600)
	fmt.Printf("%3d %-18s BROKEN (%s%s): %s\n      %s\n", n, round.name, took, w.summary(true), round.promise,
		strings.Join(broken, "\n      "))
	fmt.Printf("      kept: %s\n", w.folder)
	return errors.New("a promise was broken")
}

// lacks says what a round needs and this machine does not have.
func (r *rig) lacks(round *round) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range round.needs {
		why, known := r.lacking[n.name]
		if !known {
			why = n.lacking()
			r.lacking[n.name] = why
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// note adds something to the line about the round.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func (w *world) summary(verbose bool) string {
	text := fmt.Sprintf(", %d answers, %d refused", w.answers.Load(), w.refused.Load())
	if len(w.notes) > 0 && verbose {
		text += "; " + strings.Join(w.notes, "; ")
	}
	return text
}

// round is one way to break the server.
type round struct {
	name string
	// promise is the sentence of docs/operations.md that the round tries to break.
	promise string
	// quick rounds run in CI.
	quick bool
	needs []need
	run   func(context.Context, *world, *rig) error
	// special rounds run only on request: others do the same at random.
	special bool
}

// need is something that not every machine offers.
type need struct {
	name    string
	lacking func() string
}

var (
	mounts     = need{"mounts", canMount}
	loops      = need{"loops", canLoop}
	supervised = need{"supervised", canSupervise}
)

// The promises, in the words of docs/operations.md.
const (
	whatSurvives    = "An answer is sent only after its effects are kept as the table says."
	reviewSurvives  = "| Accounts, keys, revocations, feedback, review items and decisions, the audit log, deletions | everything acknowledged | everything acknowledged |"
	powerSurvives   = "| Counts: the minute, the day, the period, its requests by key, flagged content | everything acknowledged | all but at most the last second |"
	fullDisk        = "When there is room again, it continues by itself; nothing has to be restarted or repaired."
	siteGoesOn      = "When the cause is gone, or the process has died, the server recovers by itself, with everything that was acknowledged."
	nothingIsTaken  = "In a directory that was removed or replaced, nothing is acknowledged any more until the server is restarted."
	deletedIsErased = "After [feedback was deleted](#feedback) all tables are merged once, so that nothing of it is left in a file. " +
		"That waits for the same room. If the server is killed meanwhile, the next start does it."
	wholeBackup   = "A backup is taken from the running server and holds everything that was acknowledged before it began."
	reloadKeeps   = "without losing a count: the old and the new configuration share the open database."
	moveKeeps     = "After a reload with another `storage`, requests in flight continue with the old store, and are counted there."
	damageIsSaid  = "A database whose files are damaged or missing is refused at the start; the error names a file, and nothing is changed."
	upgradeKeeps  = "An older version refuses a database whose layout it does not know, and leaves it unchanged"
	upgradeGoesOn = "A database of an older version is upgraded in place at the start; if that is interrupted, the next start continues it."
	restIsSaved   = "`--save` writes a backup of what can still be read and says what it leaves out; in this case, too, the exit status is 1."
	oneServer     = "Two servers, containers or replicas cannot share a directory: the second one does not start."
	noStart       = "It does not start on such a disk."
	nothingElse   = "It is the same program and needs nothing else: a read-only root file system will do."
	slowSurvives  = "If the disk is slower than the requests, answers wait for it: more than the last second of answers is never at risk."
	sharedProcess = "the database shares the process of the server, and a failing disk may end both. The log warns of this once."
	deletedIsGone = "Requests in flight count for nobody, even if the account is created again"
)

var rounds = slices.Concat([]*round{
	{"kill-server", whatSurvives, true, nil, killServer, false},
	{"kill-store", siteGoesOn, true, nil, killStore, false},
	{"power", powerSurvives, true, []need{loops}, powerCut, false},
	{"calls", siteGoesOn, true, []need{supervised}, everyCall, false},
	{"kill-review", reviewSurvives, true, nil, killReview, false},
	{"freeze-store", siteGoesOn, true, nil, freezeStore, false},
	{"kill-start", whatSurvives, true, nil, killStart, false},
	{"kill-backup", wholeBackup, true, nil, killBackup, false},
	{"kill-delete", deletedIsErased, true, nil, killDelete, false},
	{"kill-reload", reloadKeeps, true, nil, killReload, false},
	{"kill-upgrade", upgradeKeeps, true, nil, killUpgrade, false},
	{"upgrade", upgradeGoesOn, true, nil, upgrade, false},
	{"two-servers", oneServer, true, nil, twoServers, false},
	{"no-programs", sharedProcess, true, []need{supervised}, noPrograms, false},
	{"save", restIsSaved, true, nil, salvage, false},
	{"disk-full-start", noStart, true, []need{mounts}, diskFullAtStart, false},
	{"read-only-root", nothingElse, true, []need{mounts}, readOnlyRoot, false},
	{"power-slow", slowSurvives, true, []need{loops, supervised}, powerCutOfASlowDisk, false},
	{"move-store", moveKeeps, true, nil, moveStore, false},
	{"reborn", deletedIsGone, true, nil, recreated, false},
	{"disk-full", fullDisk, true, []need{mounts}, diskFull, false},
	{"disk-full-at-once", fullDisk, true, []need{mounts}, diskFullAtOnce, false},
	{"disk-records", fullDisk, false, []need{mounts}, diskFullOfRecords, false},
	{"disk-dead", siteGoesOn, true, []need{loops}, diskDead, false},
	{"disk-read-only", siteGoesOn, true, []need{loops}, diskReadOnly, false},
	{"dir-renamed", siteGoesOn, true, nil, dirRenamed, false},
	{"dir-removed", nothingIsTaken, true, nil, dirRemoved, false},
	{"dir-replaced", nothingIsTaken, true, nil, dirReplaced, false},
	{"descriptors", siteGoesOn, true, nil, descriptors, false},
	{"call", siteGoesOn, false, []need{supervised}, callFails, false},
	{"start-calls", whatSurvives, true, []need{supervised}, startFails, false},
	{"slow-sync", siteGoesOn, false, []need{supervised}, slowSync, false},
	{"disk-frozen", siteGoesOn, false, []need{loops}, frozenDisk(25 * time.Second), false},
	{"disk-frozen-long", siteGoesOn, false, []need{loops}, frozenDisk(80 * time.Second), false},
	{"still-store", siteGoesOn, false, nil, stoppedStore, false},
	{"file-size", siteGoesOn, false, nil, fileSize, false},
	{"inodes", siteGoesOn, false, []need{mounts}, noInodes, false},
	{"gone-table", nothingIsTaken, false, nil, fileRemoved("*.sst"), false},
	{"gone-manifest", nothingIsTaken, false, nil, fileRemoved("MANIFEST"), false},
	{"manifest-sync", siteGoesOn, false, []need{supervised}, manifestSync, false},
}, damageRounds(), callRounds())

func damageRounds() (all []*round) {
	for _, kind := range kinds {
		name := strings.ToLower(strings.TrimPrefix(kind, "*."))
		all = append(all, &round{"damage-" + name, damageIsSaid, true, nil, damaged(kind), false})
	}
	return all
}

func callRounds() (all []*round) {
	for _, f := range failing {
		for _, errno := range f.errnos {
			all = append(all, &round{"call-" + f.call + "-" + strings.ToLower(errnoName(errno)), siteGoesOn, false,
				[]need{supervised}, theCallFails(f.call, errno), true})
		}
	}
	slices.SortStableFunc(all, func(a, b *round) int { return cmp.Compare(a.name, b.name) })
	return all
}
