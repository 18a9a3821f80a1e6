// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepare makes this process one that keeps a database, and returns what it reads and writes.
func prepare() (in io.Reader, out io.Writer, err error) {
	// Service managers and terminals send these to all processes of a server. The server closes the database when it is done.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	if runtime.GOOS == "linux" {
		// Without it ps and top show the name of the link that was executed, "exe".
		_ = os.WriteFile("/proc/self/comm", []byte("caddy-mod-store"), 0)
	}

	// Nothing else must read or write what belongs to the conversation: code that prints a line would break it.
	files := make([]*os.File, 2)
	for fd := range files {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		// Waiting is left to the runtime, which needs no thread for it.
		if err := unix.SetNonblock(own, true); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		files[fd] = os.NewFile(uintptr(own), "")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	defer null.Close()
	if err := unix.Dup2(int(null.Fd()), 0); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := unix.Dup2(2, 1); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return files[0], files[1], nil
}

// detach keeps what is meant for the server's process group, such as Ctrl-C, from the child.
func detach(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
