// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package faults makes system calls of a program and of its children fail as a test decides.
//
// Linux's seccomp passes chosen calls to a supervisor (seccomp_unotify(2)), which lets each proceed or answers it
// with an error. That needs no privileges, no library in the program and no special file system. It cannot make the
// write of a memory-mapped page fail.
//
// The supervising program must call [Main] first: it is its own launcher.
package faults

import "syscall"

// Call is a system call that a supervised process wants to make.
type Call struct {
	// PID is the thread that makes it.
	PID int
	// Name is its name, such as "fsync".
	Name string
	// Args are its arguments as the kernel sees them.
	Args [6]uint64
}

// Decide decides about a call: 0 lets it proceed, any other number is the error that it fails with. Several goroutines
// call it concurrently, one for each waiting call, and it may take its time.
type Decide func(Call) syscall.Errno
