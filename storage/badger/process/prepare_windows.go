// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// prepare makes this process one that keeps a database, and returns what it reads and writes.
func prepare() (in io.Reader, out io.Writer, err error) {
	// They are sent to all processes of a console. The server closes the database when it is done.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	in, out = os.Stdin, os.Stdout
	// Code that prints a line would break the conversation.
	os.Stdout = os.Stderr
	return in, out, nil
}

// detach keeps what is meant for the server's process group, such as Ctrl-C, from the child.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
