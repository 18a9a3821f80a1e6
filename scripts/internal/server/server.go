// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package server runs a Caddy server as a child process, for programs that check or measure it from outside.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say what to start.
type Options struct {
	// Command is the program and its arguments.
	Command []string
	// Dir is the working directory; empty means that of the caller.
	Dir string
	// Env is added to the environment of the caller.
	Env []string
	// Files are inherited as descriptors 3, 4 and so on.
	Files []*os.File
	// Listen is the address that the server listens on when it is ready. If it is empty, Start does not wait.
	Listen string
	// Timeout bounds the wait for Listen; 0 means 20 seconds.
	Timeout time.Duration
}

// Process is a running server.
type Process struct {
	// StartTime is the time from the start of the process to the first connection that it accepted.
	StartTime time.Duration

	cmd    *exec.Cmd
	output output
	done   chan struct{} // closed when the process has ended
	err    error         // how it ended; read after done
}

// Start starts the server and waits until it accepts connections. If it ends before that, the error holds what it
// wrote.
func Start(ctx context.Context, o Options) (*Process, error) {
	if o.Listen != "" {
		if conn, err := net.DialTimeout("tcp", o.Listen, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("something listens on %s already", o.Listen)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	p := &Process{cmd: exec.CommandContext(ctx, o.Command[0], o.Command[1:]...), done: make(chan struct{})}
	p.cmd.Dir = o.Dir
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.ExtraFiles = o.Files
	// Children of the server may outlive it and hold its output open.
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if o.Listen == "" {
		return p, nil
	}
	for deadline := begin.Add(o.Timeout); ; {
		conn, err := net.DialTimeout("tcp", o.Listen, time.Second)
		if err == nil {
			p.StartTime = time.Since(begin)
			conn.Close()
			return p, nil
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("the server ended (%w) and wrote:\n%s", errOrDone(p.err), p.Output())
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.Kill()
			return nil, fmt.Errorf("the server did not listen on %s within %s and wrote:\n%s", o.Listen, o.Timeout,
				p.Output())
		}
	}
}

// Output returns what the server has written to standard output and error so far.
func (p *Process) Output() string {
	return p.output.String()
}

// WaitOutput waits until the output holds text and returns the output. It gives up after the timeout.
func (p *Process) WaitOutput(text string, timeout time.Duration) (string, error) {
	for deadline := time.Now().Add(timeout); ; time.Sleep(5 * time.Millisecond) {
		out := p.Output()
		if strings.Contains(out, text) {
			return out, nil
		}
		if time.Now().After(deadline) {
			return out, fmt.Errorf("no %q within %s in the server's output:\n%s", text, timeout, out)
		}
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} {
	return p.done
}

// PID returns the process id.
func (p *Process) PID() int {
	return p.cmd.Process.Pid
}

// Stop asks the server to end, as an operator does, and waits for it. It returns an error unless the server ends with
// status 0 within 20 seconds.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("the server ended with %w and wrote:\n%s", p.err, p.Output())
		}
		return nil
	case <-time.After(20 * time.Second):
		p.Kill()
		return fmt.Errorf("the server did not stop within 20 s and wrote:\n%s", p.Output())
	}
}

// Kill kills the server (SIGKILL) and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Build builds ./caddy from this checkout if caddy is "./caddy" and does not exist. The working directory must be the
// root of the repository.
func Build(ctx context.Context, caddy string) error {
	if _, err := os.Stat(caddy); caddy != "./caddy" || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cmd := exec.CommandContext(ctx, "./xcaddy.sh", "build")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

func errOrDone(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
