// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// cpuTime is the CPU time that a process has used, from /proc; 0 on systems without it.
func cpuTime(pid int) time.Duration {
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

// residentMemory is the resident memory of a process in bytes, from /proc; 0 on systems without it.
func residentMemory(pid int) int64 { return statusOf(pid, "VmRSS:") }

// peakMemory is the most resident memory since forgetPeak.
func peakMemory(pid int) int64 { return statusOf(pid, "VmHWM:") }

// forgetPeak begins a new measurement of peakMemory.
func forgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // proc(5)
}

// openFiles is the number of open file descriptors of a process; 0 on systems without /proc.
func openFiles(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// statusOf is an amount of memory in /proc/PID/status.
func statusOf(pid int, name string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == name {
			kilobytes, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
