// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// shell is one bash that runs commands one after the other, so that a variable that one sets is there for the next.
type shell struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// endMark follows the output of each command in the shell's output, with the command's exit status.
const endMark = "==smoke:end:"

func (p *place) newShell(ctx context.Context) (*shell, error) {
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc")
	cmd.Dir = p.folder
	cmd.Env = append(append(os.Environ(), p.environ()...), "KEY="+p.key)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = writer, writer // in the order in which they are written
	err = cmd.Start()
	writer.Close()
	if err != nil {
		return nil, err
	}
	return &shell{cmd: cmd, in: in, out: bufio.NewReader(reader)}, nil
}

// run runs a command and returns what it printed on standard output and error. A failing command is an error; one that
// is meant to fail says so with "|| true" or by showing its status.
func (s *shell) run(command string) (string, error) {
	watchdog := time.AfterFunc(30*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer watchdog.Stop()
	// The command's own standard input must not be the rest of the script.
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null\nprintf '\\n%s%%d\\n' $?\n", command, endMark); err != nil {
		return "", err
	}
	var b strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return b.String(), errors.New("the shell ended, or the command took longer than 30 s; output: " +
				b.String())
		}
		if status, ok := strings.CutPrefix(line, endMark); ok {
			out := strings.TrimSuffix(b.String(), "\n")
			if strings.TrimSpace(status) != "0" {
				return out, fmt.Errorf("exit status %s: %s", strings.TrimSpace(status), out)
			}
			return out, nil
		}
		b.WriteString(line)
	}
}

func (s *shell) close() {
	_ = s.in.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// runOnce runs a single command in a shell of its own.
func (p *place) runOnce(ctx context.Context, command string) (string, error) {
	sh, err := p.newShell(ctx)
	if err != nil {
		return "", err
	}
	defer sh.close()
	return sh.run(command)
}
