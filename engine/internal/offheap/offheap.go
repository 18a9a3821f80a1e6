// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package offheap holds tables that live as long as the process in memory outside of the heap.
//
// The garbage collector lets the heap grow to twice of what is in use before it collects. That is room for what a
// server allocates and drops, and it grows with every table that stays for ever and is never dropped: on the heap, the
// weights of all languages would take their size twice.
package offheap

import "unsafe"

// Arena is memory for the tables of one owner. Of the zero value, [Move] first measures the tables; after
// [Arena.Reserve], it moves them. An Arena is not safe for concurrent use, and its memory is never given back.
type Arena struct {
	size   int
	memory []byte
	ready  bool
}

// lineSize is the size of a line of the processor's cache in bytes, at which tables begin, as larger ones do on the
// heap.
const lineSize = 64

// Reserve reserves memory for the tables that were measured. Where the system has none, they stay on the heap.
func (a *Arena) Reserve() {
	if a.size > 0 {
		a.memory = reserve(a.size)
	}
	a.ready = true
}

// Move copies a table to the memory of the arena and returns the copy. Its elements must hold no pointers: the garbage
// collector does not look for any there. Before [Arena.Reserve] it only measures the table, and returns it as it is.
func Move[T any](a *Arena, table []T) []T {
	var element T
	size := len(table) * int(unsafe.Sizeof(element))
	padded := (size + lineSize - 1) / lineSize * lineSize
	if !a.ready {
		a.size += padded
		return table
	}
	if size == 0 || padded > len(a.memory) {
		return table
	}
	moved := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a.memory))), len(table))
	a.memory = a.memory[padded:]
	copy(moved, table)
	return moved
}
