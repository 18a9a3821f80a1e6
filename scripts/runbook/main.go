// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Command runbook provokes what docs/runbook.md describes, with the whole server, and checks that the signs that the
// page quotes appear: log lines, answers, metrics, and alerts of monitoring/prometheus/rules.yml in a real Prometheus.
// It also runs the commands of the page while the fault lasts.
//
//	go run ./scripts/runbook                    # all scenarios but the slow ones
//	go run ./scripts/runbook -slow              # those, too: eight minutes
//	go run ./scripts/runbook -only disk-full,limits -evidence /tmp
//
// Each scenario has a mount namespace and a network namespace of its own, so that the page's addresses and paths can be
// used as they are. journalctl and systemctl are replaced: the first prints the server's log. What the machine does not
// permit is skipped with a line.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// The files that are checked against each other, from the root of the repository.
const (
	pageFile      = "docs/runbook.md"
	rulesFile     = "monitoring/prometheus/rules.yml"
	dashboardFile = "monitoring/grafana/dashboard.json"
)

// stageVariable makes this program play the scenario of that name in the folder that folderVariable names. There it
// leaves what was seen, or why the scenario was skipped.
const (
	stageVariable  = "CADDY_MODERATION_RUNBOOK_SCENARIO"
	folderVariable = "CADDY_MODERATION_RUNBOOK_FOLDER"
	evidenceFile   = "evidence"
	skippedFile    = "skipped"
)

type options struct {
	only, caddy, prometheus, evidence string
	slow                              bool
	parallel                          int
}

func main() {
	faults.Main()
	var o options
	flag.StringVar(&o.only, "only", "", "the scenarios to play, separated by commas")
	flag.StringVar(&o.caddy, "caddy", "./caddy", "the server to check; ./caddy is built when it is missing")
	flag.StringVar(&o.prometheus, "prometheus", "", "the folder of the programs prometheus and promtool; default: PATH")
	flag.BoolVar(&o.slow, "slow", false, "play the scenarios that take minutes, too")
	flag.StringVar(&o.evidence, "evidence", "", "a folder for what each scenario has shown: logs, answers, metrics")
	flag.IntVar(&o.parallel, "parallel", 4, "scenarios at a time; most of their time is waiting")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := o.run
	if os.Getenv(stageVariable) != "" {
		run = o.play
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "runbook:", err)
		stop()
		os.Exit(1)
	}
}

// run plays scenarios, and compares what they have shown with the page.
func (o *options) run(ctx context.Context) error {
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return fmt.Errorf("%w; run this in the root of the repository", err)
	}
	entries, err := entriesOf(string(page))
	if err != nil {
		return err
	}
	if err := server.Build(ctx, o.caddy); err != nil {
		return err
	}
	if o.caddy, err = filepath.Abs(o.caddy); err != nil {
		return err
	}
	if path, err := exec.LookPath("prometheus"); err == nil && o.prometheus == "" {
		o.prometheus = filepath.Dir(path)
	}
	if o.prometheus == "" {
		fmt.Println("no Prometheus is installed: alerts are not checked")
	}
	wanted, err := o.wanted()
	if err != nil {
		return err
	}
	evidence, failed := o.all(ctx, wanted)
	if evidence == nil {
		return nil // nothing can be played here
	}
	failed = append(failed, compare(entries, evidence, o.prometheus != "")...)
	if o.prometheus != "" && o.only == "" {
		failed = append(failed, checkNames(evidence)...)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(failed) > 0 {
		return errors.New("what the page says was not seen:\n  " + strings.Join(failed, "\n  "))
	}
	return nil
}

// wanted returns the scenarios to play.
func (o *options) wanted() (wanted []*scenario, err error) {
	for _, s := range scenarios {
		if o.only == "" && (!s.slow || o.slow) || slices.Contains(strings.Split(o.only, ","), s.name) {
			wanted = append(wanted, s)
		}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("there is no scenario %q", o.only)
	}
	return wanted, nil
}

// all plays scenarios, several at a time. The evidence has no entry for those that were skipped. It is nil where
// nothing can be played.
func (o *options) all(ctx context.Context, wanted []*scenario) (evidence map[string]string, failed []string) {
	if why := o.lacking(ctx); why != "" {
		fmt.Println("skipped:", why)
		return nil, nil
	}
	evidence = map[string]string{}
	var mu sync.Mutex
	var playing sync.WaitGroup
	next := make(chan *scenario)
	for range o.parallel {
		playing.Go(func() {
			for s := range next {
				began := time.Now()
				text, skipped, err := o.stage(ctx, s)
				took := time.Since(began).Round(100 * time.Millisecond)
				if o.evidence != "" {
					_ = os.WriteFile(filepath.Join(o.evidence, s.name+".txt"), []byte(text), 0o600)
				}
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case skipped != "":
					fmt.Printf("%-14s skipped: %s\n", s.name, skipped)
				case err != nil:
					fmt.Printf("%-14s failed in %s: %v\n", s.name, took, err)
					failed = append(failed, s.name+" could not be played")
				default:
					fmt.Printf("%-14s played in %s\n", s.name, took)
					evidence[s.name] = text
				}
				mu.Unlock()
			}
		})
	}
	for _, s := range wanted {
		next <- s
	}
	close(next)
	playing.Wait()
	return evidence, failed
}

// lacking returns why nothing can be played here.
func (o *options) lacking(ctx context.Context) string {
	for _, name := range []string{
		"ip", "ss", "curl", "ps", "pgrep", "free", "findmnt", "dmesg", "timeout", "tar", "nice",
	} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not installed"
		}
	}
	// Where the machine shares its mounts, as with systemd, a namespace alone does not keep them from it.
	cmd := exec.CommandContext(ctx, "sh", "-c",
		"ip link set lo up && mount --make-rprivate / && mount -t tmpfs none /var/lib")
	cmd.SysProcAttr = namespaces()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("no namespaces can be made here: %v %s", err, out)
	}
	return ""
}

// namespaces are those of a scenario.
func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		// When the first process of a namespace ends, so do all others in it.
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
}

// stage plays a scenario in a process with namespaces of its own.
func (o *options) stage(ctx context.Context, s *scenario) (evidence, skipped string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit())
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return "", "", err
	}
	folder, err := os.MkdirTemp("", "caddy-moderation-runbook-")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	cmd := exec.CommandContext(ctx, self, "-caddy", o.caddy, "-prometheus", o.prometheus)
	cmd.Env = append(os.Environ(), stageVariable+"="+s.name, folderVariable+"="+folder)
	cmd.SysProcAttr = namespaces()
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	text, _ := os.ReadFile(filepath.Join(folder, evidenceFile))
	why, _ := os.ReadFile(filepath.Join(folder, skippedFile))
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(out.String()))
	}
	return string(text), string(why), err
}

// compare returns the signs of the page that the scenarios have not shown.
func compare(entries []entry, evidence map[string]string, alerts bool) (missing []string) {
	signs := 0
	for _, e := range entries {
		p := provoked[e.title]
		var shown strings.Builder
		whole := true
		for _, name := range p.by {
			text, played := evidence[name]
			shown.WriteString(text)
			whole = whole && played
		}
		if shown.Len() == 0 {
			continue // not played
		}
		for _, sign := range e.signs() {
			if strings.HasPrefix(sign, "Moderation") && !alerts {
				continue
			}
			if signs++; !seen(sign, shown.String()) && whole {
				missing = append(missing, fmt.Sprintf("%s: %q in %s", e.title, sign, strings.Join(p.by, ", ")))
			}
		}
	}
	fmt.Printf("%d signs of %d entries were looked for, %d are missing\n", signs, len(entries), len(missing))
	return missing
}

// play plays one scenario; this process has its own namespaces.
func (o *options) play(ctx context.Context) error {
	name, folder := os.Getenv(stageVariable), os.Getenv(folderVariable)
	i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == name })
	if i < 0 {
		return fmt.Errorf("there is no scenario %q", name)
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return err
	}
	entries, err := entriesOf(string(page))
	if err != nil {
		return err
	}
	s := &stage{name: name, folder: folder, caddy: o.caddy, tools: o.prometheus, entries: entries, context: ctx}
	if err := s.furnish(); err != nil {
		return err
	}
	defer s.clear()
	scenarios[i].play(s)
	s.conclude()
	if err := os.WriteFile(filepath.Join(folder, evidenceFile), []byte(s.text()), 0o600); err != nil {
		return err
	}
	if skip := errSkip(""); errors.As(s.err, &skip) {
		return os.WriteFile(filepath.Join(folder, skippedFile), []byte(skip), 0o600)
	}
	return s.err
}
