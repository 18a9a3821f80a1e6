// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package process runs a [disk.DB] in a process of its own.
//
// Badger maps files into memory, asserts much of what it reads, and ends the process that it runs in when a disk
// fails. So the database gets a process that can be lost: a child of the server, which can be killed when it hangs
// and restarted when it has ended. The server and all of its sites go on meanwhile.
//
// The child is the running executable, started again under the name "caddy-moderation-store". The directory is its
// argument, so that ps tells one child from another. This package's init recognizes the name and never returns. So
// the child works in every program that contains this package: a server, a program that embeds one, a test. The child
//
//   - speaks frames over its standard input and output (wire.go), and uses neither for anything else;
//   - ends when its standard input does, that is when the server ends, in whatever way: what was written is in the
//     kernel's hands by then, and the directory is free again;
//   - ignores the signals that are meant for the server, because a service manager sends them to all of its processes;
//   - has few environment variables, because the others may hold secrets.
//
// [Client] is the server's side (client.go), serve.go the child's.
package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// ErrEnded says that the process of the database ended by itself, and why.
var ErrEnded = errors.New("the database's process ended")

// ErrStart says that the process could not be started, and why.
var ErrStart = errors.New("the database's process cannot be started")

// name is the name of the process: the first of its arguments.
const name = "caddy-moderation-store"

func init() {
	if len(os.Args) > 0 && os.Args[0] == name {
		os.Exit(child(openDisk))
	}
}

// child is the main function of the process. It returns its exit status.
func child(open opener) int {
	in, out, err := prepare()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 2
	}
	// A page of a mapped file that a slow disk does not deliver blocks one of these threads. The others go on. More
	// than eight are of no use.
	runtime.GOMAXPROCS(min(max(runtime.GOMAXPROCS(0), 4), 8))
	debug.SetGCPercent(50)

	// During initialization the main goroutine is bound to its thread, which makes it slow.
	ended := make(chan error)
	go func() { ended <- serve(in, out, open) }()
	if err := <-ended; err != nil {
		fmt.Fprintf(os.Stderr, "%s is started by the server whose database it keeps: %v\n", name, err)
		return 2
	}
	return 0
}

// opener opens the database that the process serves.
type opener func(disk.Options) (disk.Database, error)

func openDisk(o disk.Options) (disk.Database, error) {
	db, err := disk.Open(o)
	if err != nil {
		return nil, err
	}
	// Starting the program and opening the database allocate much that is not needed any more.
	debug.FreeOSMemory()
	return db, nil
}

// Interface guards
var (
	_ disk.Database = (*disk.DB)(nil)
	_ disk.Database = (*Client)(nil)
)
