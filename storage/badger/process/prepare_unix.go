// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
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

	closeInherited()

	// Nothing else must read or write what belongs to the conversation: code that prints a line would break it.
	files := make([]*os.File, 2)
	for fd := range files {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, nil, err
		}
		// Waiting is left to the runtime, which needs no thread for it.
		if err := unix.SetNonblock(own, true); err != nil {
			return nil, nil, err
		}
		files[fd] = os.NewFile(uintptr(own), "")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	if err := unix.Dup2(int(null.Fd()), 0); err != nil {
		return nil, nil, err
	}
	if err := unix.Dup2(2, 1); err != nil {
		return nil, nil, err
	}
	return files[0], files[1], nil
}

// closeInherited closes what was left open by the server, such as the sockets that a service manager gave it. All that this
// process has opened by itself is marked as not to be inherited, and what was inherited is not.
func closeInherited() {
	dir := "/dev/fd"
	if runtime.GOOS == "linux" {
		dir = "/proc/self/fd"
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// detach keeps what is meant for the server's process group, such as Ctrl-C, from the child.
func detach(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
