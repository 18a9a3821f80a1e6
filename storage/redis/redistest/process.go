// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// patience is how long anything may take that takes a moment on a machine that is not busy.
const patience = 60 * time.Second

// process is a server program that runs.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// starter starts processes. The kernel lets them end with the thread that started them, so that it must be one that
// lives as long as this process.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// launch starts a program, which appends what it writes to the file "log" in its directory.
func launch(program, dir string, args ...string) (*process, error) {
	p := &process{log: filepath.Join(dir, "log"), done: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = attributes()
	started := make(chan error)
	starter() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// kill ends the process at once, even one that is stopped, and returns when it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// alive reports whether the process runs.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// output returns what the process has written.
func (p *process) output() string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.ToValidUTF8(log, []byte("?")))
}

// until calls ready until it returns no error.
func until(what string, limit time.Duration, ready func() error) error {
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
		if final := (finalError{}); errors.As(err, &final) {
			return final.error
		}
	}
	return fmt.Errorf("%s: not within %s: %w", what, limit, err)
}

// finalError is an error after which waiting is of no use.
type finalError struct{ error }
