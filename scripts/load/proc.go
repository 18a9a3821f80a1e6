// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// processTree returns the server's process and its children, such as that of the store. On systems without /proc it is
// the process alone.
func processTree(pid int) []int {
	all := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // proc(5)
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for child := range bytes.FieldsSeq(children) {
			if id, err := strconv.Atoi(string(child)); err == nil {
				all = append(all, processTree(id)...)
			}
		}
	}
	return all
}

// sum adds up a figure of the processes of a server.
func sum[N ~int64](pid int, of func(pid int) N) (total N) {
	for _, id := range processTree(pid) {
		total += of(id)
	}
	return total
}

// cpuTime is the CPU time that a server's processes have used, from /proc; 0 on systems without it.
func cpuTime(pid int) time.Duration { return sum(pid, cpuTimeOf) }

func cpuTimeOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// proc(5): the second field is the name in parentheses; utime and stime are fields 14 and 15, in ticks of 1/100 s.
	_, rest, found := bytes.Cut(stat, []byte(") "))
	fields := bytes.Fields(rest)
	if !found || len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// residentMemory is the resident memory of a server's processes in bytes, from /proc; 0 on systems without it. Pages
// that they share, as those of the program, count in each.
func residentMemory(pid int) int64 {
	return sum(pid, func(pid int) int64 { return amount(pid, "status", "VmRSS:") })
}

// memoryShare is the memory of one process in bytes, with its share of pages that others use as well.
func memoryShare(pid int) int64 { return amount(pid, "smaps_rollup", "Pss:") }

// peakMemory is the largest resident memory since forgetPeak.
func peakMemory(pid int) int64 {
	return sum(pid, func(pid int) int64 { return amount(pid, "status", "VmHWM:") })
}

// forgetPeak resets peakMemory.
func forgetPeak(pid int) (err error) {
	for _, id := range processTree(pid) {
		err = errors.Join(err, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", id), []byte("5"), 0)) // proc(5)
	}
	return err
}

// openFiles is the number of open file descriptors of a process; 0 on systems without /proc.
func openFiles(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// amount is an amount of memory in a file of /proc/PID.
func amount(pid int, file, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == name {
			kilobytes, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
