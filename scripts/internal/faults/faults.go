// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package faults makes system calls of a program, and of all that it starts, fail as a test wants them to.
//
// Linux' seccomp hands chosen calls to a supervisor (seccomp_unotify(2)), which lets each be carried out or answers it with an
// error. It needs no privileges, no library in the program and no special file system. What cannot be had so is the failure of
// a page that is written through a mapping into memory.
//
// The program that supervises calls [Main] before all else: it is its own launcher.
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

// Decide says what becomes of a call: 0 has it carried out, every other number is the error that it fails with. It is called
// by several goroutines at a time, one for each call that waits, and may take its time.
type Decide func(Call) syscall.Errno
