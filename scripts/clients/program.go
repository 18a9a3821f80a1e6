// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/node"
)

// program is a client that is a program of its own. It prints its checks as lines "ok: what", "FAIL: what: why" and
// "skip: what: why".
type program struct {
	command []string
	dir     string
	env     []string
	// lacks says what the machine lacks to run it. It is empty if nothing is missing.
	lacks string
}

// run runs the program and calls printed with each line that it prints.
func (p *program) run(ctx context.Context, printed func(line string)) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env
	// A child that keeps the output open, such as a browser, must not block this program.
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		printed(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(p.command, " "), err, errs.String())
	}
	return nil
}

// report runs the program, unless the machine lacks something, and reports its checks.
func (p *program) report(ctx context.Context, r *report) error {
	if p.lacks != "" {
		r.skip("all", p.lacks)
		return nil
	}
	before := r.failed
	if err := p.run(ctx, r.relay); err != nil && r.failed == before {
		return err
	}
	return nil
}

// relay prints and counts a line of a program.
func (r *report) relay(line string) {
	kind, what, _ := strings.Cut(line, ": ")
	switch kind {
	case "ok":
		r.ok(what)
	case "FAIL":
		what, why, _ := strings.Cut(what, ": ")
		r.fail(what, errors.New(why))
	case "skip":
		what, why, _ := strings.Cut(what, ": ")
		r.skip(what, why)
	default:
		r.fail("printed something else", errors.New(line))
	}
}

// use is a use of the service by a program.
func use(prepare func(context.Context, *session) (*program, error)) func(context.Context, *report, *session) error {
	return func(ctx context.Context, r *report, s *session) error {
		p, err := prepare(ctx, s)
		if err != nil {
			return err
		}
		return p.report(ctx, r)
	}
}

// nodeProgram is a script that uses the service.
func nodeProgram(script string, args ...string) func(context.Context, *session) (*program, error) {
	return func(ctx context.Context, s *session) (*program, error) {
		binary, why, err := node.Ready(ctx, nodeFolder)
		if err != nil {
			return nil, err
		}
		return &program{command: append([]string{binary, script}, args...), dir: nodeFolder, env: s.environment(),
			lacks: why}, nil
	}
}

// goFolder holds the Go programs that use the service, relative to the root of the repository. They are a module of
// their own, so that their libraries are not dependencies of the plugin.
const goFolder = "scripts/clients/gocompat"

// goUnreachable matches what the go command prints when it cannot download missing modules.
var goUnreachable = regexp.MustCompile(`dial tcp|no such host|i/o timeout|connection refused|network is unreachable|TLS handshake|GOPROXY=off|proxyconnect|50[234] `)

// goProgram is a Go program that uses the service.
func goProgram(name string, args ...string) func(context.Context, *session) (*program, error) {
	return func(ctx context.Context, s *session) (*program, error) {
		binary := filepath.Join(s.site.folder, "client-"+name)
		p := &program{command: append([]string{binary}, args...), env: s.environment()}
		if _, err := os.Stat(binary); err == nil {
			return p, nil
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./"+name)
		cmd.Dir = goFolder
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false -mod=readonly", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		switch {
		case err != nil && goUnreachable.Match(out):
			p.lacks = "the Go modules of " + goFolder + " are out of reach"
		case err != nil:
			return nil, fmt.Errorf("go build ./%s in %s: %w: %s", name, goFolder, err, out)
		}
		return p, nil
	}
}
