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

// prepare turns this process into a child that keeps a database, and returns its input and output.
func prepare() (in io.Reader, out io.Writer, err error) {
	// These are sent to all processes of a console. The server closes the database when it ends.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	in, out = os.Stdin, os.Stdout
	// A line that some code prints would break the connection.
	os.Stdout = os.Stderr
	return in, out, nil
}

// detach keeps signals for the server's process group, such as Ctrl-C, from the child.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
