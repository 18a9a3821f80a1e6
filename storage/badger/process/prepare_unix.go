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

// prepare turns this process into a child that keeps a database, and returns its input and output.
func prepare() (in io.Reader, out io.Writer, err error) {
	// Service managers and terminals send these to all processes of a server. The server closes the database when it
	// ends.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	if runtime.GOOS == "linux" {
		// Without it ps and top show the name of the link that was executed, "exe".
		_ = os.WriteFile("/proc/self/comm", []byte("caddy-mod-store"), 0)
	}

	closeInherited()

	// Nothing else must use the descriptors of the connection: a line that some code prints would break it.
	files := make([]*os.File, 2)
	for fd := range files {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, nil, err
		}
		// Non-blocking, so that waiting takes no thread.
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

// closeInherited closes descriptors that were inherited from the server, such as sockets from a service manager. They
// lack the close-on-exec flag, which everything has that this process has opened by itself.
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

// detach keeps signals for the server's process group, such as Ctrl-C, from the child.
func detach(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
