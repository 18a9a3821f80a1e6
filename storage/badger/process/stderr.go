// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxStderr is how many bytes are kept of the standard error output of the process.
const maxStderr = 8 << 10

// stderrTail keeps the part of the standard error output that says why the process ended: the beginning of a crash
// report, which can be long, or else what was written last.
type stderrTail struct {
	mu   sync.Mutex
	kept []byte
	// line is where the last line, which may be incomplete, begins.
	line    int
	crashed bool
}

// crashes are the beginnings of the crash reports of Go programs.
var crashes = [][]byte{
	[]byte("panic: "), []byte("fatal error: "), []byte("unexpected fault address "), []byte("runtime: "),
	[]byte("SIGQUIT: "), []byte("SIGABRT: "), []byte("SIGSEGV: "), []byte("SIGBUS: "),
}

// fatal matches the beginning of what log.Fatal writes.
var fatal = regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `)

// Write implements [io.Writer].
func (t *stderrTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if t.crashed {
		t.kept = append(t.kept, p[:min(n, maxStderr-len(t.kept))]...)
		return n, nil
	}
	t.kept = append(t.kept, p...)
	for !t.crashed {
		rest := t.kept[t.line:]
		if slices.ContainsFunc(crashes, func(c []byte) bool { return bytes.HasPrefix(rest, c) }) {
			t.crashed = true
			t.kept = append(t.kept[:0], rest[:min(len(rest), maxStderr)]...)
			return n, nil
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		t.line += end + 1
	}
	if over := len(t.kept) - maxStderr; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.line = max(t.line-over, 0)
	}
	return n, nil
}

// all returns everything that was kept.
func (t *stderrTail) all() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "?")
}

// brief returns, in one line, the first lines of a crash report or else the last lines.
func (t *stderrTail) brief() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	const maxLines = 3
	text := t.kept
	if at := fatal.FindAllIndex(text, -1); !t.crashed && at != nil {
		text = text[at[len(at)-1][1]:]
	} else if !t.crashed {
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		text = bytes.Join(lines[max(0, len(lines)-maxLines):], []byte("\n"))
	}
	var brief []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		// The rest is of interest to developers only, and in the log.
		if strings.HasPrefix(line, "goroutine ") || strings.HasPrefix(line, "main.") || len(brief) == maxLines {
			break
		}
		if line != "" {
			brief = append(brief, line[:min(len(line), 200)])
		}
	}
	return strings.ToValidUTF8(strings.Join(brief, "; "), "?")
}
